"""cap_curve end to end, against one intervention at a time and by hand."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd
import pytest
import torch

import interp_compose as ic
from interp_compose.errors import (
    AnswerError,
    CapabilityError,
    DataFormatError,
    InputError,
    InterventionError,
    OptionError,
    PromptError,
    SpanError,
)
from interp_compose.interventions import pooling_sweep
from interp_compose.interventions.control_spans import shuffled_groups, straddled_groups
from interp_compose.interventions.pool_at import pool_at
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.studies.cap.measure import cap_curve
from interp_compose.studies.core.inputs import outcome_of
from interp_compose.text.units import tokenize_prompts
from interp_compose.types import Example
from tests import architectures


def quiet(model: LensModel, examples: Any, **options: Any) -> ic.CapCurve:
    return cap_curve(model, examples, progress=False, **options)


@pytest.mark.filterwarnings("ignore:pooling at layer")  # nothing is pooled
@pytest.mark.parametrize("mode", ["collapse", "broadcast"])
@torch.no_grad()
def test_every_outcome_equals_one_intervention_by_hand(
    model: LensModel, examples: list[Example], mode: str
) -> None:
    curve = quiet(model, examples, mode=mode, batch_size=3, seed=5)
    rows = curve.outcomes.set_index(["example", "layer", "pooling"])
    clean = curve.clean.set_index("example")
    prompts = tokenize_prompts(model.tokenizer, examples)
    assert clean["affected"].tolist() == [True] * 5 + [False] * 2
    for index, (example, prompt) in enumerate(zip(examples, prompts, strict=True)):
        prompt = prompt.with_last_apart()
        tokens = torch.from_numpy(prompt.ids)[None]
        groups = prompt.groups.tolist()
        answer = model.tokenizer.convert_tokens_to_ids(example.answer)
        plans: list[tuple[Any, Any]] = [
            ((layer, how), (layer, how, groups))
            for layer in range(model.n_layers)
            for how in ("mean", "max", "sum", "last", "first")
        ]
        left_first = crc32(example.prompt.encode()) % 2 == 0
        spans = {
            "shuffled": shuffled_groups(groups, seed=5, example=index),
            "straddling": straddled_groups(groups, left_first=left_first),
        }
        plans += [
            ((layer, name), (layer, "mean", moved))
            for layer in range(model.n_layers)
            for name, moved in spans.items()
        ]
        assert len(plans) == len(rows.loc[index])
        for key, (layer, how, units) in plans:
            with pool_at(model, layer, torch.tensor([units]), how, mode=mode):
                logits = model(tokens)[0, -1].double()
            found = rows.loc[(index, *key)]
            logprob = (logits - logits.logsumexp(0))[answer].item()
            assert found["target_logprob"] == pytest.approx(logprob, abs=1e-5)
            assert found["prediction"] == logits.argmax().item()
            assert found["correct"] == (logits.argmax().item() == answer)
            assert found["target_rank"] == 1 + int((logits > logits[answer]).sum())
        plain = model(tokens)[0, -1].double()
        assert clean.loc[index, "target_logprob"] == pytest.approx(
            (plain - plain.logsumexp(0))[answer].item(), abs=1e-5
        )


def test_what_pooling_cannot_change_carries_the_clean_outcome(
    model: LensModel, examples: list[Example]
) -> None:
    curve = quiet(model, examples)
    clean = curve.clean.set_index("example")
    untouched = curve.outcomes[curve.outcomes["example"] >= 5]
    assert len(untouched) == 2 * model.n_layers * 7
    for column in ("prediction", "target_logprob", "target_rank", "correct"):
        expected = clean.loc[untouched["example"], column].to_numpy()
        assert np.array_equal(untouched[column].to_numpy(), expected)
    assert set(curve.frame["n_affected"]) == {5}
    assert set(curve.frame["n"]) == {7}


def test_batches_and_their_order_change_nothing_but_rounding(
    model: LensModel, examples: list[Example]
) -> None:
    one = quiet(model, examples, batch_size=1)
    many = quiet(model, examples, batch_size=64)
    pd.testing.assert_frame_equal(one.outcomes, many.outcomes, atol=1e-5, rtol=0)
    shuffled = quiet(model, list(reversed(examples)), controls=False)
    back = shuffled.outcomes.assign(example=6 - shuffled.outcomes["example"])
    ordered = back.sort_values(["example", "layer"], kind="stable").reset_index(drop=True)
    same = quiet(model, examples, controls=False).outcomes
    pd.testing.assert_frame_equal(ordered, same, atol=1e-5, rtol=0)


LONE = 'alive "'
"""Its first word has several tokens and no neighbour but the last token, which stays."""


def test_units_that_the_control_straddling_moves_are_counted(
    model: LensModel, examples: list[Example]
) -> None:
    def counts(rows: list[Example], **options: Any) -> tuple[int, int, ic.CapCurve]:
        curve = quiet(model, rows, layers=[0], pooling="mean", **options)
        return (*curve.config["straddling"].values(), curve)

    expected = []
    for prompt in tokenize_prompts(model.tokenizer, examples):
        groups = prompt.with_last_apart().groups.tolist()
        moved = straddled_groups(groups, left_first=crc32(prompt.text.encode()) % 2 == 0)
        several = {unit for unit in groups if unit >= 0 and groups.count(unit) > 1}
        places = [{i for i, unit in enumerate(groups) if unit == one} for one in several]
        after = [{i for i, unit in enumerate(moved) if unit == one} for one in {*moved}]
        expected.append((sum(place not in after for place in places), len(places)))
    moved, of, curve = counts(examples)
    assert (moved, of) == tuple(map(sum, zip(*expected, strict=True)))
    assert moved
    assert ("straddling moves" in curve.summary()) == (moved < of)
    # One that cannot be moved: it is counted, and its outcome is that of mean.
    some, more, curve = counts([*examples, Example(LONE, "a")])
    assert (some, more) == (moved, of + 1)
    note = f"! straddling moves {some} of {more} units of several tokens; the others, without a"
    assert note in curve.summary()
    outcomes = curve.outcomes.set_index(["example", "pooling"])["target_logprob"]
    lone = outcomes[len(examples)]
    assert lone["straddling"] == pytest.approx(lone["mean"], abs=1e-6)
    assert abs(lone["first"] - lone["mean"]) > 1e-4
    for index in range(5):
        assert (abs(outcomes[index, "straddling"] - outcomes[index, "mean"]) > 1e-6) == (
            expected[index][0] > 0
        )
    assert "straddling" not in quiet(model, examples, layers=[0], controls=False).config


def test_where_no_unit_can_be_moved_the_control_is_left_out_loudly(model: LensModel) -> None:
    said = "the control straddling is left out, since it would be mean itself: all 1 units of sev"
    with pytest.warns(UserWarning, match=said):
        curve = quiet(model, [Example(LONE, "a")], layers=[0])
    assert list(curve.frame["pooling"]) == ["mean", "max", "sum", "last", "first", "shuffled"]
    assert curve.config["straddling"] == {"moved": 0, "of": 1}
    assert f"! {said}" in curve.summary()
    assert len(quiet(model, [Example(LONE, "a")], layers=[0], controls=False).frame) == 3


def test_options_shape_the_table(model: LensModel, examples: list[Example]) -> None:
    curve = quiet(model, examples, layers=[2, 0.0], pooling=("sum",), controls=False)
    assert curve.frame[["layer", "pooling"]].to_numpy().tolist() == [[0, "sum"], [2, "sum"]]
    assert curve.config["layers"] == [0, 2]
    assert curve.config["examples_sha256"]


@torch.no_grad()
def test_hooks_of_the_users_own_act_once_at_every_layer(
    model: LensModel, examples: list[Example]
) -> None:
    def add(resid: torch.Tensor, hook: Any) -> torch.Tensor:
        return resid + 0.5 * torch.linspace(-1, 1, resid.shape[-1])

    # What leaves block 0 is what enters block 1: the same edit, at another hook point.
    options = {"mode": "collapse", "batch_size": 3}
    with model.hooks([("blocks.0.hook_resid_post", add)]):
        expected = quiet(model, examples, **options).outcomes
    with model.hooks([("blocks.1.hook_resid_pre", add)]):
        found = quiet(model, examples, **options).outcomes
        alone = quiet(model, examples, layers=[1], **options).outcomes
    assert not np.allclose(
        expected["target_logprob"], quiet(model, examples, **options).outcomes["target_logprob"]
    )
    pd.testing.assert_frame_equal(found, expected, atol=1e-5, rtol=0)
    pd.testing.assert_frame_equal(
        alone, found[found["layer"] == 1].reset_index(drop=True), atol=1e-5, rtol=0
    )


def test_labels_that_choose_nothing_are_refused(model: LensModel) -> None:
    row = Example('a small house "', "a", tree="(NP (DT a) (JJ small) (NN house))")
    with pytest.raises(SpanError, match=r"labels=\['ZZ'\].*choose no constituent in any of 1"):
        quiet(model, [row], unit="constituent", labels=frozenset({"ZZ"}))


def test_rank_one_is_the_prediction_even_in_a_tie() -> None:
    logits = torch.tensor([[1.0, 3.0, 3.0, 2.0]])
    for answer, rank in ((1, 1), (2, 2), (3, 3), (0, 4)):
        outcome = outcome_of(logits, torch.tensor([answer]))
        assert outcome[0, 0] == 1
        assert outcome[0, 2] == rank


@pytest.mark.filterwarnings("ignore:pooling at layer")  # nothing is pooled
@torch.no_grad()
def test_among_labels_as_by_hand(model: LensModel, examples: list[Example]) -> None:
    """Eq. 10: the largest of the labels' logits, and their probabilities alone."""
    labels = ["a", "b", "c", "d", "e", "f", "g"]
    ids = model.tokenizer.convert_tokens_to_ids(labels)
    plain = quiet(model, examples, layers=[0, 1], controls=False)
    curve = quiet(model, examples, layers=[0, 1], controls=False, answers=labels, batch_size=2)
    assert curve.config["answers"] == labels
    assert plain.config["answers"] == "vocabulary"
    assert "answers among 7 labels" in curve.summary()
    assert "among" not in plain.summary()
    rows = curve.outcomes.set_index(["example", "layer", "pooling"])
    assert set(curve.outcomes["prediction"]) | set(curve.clean["prediction"]) <= set(ids)
    assert not set(plain.outcomes["prediction"]) <= set(ids)  # else nothing is tested
    prompts = tokenize_prompts(model.tokenizer, examples)
    for index, (example, prompt) in enumerate(zip(examples, prompts, strict=True)):
        tokens = torch.from_numpy(prompt.ids)[None]
        groups = torch.tensor([prompt.with_last_apart().groups.tolist()])
        answer = labels.index(example.answer)
        for layer in (0, 1):
            for how in ("mean", "max", "sum"):
                with pool_at(model, layer, groups, how) as _:
                    logits = model(tokens)[0, -1].double()
                chosen = [logits[token].item() for token in ids]
                shares = [np.exp(x) / sum(np.exp(y) for y in chosen) for x in chosen]
                found = rows.loc[(index, layer, how)]
                assert found["prediction"] == ids[shares.index(max(shares))]
                assert found["correct"] == (shares.index(max(shares)) == answer)
                assert found["target_logprob"] == pytest.approx(np.log(shares[answer]), abs=1e-5)
                assert found["target_rank"] == 1 + sum(one > shares[answer] for one in shares)


