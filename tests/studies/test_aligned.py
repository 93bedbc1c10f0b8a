"""Tables read back from a summary's text."""

from __future__ import annotations

import random

import pandas as pd
import pytest

from interp_compose.studies.core.aligned import AlignedTable, tables_of
from interp_compose.studies.core.text import differences_told, text_table


def only(lines: list[str]) -> AlignedTable:
    (table,) = tables_of(lines)
    assert isinstance(table, AlignedTable)
    return table


@pytest.mark.parametrize("seed", range(20))
def test_a_text_table_is_read_cell_by_cell(seed: int) -> None:
    """Of any widths: names with blanks in them, numbers of any length, gaps at the end."""
    draw = random.Random(seed)
    n = draw.randint(1, 6)
    names = [draw.choice(["mean", "a long name", "no", "CV, 25 %"]) for _ in range(n)]
    values = [draw.choice([0.5, -12.25, 1000.0]) for _ in range(n)]
    ends = [draw.choice(["0.1 to 0.2", "–", "−1.0 to +10.0"]) for _ in range(n)]
    verdicts = [draw.choice(["within", "not known"]) for _ in range(n - 1)] + ["open"]
    frame = pd.DataFrame({"name": names, "x": values, "ends": ends, "verdict": verdicts})
    columns = [("name", "name", "<14"), ("mean of x", "x", ">12.2f"), ("95 %", "ends", ">16")]
    table = only(text_table(frame, [*columns, ("  verdict", "verdict", "<9")]))
    assert table.head == ["name", "mean of x", "95 %", "verdict"]
    assert table.numbers == [False, True, True, False]
    assert table.rows == [
        [name, f"{value:.2f}", end, verdict]
        for name, value, end, verdict in zip(names, values, ends, verdicts, strict=True)
    ]


def test_headings_of_several_words_and_columns_that_nearly_touch() -> None:
    lines = ["pooling layer  p (Holm)", "mean        0     0.012", "max        11   <0.0001"]
    table = only(lines)
    assert table.head == ["pooling", "layer", "p (Holm)"]
    assert table.rows == [["mean", "0", "0.012"], ["max", "11", "<0.0001"]]
    assert only(["any word  (n 5)  x", "             0.6  1"]).head == ["any word  (n 5)", "x"]


def test_sentences_stay_and_a_second_heading_begins_a_table() -> None:
    lines = ["what follows:", "layer   p", "0     0.1", "layer   q", "0     0.2", "", "one  alone"]
    first, table, other, last = tables_of(lines)
    assert (first, last) == ("what follows:", "one  alone")
    assert isinstance(table, AlignedTable)
    assert isinstance(other, AlignedTable)
    assert (table.head, other.head) == (["layer", "p"], ["layer", "q"])
    assert (table.rows, other.rows) == ([["0", "0.1"]], [["0", "0.2"]])
    assert tables_of([]) == []


def test_a_list_has_no_heading_and_a_grid_s_may_be_numbers() -> None:
    phases = only(["   0  not fitted: accuracy below 0.9", "   1  memorises", "  2c  learns pairs"])
    assert phases.head == []
    assert phases.rows == [
        ["0", "not fitted: accuracy below 0.9"],
        ["1", "memorises"],
        ["2c", "learns pairs"],
    ]
    grid = only(["        0.3   0.6", "  0.1     0     -", "    0     -    2c"])
    assert grid.head == ["", "0.3", "0.6"]
    assert grid.rows == [["0.1", "0", "-"], ["0", "-", "2c"]]


def test_differences_are_a_table_under_their_heading() -> None:
    row = {"other": "a", "difference": 0.1, "ci_low": 0.0, "ci_high": 0.2, "p": 0.1, "p_holm": 0.2}
    frame = pd.DataFrame([{"name": "b", **row}])
    _, table = tables_of(differences_told(frame, [("", "name", "<9")]))
    assert isinstance(table, AlignedTable)
    assert table.head == ["", "difference", "95 %", "p (Holm)"]
    assert table.rows == [["b", "+10.00", "+0.0 to +20.0", "0.200"]]
