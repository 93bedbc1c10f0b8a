"""How much room a grid of matrices needs, the same for both backends; lengths in pixels.

Places are counted from the figure's upper left corner.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from interp_compose.plots.canvas import (
    MARGIN,
    SMALLEST,
    WIDTH,
    Head,
    check_room,
    head_of,
    legend_is_beside,
)
from interp_compose.plots.chart import short, short_each
from interp_compose.plots.heatmap import NOT_MEASURED
from interp_compose.plots.heatmap_layout import BAR, CHARACTER, LINE, PROSE
from interp_compose.plots.heatmap_scale import GREY, STROKE
from interp_compose.plots.heatmap_scene import LONGEST_HOVER
from interp_compose.plots.matrices import SCALE, MatrixGrid, MatrixPanel
from interp_compose.plots.scene import (
    Axes,
    Axis,
    Bar,
    Cells,
    Hover,
    Item,
    Scene,
    Side,
    Strokes,
    Text,
    said,
)
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


@dataclass(frozen=True)
class GridLayout:
    """``left`` and ``top`` is where the first panel begins, ``gap`` what lies between two."""

    grid: MatrixGrid
    head: Head
    width: float  # of the figure
    height: float  # of the figure
    left: float
    top: float
    right: float  # from the last panel to the figure's edge
    bottom: float
    side: float  # of a panel
    gap: tuple[float, float]  # across, down
    named: bool  # rows have their names
    name_room: float  # for them, left of a panel and under it
    bar_length: float
    bar_top: float | None  # None: the bar stands right of the panels
    bar_title: str

    def x(self, column: int) -> float:
        """A panel's left edge."""
        return self.left + column * (self.side + self.gap[0])

    def y(self, row: int) -> float:
        """A panel's upper edge."""
        return self.top + row * (self.side + self.gap[1])

    @property
    def grid_width(self) -> float:
        return self.x(len(self.grid.columns) - 1) + self.side - self.left

    @property
    def grid_height(self) -> float:
        return self.y(len(self.grid.rows) - 1) + self.side - self.top

    @property
    def column_titles(self) -> list[str]:
        most = int((self.side + self.gap[0] - 6) / CHARACTER)
        return short_each(self.grid.columns, most)

    @property
    def row_titles(self) -> list[str]:
        most = int((self.side + self.gap[1] - 6) / CHARACTER) if self.turned_rows else FLAT
        return short_each(self.grid.rows, most)

    @property
    def turned_rows(self) -> bool:
        """Whether the rows' titles stand upright."""
        return _longest(self.grid.rows) > FLAT

    @property
    def titles(self) -> tuple[str, str]:
        """What columns and rows are, as long as there is room."""
        return (
            short(self.grid.x_title, int(self.grid_width / CHARACTER)),
            short(self.grid.y_title, int(self.grid_height / CHARACTER)),
        )

    def text(self, panel: MatrixPanel | None) -> list[str]:
        """The lines under a panel."""
        return _wrapped(panel, self.side + self.gap[0])

    def labelled(self, panel: MatrixPanel | None) -> bool:
        """Whether its rows' names are written left of it and under it."""
        return self.named and bool(_names(panel))

    def below(self, panel: MatrixPanel | None) -> float:
        """From a panel's lower edge to the text under it."""
        return 4.0 + self.name_room * self.labelled(panel)

    def flat_names(self, panel: MatrixPanel | None) -> bool:
        """Whether the names under it lie flat."""
        return NAME * _longest(_names(panel)) + 4 <= self.side / _size(panel)

    def edges(self, panel: MatrixPanel) -> list[float]:
        """Where lines part its blocks, in rows; none where they would lie too close."""
        n = _size(panel)
        blocks = [0, *panel.blocks, n]
        if int(np.diff(blocks).min()) * self.side / n < BLOCK:
            return []
        return [block - 0.5 for block in blocks[1:-1]]


