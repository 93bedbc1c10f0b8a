"""The ablation curve: its definitions by hand."""

from __future__ import annotations

import math
import statistics
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

from interp_compose.errors import InputError
from interp_compose.studies.ablation import result as ablation_curve
from interp_compose.studies.ablation.result import AblationCurve

LAYERS, N_LAYERS = (0, 2, 4), 5
CONFIG = {"model": "tiny", "task": "toy", "what": "words", "reach": "from", "mode": "exclude"}
Z95 = 1.959963984540054
WORDS = {  # example: its words' kinds
    0: ["function", "content", "content"],
    1: ["content"],
    2: ["function", "function", "content", "number"],
    3: ["content", "function"],
    5: ["content", "content", "content", "content", "function"],
}


def make_clean(words: dict[int, list[str]] = WORDS) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    examples = [*words, 7]  # the last one has no word to knock out
    correct = np.array([example % 3 != 2 for example in examples])
    return pd.DataFrame(
        {
            "example": examples,
            "prompt": [f"a thing {i} is called a" for i in examples],
            "answer": " kitten",
            "n_tokens": 9,
            "prediction": np.where(correct, 11, 13),
            "prediction_text": [" kitten" if right else " <b>cat</b>" for right in correct],
            "correct": correct,
            "target_logprob": -rng.random(len(examples)),
            "target_rank": np.where(correct, 1, 7),
        }
    )


def make_cells(words: dict[int, list[str]] = WORDS) -> pd.DataFrame:
    rows = [
        {"example": example, "unit": unit, "text": f"w{unit}", "group": group}
        for example, groups in words.items()
        for unit, group in enumerate(groups)
    ]
    return pd.DataFrame(rows)


