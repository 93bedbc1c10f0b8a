"""ablation_curve end to end, against one intervention at a time, written out as loops."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

import interp_compose as ic
from interp_compose.errors import (
    CapabilityError,
    InputError,
    InterventionError,
    NonFiniteError,
)
from interp_compose.interventions.ablate import ablate
from interp_compose.interventions.mask_attention import mask_attention
from interp_compose.interventions.mask_residual import mask_residual
from interp_compose.models.capabilities import Capabilities
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.studies.ablation import measure as ablation_measure
from interp_compose.studies.ablation.measure import ablation_curve
from interp_compose.text.units import tokenize_prompts
from interp_compose.types import Example
from tests import architectures

KEY = ["example", "layer", "unit"]


def quiet(model: LensModel, examples: Any, **options: Any) -> ic.AblationCurve:
    return ablation_curve(model, examples, progress=False, **options)


def units_of(model: LensModel, examples: list[Example]) -> Iterator[tuple[Tensor, list[int]]]:
    """Token ids, and each token's word; the last token is a word of its own."""
    for prompt in tokenize_prompts(model.tokenizer, examples):
        prompt = prompt.with_last_apart()
        yield torch.from_numpy(prompt.ids)[None], prompt.groups.tolist()


def acting(reach: str, layer: int, n_layers: int) -> list[int]:
    if reach == "at":
        return [layer]
    return list(range(layer, n_layers) if reach == "from" else range(layer + 1))


def outcome(model: LensModel, tokens: Tensor, block: AbstractContextManager[Any]) -> Tensor:
    with block:
        return model(tokens)[0, -1].double()


def agree(row: pd.Series, logits: Tensor, answer: int) -> None:
    """One row of outcomes against the definitions."""
    logprob = logits[answer] - torch.log(torch.exp(logits).sum())
    assert row["target_logprob"] == pytest.approx(logprob.item(), abs=1e-5)
    assert row["prediction"] == int(logits.argmax())
    assert row["correct"] == (int(logits.argmax()) == answer)
    assert row["target_rank"] == 1 + int((logits > logits[answer]).sum())


@pytest.mark.parametrize(
    ("reach", "mode"), [("from", "exclude"), ("until", "exclude"), ("at", "zero")]
)
@torch.no_grad()
def test_every_word_by_hand(
    model: LensModel, examples: list[Example], reach: str, mode: str
) -> None:
    examples = [examples[i] for i in (1, 6, 4)]
    curve = quiet(model, examples, reach=reach, mode=mode, batch_size=2)
    rows = curve.outcomes.set_index(KEY)
    n_cells = 0
    for index, (tokens, groups) in enumerate(units_of(model, examples)):
        answer = model.tokenizer.convert_tokens_to_ids(examples[index].answer)
        for unit in range(max(groups)):  # the last unit is the last token
            keys = [at for at, group in enumerate(groups) if group == unit]
            queries = list(range(keys[-1] + 1, len(groups)))
            for layer in range(model.n_layers):
                layers = acting(reach, layer, model.n_layers)
                block = mask_attention(model, keys=keys, queries=queries, layers=layers, mode=mode)
                agree(rows.loc[(index, layer, unit)], outcome(model, tokens, block), answer)
                n_cells += 1
        agree(curve.clean.set_index("example").loc[index], model(tokens)[0, -1].double(), answer)
    assert n_cells == len(rows)
    assert curve.clean["n_tokens"].tolist() == [t.shape[1] for t, _ in units_of(model, examples)]
    assert curve.clean["answer"].tolist() == [example.answer for example in examples]
    texts = curve.cells[curve.cells["example"] == 0]["text"].tolist()
    assert texts == ["someone", "who", "bakes", "bread"]


@pytest.mark.parametrize("what", ["layers", "attn", "mlp"])
@torch.no_grad()
def test_every_part_by_hand(model: LensModel, examples: list[Example], what: str) -> None:
    reach = {"layers": "at", "attn": "from", "mlp": "until"}[what]
    curve = quiet(model, examples[:3], what=what, reach=None if reach == "at" else reach)
    assert curve.config["reach"] == reach
    rows = curve.outcomes.set_index(KEY)
    assert len(rows) == 3 * model.n_layers
    part = "block" if what == "layers" else what
    for index, (tokens, _) in enumerate(units_of(model, examples[:3])):
        answer = model.tokenizer.convert_tokens_to_ids(examples[index].answer)
        for layer in range(model.n_layers):
            layers = acting(reach, layer, model.n_layers)
            block = mask_residual(model, layers=layers, part=part)
            agree(rows.loc[(index, layer, 0)], outcome(model, tokens, block), answer)
    assert set(curve.frame["group"]) == {part}


