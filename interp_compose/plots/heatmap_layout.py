"""A heat map, or bubbles, as a scene, with the room that it needs: sizes, ticks and numbers.

Lengths are in pixels (:mod:`.canvas`). An interactive map that fills the usual width is as wide as
its page; there they say what stays readable.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from interp_compose.plots.canvas import (
    LONGEST_HOVER,
    MARGIN,
    PLOT,
    SMALLEST,
    WIDTH,
    check_room,
    head_of,
    legend_is_beside,
    literal,
)
from interp_compose.plots.chart import short, short_each
from interp_compose.plots.heatmap import LONGEST_ROW, HeatMap
from interp_compose.plots.heatmap_bubbles import EDGE, LEGEND, Bubbles
from interp_compose.plots.heatmap_hatching import OPACITY, Box, around, hatching
from interp_compose.plots.heatmap_scale import BLACK, STROKE, WHITE, Scale, scale_of
from interp_compose.plots.scene import (
    Axes,
    Axis,
    Bar,
    Cells,
    Hover,
    Item,
    Marks,
    Ring,
    Scene,
    Strokes,
    Text,
    Words,
)

TOP: Final = 84  # title and subtitle, a line each
LEAST_CELLS: Final = 60.0  # of width, all together
LEAST_COLUMN: Final = 28.0  # else rows' labels are shortened
MOST_CELLS: Final = 0.35  # of the width, for which they are
TRIANGLE: Final = 1.6  # the width of such a mark, in dots
CHARACTER: Final = 7.6  # the width of a letter or digit at 12 pixels
PROSE: Final = 6.6  # the same, of a sentence, with a margin
LINE: Final = 16.0  # the height of a line of text at 12 pixels
TITLE: Final = 26.0  # an axis' title with its distance from the labels
USUAL_HEIGHT: Final = 330  # of the cells
ROW_HEIGHTS: Final = (18.0, 60.0)
HEIGHTS: Final = (120.0, 940.0)
WIDEST_COLUMN: Final = 110.0
WIDEST_BUBBLE_COLUMN: Final = 170.0  # a bubble may have space around it
BEYOND: Final = 30.0  # the bar's title reaches over it
BAR: Final = 14  # the colour bar's width, and its distance from the cells
BUBBLE_ROWS: Final = (28.0, 60.0)  # or their sizes could hardly be told apart
BUBBLE_HEIGHTS: Final = (150.0, 940.0)
MOST_NUMBERS: Final = 400
FLAT_LABEL: Final = 4  # characters up to which column labels lie flat and are thinned out instead


class _Sizes(NamedTuple):
    """Sizes of cells: width and height, the gap between two, and the diameter of a mark;
    ``numbers`` are written into them."""

    width: float
    height: float
    gap: float
    dot: float
    numbers: bool


def scene_of(heatmap: HeatMap, fixed_width: float | None) -> Scene:
    """Room for every label; cells within limits; numbers where they can be read. The colour bar is
    right of the cells or, where that leaves them no room, below."""
    canvas = WIDTH if fixed_width is None else fixed_width
    n_rows, n_columns = len(heatmap.rows), len(heatmap.columns)
    bubbles = isinstance(heatmap, Bubbles)
    row = _between(USUAL_HEIGHT / n_rows, *(BUBBLE_ROWS if bubbles else ROW_HEIGHTS))
    height = _between(row * n_rows, *(BUBBLE_HEIGHTS if bubbles else HEIGHTS))
    row = height / n_rows
    label_size = 12.0 if row >= 15 else SMALLEST

    widest = (WIDEST_BUBBLE_COLUMN if bubbles else WIDEST_COLUMN) * n_columns
    scale = scale_of(heatmap)
    # above bubbles is their legend, into which the bar's title must not reach
    bar_title = _wrapped(heatmap.value_name, height + BEYOND * (not bubbles))
    right = bar_room(scale, len(bar_title))
    longest_row = min(_longest(heatmap.row_labels), LONGEST_ROW)
    beside = legend_is_beside(canvas - right - TITLE - CHARACTER * longest_row - 16, fixed_width)
    right = right if beside else max(MARGIN, CHARACTER * _longest_tick(scale) / 2 + 4)
    least = min(LEAST_COLUMN * n_columns, MOST_CELLS * canvas)
    least = max(LEAST_CELLS, least if fixed_width is None else min(widest, PLOT * canvas))
    longest_row = int((canvas - right - least - TITLE - 16) / CHARACTER)
    n_lines = 1 if beside else int(row / LINE)
    rows = short_each(
        heatmap.row_labels,
        min(max(longest_row, 8), LONGEST_ROW),
        lambda label, longest: _fitted(label, longest, n_lines),
    )
    left = TITLE + CHARACTER * max(_longest(label.split("\n")) for label in rows) + 16
    check_room(left + LEAST_CELLS + right, canvas, "this map")

    most = canvas - left - right
    width = min(most, widest)
    column = width / n_columns
    longest = _longest(heatmap.column_labels)
    turned = longest > FLAT_LABEL and CHARACTER * longest + 6 > column
    bottom = TITLE + 14 + (CHARACTER * longest if turned else LINE)
    digits = max((len(heatmap.text(i, j)) for i, j, _ in heatmap.measured), default=0)
    few = n_rows * n_columns <= MOST_NUMBERS
    cell = min(row, column)
    gap = 1.5 if cell >= 14 else 0.5 if cell >= 6 else 0.0
    dot = (5.0 if gap > 1 else 3.5) * (TRIANGLE if heatmap.mark == "triangle" else 1.0)
    numbers = few and not bubbles and row >= 16 and CHARACTER * digits + 6 <= column
    sizes = _Sizes(column, row, gap, dot, numbers)
    head = head_of(heatmap.title, heatmap.subheading, canvas)
    start = left if beside and width >= canvas / 2 else MARGIN
    keys = heatmap.legend(cell, start, canvas) if isinstance(heatmap, Bubbles) else []
    n_keys = keys[-1].row + 1 if keys else 0
    ups = [6 + LEGEND * (n_keys - key.row - 0.5) for key in keys]
    # a title is as long as the figure lets it be, in the middle of its axis
    wide = width + 2 * min(left, canvas - left - width)
    high = height + 2 * min(bottom, TOP - 60)
    top = TOP + head.more + LEGEND * n_keys
    bar_top = None
    if scale.ticks and not beside:
        bar_title, bar_top = _wrapped(heatmap.value_name, wide - 12), top + height + bottom
        bottom += BAR + LINE * (len(bar_title) + 1) + 12
    is_full = width == most or fixed_width is not None  # maps of few columns are narrower
    needed = max(left + width + right, head.width, *(key.end for key in keys))
    columns = _ticks(heatmap.column_labels, LINE if turned else CHARACTER * longest + 6, column)
    x_title = short(heatmap.x_title, int(wide / CHARACTER))
    y_title = short(heatmap.y_title, int(high / CHARACTER))
    items = _bubbles(heatmap, scale, cell) if bubbles else _cells(heatmap, scale, sizes)
    axes = Axes(
        (left, top, width, height),
        Axis(-0.5, n_columns - 0.5, [x_title] if x_title else [], columns, turned=turned),
        Axis(
            n_rows - 0.5,
            -0.5,
            [y_title] if y_title else [],
            _ticks(rows, LINE * label_size / 12 - 1.5, row),
            size=label_size,
        ),
        items,
        "grid" if bubbles else "bare",
    )
    length = height if bar_top is None else width
    return Scene(
        width=canvas if is_full else min(needed, canvas),
        height=top + height + bottom,
        head=head,
        axes=[axes],
        texts=[
            Text(key.text, (0.0, 1.0), key.text_x - left, -up, across="left", panel=0)
            for key, up in zip(keys, ups, strict=True)
        ],
        rings=[
            Ring(key.x - left, -up, key.diameter)
            for key, up in zip(keys, ups, strict=True)
            if key.diameter
        ],
        bar=Bar(scale, tuple(bar_title), length, bar_top) if scale.ticks else None,
        is_wide=is_full,
    )


def bar_room(scale: Scale, n_lines: int) -> float:
    """From panels to the figure's edge, where a colour bar has a title of so many lines."""
    return 2 * BAR + 12 + CHARACTER * _longest_tick(scale) + LINE * n_lines + 18


