"""The strokes of a heat map's hatched cells: the same for both backends, never across a number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

OPACITY: Final = 0.4
STEP: Final = 9.0  # pixels from one stroke to the next, across
SHORTEST: Final = 2.5  # a stroke, across

Stroke = tuple[tuple[float, float], tuple[float, float]]
"""The two ends, each (x, y) in columns and rows."""
Box = tuple[float, float, float, float]
"""Left, right, top and bottom, in pixels from a cell's middle."""


def hatching(
    clear: Mapping[tuple[int, int], Sequence[Box]], width: float, height: float, margin: float
) -> dict[tuple[int, int], list[Stroke]]:
    """The strokes of each cell (row, column), from upper left to lower right; what is written into
    it keeps its ``clear`` boxes. Cells are ``width`` and ``height`` pixels, with a ``margin``."""
    return {
        (i, j): [
            (
                (round(j + start / width, 3), round(i + (start + offset) / height, 3)),
                (round(j + end / width, 3), round(i + (end + offset) / height, 3)),
            )
            for start, end, offset in _diagonals(width / 2 - margin, height / 2 - margin, boxes)
        ]
        for (i, j), boxes in clear.items()
    }


def around(x: float, y: float, half_width: float, half_height: float) -> Box:
    return x - half_width, x + half_width, y - half_height, y + half_height


def _diagonals(
    half_width: float, half_height: float, clear: Sequence[Box]
) -> Iterator[tuple[float, float, float]]:
    """Pieces of the lines y = x + offset in a cell, one of which goes through its middle: where
    each starts and ends on x, and its offset."""
    n = int((half_width + half_height) / STEP)
    for offset in (STEP * k for k in range(-n, n + 1)):
        pieces = [_within(around(0.0, 0.0, half_width, half_height), offset)]
        for box in clear:
            low, high = _within(box, offset)
            if low < high:
                pieces = [part for a, b in pieces for part in ((a, min(b, low)), (max(a, high), b))]
        yield from ((a, b, offset) for a, b in pieces if b - a >= SHORTEST)


def _within(box: Box, offset: float) -> tuple[float, float]:
    """Where y = x + offset enters and leaves the box, on x; the wrong way round where it misses."""
    left, right, top, bottom = box
    return max(left, top - offset), min(right, bottom - offset)
