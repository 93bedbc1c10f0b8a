"""A grid of matrices as a scene, with the room that it needs; lengths in pixels."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np

from interp_compose.plots.canvas import (
    LONGEST_HOVER,
    MARGIN,
    SMALLEST,
    WIDTH,
    check_room,
    head_of,
    legend_is_beside,
    literal,
)
from interp_compose.plots.chart import short, short_each
from interp_compose.plots.heatmap import NOT_MEASURED
from interp_compose.plots.heatmap_layout import BAR, CHARACTER, LINE, PROSE, bar_room
from interp_compose.plots.heatmap_scale import GREY, STROKE
from interp_compose.plots.matrices import SCALE, MatrixGrid, MatrixPanel
from interp_compose.plots.panels import Box, Panels
from interp_compose.plots.scene import Axes, Axis, Bar, Cells, Hover, Item, Scene, Strokes, Text
from interp_compose.plots.theme import FRAME, INK

HEIGHT: Final = 860.0
WIDEST: Final = 1400.0  # to which the figure grows before panels become tiny
TALLEST: Final = 1100.0
PANEL: Final = (40.0, 84.0, 400.0)  # the smallest side, the smallest in a usual grid, the largest
NARROWEST: Final = 300.0  # figure
TOP: Final = 76.0  # title and subtitle
SUBTITLE: Final = 22.0
TITLE: Final = 24.0  # what rows or columns are
GAP: Final = 14.0  # between panels
FLAT: Final = 8  # characters up to which a row's title lies flat
LONGEST_NAME: Final = 24
NAME: Final = 6.5  # the width of a letter of the smallest size
NAME_ROOM: Final = 12.0  # a row's height, from which its name is written
NAME_GAP: Final = 6.0
TEXT: Final = 7.0  # the width of a letter at 11 pixels
TEXT_LINE: Final = 14.0
BLOCK: Final = 8.0  # the smallest block's side, from which lines are drawn
BAR_LENGTHS: Final = (100.0, 320.0)
MOST_CELLS: Final = 1_500_000  # of an interactive figure: 10 MB
LINE_OPACITY: Final = 0.35  # between blocks


class _Room(NamedTuple):
    """Room for panels: where the first one begins, what is right of the last one, the side of each,
    the gaps across and down, the room for rows' names, and the height of the text under a panel."""

    left: float
    top: float
    right: float
    side: float
    gap: tuple[float, float]
    names: float
    text: float
    beside: bool  # the colour bar is right of them


def scene_of(grid: MatrixGrid, fixed_width: float | None, *, light: bool = False) -> Scene:
    """Panels as large as the usual width, or the one that is given, lets them be; names where
    each row has the room; titles of rows and columns.

    ``light``: numbers have three digits, and of matrices that together would make a figure heavy
    every second, third, … row and column is kept, which the subtitle says.
    """
    usual = WIDTH if fixed_width is None else fixed_width
    head = head_of(grid.title, grid.subheading(), usual)
    above = TOP + head.more - SUBTITLE * (not grid.subheading())
    room = _room(grid, above, True, fixed_width)
    sizes = [_size(panel) for panel in grid.flat_panels if _names(panel)]
    if not sizes or room.side / max(sizes) < NAME_ROOM:
        room = _room(grid, above, False, fixed_width)
    n_rows, n_columns = len(grid.rows), len(grid.columns)
    side, gap = room.side, room.gap
    high = n_rows * side + (n_rows - 1) * gap[1]
    wide = n_columns * side + (n_columns - 1) * gap[0]
    bar = min(max(high if room.beside else wide, BAR_LENGTHS[0]), BAR_LENGTHS[1])
    beyond = max(bar - high, 0.0) / 2 if room.beside else 0.0  # the bar, of a low grid
    top = max(room.top, above + beyond)
    end = top + high + max(room.names + room.text + 8, beyond + 12, MARGIN)
    content = room.left + n_columns * side + (n_columns - 1) * gap[0] + room.right
    width = max(content, min(head.width, usual), min(NARROWEST, usual))
    if fixed_width is not None:
        check_room(width, fixed_width, "this grid")
    step = thinning(grid) if light else 1
    if step > 1:
        head = head_of(grid.title, grid.subheading(f"1 row in {step} is drawn"), width)
    start, steps = (room.left, top), (side + gap[0], side + gap[1])
    panels = Panels(n_rows * n_columns, n_columns, start, (side, side), steps)
    return Scene(
        width=width,
        height=end + (0.0 if room.beside else BAR + 2 * LINE + 12),
        head=head,
        axes=[
            _axes(grid, k, box, bool(room.names), step, light) for k, box in enumerate(panels.boxes)
        ],
        texts=[text for text in _texts(grid, room, wide, high) if text.text],
        bar=Bar(
            SCALE, [short(grid.value_name, int(bar / PROSE))], bar, None if room.beside else end
        ),
        is_wide=False,
    )


