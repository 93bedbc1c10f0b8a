"""Heat maps as pictures and files: no text covers another, small, deaf to hostile names."""

from __future__ import annotations

import math
from dataclasses import replace

import matplotlib as mpl
import pytest

from interp_compose.errors import InputError
from interp_compose.plots.chart import Chart
from interp_compose.plots.heatmap import HeatMap
from interp_compose.plots.heatmap_interactive import draw_heatmap
from interp_compose.plots.heatmap_static import PIXELS, paint_heatmap
from interp_compose.plots.static import png_bytes
from tests.plots.test_heatmap import (
    heatmap,
    long_labels,
    numbers,
    ranks,
    sentence,
)

# --- room ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "rows", "columns"),
    [
        (heatmap(12, 12), 1, 1),
        (heatmap(32, 32), 1, 1),
        (ranks(80), 1, 5),
        (heatmap(60, 12), 1, 1),
        (heatmap(400, 2), 10, 1),
    ],
)
def test_labels_are_thinned_out_only_where_there_is_no_room(
    made: HeatMap, rows: int, columns: int
) -> None:
    figure = draw_heatmap(made)
    assert list(figure.layout.yaxis.tickvals) == list(range(0, len(made.rows), rows))
    assert list(figure.layout.xaxis.tickvals) == list(range(0, len(made.columns), columns))


def test_long_column_labels_are_turned() -> None:
    figure = draw_heatmap(long_labels())
    assert figure.layout.xaxis.tickangle == -90
    assert max(len(text) for text in figure.layout.xaxis.ticktext) <= 16
    assert draw_heatmap(ranks(80)).layout.xaxis.tickangle == 0


def test_the_figure_grows_with_its_rows_within_limits() -> None:
    heights = [draw_heatmap(heatmap(n, 4)).layout.height for n in (1, 3, 8, 32, 60, 400)]
    assert heights == sorted(heights)
    assert heights[0] > 200
    assert heights[-1] < 1100
    assert heights[-2] == heights[-1]
    inches = paint_heatmap(heatmap(32, 4), 100).get_figheight()
    assert inches * PIXELS == pytest.approx(heights[3])


# --- files and notebooks -------------------------------------------------------------------------


def test_png_differs_with_the_numbers_and_not_with_the_users_settings() -> None:
    plain = png_bytes(sentence())
    with mpl.rc_context({"axes.facecolor": "black", "font.size": 30, "image.origin": "lower"}):
        before = dict(mpl.rcParams)
        assert png_bytes(sentence()) == plain
        assert dict(mpl.rcParams) == before
    assert png_bytes(replace(sentence(), values=numbers(8, 4))) != plain


# --- refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": []}, r"a heat map of 0 rows and 3 columns; pass at least one of each"),
        ({"values": numbers(3, 3)}, r"values have 3 rows; expected 2, one for each label"),
        ({"values": [[1.0] * 3, [1.0]]}, r"values of row '1' are 1; expected 3, one for each col"),
        ({"hover": [[""] * 3]}, r"hover have 1 rows; expected 2"),
        ({"values": [[1.0] * 3, [1.0, math.inf, 1.0]]}, r"row '1', column '1' is inf; expected a "
         r"finite number, or None where nothing was measured"),
        ({"values": [[1.0, 2.0, 0.0]] * 2, "log": True, "diverging": False},
         r"row '0', column '2' is 0.0, which has no logarithm; pass log=False"),
        ({"log": True}, r"log=True and diverging=True: a logarithm has no 0"),
        ({"marked": [(0, 0)]}, r"marked cells have no mark_name; say what the dots mean"),
        ({"marked": [(2, 0)], "mark_name": "x"}, r"row 2, column 0, .* rows 0 … 1 and columns 0 …"),
        ({"marked": [(0, -1)], "mark_name": "x"}, r"marked has row 0, column -1, which holds no"),
        ({"marked": [(0, 0)], "mark_name": "x", "values": [[None] * 3] * 2}, r"holds no number"),
    ],
)  # fmt: skip
def test_what_is_no_map_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        heatmap(**changes)


def test_a_line_chart_is_still_a_chart() -> None:
    from tests.plots.test_figures import curve

    assert isinstance(curve().chart, Chart)
