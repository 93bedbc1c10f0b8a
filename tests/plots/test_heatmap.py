"""Heat maps: both backends show the numbers, no text covers another, and gaps are named."""

from __future__ import annotations

import io
import math
import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st
from PIL import Image

from interp_compose.errors import InputError
from interp_compose.plots.canvas import PIXELS
from interp_compose.plots.describe import scene_of
from interp_compose.plots.heatmap import HeatMap
from interp_compose.plots.heatmap_scale import (
    DIVERGING,
    GREY,
    SEQUENTIAL,
    Scale,
    luminance,
    scale_of,
)
from interp_compose.plots.interactive import draw
from tests.plots.reading import paint, png_bytes

NAN = float("nan")
WORDS = ("The", "soft", "rain", "fell", "on", "the", "water", ".")
MATRICES = ("W_Q", "W_K", "W_V", "W_O", "W_in", "W_gate", "W_out", "embedding", "unembedding")


def numbers(rows: int, columns: int, low: float = -2, high: float = 2) -> list[list[float | None]]:
    rng = random.Random(rows * 1000 + columns)
    return [[rng.uniform(low, high) for _ in range(columns)] for _ in range(rows)]


def heatmap(rows: int = 2, columns: int = 3, /, **changes: object) -> HeatMap:
    made = HeatMap(
        title="gpt2: what is lost without one head",
        subtitle="task mini-idm · 400 examples",
        x_title="layer",
        y_title="head",
        columns=[str(j) for j in range(columns)],
        rows=[str(i) for i in range(rows)],
        values=numbers(rows, columns),
        value_name="change in the answer's log-probability (nats)",
        diverging=True,
    )
    return replace(made, **changes)


def sentence() -> HeatMap:
    values = numbers(8, 4)
    values[2][1] = None
    values[7] = [NAN] * 4
    return heatmap(
        8, 4, rows=WORDS, y_title="word", values=values, value_format="+.2f",
        marked=[(0, 0), (6, 3)], mark_name="95 % interval excludes 0",
    )  # fmt: skip


def ranks(layers: int = 12) -> HeatMap:
    values = [[10**v for v in row] for row in numbers(9, layers, 0, 2.7)]
    return heatmap(
        9, layers, rows=MATRICES, values=values, value_name="stable rank", diverging=False,
        log=True, value_format=".0f",
    )  # fmt: skip


def long_labels() -> HeatMap:
    return heatmap(
        10, 20, columns=[f"blocks.{j}.attn.hook_z" for j in range(20)],
        rows=[f"a row with a label that is too long, number {i}" for i in range(10)],
        title="long " * 40, subtitle="long " * 60, x_title="long " * 40, y_title="long " * 40,
        value_name="long " * 40, values=numbers(10, 20),
    )  # fmt: skip


EVERY_MAP: dict[str, Callable[[], HeatMap]] = {
    "sentence": sentence,
    "ranks": ranks,
    "12 x 12": lambda: heatmap(12, 12, value_format="+.1%"),
    "32 x 32": lambda: heatmap(32, 32, marked=[(3, 4)], mark_name="interval excludes 0"),
    "80 layers": lambda: ranks(80),
    "60 words": lambda: heatmap(60, 12, rows=[f"extraordinarily {i}" for i in range(60)]),
    "400 rows": lambda: heatmap(400, 2),
    "one cell": lambda: heatmap(1, 1, x_title="layer from which the word is hidden"),
    "one row": lambda: heatmap(1, 12, rows=["gpt2"]),
    "one column": lambda: heatmap(12, 1),
    "equal": lambda: heatmap(values=[[0.5] * 3] * 2, diverging=False),
    "zero": lambda: heatmap(values=[[0.0] * 3] * 2),
    "nothing": lambda: heatmap(values=[[None] * 3, [NAN] * 3]),
    "long labels": long_labels,
}


def dots(made: HeatMap) -> object:
    scatters = (t for t in draw(made).data if t.type == "scatter")
    return next(t for t in scatters if t.mode == "markers")


def cells(made: HeatMap) -> object:
    return next(t for t in draw(made).data if t.type == "heatmap" and t.hovertemplate)


# --- what is drawn -------------------------------------------------------------------------------


def test_the_interactive_map_holds_the_numbers_in_reading_order() -> None:
    figure = draw(heatmap(values=[[1.0, -2.0, None], [0.0, NAN, 0.5]]))
    grey, _, trace, *_ = figure.data
    assert [list(row) for row in trace.z] == [[1.0, -2.0, None], [0.0, None, 0.5]]
    colours = figure.layout.coloraxis
    assert (trace.coloraxis, colours.cmin, colours.cmax) == ("coloraxis", -2, 2)
    assert [list(row) for row in grey.z] == [[None, None, 0], [None, 0, None]]
    assert list(figure.layout.yaxis.range) == [1.5, -0.5]  # the first row is on top
    assert list(figure.layout.xaxis.range) == [-0.5, 2.5]
    assert colours.colorbar.title.text == "change in the answer's<br>log-probability (nats)"
    assert isinstance(figure.chart, HeatMap)