@torch.no_grad()
def test_among_labels_by_hand(model: LensModel, examples: list[Example]) -> None:
    labels = list("abcdefg")
    ids = model.tokenizer.convert_tokens_to_ids(labels)
    curve = quiet(model, examples[:3], what="attn", reach="at", answers=labels)
    assert curve.config["answers"] == labels
    rows = curve.outcomes.set_index(KEY)
    clean = curve.clean.set_index("example")
    for index, (tokens, _) in enumerate(units_of(model, examples[:3])):
        place = labels.index(examples[index].answer)
        agree_among(clean.loc[index], model(tokens)[0, -1].double()[ids], place, ids)
        for layer in range(model.n_layers):
            block = mask_residual(model, layers=[layer], part="attn")
            logits = outcome(model, tokens, block)[ids]
            agree_among(rows.loc[(index, layer, 0)], logits, place, ids)
    with pytest.raises(InputError, match="bare texts have no answers of their own, so labels"):
        quiet(model, ["a small house"], answers=labels)


def agree_among(row: pd.Series, logits: Tensor, place: int, ids: list[int]) -> None:
    """As :func:`agree`, where ``logits`` are the labels' alone and the answer is the place-th."""
    logprob = logits[place] - torch.log(torch.exp(logits).sum())
    assert row["target_logprob"] == pytest.approx(logprob.item(), abs=1e-5)
    assert row["prediction"] == ids[int(logits.argmax())]
    assert row["correct"] == (int(logits.argmax()) == place)
    assert row["target_rank"] == 1 + int((logits > logits[place]).sum())


def heads_by_hand(model: LensModel, examples: list[Example], how: str, seed: int) -> Any:
    """Rows (example, layer, head) and their logits, with the replacements made one by one."""
    prompts = [tokens for tokens, _ in units_of(model, examples)]
    drawn = sorted(np.random.default_rng(seed).permutation(len(prompts))[:64])
    for layer in range(model.n_layers):
        name = f"blocks.{layer}.attn.hook_z"
        pool = torch.cat([model.capture(prompts[i], [name])[1][name][0] for i in drawn])
        for index, tokens in enumerate(prompts):
            n = tokens.shape[1]
            own = np.random.default_rng([seed, index]).integers(len(pool), size=n)
            new = pool.mean(dim=0).expand(n, -1, -1) if how == "mean" else pool[own]
            for head in range(model.n_heads):

                def put_in(z: Tensor, hook: Any, new: Tensor = new, head: int = head) -> Tensor:
                    z = z.clone()
                    z[0, :, head] = new[:, head]
                    return z

                yield (index, layer, head), outcome(model, tokens, model.hooks([(name, put_in)]))


@pytest.mark.parametrize("how", ["mean", "resample"])
@torch.no_grad()
def test_heads_by_hand(model: LensModel, examples: list[Example], how: str) -> None:
    examples = [examples[i] for i in (1, 3, 5, 6)]
    curve = quiet(model, examples, what="heads", how=how, seed=5, batch_size=2)
    rows = curve.outcomes.set_index(KEY)
    answers = [model.tokenizer.convert_tokens_to_ids(each.answer) for each in examples]
    found = 0
    for key, logits in heads_by_hand(model, examples, how, seed=5):
        agree(rows.loc[key], logits, answers[key[0]])
        found += 1
    assert found == len(rows)
    assert curve.frame["group"].unique().tolist() == ["0", "1", "2", "3"]
    whole = quiet(model, examples, what="heads", how=how, seed=5)
    pd.testing.assert_frame_equal(whole.outcomes, curve.outcomes, atol=1e-5, rtol=0)
    other = quiet(model, examples, what="heads", how=how, seed=6)
    changed = (other.outcomes["target_logprob"] - whole.outcomes["target_logprob"]).abs().max()
    assert changed > 1e-3 if how == "resample" else changed < 1e-5


