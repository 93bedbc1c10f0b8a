"""Hatching, triangles and bubbles: what they say is where it belongs, and no number is crossed."""

from __future__ import annotations

import io
import itertools
import math
from dataclasses import replace
from typing import Any

import pytest
from PIL import Image

from interp_compose.errors import InputError
from interp_compose.plots.canvas import PIXELS
from interp_compose.plots.describe import scene_of
from interp_compose.plots.heatmap import HeatMap
from interp_compose.plots.heatmap_bubbles import Bubbles
from interp_compose.plots.heatmap_layout import CHARACTER, LINE, TOP
from interp_compose.plots.heatmap_scale import BLACK, WHITE, scale_of
from interp_compose.plots.interactive import draw
from interp_compose.plots.scene import Strokes, Words
from tests.plots.reading import png_bytes
from tests.plots.test_heatmap import dots, heatmap, numbers


def hatched(rows: int = 3, columns: int = 4, **changes: Any) -> HeatMap:
    values = numbers(rows, columns, 0, 1)
    return heatmap(
        rows, columns, values=values, diverging=False, limits=(0.0, 1.0), value_format=".0%",
        hatched=[(0, 0), (rows - 1, columns - 1)], hatch_name="ID < 90%", **changes,
    )  # fmt: skip


def bubbles(**changes: Any) -> Bubbles:
    made: dict[str, Any] = {
        "title": "phases", "subtitle": "3 seeds", "x_title": "weight decay", "y_title": "γ",
        "columns": ["0.01", "0.1"], "rows": ["0.8", "0.5", "0.2"],
        "values": [[1.0, 2.0], [4.0, None], [math.nan, 16.0]], "value_name": "stable rank",
        "log": True, "sizes": [[3, 2], [1, 0], [0, 0]], "size_names": ["1", "2", "2c", "3"],
        "size_title": "phase:",
    }  # fmt: skip
    return Bubbles(**(made | changes))


def strokes(made: HeatMap) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    return [stroke for own in inked(made).values() for stroke in own]


def inked(made: HeatMap) -> dict[str, list[tuple[tuple[float, float], tuple[float, float]]]]:
    """The strokes of each colour."""
    items = scene_of(made).axes[0].items
    return {item.colour: list(item.ends) for item in items if isinstance(item, Strokes)}


def cell_of(made: HeatMap) -> tuple[float, float]:
    """A cell's width and height."""
    _, _, width, height = scene_of(made).axes[0].box
    return width / len(made.columns), height / len(made.rows)


# --- hatching ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(3, 4), (1, 1), (1, 12), (12, 1), (12, 12), (40, 40)])
def test_strokes_fill_the_hatched_cells_and_only_these(shape: tuple[int, int]) -> None:
    made = hatched(*shape)
    found = {(round((a[1] + b[1]) / 2), round((a[0] + b[0]) / 2)) for a, b in strokes(made)}
    assert found == set(made.hatched)
    for (x, y), (right, low) in strokes(made):
        i, j = round((y + low) / 2), round((x + right) / 2)
        assert j - 0.5 <= x < right <= j + 0.5
        assert i - 0.5 <= y < low <= i + 0.5


def test_no_stroke_touches_a_number_or_a_mark() -> None:
    made = hatched(marked=[(0, 0)], mark_name="low", mark="triangle")
    assert any(isinstance(item, Words) for item in scene_of(made).axes[0].items)
    width, height = cell_of(made)
    half = CHARACTER * len(made.text(0, 0)) / 2
    mark = dots(made)
    for start, end in strokes(made):
        for k in range(101):
            x, y = (start[i] + k / 100 * (end[i] - start[i]) for i in range(2))
            i, j = round(y), round(x)
            assert abs(x - j) * width >= half or abs(y - i) * height >= LINE / 2 - 0.5
            from_mark = max(abs(x - mark.x[0]) * width, abs(y - mark.y[0]) * height)
            assert from_mark >= mark.marker.size / 2


def test_strokes_have_the_ink_of_their_cell() -> None:
    made = heatmap(
        1, 2, values=[[0.0, 1.0]], diverging=False, hatched=[(0, 0), (0, 1)], hatch_name="bad"
    )
    found = inked(made)
    assert {round(a[0]) for a, _ in found[BLACK]} == {0}
    assert {round(a[0]) for a, _ in found[WHITE]} == {1}
    drawn = {t.line.color for t in draw(made).data if t.type == "scatter" and t.opacity}
    assert drawn == {BLACK, WHITE}


def test_the_subtitle_says_what_the_signs_mean() -> None:
    made = hatched(marked=[(1, 1)], mark_name="commutativity < 70%", mark="triangle")
    assert made.subheading.endswith(" · hatched: ID < 90% · triangle: commutativity < 70%")
    assert dots(made).marker.symbol == "triangle-up"
    assert dots(made).marker.size > dots(replace(made, mark="dot")).marker.size


def test_both_pens_draw_signs() -> None:
    made = hatched()
    plain = replace(made, hatched=())
    assert len(draw(made).data) > len(draw(plain).data)
    marked = replace(plain, marked=[(0, 0)], mark_name="x")
    pictures = [made, plain, marked, replace(marked, mark="triangle")]
    assert len({png_bytes(one) for one in pictures}) == len(pictures)
    assert png_bytes(made) == png_bytes(hatched())


