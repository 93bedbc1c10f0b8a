"""Studies on encoder–decoders, against blocks run by hand and one intervention at a time."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any
from zlib import crc32

import pandas as pd
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from interp_compose.errors import (
    AnswerError,
    CapabilityError,
    InputError,
    LayerError,
    PromptError,
)
from interp_compose.interventions.ablate import ablate
from interp_compose.interventions.control_spans import straddled_groups
from interp_compose.interventions.mask_residual import mask_residual
from interp_compose.models.embed import embed_texts
from interp_compose.models.encoder_decoder import EncoderDecoderModel
from interp_compose.studies.ablation.measure import ablation_curve
from interp_compose.studies.cap.measure import cap_curve
from interp_compose.studies.weights.measure import complexity_report
from interp_compose.tasks.task import Task
from interp_compose.training.finetune import finetune
from interp_compose.types import Example
from tests.interventions.reference import pool
from tests.interventions.shared import assert_clean, shared
from tests.interventions.two_stacks import Text, in_place, pair

PIECES = (
    *("<pad>", "<s>", "</s>", "<unk>", "the", "sun", "##flower", "##flowers", "grow", "##s"),
    *("under", "##stand", "black", "##bird", "in", "a", "field", "sing", "##ing", "tall"),
)
SOME = (
    Example("the sunflower grows in a field", "tall"),
    Example("blackbird singing", " tall", target="the sunflowers"),
    Example("a tall blackbird understands", " sing", target="a"),
)


def tokenizer() -> Any:
    """Words in pieces; a source ends in </s>."""
    pieces = Tokenizer(models.WordPiece({p: i for i, p in enumerate(PIECES)}, unk_token="<unk>"))
    pieces.normalizer = normalizers.Lowercase()
    pieces.pre_tokenizer = pre_tokenizers.Whitespace()
    pieces.decoder = decoders.WordPiece()
    pieces.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=pieces, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )


def ids(text: str) -> list[int]:
    found: list[int] = tokenizer()(text, add_special_tokens=False)["input_ids"]
    return found


def model_of(name: str) -> tuple[Any, EncoderDecoderModel]:
    module, model = pair(name)
    model.tokenizer = tokenizer()
    return module, model


def written_out(example: Example, start: int) -> Text:
    """Its ids, and units word by word; end and start tokens are in none."""
    sides = []
    for text in (example.prompt, example.target):
        tokens: list[int] = []
        units: list[int] = []
        for number, word in enumerate(text.split()):
            tokens += ids(word)
            units += [number] * len(ids(word))
        sides.append((tokens, units))
    (source, one), (target, two) = sides
    if len(two) > 1 and two[-1] == two[-2]:
        two[-1] += 1  # the prediction is read there
    return Text([*source, 2], [start, *target], [*one, -1], [-1, *two])


@pytest.mark.parametrize(("name", "layers"), [("T5", [0, 3]), ("BART", [2]), ("Marian", [1, 3])])
@torch.no_grad()
def test_a_cap_curve_equals_blocks_run_by_hand(name: str, layers: list[int]) -> None:
    """Source words in the encoder; source and target words from a layer of the decoder on."""
    module, model = model_of(name)
    start = module.config.decoder_start_token_id
    assert model.start_ids == (start,)
    options: dict[str, Any] = {"pooling": ("mean",), "controls": False, "progress": False}
    curve = cap_curve(model, SOME, layers=layers, **options)
    assert len(curve.outcomes) == len(SOME) * len(layers)
    for row in curve.outcomes.to_dict("records"):
        text = written_out(SOME[row["example"]], start)
        expected = in_place(module, text, row["layer"], "mean")[-1]
        answer = ids(SOME[row["example"]].answer)[0]
        assert abs(row["target_logprob"] - float(expected[answer])) <= 1e-4
        assert row["prediction"] == int(expected.argmax())
    for row in curve.clean.to_dict("records"):
        text = written_out(SOME[row["example"]], start)
        expected = in_place(module, text, -1, "mean")[-1]
        answer = ids(SOME[row["example"]].answer)[0]
        assert abs(row["target_logprob"] - float(expected[answer])) <= 1e-4
    assert_clean(model)


@torch.no_grad()
def test_answer_or_foil_is_the_targets_next_token() -> None:
    module, model = model_of("T5")
    start = module.config.decoder_start_token_id
    foils = (" the", " sing", " grow")
    examples = [replace(one, foil=foil) for one, foil in zip(SOME, foils, strict=True)]
    curve = cap_curve(model, examples, layers=[3], answers="foil", controls=False, progress=False)
    assert curve.clean["correct"].nunique() == 2  # else nothing is tested
    for row in curve.clean.to_dict("records"):
        example = examples[row["example"]]
        logits = in_place(module, written_out(example, start), -1, "mean")[-1]
        (answer,), (foil,) = ids(example.answer), ids(example.foil)
        assert row["prediction"] == (answer if logits[answer] > logits[foil] else foil)
        assert row["correct"] == bool(logits[answer] > logits[foil])
        expected = logits[answer] - torch.logaddexp(logits[answer], logits[foil])
        assert abs(row["target_logprob"] - float(expected)) <= 1e-4


@pytest.mark.parametrize("name", ["T5", "BART"])
@torch.no_grad()
def test_pooling_after_the_last_encoder_block_equals_hugging_face_on_pooled_outputs(
    name: str,
) -> None:
    """The decoder's first layer is where the encoder's output, after its final norm, is pooled."""
    module, model = model_of(name)
    layer, start = model.n_encoder_layers, module.config.decoder_start_token_id
    examples = [SOME[0], SOME[2]]  # no word of their targets has several tokens
    hows = ("mean", "max", "sum", "last", "first")
    rows = cap_curve(model, examples, layers=[layer], progress=False).outcomes
    moved = 0.0
    for row in rows[rows["pooling"].isin(hows)].to_dict("records"):
        example = examples[row["example"]]
        text, answer = written_out(example, start), ids(example.answer)[0]
        states = module.get_encoder()(torch.tensor([text.source])).last_hidden_state[0]
        units = [*dict.fromkeys(text.source_units)]  # </s>, which is -1, is the last
        words = [states[torch.tensor(text.source_units) == unit] for unit in units]
        pooled = torch.stack([pool(word, row["pooling"]).to(states.dtype) for word in words])
        target = torch.tensor([text.target])
        out, clean = (
            module(encoder_outputs=(one[None],), decoder_input_ids=target).logits[0, -1].double()
            for one in (pooled, states)
        )
        assert abs(row["target_logprob"] - float(out.log_softmax(0)[answer])) <= 1e-4
        moved = max(moved, float((out - clean).abs().max()))
    assert moved > 1e-2
    assert_clean(model)


@torch.no_grad()
def test_controls_equal_blocks_run_by_hand() -> None:
    """One token off on each side: where the first run goes depends on the row's text."""
    module, model = model_of("T5")
    start, layers = module.config.decoder_start_token_id, [0, 3]
    examples = [SOME[0], replace(SOME[2], target="grow the sunflowers in")]
    curve = cap_curve(model, examples, layers=layers, pooling="mean", progress=False)
    straddling: list[list[list[int]]] = []
    for example in examples:
        text = written_out(example, start)
        whole = f"{example.prompt}\n{example.target}" if example.target else example.prompt
        off = partial(straddled_groups, left_first=crc32(whole.encode()) % 2 == 0)
        sides = [off(text.source_units, keep_last=False), off(text.target_units)]
        assert sides[0] != text.source_units
        straddling.append(sides)
    assert straddling[1][1] != written_out(examples[1], start).target_units
    compared = curve.outcomes[curve.outcomes["pooling"] != "shuffled"]
    for row in compared.to_dict("records"):
        text, how = written_out(examples[row["example"]], start), row["pooling"]
        if how == "straddling":
            source, target = straddling[row["example"]]
            text, how = text._replace(source_units=source, target_units=target), "mean"
        expected = in_place(module, text, row["layer"], how)[-1]
        answer = ids(examples[row["example"]].answer)[0]
        assert abs(row["target_logprob"] - float(expected[answer])) <= 1e-4
    assert {*compared["pooling"]} == {"mean", "last", "first", "straddling"}
    assert_clean(model)


