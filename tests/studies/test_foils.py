"""Predictions chosen between an answer and its foil: studies against two logits read by hand."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor

import interp_compose as ic
from interp_compose.cli import main
from interp_compose.errors import AnswerError, InputError, OptionError
from interp_compose.interventions.pool_at import pool_at
from interp_compose.models.lens_model import LensModel
from interp_compose.studies.core.text import FLOOR, floor_of
from interp_compose.text.units import tokenize_prompts
from interp_compose.types import Example

FOILS = "gfabcde"
QUIET: dict[str, Any] = {"progress": False, "layers": [0, 1]}


@pytest.fixture(scope="module")
def foiled(examples: list[Example]) -> list[Example]:
    """Each with a foil of its own, smaller than its answer and larger."""
    return [replace(one, foil=foil) for one, foil in zip(examples, FOILS, strict=True)]


def levels(curve: Any) -> list[str]:
    """The horizontal lines of its figure."""
    return [level.label for panel in curve.plot().chart.panels for level in panel.levels]


def swapped(examples: list[Example]) -> list[Example]:
    return [replace(one, answer=one.foil, foil=one.answer) for one in examples]


def agree(row: Any, logits: Tensor, model: LensModel, example: Example) -> None:
    """That a row is a choice between two tokens: the larger logit, and a softmax of two."""
    answer, foil = model.tokenizer.convert_tokens_to_ids([example.answer, example.foil])
    margin = float(logits[answer] - logits[foil])
    assert abs(margin) > 1e-5  # no tie
    assert row["prediction"] == (answer if margin > 0 else foil)
    assert row["correct"] == (margin > 0)
    assert row["target_rank"] == (1 if margin > 0 else 2)
    expected = -torch.log1p(torch.exp(torch.tensor(-margin, dtype=torch.float64)))
    assert row["target_logprob"] == pytest.approx(float(expected), abs=1e-5)


@torch.no_grad()
def test_a_cap_curve_between_answer_and_foil_is_that_by_hand(
    model: LensModel, foiled: list[Example], tmp_path: Path
) -> None:
    curve = ic.cap_curve(model, foiled, answers="foil", controls=False, batch_size=3, **QUIET)
    assert curve.config["answers"] == "foil"
    rows = curve.outcomes.set_index(["example", "layer", "pooling"])
    clean = curve.clean.set_index("example")
    assert curve.clean["foil"].tolist() == [*FOILS]
    assert 0 < clean["correct"].sum() < len(clean)  # else nothing is tested
    for index, prompt in enumerate(tokenize_prompts(model.tokenizer, foiled)):
        tokens = torch.from_numpy(prompt.ids)[None]
        groups = torch.tensor([prompt.with_last_apart().groups.tolist()])
        agree(clean.loc[index], model(tokens)[0, -1].double(), model, foiled[index])
        for layer, how in itertools.product((0, 1), ("mean", "max", "sum")):
            if not clean.loc[index, "affected"]:
                continue
            with pool_at(model, layer, groups, how):
                logits = model(tokens)[0, -1].double()
            agree(rows.loc[(index, layer, how)], logits, model, foiled[index])
    said = "answers: answer or foil, chance 0.500"
    assert said in curve.summary()
    assert said in curve.plot().chart.subtitle
    assert "chance 50.0%" in levels(curve)
    assert f"foil “{FOILS[0]}”" in curve.report()
    curve.save(tmp_path / "saved")
    loaded = ic.CapCurve.load(tmp_path / "saved")
    assert loaded.summary() == curve.summary()
    pd.testing.assert_frame_equal(loaded.clean, curve.clean)


def test_with_answer_and_foil_exchanged_what_was_right_is_wrong(
    model: LensModel, foiled: list[Example]
) -> None:
    for study in (ic.cap_curve, ic.ablation_curve):
        first, second = (
            study(model, rows, answers="foil", **QUIET) for rows in (foiled, swapped(foiled))
        )
        for table in ("clean", "outcomes"):
            one, other = first.frames[table], second.frames[table]
            assert (one["correct"] != other["correct"]).all()
            assert (one["prediction"] == other["prediction"]).all()


@torch.no_grad()
def test_an_ablation_curve_between_answer_and_foil(
    model: LensModel, foiled: list[Example], tmp_path: Path
) -> None:
    curve = ic.ablation_curve(model, foiled, answers="foil", what="attn", **QUIET)
    for index, prompt in enumerate(tokenize_prompts(model.tokenizer, foiled)):
        tokens = torch.from_numpy(prompt.ids)[None]
        agree(curve.clean.loc[index], model(tokens)[0, -1].double(), model, foiled[index])
        for layer in (0, 1):
            with ic.mask_residual(model, layers=[layer], part="attn"):
                logits = model(tokens)[0, -1].double()
            row = curve.outcomes.query("example == @index and layer == @layer").iloc[0]
            agree(row, logits, model, foiled[index])
    assert "answers: answer or foil, chance 0.500" in curve.summary()
    assert "chance 50.0%" in levels(curve)
    curve.save(tmp_path / "saved")
    pd.testing.assert_frame_equal(ic.AblationCurve.load(tmp_path / "saved").clean, curve.clean)


def test_foils_change_nothing_where_they_are_not_chosen_among(
    model: LensModel, examples: list[Example], foiled: list[Example]
) -> None:
    plain, given = (ic.cap_curve(model, rows, **QUIET) for rows in (examples, foiled))
    assert given.config == plain.config  # the digest of the examples among them
    for name in ("clean", "outcomes"):
        pd.testing.assert_frame_equal(given.frames[name], plain.frames[name])
    assert levels(given) == levels(plain) == [f"clean {plain.clean['correct'].mean():.1%}"]
    digests = {
        ic.cap_curve(model, rows, answers="foil", **QUIET).config["examples_sha256"]
        for rows in (foiled, [*foiled[:-1], replace(foiled[-1], foil="a")])
    }
    assert len(digests | {plain.config["examples_sha256"]}) == 3


def test_curves_with_other_foils_are_said_to_differ(
    model: LensModel, foiled: list[Example]
) -> None:
    other = [*foiled[:-1], replace(foiled[-1], foil="a")]
    first, second = (ic.cap_curve(model, rows, answers="foil", **QUIET) for rows in (foiled, other))
    with pytest.warns(UserWarning, match="settings differ: the examples' tokens, units or foils"):
        first.differences_from(second)


def test_what_has_no_foil_of_one_token_is_refused_before_work_or_left_out(
    model: LensModel, foiled: list[Example]
) -> None:
    rows = [*foiled]
    rows[1], rows[2] = replace(rows[1], foil=""), replace(rows[2], foil="quixotic zebra")
    rows[3] = replace(rows[3], foil=rows[3].answer)
    with pytest.raises(AnswerError) as refused:
        ic.cap_curve(model, rows, answers="foil", **QUIET)
    for said in (
        "3 of 7 examples",
        "example 1, with the answer 'b', has no foil",
        "example 2: the foil 'quixotic zebra' after",
        "example 3: the foil 'd' is its answer",
    ):
        assert said in str(refused.value)
    assert "multi_token_answers" not in str(refused.value)
    curve = ic.cap_curve(model, rows, answers="foil", on_bad="skip", **QUIET)
    assert curve.config["skipped"] == {"answer": 3}
    assert curve.clean["example"].tolist() == [0, 4, 5, 6]
    long = [replace(foiled[0], answer="quixotic zebra")]
    with pytest.raises(AnswerError, match=r"with answers='foil'; choose another answer"):
        ic.cap_curve(model, long, answers="foil", **QUIET)
    for study in (ic.cap_curve, ic.ablation_curve):
        with pytest.raises(OptionError, match="answers='foil': answers and foils have to be one"):
            study(model, foiled, answers="foil", multi_token_answers=True, **QUIET)
    with pytest.raises(InputError, match="so labels and foils mean nothing for them"):
        ic.ablation_curve(model, ["a small house"], answers="foil", **QUIET)


def test_the_command_reads_foils_of_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = ic.load_task("mini-idm", ic.load_model("mini-idm"))
    words = sorted({one.answer for one in task.test})
    foils = [next(word for word in words if word != one.answer) for one in task.test[:6]]
    rows = [
        {"prompt": one.prompt, "answer": one.answer, "foil": foil}
        for one, foil in zip(task.test, foils, strict=False)
    ]
    path = tmp_path / "mine.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    out = tmp_path / "out"
    main(["cap", "--task", str(path), "--layers", "0", "--answers", "foil", "--out", str(out)])
    assert "answers: answer or foil, chance 0.500" in capsys.readouterr().out
    curve = ic.CapCurve.load(out)
    assert curve.config["answers"] == "foil"
    assert curve.clean["foil"].tolist() == foils
    assert not (curve.clean["target_rank"] > 2).any()


def guess(answers: list[str], foils: list[str]) -> float:
    """The share that the best guess gets that takes one word wherever it may, and tosses a coin."""
    best = 0.0
    for word in {*answers, *foils}:
        right = 0.0
        for answer, foil in zip(answers, foils, strict=True):
            right += 1.0 if answer == word else 0.0 if foil == word else 0.5
        best = max(best, right / len(answers))
    return best


@pytest.mark.parametrize(
    ("answers", "foils", "floor"),
    [
        ("abababababab" * 5, "babababababa" * 5, "0.500"),
        ("aaabaaabaaab" * 5, "bbbabbbabbba" * 5, "0.750"),
        ("aabbccddeeff" * 5, "gghhiijjkkll" * 5, "0.583"),
        ("aaaaaaaaaaaa" * 5, "bcbcbcbcbcbc" * 5, "1.000"),
    ],
)
def test_a_clean_model_no_better_than_a_guess_is_named(
    answers: str, foils: str, floor: str
) -> None:
    assert f"{guess([*answers], [*foils]):.3f}" == floor
    frame = pd.DataFrame({"answer": [*answers], "foil": [*foils]})
    n, reached = len(frame), []
    for right in range(1, n + 1):
        said = floor_of(frame.assign(correct=[i < right for i in range(n)]))
        low, _ = wilson(right, n)
        assert bool(said) == (low <= guess([*answers], [*foils]))
        if said:
            assert (
                f"does not lie above {floor}, the share of a guess between answer and foil" in said
            )
        reached.append(not said)
    assert floor == "1.000" or reached[-1]
    assert floor_of(frame.assign(correct=False)) == FLOOR


def wilson(right: int, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval, written out."""
    z, p = 1.959963984540054, right / n
    middle, half = p + z * z / (2 * n), z * ((p * (1 - p) + z * z / (4 * n)) / n) ** 0.5
    return (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)