def make_outcomes(cells: pd.DataFrame, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = []
    for layer in LAYERS:
        for example, unit in zip(cells["example"], cells["unit"], strict=True):
            right = bool(rng.random() < 0.5)
            row = {"example": example, "layer": layer, "unit": unit}
            row |= {"prediction": 11 if right else 17, "correct": right}
            row |= {"target_logprob": -3 * float(rng.random())}
            rows.append(row | {"target_rank": 1 if right else int(rng.integers(2, 50))})
    return pd.DataFrame(rows)


def make_curve(**changes: Any) -> AblationCurve:
    tables: dict[str, Any] = {"clean": make_clean(), "cells": make_cells()}
    tables |= {"outcomes": make_outcomes(make_cells())} | changes
    config = tables.pop("config", CONFIG)
    return AblationCurve.from_outcomes(**tables, config=config, n_layers=N_LAYERS)


def heads_tables(n_heads: int = 3) -> dict[str, Any]:
    cells = [{"example": -1, "unit": h, "text": str(h), "group": str(h)} for h in range(n_heads)]
    each = [{"example": e, "unit": h} for e in WORDS for h in range(n_heads)]
    return {
        "cells": pd.DataFrame(cells),
        "outcomes": make_outcomes(pd.DataFrame(each)),
        "config": {**CONFIG, "what": "heads", "reach": "at", "mode": None, "how": "zero"},
    }


def wilson(k: float, n: int) -> tuple[float, float]:
    p = k / n
    half = Z95 * math.sqrt(p * (1 - p) / n + Z95**2 / (4 * n**2)) / (1 + Z95**2 / n)
    centre = (p + Z95**2 / (2 * n)) / (1 + Z95**2 / n)
    return centre - half, centre + half


def bootstrap(values: list[float]) -> tuple[float, float]:
    """1000 draws of as many examples as there are, seed 0; the percentiles of 2.5 and 97.5,
    expanded for few examples: Φ(−√(n / (n − 1)) t(n − 1)) and one minus it."""
    rng = np.random.default_rng(0)
    n = len(values)
    means = [sum(values[i] for i in rng.integers(0, n, n)) / n for _ in range(1000)]
    share = stats.norm.cdf(-math.sqrt(n / (n - 1)) * stats.t.ppf(0.975, n - 1))
    low, high = np.quantile(means, [share, 1 - share])
    return float(low), float(high)


def student(values: list[float]) -> tuple[float, float]:
    """Mean ± t(n - 1) · s / √n; nothing is known of one value."""
    n = len(values)
    if n == 1:
        return math.nan, math.nan
    half = float(stats.t.ppf(0.975, n - 1)) * statistics.stdev(values) / math.sqrt(n)
    return statistics.fmean(values) - half, statistics.fmean(values) + half


def row_by_hand(
    outcomes: list[dict[str, Any]], clean: dict[int, dict[str, Any]]
) -> dict[str, float]:
    """The numbers of one layer and group, from the definitions in the frame's docstring."""
    by_example: dict[int, list[dict[str, Any]]] = {}
    for each in outcomes:
        by_example.setdefault(each["example"], []).append(each)
    examples = sorted(by_example)
    n = len(examples)

    def per_example(value: Any) -> list[float]:
        return [statistics.fmean(map(value, by_example[example])) for example in examples]

    shares = per_example(lambda each: float(each["correct"]))
    logprobs = per_example(lambda each: each["target_logprob"])
    changes = per_example(
        lambda each: each["target_logprob"] - clean[each["example"]]["target_logprob"]
    )
    one_each = all(len(cells) == 1 for cells in by_example.values())
    agree = one_each or n == 1 or set(shares) in ({0.0}, {1.0})
    low, high = wilson(sum(shares), n) if agree else bootstrap(shares)
    was_right = [bool(clean[example]["correct"]) for example in examples]
    kept = [share for share, right in zip(shares, was_right, strict=True) if right]
    change_low, change_high = student(changes)
    return {
        "accuracy": sum(shares) / n,
        "ci_low": low,
        "ci_high": high,
        "accuracy_kept": sum(kept) / len(kept) if kept else math.nan,
        "target_logprob": sum(logprobs) / n,
        "logprob_change": sum(changes) / n,
        "logprob_change_low": change_low,
        "logprob_change_high": change_high,
        "target_rank": statistics.median(each["target_rank"] for each in outcomes),
        "n": n,
        "n_cells": len(outcomes),
        "clean_accuracy": sum(was_right) / n,
    }


def check_frame(curve: AblationCurve, groups: list[str]) -> None:
    frame = curve.frame
    order = [(group, layer) for group in groups for layer in LAYERS]
    assert list(zip(frame["group"], frame["layer"], strict=True)) == order
    clean = {row["example"]: row for row in curve.clean.to_dict("records")}
    group_of = {(r["example"], r["unit"]): r["group"] for r in curve.cells.to_dict("records")}
    for row in frame.to_dict("records"):
        mine = [
            each
            for each in curve.outcomes.to_dict("records")
            if each["layer"] == row["layer"]
            and row["group"]
            in (
                "any word" if (-1, 0) not in group_of else None,
                group_of.get((each["example"], each["unit"]), group_of.get((-1, each["unit"]))),
            )
        ]
        assert row["depth"] == row["layer"] / (N_LAYERS - 1)
        for column, value in row_by_hand(mine, clean).items():
            assert row[column] == pytest.approx(value, abs=1e-9, nan_ok=True), column


def test_every_number_of_words_by_hand() -> None:
    check_frame(make_curve(), ["any word", "content", "function", "number"])


def test_every_number_without_kinds_of_words_by_hand() -> None:
    check_frame(make_curve(cells=make_cells().assign(group="any word")), ["any word"])


def test_all_words_are_there_even_where_all_are_of_one_kind() -> None:
    curve = make_curve(cells=make_cells().assign(group="NOUN"))
    check_frame(curve, ["any word", "NOUN"])
    parts = [curve.frame[curve.frame["group"] == name] for name in ("any word", "NOUN")]
    for column in set(curve.frame) - {"group"}:
        assert parts[0][column].tolist() == parts[1][column].tolist()


def test_every_number_of_heads_by_hand() -> None:
    check_frame(make_curve(**heads_tables()), ["0", "1", "2"])


def test_eleven_heads_are_in_their_order() -> None:
    curve = make_curve(**heads_tables(11))
    assert curve.frame["group"].unique().tolist() == [str(head) for head in range(11)]


def test_one_block_has_wilsons_intervals() -> None:
    tables = heads_tables(1)
    tables["cells"] = tables["cells"].assign(group="mlp", text="mlp")
    tables["config"] = {**CONFIG, "what": "mlp", "reach": "at"}
    curve = make_curve(**tables)
    check_frame(curve, ["mlp"])
    assert curve.frame["n_cells"].tolist() == curve.frame["n"].tolist()


def test_a_change_of_nothing_is_nothing() -> None:
    clean, cells = make_clean(), make_cells()
    outcomes = make_outcomes(cells)
    before = clean.set_index("example").loc[outcomes["example"]].reset_index()
    for column in ("prediction", "correct", "target_logprob", "target_rank"):
        outcomes[column] = before[column].to_numpy()
    frame = make_curve(outcomes=outcomes).frame
    for column in ("logprob_change", "logprob_change_low", "logprob_change_high"):
        assert (frame[frame["n"] > 1][column] == 0).all()
    alone = frame[frame["n"] == 1]
    assert len(alone)
    assert alone[["logprob_change_low", "logprob_change_high"]].isna().all(axis=None)
    assert np.allclose(frame["accuracy"], frame["clean_accuracy"])
    assert set(frame["accuracy_kept"].dropna()) == {1.0}
    assert frame[frame["accuracy_kept"].isna()]["group"].unique().tolist() == ["number"]


@given(st.integers(0, 10_000), st.integers(2, 5))
@settings(max_examples=25)
def test_all_words_lie_between_the_kinds_where_every_example_has_each(seed: int, n: int) -> None:
    """An example's share of all words is a mean of its kinds' shares, weighted by their words.

    With as many words of each kind in every example the weights are everybody's, and the mean over
    examples lies between the kinds' means.
    """
    words = {example: ["a", "b", "b", "c"] for example in range(n)}
    cells = make_cells(words)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ablation_curve, "share_interval", lambda v: (v.mean(axis=0), v.mean(axis=0)))
        frame = make_curve(
            clean=make_clean(words), cells=cells, outcomes=make_outcomes(cells, seed)
        ).frame
    for column in ("accuracy", "target_logprob", "logprob_change"):
        table = frame.pivot(index="layer", columns="group", values=column)
        kinds = table[["a", "b", "c"]]
        assert (table["any word"] >= kinds.min(axis=1) - 1e-12).all()
        assert (table["any word"] <= kinds.max(axis=1) + 1e-12).all()
        weighted = (kinds["a"] + 2 * kinds["b"] + kinds["c"]) / 4
        np.testing.assert_allclose(table["any word"], weighted, atol=1e-12)