def lay_out(grid: MatrixGrid, width: float | None = None) -> GridLayout:
    """Panels as large as the usual width, or the one that is asked for, lets them be; names where
    each row has the room."""
    named = _lay_out(grid, True, width)
    sizes = [_size(panel) for _, _, panel in grid.places if _names(panel)]
    bare = not sizes or named.side / max(sizes) < NAME_ROOM
    layout = _lay_out(grid, False, width) if bare else named
    if width is not None:
        check_room(layout.width, width, "this grid")
    return layout


def _lay_out(grid: MatrixGrid, named: bool, asked: float | None) -> GridLayout:
    usual, widest = (WIDTH, WIDEST) if asked is None else (asked, asked)
    head_lines = head_of(grid.title, grid.subheading(), usual)
    n_rows, n_columns = len(grid.rows), len(grid.columns)
    longest = max(_longest(_names(panel)) for _, _, panel in grid.places)
    room = NAME * min(longest, LONGEST_NAME) + NAME_GAP if named and longest else 0.0
    longest_row = _longest(grid.rows)
    titles = LINE + 6 if longest_row > FLAT else CHARACTER * longest_row + 8
    left = MARGIN + TITLE * bool(grid.y_title) + titles * bool(longest_row) + room
    head = TOP + head_lines.more - SUBTITLE * (not grid.subheading())
    top = head + TITLE * bool(grid.x_title) + TITLE * any(grid.columns)
    tick = max(len(text) for _, text in SCALE.ticks)
    right = 2 * BAR + 12 + CHARACTER * tick + LINE + 18
    panels = usual - left - right - (n_columns - 1) * (GAP + room)
    beside = legend_is_beside(panels, asked) and (asked is None or panels >= n_columns * PANEL[0])
    right = right if beside else MARGIN

    def fit(lines: int) -> tuple[float, tuple[float, float], float]:
        """A panel's side, the gaps, and the height of the text under it."""
        text = TEXT_LINE * lines + 6 * bool(lines)
        gap = (GAP + room, GAP + room + text)
        across = left + right + (n_columns - 1) * gap[0]
        down = top + (n_rows - 1) * gap[1] + room + text + MARGIN
        fits = min((usual - across) / n_columns, (HEIGHT - down) / n_rows, PANEL[2])
        grown = min((widest - across) / n_columns, (TALLEST - down) / n_rows)
        return max(fits, min(grown, PANEL[1]), PANEL[0]), gap, text

    side, gap, _ = fit(2)  # how the text wraps depends on the side, and the side on its lines
    lines = max(len(_wrapped(panel, side + gap[0])) for _, _, panel in grid.places)
    side, gap, text = fit(lines)
    high = n_rows * side + (n_rows - 1) * gap[1]
    wide = n_columns * side + (n_columns - 1) * gap[0]
    bar = min(max(high if beside else wide, BAR_LENGTHS[0]), BAR_LENGTHS[1])
    beyond = max(bar - high, 0.0) / 2 if beside else 0.0  # the bar, of a low grid
    top = max(top, head + beyond)
    bottom = max(room + text + 8, beyond + 12, MARGIN)
    bar_top = None if beside else top + high + bottom
    bottom += 0.0 if beside else BAR + 2 * LINE + 12
    content = left + n_columns * side + (n_columns - 1) * gap[0] + right
    width = max(content, min(head_lines.width, usual), min(NARROWEST, usual))
    return GridLayout(
        grid=grid,
        head=head_lines,
        width=width,
        height=top + high + bottom,
        left=left,
        top=top,
        right=right + width - content,
        bottom=bottom,
        side=side,
        gap=gap,
        named=bool(room),
        name_room=room,
        bar_length=bar,
        bar_top=bar_top,
        bar_title=short(grid.value_name, int(bar / PROSE)),
    )


def _names(panel: MatrixPanel | None) -> Sequence[str]:
    return panel.names if panel is not None else ()


def _size(panel: MatrixPanel | None) -> int:
    return len(panel.values) if panel is not None else 1


def _wrapped(panel: MatrixPanel | None, width: float) -> list[str]:
    if panel is None or not panel.text:
        return []
    most = max(int((width - 6) / TEXT), 4)
    return textwrap.wrap(panel.text, most, max_lines=3, placeholder="…", break_on_hyphens=False)