def test_equal_words_keep_rows_of_their_own() -> None:
    figure = draw(heatmap(3, 3, rows=["the", "cat", "the"], values=numbers(3, 3)))
    assert list(figure.layout.yaxis.tickvals) == [0, 1, 2]
    assert list(figure.layout.yaxis.ticktext) == ["the", "cat", "the"]


def test_hover_names_row_column_and_number() -> None:
    trace = cells(heatmap(values=[[1.0, -2.0, None], [0.0, NAN, 0.5]]))
    assert trace.hovertemplate == (
        "head: %{customdata[0]}<br>layer: %{customdata[1]}<br>"
        "change in the answer's log-probability (nats): %{customdata[2]}<extra></extra>"
    )
    assert trace.customdata[0][1] == ["0", "1", "−2.00"]
    assert [trace.customdata[i][j][2] for i, j in ((0, 2), (1, 1))] == ["not measured"] * 2
    assert trace.hoverongaps


def test_hover_shows_the_text_that_came_along() -> None:
    trace = cells(heatmap(1, 2, hover=[["rank <1>", ""]]))
    assert [cell[3] for cell in trace.customdata[0]] == ["<br>rank &lt;1&gt;", ""]
    assert trace.hovertemplate.endswith("%{customdata[2]}%{customdata[3]}<extra></extra>")
    assert "customdata[3]" not in cells(heatmap(1, 2)).hovertemplate


def test_logarithms_are_drawn_and_numbers_are_said() -> None:
    made = heatmap(1, 3, values=[[1.0, 10.0, 600.0]], diverging=False, log=True, value_format=".0f")
    figure = draw(made)
    (trace, *_), bar = figure.data, figure.layout.coloraxis.colorbar
    assert trace.z[0] == pytest.approx((0, 1, math.log10(600)))
    assert [cell[2] for cell in trace.customdata[0]] == ["1", "10", "600"]
    assert [text.strip() for text in bar.ticktext] == [
        "1", "2", "5", "10", "20", "50", "100", "200", "500",
    ]  # fmt: skip
    assert bar.tickvals[6] == 2


def test_numbers_are_written_where_they_can_be_read() -> None:
    def written(made: HeatMap) -> list[str]:
        return [str(t) for trace in draw(made).data for t in trace.text or ()]

    assert sorted(written(heatmap(values=[[1.0, -2.0, None], [-0.001, NAN, 0.5]]))) == sorted(
        ["1.00", "−2.00", "0.00", "0.50"]
    )
    assert len(written(heatmap(12, 12))) == 144
    assert written(heatmap(32, 32)) == []  # too many
    assert written(heatmap(2, 60)) == []  # too narrow


def pixel(picture: Image.Image, made: HeatMap, row: int, column: int) -> str:
    """The colour of a cell's lower right part, where neither number nor stroke nor dot is."""
    left, top, width, height = scene_of(made).axes[0].box
    x = left + width * (column + 0.9) / len(made.columns)
    y = top + height * (row + 0.85) / len(made.rows)
    scale = 160 / PIXELS
    return "#{:02x}{:02x}{:02x}".format(*picture.getpixel((int(x * scale), int(y * scale)))[:3])


def test_the_static_map_has_each_cells_colour_in_its_place() -> None:
    for made in (sentence(), ranks()):
        picture = Image.open(io.BytesIO(png_bytes(made))).convert("RGB")
        scale = scale_of(made)
        for i, j, value in made.measured:
            assert pixel(picture, made, i, j) == scale.colour(value), (i, j)
        for i, j in made.gaps:
            assert pixel(picture, made, i, j) == GREY


def test_both_pens_use_the_same_colours() -> None:
    made = sentence()
    colours, scale = draw(made).layout.coloraxis, scale_of(made)
    stops = [(share, stop) for share, stop in colours.colorscale]
    for share, stop in stops:
        assert scale.colour(scale.low + share * (scale.high - scale.low)) == stop
    assert (colours.cmin, colours.cmax) == (scale.low, scale.high)