def _longest_tick(scale: Scale) -> int:
    return _longest([text for _, text in scale.ticks])


def _ticks(labels: Sequence[str], needed: float, room: float) -> list[tuple[float, str]]:
    """Place and text of every label, or of every second, fifth, tenth, …: the first with which they
    have the room they need."""
    powers = (1, 10, 100, 1000, 10_000, 100_000, 1_000_000)
    steps = (digit * power for power in powers for digit in (1, 2, 5))
    step = next(step for step in steps if step * room >= needed)
    return [(float(k), text) for k, text in enumerate(labels)][::step]


def _cells(heatmap: HeatMap, scale: Scale, sizes: _Sizes) -> list[Item]:
    """Grey cells where there is no number, numbers' cells, hatching, numbers, and marks."""
    values = np.full((len(heatmap.rows), len(heatmap.columns)), np.nan)
    for i, j, value in heatmap.measured:
        values[i, j] = scale.place(value)
    items: list[Item] = []
    if heatmap.gaps:
        grey = np.where(np.isnan(values), 0.0, np.nan)
        ends = [((j - 0.5, i + 0.5), (j + 0.5, i - 0.5)) for i, j in heatmap.gaps]
        items += [Cells(grey, None, sizes.gap), Strokes(ends, STROKE)]
    n_rows, n_columns = values.shape
    rows = [[_hover_row(heatmap, i, j) for j in range(n_columns)] for i in range(n_rows)]
    hover = Hover(_hover_format(heatmap), rows)
    items.append(Cells(values, scale, sizes.gap, hover=hover, says_gaps=True))
    ink = {(i, j): scale.ink(value) for i, j, value in heatmap.measured}
    # a mark is in the middle of its cell, or next to the number, in the upper right corner
    right, up = (sizes.width / 2 - 7, sizes.height / 2 - 6) if sizes.numbers else (0.0, 0.0)
    clear: dict[tuple[int, int], list[Box]] = {cell: [] for cell in heatmap.hatched}
    for cell in clear:
        if sizes.numbers:
            half = (CHARACTER * len(heatmap.text(*cell)) + 2) / 2
            clear[cell].append(around(0.0, 0.0, half, LINE / 2))
        if cell in heatmap.marked:
            clear[cell].append(around(right, -up, sizes.dot, sizes.dot))
    strokes = hatching(clear, sizes.width, sizes.height, sizes.gap / 2)
    for colour in (BLACK, WHITE):
        ends = [stroke for cell, some in strokes.items() if ink[cell] == colour for stroke in some]
        items += [Strokes(ends, colour, opacity=OPACITY)] if ends else []
    for colour in (BLACK, WHITE) if sizes.numbers else ():
        cells = [cell for cell in ink if ink[cell] == colour]
        texts = [heatmap.text(i, j) for i, j in cells]
        items.append(Words(*_middles(cells), texts, colour, 11.0))
    if heatmap.marked:
        x, y = _middles(heatmap.marked)
        x = [one + right / sizes.width for one in x]
        y = [one - up / sizes.height for one in y]
        marker = "triangle-up" if heatmap.mark == "triangle" else "circle"
        items.append(Marks(x, y, sizes.dot, marker, [ink[i, j] for i, j in heatmap.marked]))
    return items