@architectures.needs_tl4
@torch.no_grad()
def test_heads_that_hook_z_shows_behind_a_norm(tokenizer: Any, examples: list[Example]) -> None:
    """The study reads them where it replaces them, as ``ablate`` does, which is held against
    transformers alone."""
    bitnet = load_model(architectures.build("BitNet"), tokenizer=tokenizer)
    examples = examples[:2]
    curve = quiet(bitnet, examples, what="heads", how="mean", layers=[1])
    rows = curve.outcomes.set_index(KEY)
    prompts = [tokens[0] for tokens, _ in units_of(bitnet, examples)]
    padded, mask = (
        torch.nn.utils.rnn.pad_sequence(of, batch_first=True)
        for of in (prompts, [torch.ones_like(prompt) for prompt in prompts])
    )
    options: Any = {"how": "mean", "reference": padded, "reference_mask": mask}
    for index, prompt in enumerate(prompts):
        answer = bitnet.tokenizer.convert_tokens_to_ids(examples[index].answer)
        for head in range(bitnet.n_heads):
            block = ablate(bitnet, heads=[(1, head)], **options)
            agree(rows.loc[(index, 1, head)], outcome(bitnet, prompt[None], block), answer)


@torch.no_grad()
def test_heads_set_to_zero_by_hand(model: LensModel, examples: list[Example]) -> None:
    curve = quiet(model, examples[:2], what="heads", layers=[0, 2])
    assert (curve.config["how"], curve.config["mode"]) == ("zero", None)
    rows = curve.outcomes.set_index(KEY)
    assert len(rows) == 2 * 2 * model.n_heads
    for index, (tokens, _) in enumerate(units_of(model, examples[:2])):
        answer = model.tokenizer.convert_tokens_to_ids(examples[index].answer)
        for layer in (0, 2):
            for head in range(model.n_heads):
                logits = outcome(model, tokens, ablate(model, heads=[(layer, head)]))
                agree(rows.loc[(index, layer, head)], logits, answer)


@torch.no_grad()
def test_the_reference_is_64_examples_drawn_by_the_seed(model: LensModel) -> None:
    texts = [Example(f"{'abcdefghij'[i % 10]} {'klmnopq'[i // 10]} x", "a") for i in range(70)]
    plan_seed = 3
    drawn = np.random.default_rng(plan_seed).permutation(70)[:64].tolist()
    name = "blocks.0.attn.hook_z"
    prompts = [tokens for tokens, _ in units_of(model, texts)]
    mean = torch.cat([model.capture(prompts[i], [name])[1][name][0] for i in drawn]).mean(dim=0)

    def put_in(z: Tensor, hook: Any) -> Tensor:
        z = z.clone()
        z[:, :, 2] = mean[2]
        return z

    curve = quiet(model, texts, what="heads", how="mean", layers=[0], seed=plan_seed)
    rows = curve.outcomes.set_index(KEY)
    answer = model.tokenizer.convert_tokens_to_ids("a")
    left_out = next(i for i in range(70) if i not in drawn)
    logits = outcome(model, prompts[left_out], model.hooks([(name, put_in)]))
    agree(rows.loc[(left_out, 0, 2)], logits, answer)


@pytest.mark.parametrize(
    "options",
    [{"tagger": "kind"}, {"what": "heads", "how": "resample"}, {"what": "mlp", "reach": "until"}],
)
def test_batches_runs_and_order_change_nothing_but_rounding(
    model: LensModel, examples: list[Example], options: dict[str, Any]
) -> None:
    default = quiet(model, examples, **options)
    pd.testing.assert_frame_equal(
        quiet(model, examples, **options).outcomes, default.outcomes, check_exact=True
    )
    for size in (1, 3):
        other = quiet(model, examples, batch_size=size, **options)
        assert other.config["batch_size"] == size
        for name in ("outcomes", "clean", "cells"):
            pd.testing.assert_frame_equal(
                other.frames[name], default.frames[name], atol=1e-5, rtol=0
            )


def test_reversed_examples_give_the_same_rows(model: LensModel, examples: list[Example]) -> None:
    straight = quiet(model, examples).outcomes
    turned = quiet(model, list(reversed(examples))).outcomes
    back = turned.assign(example=len(examples) - 1 - turned["example"])
    back = back.sort_values(KEY, ignore_index=True)
    pd.testing.assert_frame_equal(back, straight, atol=1e-5, rtol=0)


@pytest.mark.parametrize("what", ["words", "heads"])
def test_a_subset_of_layers_is_a_subset_of_the_rows(
    model: LensModel, examples: list[Example], what: str
) -> None:
    whole = quiet(model, examples, what=what)
    some = quiet(model, examples, what=what, layers=[2, 0.0])
    assert some.config["layers"] == [0, 2]
    rows = whole.outcomes[whole.outcomes["layer"] != 1].reset_index(drop=True)
    pd.testing.assert_frame_equal(some.outcomes, rows, atol=1e-5, rtol=0)