def test_answers_are_refused_before_any_work(model: LensModel, examples: list[Example]) -> None:
    for answers, error in (
        ("labels", OptionError),
        (["a"], OptionError),
        (["a", "b"], AnswerError),  # the other answers are missing
        ([*"abcdef", "quixotic zebra"], OptionError),
    ):
        with pytest.raises(error):
            quiet(model, examples, answers=answers)


def test_own_spans_and_trees(model: LensModel) -> None:
    text = 'a small wooden house in the mountains "'
    tree = (
        "(S (NP (NP (DT a) (JJ small) (JJ wooden) (NN house)) (PP (IN in) "
        "(NP (DT the) (NNS mountains)))))"
    )
    whole = text.index(" in")
    spans = quiet(model, [Example(text, "a", spans=((0, whole),))], unit="span")
    phrases = quiet(
        model,
        [Example(text, "a", tree=tree)],
        unit="constituent",
        labels=frozenset({"NP"}),
        height=2,
    )
    words = quiet(model, [Example(text, "a")])
    n_groups = [int(c.clean["n_groups"].iloc[0]) for c in (spans, phrases, words)]
    assert n_groups[1] < n_groups[2]
    assert spans.clean["affected"].all()


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ([], InputError, "no examples"),
        ([Example("", "a")], PromptError, "example 0"),
        ([Example("x", "bread bread")], AnswerError, "example 0.*tokens"),
        ([Example("alive " * 90, "a")], PromptError, r"example 0: its prompt has \d+ tokens"),
        ([{"prompt": "x", "answer": "a"}, {"prompt": "x"}], DataFormatError, "answer"),
        ([Example("bread", "a", spans=((0, 3), (2, 5)))], SpanError, "overlap"),
        ([Example("bread", "a", spans=((0, 99),))], SpanError, "99"),
    ],
)
def test_bad_examples_are_refused_before_work_starts(
    model: LensModel, rows: list[Any], error: type[Exception], message: str
) -> None:
    unit = "span" if error is SpanError else "word"
    with pytest.raises(error, match=message):
        quiet(model, rows, unit=unit)