def test_marks_are_dots_and_say_what_they_mean() -> None:
    made = sentence()
    corners = dots(made)
    assert [round(x) for x in corners.x] == [0, 3]
    assert [round(y) for y in corners.y] == [0, 6]
    assert min(corners.x[0], -corners.y[0]) > 0.3  # right of the number, and above it
    assert made.subheading.endswith("dot: 95 % interval excludes 0 · grey: not measured")
    middle = dots(heatmap(32, 32, marked=[(3, 4)], mark_name="x"))
    assert (list(middle.x), list(middle.y)) == ([4], [3])
    assert heatmap().subheading == "task mini-idm · 400 examples"
    assert replace(made, subtitle="", marked=()).subheading == "grey: not measured"
    other = replace(made, subtitle="", marked=(), gap_name="none yet")
    assert other.subheading == "grey: none yet"
    assert other.text(*other.gaps[0]) == "none yet"
    assert png_bytes(made) != png_bytes(replace(made, marked=[(0, 0)]))


# --- colours -------------------------------------------------------------------------------------


def test_lightness_falls_steadily() -> None:
    sequential = Scale(0.0, 1.0, False, SEQUENTIAL, ())
    light = [luminance(sequential.colour_at(k / 100)) for k in range(101)]
    assert light == sorted(light, reverse=True)
    diverging = Scale(-1.0, 1.0, False, DIVERGING, ())
    light = [luminance(diverging.colour_at(k / 100)) for k in range(101)]
    assert light[:51] == sorted(light[:51])
    assert light[50:] == sorted(light[50:], reverse=True)


@pytest.mark.parametrize("stops", [SEQUENTIAL, DIVERGING])
def test_numbers_can_be_read_on_every_colour(stops: tuple[str, ...]) -> None:
    """WCAG contrast, at least 4.5:1 as for small text."""
    scale = Scale(0.0, 1.0, False, stops, ())
    for k in range(201):
        a, b = sorted([luminance(scale.colour(k / 200)), luminance(scale.ink(k / 200))])
        assert (b + 0.05) / (a + 0.05) >= 4.5


def test_a_diverging_scale_is_centred_on_zero() -> None:
    scale = scale_of(heatmap(1, 3, values=[[-0.3, 0.1, 0.2]]))
    assert (scale.low, scale.high) == (-0.3, 0.3)
    assert scale.colour(0.0) == DIVERGING[3]
    assert (scale.colour(-0.3), scale.colour(0.3)) == (DIVERGING[0], DIVERGING[-1])
    assert [text for _, text in scale.ticks] == [
        "−0.3", "−0.2", "−0.1", "0", "0.1", "0.2", "0.3",
    ]  # fmt: skip


def test_equal_numbers_have_the_middle_of_the_scale() -> None:
    for values, kind in (([2.0, 2.0], {}), ([0.0, 0.0], {}), ([7.0, 7.0], {"log": True})):
        made = heatmap(1, 2, values=[values], diverging=False, **kind)
        scale = scale_of(made)
        assert scale.place(values[0]) == pytest.approx((scale.low + scale.high) / 2)
        assert scale.ticks


def test_shares_have_ticks_in_per_cent() -> None:
    made = heatmap(1, 2, values=[[-0.1, 0.2]], value_format="+.1%")
    assert [text for _, text in scale_of(made).ticks] == ["−20%", "−10%", "0%", "10%", "20%"]


@given(
    low=st.floats(-1e6, 1e6),
    span=st.floats(1e-3, 1e6),
    log=st.booleans(),
)
def test_ticks_are_few_round_and_where_they_say(low: float, span: float, log: bool) -> None:
    low = abs(low) + 1e-3 if log else low
    scale = scale_of(heatmap(1, 2, values=[[low, low + span]], diverging=False, log=log))
    assert 2 <= len(scale.ticks) <= 10
    places = [place for place, _ in scale.ticks]
    assert places == sorted(set(places))
    slack = 1e-6 * (scale.high - scale.low)
    for place, text in scale.ticks:
        assert scale.low - slack <= place <= scale.high + slack
        assert scale.place(float(text.replace("−", "-"))) == pytest.approx(place, abs=slack)
    assert len({text for _, text in scale.ticks}) == len(places)


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
    figure = draw(made)
    assert list(figure.layout.yaxis.tickvals) == list(range(0, len(made.rows), rows))
    assert list(figure.layout.xaxis.tickvals) == list(range(0, len(made.columns), columns))


def test_long_column_labels_are_turned() -> None:
    figure = draw(long_labels())
    assert figure.layout.xaxis.tickangle == -90
    assert max(len(text) for text in figure.layout.xaxis.ticktext) <= 16
    assert draw(ranks(80)).layout.xaxis.tickangle == 0