def test_bare_texts_are_measured_by_what_the_model_itself_says(
    model: LensModel, examples: list[Example]
) -> None:
    texts = [example.prompt for example in examples]
    curve = quiet(model, texts, batch_size=3)
    assert curve.clean["correct"].all()
    assert curve.clean["target_rank"].tolist() == [1] * len(texts)
    with torch.no_grad():
        said = [int(model(tokens)[0, -1].argmax()) for tokens, _ in units_of(model, examples)]
    assert curve.clean["prediction"].tolist() == said
    assert curve.clean["answer"].tolist() == [model.tokenizer.decode([token]) for token in said]
    assert curve.clean["answer"].tolist() == curve.clean["prediction_text"].tolist()


def test_an_example_of_one_token_is_counted_among_the_clean_alone(
    model: LensModel, examples: list[Example]
) -> None:
    curve = quiet(model, [Example("x", "a"), examples[1]])
    assert curve.clean["example"].tolist() == [0, 1]
    assert set(curve.outcomes["example"]) == {1}
    assert set(curve.frame["n"]) == {1}
    with pytest.raises(InputError, match="example 0 has no outcomes; those that have are"):
        curve.changes(0)


def test_spans_phrases_and_pretokens(model: LensModel) -> None:
    text = "a small wooden house in the mountains"
    tree = (
        "(S (NP (NP (DT a) (JJ small) (JJ wooden) (NN house)) (PP (IN in) "
        "(NP (DT the) (NNS mountains)))))"
    )
    span = (text.index("small"), text.index(" in"))
    spans = quiet(model, [Example(text, "a", spans=(span,))], unit="span")
    assert spans.cells["text"].tolist() == ["small wooden house"]
    phrases = quiet(
        model,
        [Example(text, "a", tree=tree)],
        unit="constituent",
        labels=frozenset({"NP"}),
        height=2,
    )
    assert "a small wooden house" in phrases.cells["text"].tolist()
    pretokens = quiet(model, [Example(text, "a")], unit="pretoken")
    assert pretokens.cells["text"].tolist()[:2] == ["a", "small"]


@torch.no_grad()
def test_only_the_given_spans_are_knocked_out(model: LensModel) -> None:
    """Two spans, one with blanks at its edges, against a mask of their tokens; an example without
    spans and one whose span is the last token have none."""
    text = "a small wooden house in the mountains"
    spans = ((1, 8), (text.index("house"), text.index(" in")))
    rows = [
        Example(text, "a", spans=spans),
        Example(text, "a", spans=()),
        Example(text, "a", spans=((len(text) - 1, len(text)),)),
    ]
    curve = quiet(model, rows, unit="span")
    assert curve.cells[["example", "text"]].values.tolist() == [[0, "small"], [0, "house"]]
    ids = model.tokenizer(text, return_offsets_mapping=True)
    tokens, answer = torch.tensor([ids.input_ids]), model.tokenizer.convert_tokens_to_ids("a")
    rows_of = curve.outcomes.merge(curve.cells).set_index(["text", "layer"])
    for word in ("small", "house"):
        low = text.index(word)
        keys = [
            at
            for at, (start, end) in enumerate(ids.offset_mapping)
            if start < low + len(word) and end > low
        ]
        queries = list(range(keys[-1] + 1, tokens.shape[1]))
        for layer in range(model.n_layers):
            layers = acting("from", layer, model.n_layers)
            block = mask_attention(model, keys=keys, queries=queries, layers=layers)
            agree(rows_of.loc[(word, layer)], outcome(model, tokens, block), answer)
    assert len(rows_of) == 2 * model.n_layers
    with pytest.raises(InterventionError, match="none of the 2 examples has a span before its"):
        quiet(model, rows[1:], unit="span")


@torch.no_grad()
def test_hooks_of_the_users_own_act_once_at_every_layer(
    model: LensModel, examples: list[Example]
) -> None:
    def add(resid: Tensor, hook: Any) -> Tensor:
        return resid + 0.5 * torch.linspace(-1, 1, resid.shape[-1])

    plain = quiet(model, examples[:2]).outcomes
    with model.hooks([("blocks.1.hook_resid_pre", add)]):
        curve = quiet(model, examples[:2])
        rows = curve.outcomes.set_index(KEY)
        for index, (tokens, groups) in enumerate(units_of(model, examples[:2])):
            keys = [at for at, group in enumerate(groups) if group == 1]
            queries = list(range(keys[-1] + 1, len(groups)))
            answer = model.tokenizer.convert_tokens_to_ids(examples[index].answer)
            for layer in range(model.n_layers):
                block = mask_attention(model, keys=keys, queries=queries, layers=range(layer, 3))
                agree(rows.loc[(index, layer, 1)], outcome(model, tokens, block), answer)
    assert (plain["target_logprob"] - curve.outcomes["target_logprob"]).abs().max() > 1e-3
    assert curve.config["active_hooks"]
    for shown in (curve.head(), *(one.chart.subtitle for one in curve.figures().values())):
        assert "under blocks." in shown


