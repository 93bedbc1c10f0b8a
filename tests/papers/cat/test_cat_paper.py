"""What CAT's paper prints: its own averages and differences come out of the copied numbers."""

from __future__ import annotations

from typing import Any

import pytest

from docs import measured
from docs.cat_paper import PRINTED, beside, printed
from interp_compose.tasks.table import names_of

BERT, ROBERTA, MIX = 0, 1, 5


def of(table: str, place: int, *names: str) -> list[float]:
    rows = [one for one in PRINTED if one.table == table and (not names or one.name in names)]
    return [one.values[place] for one in rows]


def test_averages_of_table_4() -> None:
    averages = (76.07, 79.05, 72.67, 76.60, 73.48, 76.16)
    for place, printed_average in enumerate(averages):
        values = of("4", place)
        assert len(values) == 9
        assert sum(values) / 9 == pytest.approx(printed_average, abs=0.0051)


def gained(table: str, base: int, *names: str) -> float:
    pairs = list(zip(of(table, MIX, *names), of(table, base, *names), strict=True))
    return sum(a - b for a, b in pairs) / len(pairs)


def test_differences_that_the_text_states() -> None:
    ood = ("SST2", "STSB MSRvid", "MNLI letters", "AMAZON video")
    assert gained("3", BERT, *ood) == pytest.approx(1.83, abs=0.0051)
    assert gained("3", ROBERTA, *ood) == pytest.approx(1.85, abs=0.0051)
    assert gained("2", BERT, "BiRD", "BiRD-ABBA") == pytest.approx(6.42, abs=0.0051)
    assert gained("2", BERT, "PAWS (SO)") == pytest.approx(1.10)


def test_each_measure_can_be_taken() -> None:
    assert {one.task for one in PRINTED} <= {*names_of("labelled"), *names_of("pairs")}
    assert len(printed()[1]) == len(PRINTED) == 22


def row(model: str, output: str, mean: float, **about: Any) -> dict[str, Any]:
    place = {"embedding": "cls", "subset": "all", "metric": "accuracy"}
    ends = {"mean": mean, "smallest": mean - 0.01, "largest": mean + 0.02}
    return {"model": model, "output": output, **ends, **place, **about}


def test_ours_stand_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    people = {"task": "bird", "metric": "pearson"}
    untuned = {**people, "tuned": "no", "trained_on": "nothing", "share": 0.0}
    tuned = {**people, "tuned": "end-to-end", "trained_on": "paws-qqp", "share": 1.0}
    frozen = {"task": "sst", "tuned": "frozen", "trained_on": "sst"}
    summary = [
        row("bert", "cont", 0.2, **untuned),
        row("cat", "mix", 0.25, **untuned),
        row("cat", "mix", 0.9, **untuned) | {"embedding": "mean"},
        row("cat", "comp", 0.125, **tuned),
        row("cat", "comp", 0.5, **tuned) | {"share": 0.5},
        row("bert", "cont", 0.6, **frozen, share=0.5),
        row("bert", "cont", 0.5, **frozen, share=0.1),
        row("bert", "cont", 0.66, **frozen, share=0.9),
        row("bert", "cont", 0.9, **frozen, share=1.0),  # which the paper's gain leaves out
    ]
    pair = {"subset": "all", **people, "p_holm": 0.25}
    composed = {"reading": "cat comp", "other": "cat cont", "embedding": "cls", **pair}
    differences = [
        {**composed, **tuned, "difference": -0.125, "compared": "output"},
        {**composed, **tuned, "difference": 0.5, "compared": "output", "share": 0.5},
        {**composed, **tuned, "difference": 0.5, "compared": "first"},
        {**composed, **tuned, "difference": 0.5, "compared": "output", "embedding": "mean"},
        {**composed, **tuned, "difference": 0.5, "compared": "output", "reading": "cat mix"},
        {**composed, **untuned, "difference": 0.0625, "p_holm": None},  # of an earlier file
    ]
    result = {"summary": summary, "differences": differences}
    monkeypatch.setattr(measured, "read", lambda name: result)
    heads, rows = beside("own", "bert", "cat")
    assert len(heads) == 12
    assert rows == [
        [
            *("2", "BiRD", "not tuned", "19.50", "20.19", "34.44", "27.72"),
            *("20.00 (19.00–22.00)", "–", "–", "25.00 (24.00–27.00)", "+6.25 (–)"),
        ],
        [
            *("2", "BiRD", "end-to-end on paws-qqp", "19.50", "20.19", "34.44", "27.72"),
            *("–", "–", "12.50 (11.50–14.50)", "–", "-12.50 (0.250)"),
        ],
        ["7", "SST2, gain", "frozen", "1.80", "1.44", "1.38", "1.55", "4.00", "–", "–", "–", "–"],
    ]
