"""Tables of summaries and of figures: aligned, in order, ranges with both ends; their HTML."""

from __future__ import annotations

import html
import math
import random
import re

import pandas as pd
import pytest

from interp_compose.papers.shared.grid.figures import crossed, means_of_seeds
from interp_compose.studies.core.text import (
    TextTable,
    crossed_table,
    differences_told,
    spans,
    text_table,
)

CELL = re.compile(r"<(t[hd])( style=\"text-align: left\")?>(.*?)</\1>")


def test_what_is_crossed_may_be_called_as_a_column_is() -> None:
    rows = [
        {"layer": k, "depth": k / 2, "pooling": one, "accuracy": 0.5}
        for k in range(2)
        for one in ("layer", "depth", "mean")
    ]
    table = crossed_table(pd.DataFrame(rows), "pooling", "accuracy", ">7.2f")
    assert str(table).splitlines()[0].split() == ["layer", "depth", "layer", "depth", "mean"]
    assert str(table).splitlines()[1].split() == ["0", "0.00", "0.50", "0.50", "0.50"]


def test_columns_are_as_wide_as_their_cells_and_stand_apart() -> None:
    frame = pd.DataFrame({"name": ["a", "a long name"], "of": ["x", "yy"], "value": [1.5, -22.25]})
    columns = [("", "name", "<6"), ("of", "of", "<4"), ("value", "value", ">7.2f")]
    assert str(text_table(frame, columns)).splitlines() == [
        "             of    value",
        "a            x      1.50",
        "a long name  yy   -22.25",
    ]
    columns = [("value", "value", ">6.2f"), ("of", "of", "<4")]
    table = text_table(frame, columns)
    assert str(table).splitlines() == [" value  of", "  1.50  x", "-22.25  yy"]
    assert str(text_table(frame[:0], columns)) == " value  of"
    untitled = [("", name, how) for _, name, how in columns]
    assert str(text_table(frame, untitled)).splitlines() == ["  1.50  x", "-22.25  yy"]


def cells_of(shown: str) -> list[list[str]]:
    rows = re.findall("<tr>(.*?)</tr>", shown)
    return [[html.unescape(cell) for _, _, cell in CELL.findall(row)] for row in rows]


@pytest.mark.parametrize("seed", range(5))
def test_the_html_has_the_cells_of_the_rows(seed: int) -> None:
    """Of any widths: blanks and markup in names, numbers of any length, cells that are blank."""
    draw = random.Random(seed)
    n = draw.randint(1, 6)
    names = [draw.choice(["mean", "<b>a  & b", "no", "CV, 25 %"]) for _ in range(n)]
    values = [draw.choice([0.5, -12.25, 1000.0]) for _ in range(n)]
    ends = [draw.choice(["0.1 to 0.2", "–", "−1.0 to +10.0"]) for _ in range(n)]
    verdicts = [draw.choice(["within", "not known", ""]) for _ in range(n - 1)] + ["open"]
    frame = pd.DataFrame({"name": names, "x": values, "ends": ends, "verdict": verdicts, "no": ""})
    columns = [("name", "name", "<14"), ("mean of x", "x", ">12.2f"), ("", "no", ">1")]
    columns += [("95 %", "ends", ">16"), ("  verdict", "verdict", "<9"), ("", "no", "")]
    shown = text_table(frame, columns).html()
    head, *rows = cells_of(shown)
    assert head == ["name", "mean of x", "95 %", "verdict"]
    numbers = [f"{value:.2f}" for value in values]
    assert rows == [[*row] for row in zip(names, numbers, ends, verdicts, strict=True)]
    assert shown.startswith('<table class="aligned" style="text-align: right"><thead><tr><th')
    sides = [bool(side) for _, side, _ in CELL.findall(shown)]
    assert sides == [True, False, False, True] * (n + 1)
    assert "more rows" not in shown


def test_a_list_has_no_heading_and_a_long_table_is_cut() -> None:
    table = TextTable([["  ", " 0", "2c"], ["", "not fitted", "learns pairs"]], [False, True])
    assert "<thead>" not in table.html()
    assert cells_of(table.html()) == [["0", "not fitted"], ["2c", "learns pairs"]]
    frame = pd.DataFrame({"step": range(1000)})
    cut = text_table(frame, [("step", "step", ">5")]).html(30)
    assert cells_of(cut) == [["step"], *([str(step)] for step in range(30))]
    assert cut.endswith("<p>… and 970 more rows</p>")


def test_differences_are_a_table_under_their_heading() -> None:
    row = {"other": "a", "difference": 0.1, "ci_low": 0.0, "ci_high": 0.2, "p": 0.1, "p_holm": 0.2}
    frame = pd.DataFrame([{"name": "b", **row}])
    *_, table = differences_told(frame, [("", "name", "<9")])
    assert isinstance(table, TextTable)
    assert cells_of(table.html()) == [
        ["", "difference", "95 %", "p (Holm)"],
        ["b", "+10.00", "+0.0 to +20.0", "0.200"],
    ]


def test_ranges_have_both_ends_or_a_dash() -> None:
    lows, highs = [0.1, -0.25, math.nan, -0.0], [0.25, 0.5, math.nan, 0.0001]
    assert spans(lows, highs) == ["0.100 to 0.250", "−0.250 to 0.500", "–", "0.000 to 0.00010"]
    assert spans(lows[:2], highs[:2], 1, scale=100.0, sign=True) == [
        "+10.0 to +25.0",
        "−25.0 to +50.0",
    ]
    assert spans([], []) == []
    with pytest.raises(ValueError, match="shorter"):
        spans([0.1], [])


def test_a_crossed_table_keeps_its_rows_and_sorts_its_columns() -> None:
    place = [("b", 2), ("b", 0), ("a", 1), ("a", 0)]
    index = pd.MultiIndex.from_tuples(place, names=["model", "step"])
    table = crossed(pd.Series([1.0, 2.0, 3.0, 4.0], index))
    assert table.index.tolist() == ["b", "a"]
    assert table.columns.tolist() == [0, 1, 2]
    assert table.fillna(-1.0).to_numpy().tolist() == [[2.0, -1.0, 1.0], [4.0, 3.0, -1.0]]


def test_means_of_seeds_by_hand() -> None:
    runs = pd.DataFrame({"at": ["b", "b", "a"], "seed": [0, 1, 0], "value": [1.0, 4.0, 2.0]})
    assert means_of_seeds(runs, ["at"], "value").to_dict("records") == [
        {"at": "b", "mean": 2.5, "smallest": 1.0, "largest": 4.0, "n_seeds": 2},
        {"at": "a", "mean": 2.0, "smallest": 2.0, "largest": 2.0, "n_seeds": 1},
    ]