# ---- models that break ----------------------------------------------------------------------


@torch.no_grad()
def test_an_ablation_that_changes_nothing_anywhere_is_refused(
    tokenizer: Any, examples: list[Example]
) -> None:
    model = load_model(architectures.build("Llama"), tokenizer=tokenizer)
    model.require("resume", "mask_attention", "edit_z")  # a model without attention would not pass
    outputs = [name for name in model.state_dict() if name.endswith("attn.o.weight")]
    assert len(outputs) == model.n_layers
    for name in outputs:
        model.state_dict()[name].zero_()
    for options in ({}, {"what": "heads"}, {"what": "heads", "how": "mean"}, {"what": "attn"}):
        with pytest.raises(
            (InterventionError, CapabilityError),
            match=r"what='\w+' changed nothing: none of \d+ outcomes differs|discards edits at",
        ):
            quiet(model, examples, batch_size=2, **options)
    assert len(quiet(model, examples, what="mlp").frame) == 3


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_are_refused(
    tokenizer: Any, examples: list[Example], bad: float
) -> None:
    broken = architectures.build("Llama")
    with torch.no_grad():
        broken.lm_head.weight[7] = bad
    model = load_model(broken, tokenizer=tokenizer)
    with pytest.raises(NonFiniteError, match="gives NaN or infinite numbers on plain tokens"):
        quiet(model, examples)
    model.proofs.take_over(
        Capabilities(load_model(architectures.build("Llama")).capabilities.probes)
    )
    for rows in (examples, [example.prompt for example in examples]):
        with pytest.raises(NonFiniteError, match=r"example . gives NaN .* logits without any "):
            quiet(model, rows)


def test_what_an_ablation_makes_infinite_is_named_with_its_layer(
    model: LensModel, examples: list[Example], monkeypatch: pytest.MonkeyPatch
) -> None:
    def bursts(*args: Any) -> dict[str, Tensor]:
        names = [f"blocks.{layer}.attn.hook_z" for layer in (1, 2)]
        return dict.fromkeys(names, torch.full((4, 10), torch.inf))

    monkeypatch.setattr(ablation_measure.References, "replacements", bursts)
    with pytest.raises(NonFiniteError, match=r"example \d gives NaN .* ablated at layer 1 \("):
        quiet(model, examples, what="heads", how="mean")


def test_half_precision_runs_and_stays_near(tokenizer: Any, examples: list[Example]) -> None:
    exact = quiet(load_model(architectures.build("Llama"), tokenizer=tokenizer), examples)
    half = architectures.build("Llama").to(torch.bfloat16)
    rough = quiet(load_model(half, tokenizer=tokenizer), examples)
    assert rough.config["dtype"] == "bfloat16"
    error = (exact.outcomes["target_logprob"] - rough.outcomes["target_logprob"]).abs()
    assert 0 < error.max() < 0.5  # 3 layers of bf16, log-probabilities around -4


@pytest.mark.parametrize("name", ["GPT-2", "Qwen2", "Gemma", "OPT"])
def test_every_what_on_other_architectures(
    name: str, tokenizer: Any, examples: list[Example]
) -> None:
    model = load_model(architectures.build(name), tokenizer=tokenizer)
    for what in ("words", "heads", "layers", "attn", "mlp"):
        assert len(quiet(model, examples[:2], what=what, layers=[0, 2]).frame) in (2, 8)


def test_the_shipped_model_answers_by_the_word_that_matters() -> None:
    model = ic.load_model("mini-idm", device="cpu")
    rows = [{"prompt": 'a young cat is called a "', "answer": "kitten"}]
    curve = quiet(model, rows, layers=[0])
    changes = curve.changes(0)[0]
    assert curve.clean["correct"].tolist() == [True]
    assert changes.idxmin() == "cat"
    assert list(changes.index) == ["a", "young", "cat", "is", "called", "a"]
    by_text = quiet(model, ['a young cat is called a "'], layers=[0])
    pd.testing.assert_frame_equal(by_text.outcomes, curve.outcomes)