@torch.no_grad()
def test_answers_of_several_tokens_equal_blocks_run_by_hand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the target, behind what is given of it, in batches with an answer of one token."""
    module, model = model_of("T5")
    examples = [SOME[0], *(replace(SOME[i], answer=" sunflowers grows") for i in (1, 2))]
    options: dict[str, Any] = {"multi_token_answers": True, "progress": False}
    curve = cap_curve(model, examples, layers=[0, 3], pooling="mean", controls=False, **options)
    words = ablation_curve(model, examples[:2], layers=[0], **options)
    assert curve.config["answer_tokens"] == {"1": 1, "4": 2}

    def agree(row: dict[str, Any], layer: int, unit: int = -1) -> None:
        example = examples[row["example"]]
        text, answer = written_out(example, module.config.decoder_start_token_id), []
        for word in example.answer.split():
            answer += ids(word)
        alone = [-1] * (len(answer) - 1)
        text = text._replace(
            target=[*text.target, *answer[:-1]], target_units=[*text.target_units, *alone]
        )
        hidden = [i for i, other in enumerate(text.source_units) if unit >= 0 and other == unit]
        every = in_place(module, text, layer, "mean", hidden=hidden)[-len(answer) :]
        wanted = every[range(len(answer)), answer]
        assert abs(row["target_logprob"] - float(wanted.sum())) <= 1e-4
        assert row["target_rank"] == 1 + int((every > wanted[:, None]).sum(1).max())

    for row in curve.outcomes.to_dict("records"):
        agree(row, row["layer"])
    for row in curve.clean.to_dict("records"):
        agree(row, -1)
    of_source = words.outcomes[words.outcomes["unit"] < 2].to_dict("records")
    assert len(of_source) == 4
    for row in of_source:
        agree(row, -1, row["unit"])
    assert_clean(model)
    long = replace(SOME[0], answer=" tall" * 13)
    monkeypatch.setattr(model, "n_ctx", 12)
    with pytest.raises(PromptError, match="its target with its answer but .* has 13 tokens"):
        cap_curve(model, [long], **options)


def test_one_by_one_equals_a_batch_with_controls_in_both_modes() -> None:
    _, model = model_of("T5")
    for mode in ("collapse", "broadcast"):
        curves = [
            cap_curve(
                model, SOME, mode=mode, layers=[0, 3], batch_size=size, progress=False
            ).outcomes.sort_values(["example", "layer", "pooling"], ignore_index=True)
            for size in (1, 3)
        ]
        pd.testing.assert_frame_equal(*curves, rtol=0, atol=1e-5)
        assert "shuffled" in set(curves[0]["pooling"])


@torch.no_grad()
def test_words_knocked_out_everywhere_equal_blocks_with_the_word_masked() -> None:
    module, model = model_of("BART")
    curve = ablation_curve(model, SOME[:1], layers=[0], progress=False)
    text = written_out(SOME[0], module.config.decoder_start_token_id)
    answer = ids(SOME[0].answer)[0]
    assert list(curve.outcomes["unit"]) == [0, 1, 2, 3, 4, 5]
    for row in curve.outcomes.to_dict("records"):
        hidden = [i for i, unit in enumerate(text.source_units) if unit == row["unit"]]
        expected = in_place(module, text, -1, "mean", hidden=hidden)[-1]
        # The word's own tokens still attend to it, which nobody reads.
        assert abs(row["target_logprob"] - float(expected[answer])) <= 1e-4
    assert_clean(model)


@pytest.mark.parametrize("how", ["zero", "mean", "resample"])
def test_heads_in_one_pass_equal_one_at_a_time(how: Any) -> None:
    _, model = model_of("BART")
    curve = ablation_curve(model, SOME, what="heads", how=how, layers=[1, 2], progress=False)
    rows = curve.outcomes.set_index(["example", "layer", "unit"])["target_logprob"]
    # In the decoder a token of one example may be drawn to replace itself.
    assert rows[:, 1, :].groupby("example").nunique().min() == model.n_heads
    if how != "zero":
        return
    for example, layer, head in ((0, 1, 2), (2, 2, 0)):
        text = written_out(SOME[example], model.start_ids[0])
        tokens, _ = model.join(torch.tensor([text.source]), torch.tensor([text.target]))
        with torch.no_grad(), ablate(model, heads=[(layer, head)]):
            logits = model(tokens)[0, -1]
        expected = torch.log_softmax(logits.double(), -1)[ids(SOME[example].answer)[0]]
        assert abs(rows[example, layer, head] - float(expected)) <= 1e-5


@pytest.mark.parametrize(("what", "part"), [("cross_attn", "cross_attn"), ("layers", "block")])
def test_sublayers_in_one_pass_equal_one_at_a_time(what: Any, part: Any) -> None:
    _, model = model_of("T5")
    layers = [2, 3, 4] if part == "cross_attn" else [0, 3]
    asked = None if part == "cross_attn" else layers  # all that have cross-attention
    curve = ablation_curve(model, SOME, what=what, layers=asked, progress=False)
    assert set(curve.outcomes["layer"]) == set(layers)
    rows = curve.outcomes.set_index(["example", "layer"])["target_logprob"]
    for layer in layers:
        text = written_out(SOME[1], model.start_ids[0])
        tokens, _ = model.join(torch.tensor([text.source]), torch.tensor([text.target]))
        with torch.no_grad(), mask_residual(model, layers=layer, part=part):
            logits = model(tokens)[0, -1]
        expected = torch.log_softmax(logits.double(), -1)[ids(SOME[1].answer)[0]]
        assert abs(rows[1, layer] - float(expected)) <= 1e-5
    with pytest.raises(LayerError, match=r"layers \[0\] of .* have no cross-attention"):
        ablation_curve(model, SOME, what="cross_attn", layers=[0, 3], progress=False)


def test_bare_texts_are_answered_by_the_model() -> None:
    _, model = model_of("T5")
    curve = ablation_curve(model, ["a tall blackbird"], what="mlp", progress=False)
    assert curve.clean["correct"].tolist() == [True]


@pytest.mark.parametrize("name", ["T5", "BART", "Marian"])
def test_the_weight_report_holds_both_stacks_and_cross_attention(name: str) -> None:
    module, model = pair(name)
    report = complexity_report(model, progress=False)
    merged = report.merged.set_index(["layer", "matrix"])
    first = model.n_encoder_layers
    assert {"W_Q", "W_Q_cross", "W_O_cross", "W_out"} <= set(merged.loc[first].index)
    assert "W_Q_cross" not in merged.loc[0].index
    decoder = module.get_decoder()
    if name == "T5":
        weight = decoder.block[1].layer[1].EncDecAttention.k.weight
        assert report.config["left_out"] == [
            "encoder.block.*.layer.*.SelfAttention.relative_attention_bias.weight",
            "decoder.block.*.layer.*.SelfAttention.relative_attention_bias.weight",
        ]
    else:
        weight = decoder.layers[1].encoder_attn.k_proj.weight
        assert report.config["left_out"] == []
    singular = torch.linalg.svdvals(weight.detach().double())
    expected = float((singular**2).sum() / singular[0] ** 2)
    assert merged.loc[(first + 1, "W_K_cross"), "stable_rank"] == pytest.approx(expected, rel=1e-5)
    tied = {"T5": "W_E", "BART": "W_E", "Marian": "W_E_target"}[name]
    assert merged.loc[(model.n_layers, "W_U"), "tied_to"] == tied
    assert model.weight("W_Q").shape[0] == model.n_layers


def test_what_cannot_be_is_refused_before_any_work() -> None:
    _, model = model_of("T5")
    gpt2 = shared("GPT-2")
    with pytest.raises(AnswerError, match="the answer 'blackbird' after '' is 2 tokens"):
        cap_curve(model, [Example("the sunflower", "blackbird")], progress=False)
    gpt2.tokenizer, before = tokenizer(), gpt2.tokenizer
    try:
        with pytest.raises(InputError, match="example 0 has a target, and .* is no encoder"):
            cap_curve(gpt2, [Example("the sunflower", "tall", target="a")], progress=False)
    finally:
        gpt2.tokenizer = before
    start, model.start_ids = model.start_ids, ()
    try:
        with pytest.raises(InputError, match="has no decoder_start_token_id.*set model.start_ids"):
            cap_curve(model, SOME, progress=False)
    finally:
        model.start_ids = start
    with pytest.raises(CapabilityError, match="is an encoder–decoder, and an embedding reads one"):
        embed_texts(model, ["a field"])
    with pytest.raises(CapabilityError, match="is an encoder–decoder, and fine-tuning reads one"):
        finetune(model, Task("own", "{}", SOME, SOME, SOME, {}))