@pytest.mark.parametrize("right", [False, True])
def test_where_all_agree_the_interval_still_has_a_width(right: bool) -> None:
    outcomes = make_outcomes(make_cells()).assign(correct=right)
    curve = make_curve(outcomes=outcomes)
    check_frame(curve, ["any word", "content", "function", "number"])
    assert (curve.frame["ci_high"] - curve.frame["ci_low"] > 0.4).all()
    curve.plot()


def test_the_columns_are_the_ones_documented() -> None:
    curve = make_curve()
    assert list(curve.frame) == [
        "layer", "depth", "group", "accuracy", "ci_low", "ci_high", "accuracy_kept",
        "target_logprob", "logprob_change", "logprob_change_low", "logprob_change_high",
        "target_rank", "n", "n_cells", "clean_accuracy",
    ]  # fmt: skip
    assert all(column in (AblationCurve.frame.__doc__ or "") for column in curve.frame)
    told = AblationCurve.from_outcomes.__doc__ or ""
    for table in (curve.outcomes, curve.clean, curve.cells):
        assert all(column in told for column in table)


def test_changes_are_differences_in_reading_order() -> None:
    cells = make_cells()
    cells.loc[cells["example"] == 5, "text"] = ["the", "cat", "and", "the", "dog"]
    curve = make_curve(cells=cells)
    table = curve.changes(5)
    assert table.index.tolist() == ["the", "cat", "and", "the", "dog"]  # "the" stays apart
    assert table.columns.tolist() == list(LAYERS)
    before = curve.clean.set_index("example").loc[5, "target_logprob"]
    for row in curve.outcomes[curve.outcomes["example"] == 5].to_dict("records"):
        found = table.iloc[row["unit"]][row["layer"]]
        assert found == pytest.approx(row["target_logprob"] - before, abs=1e-12)
    heads = make_curve(**heads_tables()).changes(3)
    assert heads.index.tolist() == ["0", "1", "2"]


