"""How much room a heat map needs: sizes, ticks and numbers, the same for both backends.

Lengths are in pixels (:mod:`.canvas`). An interactive map that fills the usual width is as wide as
its page; there they say what stays readable.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from interp_compose.plots.canvas import (
    MARGIN,
    PLOT,
    SMALLEST,
    WIDTH,
    Head,
    check_room,
    head_of,
    legend_is_beside,
)
from interp_compose.plots.chart import short, short_each
from interp_compose.plots.heatmap import LONGEST_ROW, HeatMap
from interp_compose.plots.heatmap_bubbles import LEGEND, Bubbles, Key
from interp_compose.plots.heatmap_scale import Scale, scale_of

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
WIDEST_BUBBLE_COLUMN: Final = 170.0  # a bubble may stand in the open
BEYOND: Final = 30.0  # the bar's title reaches over it
BAR: Final = 14  # the colour bar's width, and its distance from the cells
BUBBLE_ROWS: Final = (28.0, 60.0)  # or their sizes could hardly be told apart
BUBBLE_HEIGHTS: Final = (150.0, 940.0)
MOST_NUMBERS: Final = 400
FLAT_LABEL: Final = 4  # characters up to which column labels lie flat and are thinned out instead


@dataclass(frozen=True)
class Layout:
    """``width`` and ``height`` are the cells' together; every ``row_step``-th row has a label.

    ``keys`` are the legend of a bubble map's sizes.
    """

    head: Head
    canvas: float  # the figure's width
    rows: list[str]  # their labels
    keys: list[Key]
    top: float
    left: float
    right: float
    bottom: float
    width: float
    height: float
    is_full: bool  # all of the width that is there; maps of few columns are narrower
    row_step: int
    column_step: int
    turned: bool  # column labels stand upright
    label_size: float
    numbers: bool  # written into the cells
    gap: float  # between cells
    dot: float  # the diameter of a mark
    cell: float  # a cell's shorter side
    bar_title: tuple[str, ...]
    bar_top: float | None  # None: the bar stands right of the cells
    x_title: str
    y_title: str

    @property
    def fixed_width(self) -> float | None:
        """Of the interactive figure where few columns leave most of a page blank."""
        if self.is_full:
            return None
        needed = [self.left + self.width + self.right, self.head.width, *(k.end for k in self.keys)]
        return min(max(needed), self.canvas)

    @property
    def figure_height(self) -> float:
        return self.top + self.height + self.bottom


def lay_out(heatmap: HeatMap, width: float | None = None) -> Layout:
    """Room for every label; cells within limits; numbers where they can be read."""
    asked, canvas = width, WIDTH if width is None else width
    n_rows, n_columns = len(heatmap.rows), len(heatmap.columns)
    bubbles = isinstance(heatmap, Bubbles)
    row = _between(USUAL_HEIGHT / n_rows, *(BUBBLE_ROWS if bubbles else ROW_HEIGHTS))
    height = _between(row * n_rows, *(BUBBLE_HEIGHTS if bubbles else HEIGHTS))
    row = height / n_rows
    label_size = 12.0 if row >= 15 else SMALLEST

    widest = (WIDEST_BUBBLE_COLUMN if bubbles else WIDEST_COLUMN) * n_columns
    scale = scale_of(heatmap)
    # above bubbles stands their legend, into which the bar's title must not reach
    bar_title = _wrapped(heatmap.value_name, height + BEYOND * (not bubbles))
    tick = max((len(text) for _, text in scale.ticks), default=0)
    right = 2 * BAR + 12 + CHARACTER * tick + LINE * len(bar_title) + 18
    longest_row = min(_longest(heatmap.row_labels), LONGEST_ROW)
    beside = legend_is_beside(canvas - right - TITLE - CHARACTER * longest_row - 16, asked)
    right = right if beside else max(MARGIN, CHARACTER * tick / 2 + 4)
    least = min(LEAST_COLUMN * n_columns, MOST_CELLS * canvas)
    least = max(LEAST_CELLS, least if asked is None else min(widest, PLOT * canvas))
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
    needed = LINE if turned else CHARACTER * longest + 6
    digits = max((len(heatmap.text(i, j)) for i, j, _ in heatmap.measured), default=0)
    few = n_rows * n_columns <= MOST_NUMBERS
    gap = 1.5 if min(row, column) >= 14 else 0.5 if min(row, column) >= 6 else 0.0
    dot = 5.0 if gap > 1 else 3.5
    bottom = TITLE + 14 + (CHARACTER * longest if turned else LINE)
    head = head_of(heatmap.title, heatmap.subheading, canvas)
    keys: list[Key] = []
    if isinstance(heatmap, Bubbles):
        start = left if beside and width >= canvas / 2 else MARGIN
        keys = heatmap.legend(min(row, column), start, canvas)
    # a title is as long as the figure lets it be, in the middle of its axis
    wide = width + 2 * min(left, canvas - left - width)
    high = height + 2 * min(bottom, TOP - 60)
    top = TOP + head.more + (LEGEND * (keys[-1].row + 1) if keys else 0)
    bar_top = None
    if scale.ticks and not beside:
        bar_title, bar_top = _wrapped(heatmap.value_name, wide - 12), top + height + bottom
        bottom += BAR + LINE * (len(bar_title) + 1) + 12
    return Layout(
        head=head,
        canvas=canvas,
        rows=rows,
        keys=keys,
        top=top,
        left=left,
        right=right,
        bottom=bottom,
        width=width,
        height=height,
        is_full=bool(width == most) or asked is not None,
        row_step=_step(LINE * label_size / 12 - 1.5, row),
        column_step=_step(needed, column),
        turned=turned,
        label_size=label_size,
        numbers=few and not bubbles and row >= 16 and CHARACTER * digits + 6 <= column,
        gap=gap,
        dot=dot * TRIANGLE if heatmap.mark == "triangle" else dot,
        cell=min(row, column),
        bar_title=tuple(bar_title),
        bar_top=bar_top,
        x_title=short(heatmap.x_title, int(wide / CHARACTER)),
        y_title=short(heatmap.y_title, int(high / CHARACTER)),
    )


def shown(labels: Sequence[str], step: int) -> list[tuple[int, str]]:
    """Place and text of every ``step``-th label, from the first."""
    return list(enumerate(labels))[::step]


def dot_places(heatmap: HeatMap, layout: Layout, scale: Scale) -> list[tuple[float, float, str]]:
    """x, y and colour of each mark: in the middle of its cell, or beside the number.

    Beside it is the upper right corner.
    """
    right = up = 0.0
    if layout.numbers:
        right = 0.5 - 7 * len(heatmap.columns) / layout.width
        up = 0.5 - 6 * len(heatmap.rows) / layout.height
    value = {(i, j): number for i, j, number in heatmap.measured}
    return [(j + right, i - up, scale.ink(value[i, j])) for i, j in heatmap.marked]


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


def _step(needed: float, there: float) -> int:
    """1, 2, 5, 10, 20, …: the first with which labels have the room they need."""
    powers = (1, 10, 100, 1000, 10_000, 100_000, 1_000_000)
    steps = (digit * power for power in powers for digit in (1, 2, 5))
    return next(step for step in steps if step * there >= needed)
