"""Panels of one size in rows, and what is around them: the same for every kind of figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from interp_compose.plots.scene import Text

Box = tuple[float, float, float, float]
"""Left, top, width and height."""


@dataclass(frozen=True)
class Panels:
    """``n`` panels in rows of ``per_row``: the upper left corner of the first one, the size of
    each, and the distance from one to the next; all across and down, in pixels."""

    n: int
    per_row: int
    start: tuple[float, float]
    size: tuple[float, float]
    step: tuple[float, float]

    def box(self, k: int) -> Box:
        """The box of panel ``k``, counted row by row."""
        row, column = divmod(k, self.per_row)
        (left, top), (across, down) = self.start, self.step
        return left + column * across, top + row * down, *self.size

    @property
    def boxes(self) -> list[Box]:
        return [self.box(k) for k in range(self.n)]

    @property
    def ends(self) -> tuple[float, float]:
        """The right edge of a whole row, and the lower edge of the last one."""
        left, _, width, _ = self.box(min(self.n, self.per_row) - 1)
        _, top, _, height = self.box(self.n - 1)
        return left + width, top + height


def per_row_of(n: int, most: int) -> int:
    """How many of ``n`` panels go in a row of at most ``most``; rows are as even as may be."""
    return math.ceil(n / math.ceil(n / most))


def above(titles: Sequence[Sequence[str]], size: float, line: float = 0.0) -> list[Text]:
    """The lines of each panel's title over it, from its left edge."""
    return [
        Text(text, (0.0, 1.0), 0.0, -6 - line * (len(lines) - 1 - i), k, size,
             across="left", down="bottom")
        for k, lines in enumerate(titles)
        for i, text in enumerate(lines)
    ]  # fmt: skip


def below(lines: Sequence[str], dy: float, size: float, line: float = 0.0) -> list[Text]:
    """The lines of a title under the middle of all panels."""
    return [
        Text(text, (0.5, 0.0), 0.0, dy + line * i, size=size, down="top")
        for i, text in enumerate(lines)
    ]


def in_rows(
    widths: Sequence[float], left: float, right: float, gap: float, first: float = 0.0
) -> list[tuple[float, int]]:
    """Where each of several things begins, and in which row, side by side between two edges;
    ``first``: what the first row leaves blank."""
    x, row, places = left + first, 0, []
    for width in widths:
        if x > left and x + width > right:
            x, row = left, row + 1
        places.append((x, row))
        x += width + gap
    return places