def _room(grid: MatrixGrid, above: float, named: bool, fixed_width: float | None) -> _Room:
    """``above``: title and subtitle; ``named``: rows have their names."""
    usual, widest = (WIDTH, WIDEST) if fixed_width is None else (fixed_width, fixed_width)
    n_rows, n_columns = len(grid.rows), len(grid.columns)
    longest = max(_longest(_names(panel)) for panel in grid.flat_panels)
    names = NAME * min(longest, LONGEST_NAME) + NAME_GAP if named and longest else 0.0
    longest_row = _longest(grid.rows)
    titles = LINE + 6 if longest_row > FLAT else CHARACTER * longest_row + 8
    left = MARGIN + TITLE * bool(grid.y_title) + titles * bool(longest_row) + names
    top = above + TITLE * bool(grid.x_title) + TITLE * any(grid.columns)
    right = bar_room(SCALE, 1)
    panels = usual - left - right - (n_columns - 1) * (GAP + names)
    beside = fixed_width is None or panels >= n_columns * PANEL[0]
    beside = beside and legend_is_beside(panels, fixed_width)
    right = right if beside else MARGIN

    def fit(lines: int) -> _Room:
        text = TEXT_LINE * lines + 6 * bool(lines)
        gap = (GAP + names, GAP + names + text)
        across = left + right + (n_columns - 1) * gap[0]
        down = top + (n_rows - 1) * gap[1] + names + text + MARGIN
        fits = min((usual - across) / n_columns, (HEIGHT - down) / n_rows, PANEL[2])
        grown = min((widest - across) / n_columns, (TALLEST - down) / n_rows)
        side = max(fits, min(grown, PANEL[1]), PANEL[0])
        return _Room(left, top, right, side, gap, names, text, beside)

    room = fit(2)  # how the text wraps depends on the side, and the side on its lines
    return fit(max(len(_wrapped(panel, room)) for panel in grid.flat_panels))


def _texts(grid: MatrixGrid, room: _Room, wide: float, high: float) -> list[Text]:
    """Titles of columns and rows, what these are, as long as there is room, and the lines under
    panels."""
    side, gap, edge = room.side, room.gap, room.names
    turned = _longest(grid.rows) > FLAT
    columns = short_each(grid.columns, int((side + gap[0] - 6) / CHARACTER))
    rows = short_each(grid.rows, int((side + gap[1] - 6) / CHARACTER) if turned else FLAT)
    texts = [
        Text(title, (0.5, 1.0), 0.0, -6.0, j, down="baseline") for j, title in enumerate(columns)
    ]
    for i, title in enumerate(rows):
        where = ((0.0, 0.5), -edge - 4 - LINE / 2 if turned else -edge - 7, 0.0, i * len(columns))
        texts.append(Text(title, *where, across="center" if turned else "right", turned=turned))
    above = -6.0 - TITLE * any(grid.columns)
    x_title = short(grid.x_title, int(wide / CHARACTER))
    y_title = short(grid.y_title, int(high / CHARACTER))
    texts.append(Text(x_title, (0.5, 1.0), 0.0, above, size=13.7, down="baseline"))
    texts.append(Text(y_title, (0.0, 0.5), MARGIN + 6 - room.left, size=13.7, turned=True))
    for k, panel in enumerate(grid.flat_panels):
        dy = 4.0 + edge * bool(edge and _names(panel))
        for i, line in enumerate(_wrapped(panel, room)):
            texts.append(Text(line, (0.5, 0.0), 0.0, dy + i * TEXT_LINE, k, 11.0, down="top"))
    return texts


