"""Grids of matrices: every cosine in its place and colour, gaps grey, names where they fit."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from PIL import Image

from interp_compose.errors import InputError
from interp_compose.plots import matrices_layout
from interp_compose.plots.canvas import MARGIN, PIXELS
from interp_compose.plots.chart import short
from interp_compose.plots.describe import scene_of
from interp_compose.plots.heatmap_layout import bar_room
from interp_compose.plots.heatmap_scale import DIVERGING, GREY
from interp_compose.plots.interactive import ChartFigure, draw
from interp_compose.plots.matrices import SCALE, MatrixGrid, MatrixPanel
from interp_compose.plots.matrices_layout import PANEL, TALLEST, WIDEST, WIDTH, thinning
from tests.plots.reading import paint, png_bytes, visible_texts

NAN = float("nan")
THREE = np.array([[1.0, 0.5, -0.12345], [0.5, 1.0, NAN], [-0.12345, NAN, 1.0]])


def cosines(n: int, seed: int = 0) -> np.ndarray:
    x = np.random.default_rng(seed).normal(size=(n, 8))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return np.clip(x @ x.T, -1, 1)


def matrix(n: int = 3, **fields: Any) -> MatrixPanel:
    return MatrixPanel(cosines(n), **fields)


def grid(*rows: list[MatrixPanel | None], **changes: Any) -> MatrixGrid:
    panels = rows or ([MatrixPanel(THREE, "within .43"), None],)
    named = {
        "title": "cosines",
        "subtitle": "between neurons",
        "x_title": "γ",
        "y_title": "decay",
        "columns": [f"{j}" for j in range(len(panels[0]))],
        "rows": [f"r{i}" for i in range(len(panels))],
        "value_name": "cosine",
    }
    return MatrixGrid(**(named | changes), panels=panels)


def many(
    n_rows: int, n_columns: int, n: int = 8, names: Any = (), blocks: Any = (), **changes: Any
) -> MatrixGrid:
    own = {"names": names, "blocks": blocks}
    rows = [
        [matrix(n, text=f"anchor contrast .{i}{j}", **own) for j in range(n_columns)]
        for i in range(n_rows)
    ]
    return grid(*rows, **changes)


def own_names() -> MatrixGrid:
    sizes = (4, 6, 1)
    row = [matrix(n, names=[f"neuron {k}" for k in range(n)], text="a text") for n in sizes]
    return grid([*row, None], [None] * 4)


NAMES = [f"token {k}" for k in range(8)]
EVERY_GRID: dict[str, Callable[[], MatrixGrid]] = {
    "gaps": grid,
    "4d": lambda: many(2, 3, 40, blocks=range(4, 40, 4), rows=["GPT-2 small", "Pythia 160M"]),
    "5a": lambda: many(1, 3, 16, rows=[""], y_title=""),
    "10": lambda: many(4, 8),
    "one": lambda: grid([matrix(1)], x_title="", y_title="", rows=[""], columns=[""]),
    "12 columns": lambda: many(1, 12),
    "12 x 6": lambda: many(6, 12, value_name="the cosine of two neurons " * 9),
    "6 rows": lambda: many(6, 1),
    "30 columns": lambda: many(1, 30),
    "names and blocks": lambda: many(2, 3, names=NAMES, blocks=[4]),
    "own names": own_names,
    "long": lambda: many(
        2, 3, names=["long " * 9] * 8, title="long " * 40, subtitle="long " * 60,
        x_title="long " * 40, y_title="long " * 40, rows=["long " * 40] * 2,
        columns=["long " * 40] * 3, value_name="long " * 40,
    ),
}  # fmt: skip


def annotated(figure: ChartFigure) -> list[str]:
    return [annotation.text for annotation in figure.layout.annotations]


# --- what is drawn -------------------------------------------------------------------------------


def test_numbers_are_rounded_and_gaps_left_out() -> None:
    figure = draw(grid())
    assert str(draw(grid([MatrixPanel(np.array([[-0.0001]]))])).data[0].z[0][0]) == "0.0"
    first, missing, stroke = figure.data
    assert list(first.z[0]) == [1.0, 0.5, -0.123]
    assert list(first.z[1]) == [0.5, 1.0, None]
    assert missing.hovertemplate == "decay r0 · γ 1<br>not measured<extra></extra>"
    assert (missing.xaxis, stroke.xaxis) == ("x2", "x2")
    assert figure.layout.plot_bgcolor == GREY == missing.colorscale[0][1]
    assert figure.layout.title.subtitle.text == "between neurons · grey: not measured"
    assert {"0", "1", "r0", "γ", "decay", "within .43"} == set(annotated(figure))


def test_all_panels_share_the_scale_of_heat_maps_from_minus_one_to_one() -> None:
    figure = draw(many(1, 3))
    scale = figure.layout.coloraxis
    assert (scale.cmin, scale.cmax) == (-1, 1)
    assert [stop for _, stop in scale.colorscale] == list(DIVERGING)
    assert {trace.coloraxis for trace in figure.data} == {"coloraxis"}
    assert scale.colorbar.title.text == "cosine"
    assert SCALE.colour(0.0) == "#f6f6f4"


def test_cells_are_square_and_panels_where_the_layout_has_them() -> None:
    made = EVERY_GRID["10"]()
    left, top, *_ = scene_of(made).box
    shown = draw(made).layout
    across = shown.width - shown.margin.l - shown.margin.r
    down = shown.height - shown.margin.t - shown.margin.b
    boxes = [axes.box for axes in scene_of(made).axes]
    assert len(boxes) == len({box[:2] for box in boxes}) == len(made.flat_panels)
    for k, (at, above, side, high) in enumerate(boxes):
        assert side == high
        x, y = (shown[f"{a}axis{k + 1 if k else ''}"] for a in "xy")
        assert x.domain[0] * across == pytest.approx(at - left)
        assert (x.domain[1] - x.domain[0]) * across == pytest.approx(side)
        assert (1 - y.domain[1]) * down == pytest.approx(above - top)
        assert (y.domain[1] - y.domain[0]) * down == pytest.approx(side)
        assert y.scaleanchor == y.anchor
        assert list(y.range) == [7.5, -0.5]  # the first row on top


def test_hover_has_panel_names_and_value() -> None:
    figure = draw(many(1, 2, 100, names=[f"neuron {k}" for k in range(100)]))
    assert figure.data[1].hovertemplate == (
        "decay r0 · γ 1<br>%{y}<br>%{x}<br>cosine: %{z:.3f}<extra></extra>"
    )
    for axis in (figure.layout.xaxis2, figure.layout.yaxis2):
        assert axis.ticktext[42] == "neuron 42"
        assert axis.tickvals[42] == 42
        assert not axis.showticklabels  # far too many to be read
    assert "row %{y}, column %{x}<br>cosine" in draw(many(1, 1)).data[0].hovertemplate


def test_names_of_each_panel_are_written_at_each() -> None:
    texts = [text.get_text() for text in visible_texts(paint(own_names(), 100))]
    assert [texts.count(f"neuron {k}") for k in (0, 3, 5)] == [6, 4, 2]
    shown = draw(own_names()).layout
    assert shown.xaxis.showticklabels
    assert shown.xaxis2.showticklabels
    assert list(shown.xaxis2.ticktext)[-1] == "neuron 5"
    assert not shown.xaxis4.showticklabels  # there is no matrix


def test_blocks_are_parted_where_they_are_large_enough() -> None:
    few = many(1, 2, 40, blocks=range(10, 40, 10))
    _, lines, *_ = draw(few).data
    assert list(lines.x)[:6] == [9.5, 9.5, None, 19.5, 19.5, None]
    assert list(lines.y)[:6] == [-0.5, 39.5, None] * 2
    painted = paint(few, 100)
    assert [len(axes.collections) for axes in painted.axes] == [1, 1, 0]
    ends = painted.axes[0].collections[0].get_segments()
    assert [segment[0][0] for segment in ends[:3]] == [9.5, 19.5, 29.5]  # down
    assert [segment[0][1] for segment in ends[3:]] == [9.5, 19.5, 29.5]  # across
    crowded = many(1, 2, 200, blocks=range(2, 200, 2))
    assert {trace.type for trace in draw(crowded).data} == {"heatmap"}
    drawn = [axes.collections for axes in paint(crowded, 100).axes]
    assert not any(line.get_segments() for lines in drawn for line in lines)


def test_the_static_grid_has_each_number_in_its_place_and_colour() -> None:
    made = grid()
    boxes = [axes.box for axes in scene_of(made).axes]
    picture = Image.open(io.BytesIO(png_bytes(made))).convert("RGB")

    def seen(column: int, x: float, y: float) -> list[int]:
        left, top, side, _ = boxes[column]
        at = (left + x * side, top + y * side)
        return list(picture.getpixel(tuple(round(place * 160 / PIXELS) for place in at)))[:3]

    for i, j in itertools.product(range(3), repeat=2):
        value = THREE[i, j]
        colour = GREY if np.isnan(value) else SCALE.colour(value)
        wanted = [int(colour[k : k + 2], 16) for k in (1, 3, 5)]
        assert seen(0, (j + 0.5) / 3, (i + 0.5) / 3) == pytest.approx(wanted, abs=3)
    assert seen(1, 0.25, 0.25) == [int(GREY[1:3], 16)] * 3
    painted = paint(made, 100)
    (image,) = painted.axes[0].images
    assert image.get_interpolation() == "nearest"
    assert image.get_clim() == (-1, 1)
    np.testing.assert_array_equal(np.ma.filled(image.get_array(), NAN), THREE)


def test_large_matrices_keep_their_diagonal() -> None:
    made = grid(*[[MatrixPanel(np.eye(640))] * 8] * 2)
    (image,) = paint(made, 160).axes[3].images
    np.testing.assert_array_equal(image.get_array(), np.eye(128))
    assert image.get_extent() == [-0.5, 639.5, 639.5, -0.5]


def test_a_matrix_without_numbers_is_none() -> None:
    made = grid([MatrixPanel(np.full((2, 2), NAN), "never shown"), matrix(2)])
    assert [panel is None for panel in made.flat_panels] == [True, False]
    assert "not measured" in draw(made).data[0].hovertemplate
    assert "never shown" not in annotated(draw(made))


def test_heavy_figures_keep_every_kth_row(monkeypatch: pytest.MonkeyPatch) -> None:
    made = grid([matrix(11, names=[f"n{k}" for k in range(11)]), None])
    assert thinning(made) == 1
    monkeypatch.setattr(matrices_layout, "MOST_CELLS", 30)
    assert thinning(made) == 3
    figure = draw(made)
    np.testing.assert_allclose(figure.data[0].z, matrix(11).values[::3, ::3], atol=6e-4)
    assert (figure.data[0].x0, figure.data[0].dx) == (1, 3)
    assert list(figure.layout.xaxis.ticktext) == ["n0", "n3", "n6", "n9"]
    assert list(figure.layout.xaxis.tickvals) == [1, 4, 7, 10]
    unnamed = draw(grid([matrix(11)])).layout
    assert list(unnamed.yaxis.ticktext) == ["0", "3", "6", "9"]
    assert "1 row in 3 is drawn" in figure.layout.title.subtitle.text
    assert "1 row in 3" not in made.subheading()


# --- room and files ------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.integers(1, 12), st.integers(1, 6), st.sampled_from([0, 2, 8]))
def test_usual_grids_have_readable_panels_and_a_sensible_size(
    n_columns: int, n_rows: int, names: int
) -> None:
    made = many(n_rows, n_columns, names or 5, names=[f"n{k}" for k in range(names)])
    scene = scene_of(made)
    assert (PANEL[0] if names else 75) <= scene.axes[0].box[2] <= PANEL[2]
    assert scene.width <= WIDEST
    assert scene.height <= TALLEST
    left, top, width, height = scene.box
    assert left + width + bar_room(SCALE, 1) <= scene.width + 1e-9
    assert top + height + MARGIN <= scene.height + 1e-9


def test_panels_shrink_before_the_figure_grows() -> None:
    sides = [scene_of(many(1, n)).axes[0].box[2] for n in (1, 2, 4, 8, 12, 30)]
    assert sides == sorted(sides, reverse=True)
    assert [scene_of(many(1, n)).width <= WIDTH + 1 for n in (1, 2, 4, 8)] == [True] * 3 + [False]


def test_long_texts_are_shortened() -> None:
    figure = draw(EVERY_GRID["long"]())
    assert figure.layout.title.text.count("<br>") == 2
    assert "…" not in figure.layout.title.text
    assert all(len(text) < 130 for text in annotated(figure))
    named = draw(grid([matrix(4, names=["long " * 9] * 4)]))
    assert named.layout.xaxis.ticktext[0] == short("long " * 9, 24).strip()
    painted = paint(grid([matrix(1, text="무 γ")]), 100)
    assert "\N{REPLACEMENT CHARACTER} γ" in [t.get_text() for t in visible_texts(painted)]


# --- refused -------------------------------------------------------------------------------------


def with_value(value: float) -> MatrixPanel:
    values = np.eye(3)
    values[1, 2] = value
    return MatrixPanel(values)


@pytest.mark.parametrize(
    ("panel", "message"),
    [
        (
            MatrixPanel(np.zeros((2, 3))),
            r"row 0, column 0 has the shape \(2, 3\); expected",
        ),
        (MatrixPanel(np.zeros(4)), r"row 0, column 0 has the shape \(4,\); expected as many rows"),
        (MatrixPanel(np.zeros(())), r"column 0 has the shape \(\); expected as many rows as c"),
        (MatrixPanel(np.zeros((0, 0))), r"column 0 has the shape \(0, 0\); expected as many row"),
        (with_value(float("inf")), r"column 0 holds inf at \[1, 2\]; expected cosines, from −1 to"),
        (with_value(float("-inf")), r"holds -inf at \[1, 2\]; expected .* or NaN where nothing w"),
        (with_value(-1.00001), r"column 0 holds -1.00001 at \[1, 2\]; expected cosines, from −1"),
        (matrix(3, names="ab"), r"column 0 has 3 rows, 2 names and the blocks \[\]; expected a n"),
        (
            matrix(3, blocks=[0, 2]),
            r"and the blocks \[0, 2\]; expected .* first rows of",
        ),
        (matrix(3, blocks=[2, 1]), r"3 rows, 0 names and the blocks \[2, 1\]; expected a name for"),
        (matrix(3, blocks=[3]), r"0 names and the blocks \[3\]; expected a name for each row"),
    ],
)
def test_what_is_no_matrix_of_cosines_is_refused(panel: MatrixPanel, message: str) -> None:
    with pytest.raises(InputError, match=message):
        grid([panel])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": [], "panels": []}, r"0 rows and 1 columns; pass some of each"),
        ({"columns": [], "panels": [[]]}, r"1 rows and 0 columns; pass some of each"),
        ({"panels": []}, r"panels: 0 rows, of lengths \[\]; expected 1 rows of 1, a cell"),
        ({"panels": [[None, None]]}, r"panels: 1 rows, of lengths \[2\]; expected 1 rows of 1"),
    ],
)
def test_what_is_no_grid_is_refused(changes: dict[str, Any], message: str) -> None:
    fields = {"columns": ["c"], "rows": ["r"], "panels": [[matrix(3)]]} | changes
    with pytest.raises(InputError, match=message):
        MatrixGrid("t", "s", "", "", value_name="cosine", **fields)


def test_rounding_beyond_one_is_no_error() -> None:
    assert not grid([with_value(1 + 5e-7)]).has_gaps
    assert grid([with_value(NAN)]).has_gaps
    single = draw(grid([MatrixPanel(np.eye(2, dtype=np.float32))]))
    assert list(single.data[0].z[0]) == [1, 0]
