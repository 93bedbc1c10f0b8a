"""Tables of summaries: aligned, and no two columns touch."""

from __future__ import annotations

import pandas as pd

from interp_compose.studies.core.text import text_table


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