def test_an_example_that_is_not_there_is_named() -> None:
    for example in (4, 7):
        with pytest.raises(
            InputError, match=rf"example {example} has no outcomes.* are \[0, 1, 2, 3, 5\] \(5 in"
        ):
            make_curve().heatmap(example)


def test_summary_is_an_aligned_table() -> None:
    curve = make_curve()
    head, answer, *lines = curve.summary().splitlines()
    assert answer == curve.sentences()[0]
    lines = [head, *lines]
    assert lines[0] == (
        "model tiny · task toy · words knocked out before the softmax · 6 examples, 45 outcomes"
    )
    low, high = wilson(4, 6)
    assert lines[1] == (
        f"clean accuracy {4 / 6:.3f} [{low:.3f}, {high:.3f}]; accuracy where a word is knocked "
        "out in layers ℓ and above (one word at a time):"
    )
    assert lines[2] == "layer  any word (n 5)   content (n 5)  function (n 4)    number (n 1)"
    assert lines[3] == "clean           0.600           0.600           0.500           0.000"
    expected = curve.frame[curve.frame["layer"] == 2]["accuracy"]
    assert lines[5] == "    2" + "".join(f"{number:>16.3f}" for number in expected)
    assert lines[4 + len(LAYERS)].startswith("! 6 examples, fewer than 30")
    assert lines[-1] == (
        "! 1 of 6 examples have no word before the last token: they count in the clean accuracy, "
        "and in no layer's"
    )
    assert len({len(line) for line in lines[2:-2]}) == 1
    spans = make_curve(config={**CONFIG, "unit": "span"}).summary()
    assert (
        "accuracy where a span is knocked out in layers ℓ and above (one span at a time):" in spans
    )
    assert "! 1 of 6 examples have no span before the last token" in spans


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (
            {"what": "words", "mode": "zero", "unit": "constituent"},
            "constituents knocked out after the",
        ),
        ({"what": "heads", "mode": None, "how": "mean"}, "a head's output is replaced by its mean"),
        ({"what": "attn", "mode": None}, "attention adds nothing"),
    ],
)
def test_the_head_line_says_what_was_done(changed: dict[str, Any], told: str) -> None:
    assert f" · {told}" in make_curve(config={**CONFIG, **changed}).head()


def test_a_long_name_widens_the_summary_and_many_are_cut() -> None:
    words = {example: [f"kind {n} of many" for n in range(14)] for example in range(3)}
    cells = make_cells(words)
    curve = make_curve(clean=make_clean(words), cells=cells, outcomes=make_outcomes(cells))
    head, answer, *lines = curve.summary().splitlines()
    assert answer == curve.sentences()[0]
    lines = [head, *lines]
    assert lines[-3] == "and 3 more columns in curve.csv"
    assert len({len(line) for line in lines[2:-3]}) == 1


def test_the_summary_of_heads_is_of_log_probabilities() -> None:
    curve = make_curve(**heads_tables())
    assert "Framed words" not in curve.report()
    assert "Framed words" in make_curve().report()
    head, answer, *lines = curve.summary().splitlines()
    assert answer == curve.sentences()[0]
    lines = [head, *lines]
    assert lines[1].endswith("mean change of the answer's log-probability (nats), by head:")
    assert lines[2] == "layer      head 0       head 1       head 2"
    rows = curve.frame[curve.frame["layer"] == 0]
    ends = rows[["logprob_change", "logprob_change_low", "logprob_change_high"]].to_numpy()
    marks = ["*" if low > 0 or high < 0 else " " for _, low, high in ends]
    cells = [
        f"{value:.3f}{mark}".replace("-", "−")
        for (value, _, _), mark in zip(ends, marks, strict=True)
    ]
    assert lines[3] == ("    0" + "".join(f"{cell:>13}" for cell in cells)).rstrip()
    marked = curve.frame["logprob_change_low"].gt(0) | curve.frame["logprob_change_high"].lt(0)
    assert sum(line.count("*") for line in lines[3:-2]) == marked.sum() > 0
    assert lines[-2].startswith("* the 95 % interval excludes 0")
