"""The strokes of a heat map's hatched cells: the same for both backends, never across a number."""

from __future__ import annotations

from typing import Final

from interp_compose.plots.heatmap import HeatMap
from interp_compose.plots.heatmap_layout import CHARACTER, LINE, Layout, dot_places
from interp_compose.plots.heatmap_scale import BLACK, WHITE, Scale

OPACITY: Final = 0.4
STEP: Final = 9.0  # pixels from one stroke to the next, across
SHORTEST: Final = 2.5  # a stroke, across

Stroke = tuple[tuple[float, float], tuple[float, float]]
"""The two ends, each (x, y) in columns and rows."""
Box = tuple[float, float, float, float]
"""Left, right, top and bottom."""


def hatching(heatmap: HeatMap, layout: Layout, scale: Scale) -> dict[str, list[Stroke]]:
    """The strokes of each ink, from upper left to lower right.

    What is written into a cell, its number and its mark, keeps a clear box around it.
    """
    width = layout.width / len(heatmap.columns)
    height = layout.height / len(heatmap.rows)
    marks = {
        cell: (x, y)
        for cell, (x, y, _) in zip(
            heatmap.marked, dot_places(heatmap, layout, scale), strict=True
        )
    }  # fmt: skip
    strokes: dict[str, list[Stroke]] = {BLACK: [], WHITE: []}
    for i, j in heatmap.hatched:
        value = heatmap.values[i][j]
        assert value is not None  # a heat map hatches no empty cell
        clear = []
        if layout.numbers:
            half = (CHARACTER * len(heatmap.text(i, j)) + 2) / 2
            clear.append(_around(width / 2, height / 2, half, LINE / 2))
        if (i, j) in marks:
            x, y = marks[i, j]
            across, down = width * (x - j + 0.5), height * (y - i + 0.5)
            clear.append(_around(across, down, layout.dot, layout.dot))
        for start, end, offset in _diagonals(width, height, layout.gap / 2, clear):
            ends = [
                (round(j - 0.5 + x / width, 3), round(i - 0.5 + (x + offset) / height, 3))
                for x in (start, end)
            ]
            strokes[scale.ink(value)].append((ends[0], ends[1]))
    return strokes


def _around(x: float, y: float, half_width: float, half_height: float) -> Box:
    return x - half_width, x + half_width, y - half_height, y + half_height


def _diagonals(
    width: float, height: float, margin: float, clear: list[Box]
) -> list[tuple[float, float, float]]:
    """Pieces of the lines y = x + offset in a cell: where each starts and ends on x, its offset."""
    found = []
    n = int((width + height) / STEP) + 1
    first = (height - width) / 2 - STEP * (n // 2)  # one of them goes through the middle
    for offset in (first + k * STEP for k in range(n + 1)):
        whole = _within((margin, width - margin, margin, height - margin), offset)
        pieces = [whole]
        for box in clear:
            low, high = _within(box, offset)
            if low < high:
                pieces = [
                    part for a, b in pieces for part in ((a, min(b, low)), (max(a, high), b))
                ]  # fmt: skip
        found += [(a, b, offset) for a, b in pieces if b - a >= SHORTEST]
    return found


def _within(box: Box, offset: float) -> tuple[float, float]:
    """Where y = x + offset enters and leaves the box, on x; the wrong way round where it misses."""
    left, right, top, bottom = box
    return max(left, top - offset), min(right, bottom - offset)