def test_renumbering_means_nothing_where_nothing_is_dropped(
    model: LensModel, examples: list[Example]
) -> None:
    with pytest.raises(OptionError, match="renumber=True has no meaning for mode='broadcast'"):
        quiet(model, examples, renumber=True, mode="broadcast")


def test_a_study_that_could_change_nothing_is_refused(model: LensModel) -> None:
    with pytest.raises(InterventionError, match="would change none of the 1 examples"):
        quiet(model, [Example('a a "', "g")])


def test_a_window_of_local_attention_bounds_a_collapse(
    tokenizer: Any, examples: list[Example]
) -> None:
    model = load_model(architectures.build("Gemma 2"), tokenizer=tokenizer)
    model.window = 5
    with pytest.raises(PromptError, match="look back 5 tokens"):
        quiet(model, examples)
    assert len(quiet(model, examples, mode="broadcast", controls=False).frame) == 9


def test_alibi_models_need_renumbering(tokenizer: Any, examples: list[Example]) -> None:
    model = load_model(architectures.build("BLOOM"), tokenizer=tokenizer)
    with pytest.raises(CapabilityError, match="ALiBi"):
        quiet(model, examples)
    assert len(quiet(model, examples, renumber=True, controls=False).frame) == 9


def test_half_precision_runs_and_stays_near(tokenizer: Any, examples: list[Example]) -> None:
    exact = quiet(load_model(architectures.build("Llama"), tokenizer=tokenizer), examples)
    half = architectures.build("Llama").to(torch.bfloat16)
    rough = quiet(load_model(half, tokenizer=tokenizer), examples)
    error = (exact.outcomes["target_logprob"] - rough.outcomes["target_logprob"]).abs()
    assert 0 < error.max() < 0.35  # 3 layers of bf16, log-probabilities around -4


def test_the_walk_from_the_call_to_the_arithmetic_is_the_one_in_the_docs(
    model: LensModel, examples: list[Example], monkeypatch: pytest.MonkeyPatch
) -> None:
    walks: list[list[str]] = []
    real = pooling_sweep.pool_groups

    def noted(*args: Any, **options: Any) -> Any:
        frames = (frame for frame in inspect.stack() if "/interp_compose/" in frame.filename)
        walks.append([frame.function for frame in frames][::-1])
        return real(*args, **options)

    monkeypatch.setattr(pooling_sweep, "pool_groups", noted)
    cap_curve(model, examples, layers=[1], progress=False)
    assert walks[0] == ["called", "cap_curve", "measured", "rows", "sweep"]
    page = (Path(__file__).parents[2] / "docs" / "contributing.md").read_text(encoding="utf-8")
    table = page[page.index("| step | file |") : page.index("A model is in three files")]
    steps = [table.index(f"{name}`") for name in [*walks[0][1:], "pool_groups"]]
    assert steps == sorted(steps)