def _names(panel: MatrixPanel | None) -> Sequence[str]:
    return panel.names if panel is not None else ()


def _size(panel: MatrixPanel | None) -> int:
    return len(panel.values) if panel is not None else 1


def _wrapped(panel: MatrixPanel | None, room: _Room) -> list[str]:
    if panel is None or not panel.text:
        return []
    most = max(int((room.side + room.gap[0] - 6) / TEXT), 4)
    return textwrap.wrap(panel.text, most, max_lines=3, placeholder="…", break_on_hyphens=False)


def _longest(texts: Iterable[str]) -> int:
    return max((len(text) for text in texts), default=0)


def _edges(panel: MatrixPanel, side: float) -> list[float]:
    """Where lines part its blocks, in rows; none where they would lie too close."""
    n = len(panel.values)
    blocks = [0, *panel.blocks, n]
    if int(np.diff(blocks).min()) * side / n < BLOCK:
        return []
    return [block - 0.5 for block in blocks[1:-1]]


def thinning(grid: MatrixGrid) -> int:
    """1, or k where only every k-th row and column is drawn."""
    cells = sum(panel.values.size for panel in grid.flat_panels if panel is not None)
    return max(1, math.ceil(math.sqrt(cells / MOST_CELLS)))


def _axes(grid: MatrixGrid, k: int, box: Box, named: bool, step: int, light: bool) -> Axes:
    """The matrix with lines between its blocks, or a grey square with a stroke through it; the
    names of its rows, which the hover reads even where none is shown."""
    panel, side = grid.flat_panels[k], box[2]
    n = _size(panel)
    low, high = -0.5, n - 0.5
    name = literal(grid.panel_name(*divmod(k, len(grid.columns))))
    head = [name] if name else []
    if panel is None:
        hover = Hover("\n".join([*head, NOT_MEASURED]))
        items: list[Item] = [
            Cells(np.zeros((1, 1)), None, start=(low + high) / 2, step=float(n), hover=hover),
            Strokes([((low, high), (high, low))], STROKE),
        ]
    else:
        values = panel.values[::step, ::step].astype(float)
        values = np.round(values, 3) + 0.0 if light else values  # no −0
        place = "{y}\n{x}" if panel.names else "row {y}, column {x}"
        value = f"{literal(grid.value_name)}: {{z:.3f}}"
        hover = Hover("\n".join([*head, place, value]))
        items = [Cells(values, SCALE, start=(step - 1) / 2, step=float(step), hover=hover)]
        edges = _edges(panel, side)
        ends = [((edge, low), (edge, high)) for edge in edges]
        ends += [((low, edge), (high, edge)) for edge in edges]
        items += [Strokes(ends, INK, 0.7, LINE_OPACITY)] if ends else []
    numbers = [str(k) for k in range(n)] if step > 1 else []
    names = short_each(_names(panel) or numbers, LONGEST_NAME if named else LONGEST_HOVER)[::step]
    ticks = [(k * step + (step - 1) / 2, text) for k, text in enumerate(names)] or None
    turned = NAME * _longest(_names(panel)) + 4 > side / n
    labels = named and bool(_names(panel))
    return Axes(
        box,
        Axis(low, high, ticks=ticks, whole=True, turned=turned, labels=labels, size=SMALLEST),
        Axis(high, low, ticks=ticks, whole=True, labels=labels, size=SMALLEST),
        items,
        "frame",
        "" if panel is None else FRAME,
        GREY,
        square=True,
    )
