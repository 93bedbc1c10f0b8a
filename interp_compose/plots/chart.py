"""What a line chart says, apart from how it is drawn.

One description, two pens: :mod:`.interactive` draws it with plotly, :mod:`.static` with
matplotlib, so that the picture in a paper and the one in a notebook cannot disagree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from interp_compose.plots.theme import Style


@dataclass(frozen=True)
class Line:
    """A curve with its confidence band; all sequences are [points]."""

    label: str
    style: Style
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    n: Sequence[int]


@dataclass(frozen=True)
class Level:
    """A horizontal line to compare with; ``label`` may be empty."""

    label: str
    y: float
    style: Style


@dataclass(frozen=True)
class Chart:
    """Shares (0 … 1) against layers or depth."""

    title: str
    subtitle: str
    x_title: str
    y_title: str
    x_is_share: bool
    lines: Sequence[Line]
    levels: Sequence[Level]

    @property
    def label_length(self) -> int:
        """Characters of the longest label beside the plot."""
        labels = [line.label for line in self.lines] + [level.label for level in self.levels]
        return max(len(short(label)) for label in labels)

    @property
    def has_one_layer(self) -> bool:
        """Points instead of lines: intervals are drawn as bars."""
        return all(len(line.x) == 1 for line in self.lines)

    @property
    def x_range(self) -> tuple[float, float]:
        """The axis, a little wider than the data."""
        xs = [x for line in self.lines for x in line.x]
        pad = max(0.03 * (max(xs) - min(xs)), 0.025 if self.x_is_share else 0.25)
        return min(xs) - pad, max(xs) + pad

    @property
    def y_range(self) -> tuple[float, float]:
        """From 0 to just above the highest band or level, 1 at most."""
        highs = [h for line in self.lines for h in line.high] + [level.y for level in self.levels]
        top = min(1.0, 1.06 * max(highs))
        return -0.02 * top, 1.03 * top

    def label_heights(self, share: float) -> list[float]:
        """Where each label goes (lines, then labelled levels), so that none covers another.

        ``share`` is a label's height as a share of the axis.
        """
        bottom, top = self.y_range
        ends = [line.y[-1] for line in self.lines]
        ends += [level.y for level in self.levels if level.label]
        return spread(ends, share * (top - bottom), bottom, top)


def short(text: str, longest: int = 32) -> str:
    """``text``, its middle left out if it is longer than ``longest`` characters."""
    if len(text) <= longest:
        return text
    half = (longest - 1) // 2
    return f"{text[:half]}…{text[-half:]}"


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move numbers apart until neighbours differ by ``gap``, each as little as may be.

    Neighbours that collide become a block centred on the mean of what they wanted (pooling
    adjacent violators, the least-squares answer); blocks are then kept inside [low, high] as far
    as there is room. Order is kept.
    """
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    blocks: list[tuple[float, int]] = []  # the start of the block, how many it holds
    for i in order:
        start, size = wanted[i], 1
        while blocks and start < blocks[-1][0] + blocks[-1][1] * gap:
            before, count = blocks.pop()
            start = (before * count + (start - count * gap) * size) / (count + size)
            size += count
        blocks.append((start, size))
    placed = [start + k * gap for start, size in blocks for k in range(size)]
    for k in range(len(placed)):
        placed[k] = max(placed[k], low + k * gap)
    for k in range(len(placed)):
        placed[-1 - k] = min(placed[-1 - k], high - k * gap)
    result = [0.0] * len(wanted)
    for i, y in zip(order, placed, strict=True):
        result[i] = y
    return result