def _bubbles(bubbles: HeatMap, scale: Scale, cell: float) -> list[Item]:
    """A circle for each number, a cross where there is none."""
    assert isinstance(bubbles, Bubbles)
    diameters, says = bubbles.diameters(cell), _hover_format(bubbles)
    items: list[Item] = []
    if bubbles.measured:
        cells = [(i, j) for i, j, _ in bubbles.measured]
        sizes = [diameters[bubbles.sizes[i][j]] for i, j in cells]
        places = [scale.place(value) for _, _, value in bubbles.measured]
        hover = Hover(says, [_hover_row(bubbles, i, j) for i, j in cells])
        items.append(Marks(*_middles(cells), sizes, values=places, edge=EDGE, hover=hover))
    if bubbles.gaps:
        hover = Hover(says, [_hover_row(bubbles, i, j) for i, j in bubbles.gaps])
        items.append(Marks(*_middles(bubbles.gaps), 8.0, "x-thin", STROKE, hover=hover))
    return items


def _middles(cells: Sequence[tuple[int, int]]) -> tuple[list[float], list[float]]:
    """x and y of cells, each (row, column)."""
    return [float(j) for _, j in cells], [float(i) for i, _ in cells]


def _hover_format(heatmap: HeatMap) -> str:
    names = (heatmap.y_title, heatmap.x_title, heatmap.value_name)
    lines = [f"{literal(name)}: " * bool(name) + f"{{{k}}}" for k, name in enumerate(names)]
    return "\n".join(lines) + "{3}" * bool(heatmap.hover)


def _hover_row(heatmap: HeatMap, i: int, j: int) -> list[str]:
    """A cell's row, column and number, and the line added to them."""
    more = heatmap.hover[i][j] if heatmap.hover else ""
    row, column, extra = (
        " ".join(short(text, LONGEST_HOVER).split())
        for text in (heatmap.rows[i], heatmap.columns[j], more)
    )
    texts = [row, column, heatmap.text(i, j), "\n" + extra if more else ""]
    return texts[: 3 + bool(heatmap.hover)]


def _fitted(label: str, longest: int, n_lines: int) -> str:
    """A label in so many lines of ``longest`` characters, or else without its middle."""
    lines = textwrap.wrap(label, longest, break_long_words=False)
    if 1 < len(lines) <= n_lines and _longest(lines) <= longest:
        return "\n".join(lines)
    return short(label, longest)


def _wrapped(title: str, room: float) -> list[str]:
    """The colour bar's title, in four lines at most."""
    most = int(room / PROSE)
    return textwrap.wrap(title, most, max_lines=4, placeholder="…", break_on_hyphens=False)


def _between(x: float, low: float, high: float) -> float:
    return min(max(x, low), high)


def _longest(labels: Sequence[str]) -> int:
    return max(map(len, labels), default=0)