def test_the_figure_grows_with_its_rows_within_limits() -> None:
    heights = [draw(heatmap(n, 4)).layout.height for n in (1, 3, 8, 32, 60, 400)]
    assert heights == sorted(heights)
    assert heights[0] > 200
    assert heights[-1] < 1100
    assert heights[-2] == heights[-1]
    inches = paint(heatmap(32, 4), 100).get_figheight()
    assert inches * PIXELS == pytest.approx(heights[3])


# --- refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": []}, r"0 rows and 3 columns; pass some of each"),
        ({"values": numbers(3, 3)}, r"values: 3 rows, of lengths \[3, 3, 3\]; expected 2 rows"),
        ({"values": [[1.0] * 3, [1.0]]}, r"2 rows, of lengths \[3, 1\]; expected 2 rows of 3, a"),
        ({"hover": [[""] * 3]}, r"hover: 1 rows, of lengths \[3\]; expected 2 rows of 3"),
        ({"values": [[1.0] * 3, [1.0, math.inf, 1.0]]}, r"row '1', column '1' is inf; expected a "
         r"finite number, or None where nothing was measured"),
        ({"values": [[1.0, 2.0, 0.0]] * 2, "log": True, "diverging": False},
         r"row '0', column '2' is 0.0, which has no logarithm; pass log=False"),
        ({"log": True}, r"log=True, diverging=True and limits=None exclude one another; pass one"),
        ({"marked": [(0, 0)]}, r"cells \[\(0, 0\)\] have no mark_name; say what it means"),
        ({"marked": [(2, 0)], "mark_name": "x"}, r"\[\(2, 0\)\] .* rows 0 … 1 and columns 0 … 2"),
        ({"marked": [(0, -1)], "mark_name": "x"}, r"mark_name: the cells \[\(0, -1\)\] hold no"),
        ({"marked": [(0, 0)], "mark_name": "x", "values": [[None] * 3] * 2}, r"hold no number"),
    ],
)  # fmt: skip
def test_what_is_no_map_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        heatmap(**changes)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"values": [[0.003, -0.0012, 0.0]]}, ["0.0030", "\N{MINUS SIGN}0.0012", "0.0000"]),
        ({"values": [[0.3, -0.0012, 0.0]]}, ["0.30", "0.00", "0.00"]),
        ({"values": [[0.501, 0.504, 0.5]], "diverging": False}, ["0.5010", "0.5040", "0.5000"]),
        ({"values": [[0.501, 0.504, 0.5]]}, ["0.50", "0.50", "0.50"]),  # of colours from 0
        ({"values": [[0.01] * 3], "diverging": False, "limits": (0.0, 1.0)}, ["0.01"] * 3),
        ({"values": [[0.0] * 3]}, ["0.00"] * 3),
        ({"values": [[25.31, 24.2, 29.0]], "diverging": False}, ["25.3", "24.2", "29.0"]),
        ({"values": [[25.31, 25.32, 25.35]], "diverging": False}, ["25.310", "25.320", "25.350"]),
        ({"values": [[-3.2, -0.03, 0.0]]}, ["\N{MINUS SIGN}3.20", "\N{MINUS SIGN}0.03", "0.00"]),
        ({"values": [[912.0, 411.4, 12.0]], "diverging": False}, ["912", "411", "12"]),
        ({"values": [[0.003] * 3], "diverging": False}, ["0.0030"] * 3),
        ({"values": [[25.0] * 3], "diverging": False}, ["25.0"] * 3),
        (
            {"values": [[math.nan, 0.5, 0.502]], "diverging": False},
            ["not measured", "0.5000", "0.5020"],
        ),
        ({"values": [[math.nan] * 3]}, ["not measured"] * 3),
        ({"values": [[1.2e9, 3.4e9, -2e8]]}, ["1.2e+09", "3.4e+09", "\N{MINUS SIGN}2.0e+08"]),
        (
            {"values": [[1.2e-7, 3.4e-7, 0.0]]},
            ["1.2e\N{MINUS SIGN}07", "3.4e\N{MINUS SIGN}07", "0.0e+00"],
        ),
        ({"values": [[0.50001, 0.50002, 0.5]], "diverging": False}, ["0.5000"] * 3),  # 4 at most
        ({"values": [[1.02, 2.5, 80.0]], "diverging": False, "log": True}, ["1.0", "2.5", "80.0"]),
        (
            {"values": [[0.002, 2.5, 80.0]], "diverging": False, "log": True},
            ["0.0020", "2.5000", "80.0000"],
        ),
    ],
)
def test_numbers_have_the_digits_that_tell_colours_apart(
    changes: dict[str, object], expected: list[str]
) -> None:
    made = heatmap(1, 3, **changes)
    assert [made.text(0, j) for j in range(3)] == expected