def test_limits_are_the_ends_of_the_colours() -> None:
    made = heatmap(1, 3, values=[[0.4, 0.5, 1.2]], diverging=False, limits=(0.0, 1.0))
    scale = scale_of(made)
    assert (scale.low, scale.high) == (0.0, 1.0)
    assert scale.colour(1.2) == scale.colour(1.0) != scale.colour(0.5)
    colours = draw(made).layout.coloraxis
    assert (colours.cmin, colours.cmax) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hatched": [(0, 0)]}, r"cells \[\(0, 0\)\] have no hatch_name; say what it means"),
        ({"hatched": [(2, 0)], "hatch_name": "x"}, r"hatch_name: the cells \[\(2, 0\)\] hold no"),
        ({"limits": (0.0, 1.0)}, r"diverging=True and limits=\(0.0, 1.0\) exclude one another"),
        ({"limits": (1.0, 1.0), "diverging": False}, r"expected two finite numbers, the lower"),
        ({"limits": (0.0, math.inf), "diverging": False}, r"expected two finite numbers"),
        ({"limits": (math.nan, 1.0), "diverging": False}, r"expected two finite numbers"),
    ],
)
def test_what_is_no_sign_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        heatmap(**changes)


# --- bubbles -------------------------------------------------------------------------------------


def test_bubbles_have_the_place_size_and_colour_of_their_cell() -> None:
    made = bubbles()
    figure = draw(made)
    circles, crosses = figure.data
    assert list(zip(circles.y, circles.x, strict=True)) == [(0, 0), (0, 1), (1, 0), (2, 1)]
    of_size = made.diameters(min(cell_of(made)))
    assert of_size == sorted(set(of_size))
    assert list(circles.marker.size) == [of_size[k] for k in (3, 2, 1, 0)]
    assert list(circles.marker.color) == pytest.approx([0, math.log10(2), math.log10(4), 1.20412])
    assert figure.layout.coloraxis.colorbar.title.text == "stable rank"
    assert list(zip(crosses.y, crosses.x, strict=True)) == [(1, 1), (2, 0)]
    assert crosses.customdata[0][2] == "not measured"
    assert made.subheading == "3 seeds · grey: not measured"


def test_the_static_bubbles_have_their_colours_in_their_places() -> None:
    made = bubbles()
    (left, top, _, _), scale = scene_of(made).axes[0].box, scale_of(made)
    width, height = cell_of(made)
    picture = Image.open(io.BytesIO(png_bytes(made))).convert("RGB")
    per_pixel = 160 / PIXELS
    radii = [d / 2 for d in made.diameters(min(width, height))]
    for i, j, value in made.measured:
        x, y = left + width * (j + 0.5), top + height * (i + 0.5)
        radius = radii[made.sizes[i][j]]
        inside, outside = (
            "#{:02x}{:02x}{:02x}".format(
                *picture.getpixel((round((x + across * 0.7) * per_pixel),
                                   round((y + across * 0.7) * per_pixel)))[:3]
            )
            for across in (0.5 * radius, 1.3 * radius)
        )  # fmt: skip
        assert inside == scale.colour(value)
        assert outside == "#ffffff"


def test_neighbouring_bubbles_never_touch() -> None:
    for n in (1, 3, 9, 17, 40):
        made = bubbles(rows=[str(i) for i in range(n)], values=[[1.0, 2.0]] * n, sizes=[[3, 3]] * n)
        assert 0 < max(made.diameters(min(cell_of(made)))) < min(cell_of(made))


def test_the_legend_shows_every_size_with_its_name() -> None:
    made = bubbles()
    figure = draw(made)
    texts = [a.text for a in figure.layout.annotations]
    assert texts == ["phase:", "1", "2", "2c", "3"]
    widths = [shape.x1 - shape.x0 for shape in figure.layout.shapes]
    cell = min(cell_of(made))
    assert widths == pytest.approx(made.diameters(cell))
    title, *keys = made.legend(cell, 0.0, 800.0)
    assert title.end < keys[0].x
    for one, other in itertools.pairwise(keys):
        assert one.x + one.diameter / 2 < one.text_x < other.x - other.diameter / 2
    narrow = made.legend(cell, 0.0, 150.0)
    assert [key.row for key in narrow] == sorted(key.row for key in narrow)
    assert narrow[-1].row > 0
    assert all(key.end - 16 <= 150 for key in narrow)
    assert figure.layout.margin.t > TOP


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sizes": [[0, 0]]}, r"sizes: 1 rows, of lengths \[2\]; expected 3 rows of 2"),
        ({"sizes": [[3, 4], [1, 0], [0, 0]]}, r"row '0.8', column '0.1' has size 4; expected 0 … "),
        ({"marked": [(0, 0)], "mark_name": "x"}, r"bubbles with marks or hatching; pass neither"),
    ],
)
def test_what_are_no_bubbles_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        bubbles(**changes)


def test_bubbles_of_nothing_are_crosses() -> None:
    made = bubbles(values=[[None, math.nan]] * 3)
    (crosses,) = draw(made).data
    assert len(crosses.x) == 6
    assert png_bytes(made) == png_bytes(made)


def test_the_colour_bar_stays_below_the_legend() -> None:
    for n in (1, 2, 3, 17):
        made = bubbles(rows=[str(i) for i in range(n)], values=[[1.0, 2.0]] * n, sizes=[[3, 3]] * n)
        assert max(made.diameters(min(cell_of(made)))) > 20