def _longest(texts: Iterable[str]) -> int:
    return max((len(text) for text in texts), default=0)


def thinning(grid: MatrixGrid) -> int:
    """1, or k where only every k-th row and column is drawn."""
    cells = sum(panel.values.size for _, _, panel in grid.places if panel is not None)
    return max(1, math.ceil(math.sqrt(cells / MOST_CELLS)))


def scene_of(grid: MatrixGrid, width: float | None, *, light: bool = False) -> Scene:
    """A panel for each matrix, and the titles of rows and columns.

    ``light``: numbers have three digits, and of matrices that together would make a figure heavy
    every second, third, … row and column is kept, which the subtitle says.
    """
    layout = lay_out(grid, width)
    step = thinning(grid) if light else 1
    note = f"1 row in {step} is drawn" if step > 1 else ""
    head = head_of(grid.title, grid.subheading(note), layout.width) if note else layout.head
    columns, edge = len(grid.columns), layout.name_room
    texts = [
        Text(title, (0.5, 1.0), 0.0, -6.0, j, down="baseline")
        for j, title in enumerate(layout.column_titles)
    ]
    for i, title in enumerate(layout.row_titles):
        dx = -edge - 4 - LINE / 2 if layout.turned_rows else -edge - 7
        side: Side = "center" if layout.turned_rows else "right"
        where = ((0.0, 0.5), dx, 0.0, i * columns)
        texts.append(Text(title, *where, across=side, turned=layout.turned_rows))
    above = -6.0 - TITLE * any(grid.columns)
    texts += [
        Text(layout.titles[0], (0.5, 1.0), 0.0, above, size=13.7, down="baseline"),
        Text(layout.titles[1], (0.0, 0.5), MARGIN + 6 - layout.left, size=13.7, turned=True),
    ]
    for k, (_, _, panel) in enumerate(grid.places):
        for line, text in enumerate(layout.text(panel)):
            dy = layout.below(panel) + line * TEXT_LINE
            texts.append(Text(text, (0.5, 0.0), 0.0, dy, k, 11.0, down="top"))
    return Scene(
        width=layout.width,
        height=layout.height,
        head=head,
        axes=[_axes(layout, i, j, panel, step, light) for i, j, panel in grid.places],
        texts=[text for text in texts if text.text],
        bar=Bar(SCALE, [layout.bar_title], layout.bar_length, layout.bar_top),
        is_wide=False,
    )


def _axes(
    layout: GridLayout, row: int, column: int, panel: MatrixPanel | None, step: int, light: bool
) -> Axes:
    """The matrix with lines between its blocks, or a grey square with a stroke through it; the
    names of its rows, which the hover reads even where none is shown."""
    grid = layout.grid
    n = _size(panel)
    low, high = -0.5, n - 0.5
    name = said(short(grid.panel_name(row, column), LONGEST_HOVER))
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
        value = f"{said(short(grid.value_name, LONGEST_HOVER))}: {{z:.3f}}"
        hover = Hover("\n".join([*head, place, value]))
        items = [Cells(values, SCALE, start=(step - 1) / 2, step=float(step), hover=hover)]
        edges = layout.edges(panel)
        ends = [((edge, low), (edge, high)) for edge in edges]
        ends += [((low, edge), (high, edge)) for edge in edges]
        items += [Strokes(ends, INK, 0.7, LINE_OPACITY)] if ends else []
    longest = LONGEST_NAME if layout.named else LONGEST_HOVER
    numbers = [str(k) for k in range(n)] if step > 1 else []
    names = short_each(_names(panel) or numbers, longest)[::step]
    ticks = [(k * step + (step - 1) / 2, text) for k, text in enumerate(names)] or None
    labels, turned = layout.labelled(panel), not layout.flat_names(panel)
    return Axes(
        (layout.x(column), layout.y(row), layout.side, layout.side),
        Axis(low, high, ticks=ticks, whole=True, turned=turned, labels=labels, size=SMALLEST),
        Axis(high, low, ticks=ticks, whole=True, labels=labels, size=SMALLEST),
        items,
        "frame",
        "" if panel is None else FRAME,
        GREY,
        square=True,
    )
