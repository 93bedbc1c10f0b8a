"""Tables of summaries and of figures: aligned, in order, and ranges with both ends."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from interp_compose.papers.shared.grid.figures import crossed, means_of_seeds
from interp_compose.studies.core.text import spans, text_table


def test_columns_are_as_wide_as_their_cells_and_stand_apart() -> None:
    frame = pd.DataFrame({"name": ["a", "a long name"], "of": ["x", "yy"], "value": [1.5, -22.25]})
    columns = [("", "name", "<6"), ("of", "of", "<4"), ("value", "value", ">7.2f")]
    assert text_table(frame, columns) == [
        "             of    value",
        "a            x      1.50",
        "a long name  yy   -22.25",
    ]
    columns = [("value", "value", ">6.2f"), ("of", "of", "<4")]
    assert text_table(frame, columns) == [" value  of", "  1.50  x", "-22.25  yy"]
    assert text_table(frame[:0], columns) == [" value  of"]


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
