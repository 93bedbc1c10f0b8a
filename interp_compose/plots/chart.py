"""What a line chart says, apart from how it is drawn.

It is laid out, and made a scene, in :mod:`.chart_layout`; :mod:`.interactive` draws scenes with
plotly, :mod:`.static` with matplotlib, so that the picture in a paper and the one in a notebook
cannot disagree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from scipy.optimize import isotonic_regression

from interp_compose.plots.theme import MUTED, Style, dotted

BAR_STEP: Final = 0.01  # from one line's bars to the next one's, of the axis
BANDS: Final = re.compile(r"\bbands( and bars)?:")
MOST_BANDS: Final = 3
"""More would lie over each other until none can be told; then one line alone has its own."""

UNTELLING: Final = ("/", "model", "models", "checkpoint", "final")
"""Folders of a model's path that do not say which model it is."""


@dataclass(frozen=True)
class Line:
    """A curve with its confidence interval; all sequences are [points].

    The interval is a thin bar at each point, or a band; a single point has no room for a band.
    """

    label: str
    style: Style
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    n: Sequence[int]
    interval: Literal["band", "bars"] = "band"

    @property
    def has_bars(self) -> bool:
        return self.interval == "bars" or len(self.x) == 1

    @property
    def is_wide(self) -> bool:
        """Whether its interval is anywhere wider than a point."""
        return any(low < high for low, high in zip(self.low, self.high, strict=True))

    @property
    def has_band(self) -> bool:
        """Whether its interval is a band, and wide."""
        return self.is_wide and not self.has_bars


@dataclass(frozen=True)
class Level:
    """A horizontal line to compare with; ``label`` may be empty."""

    label: str
    y: float
    style: Style


@dataclass(frozen=True)
class Panel:
    """What is drawn into one pair of axes; ``title`` may be empty."""

    lines: Sequence[Line]
    levels: Sequence[Level]
    title: str = ""

    @property
    def only(self) -> Line | None:
        """The line whose interval alone is drawn, where all would be too many: the widest that has
        one. None where none has an interval, as of one seed."""
        wide = [line for line in self.lines if line.is_wide]
        if not any(line.has_band for line in wide) or len(wide) <= MOST_BANDS:
            return None
        return max(wide, key=lambda line: line.style.width)

    @property
    def banded(self) -> list[Line]:
        """Lines whose interval is drawn as a band."""
        if self.only is not None:
            return [self.only]
        return [line for line in self.lines if line.has_band]

    @property
    def barred(self) -> list[Line]:
        """Lines whose interval is drawn as bars."""
        return [] if self.only is not None else [line for line in self.lines if line.has_bars]


@dataclass(frozen=True)
class Chart:
    """Numbers against layers or depth, in panels side by side that share both axes.

    An axis that ``is_share`` is written in per cent. Labels are next to the last panel, so every
    panel should hold the same lines. Where x is no layer or depth, ``x_name`` says what it is;
    ``x_ticks`` are the places to mark where the backends should not choose, and ``x_notes`` a
    second line under each of them; or x holds ``categories``, at 0, 1, 2, …, with their names.
    ``x_step`` is about how far apart neighbours on x are.
    """

    title: str
    subtitle: str
    x_title: str
    y_title: str
    panels: Sequence[Panel]
    x_is_share: bool = False
    y_is_share: bool = True
    x_name: str = ""
    x_ticks: Sequence[float] = ()
    x_notes: Sequence[str] = ()
    x_step: float = 1.0
    categories: Sequence[str] = ()

    @property
    def subheading(self) -> str:
        """The subtitle, and which intervals are drawn where not all are."""
        names = (panel.only.label.split(":")[0] for panel in self.panels if panel.only is not None)
        alone = " and ".join(dict.fromkeys(names))
        if not alone:
            return self.subtitle
        subtitle, n = BANDS.subn(lambda _: f"band of {alone}:", self.subtitle, count=1)
        return subtitle if n else subtitle_of(self.subtitle, f"band of {alone} alone")

    @property
    def label_length(self) -> int:
        """Characters of the longest label next to the plot."""
        last = self.panels[-1]
        labels = [line.label for line in last.lines] + [level.label for level in last.levels]
        return max(len(short(label)) for label in labels)

    @property
    def has_one_layer(self) -> bool:
        """Whether there is one layer only: points are drawn instead of lines."""
        return all(len(line.x) == 1 for panel in self.panels for line in panel.lines)

    @property
    def is_unified(self) -> bool:
        """Whether the interactive figure speaks of all lines at once: where they share their x."""
        points = [x for panel in self.panels for line in panel.lines for x in line.x]
        moved = self.categories and not all(float(x).is_integer() for x in points)
        return not (self.has_one_layer or moved)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """The places marked on x, each with its text."""
        if self.categories:
            return [(float(i), name) for i, name in enumerate(self.categories)]
        if not self.x_notes:
            return [(x, f"{x:,g}" if abs(x) < 1e6 else f"{x:g}") for x in self.x_ticks]
        return [(x, f"{x:g}\n{note}") for x, note in zip(self.x_ticks, self.x_notes, strict=True)]

    @property
    def x_range(self) -> tuple[float, float]:
        """The axis, a little wider than the data."""
        xs = [x for panel in self.panels for line in panel.lines for x in line.x]
        pad = max(0.03 * (max(xs) - min(xs)), 0.025 if self.x_is_share else 0.25 * self.x_step)
        return min(xs) - pad, max(xs) + pad

    @property
    def y_range(self) -> tuple[float, float]:
        """For shares 0 to just above the highest band or level, at most 1; else all there is."""
        ys: list[float] = []
        for panel in self.panels:
            for line in panel.lines:
                ys += [*line.low, *line.y, *line.high]
            ys += [level.y for level in panel.levels]
        if self.y_is_share:
            top = min(1.0, 1.06 * max(ys)) or 1.0  # where all are 0
            return -0.02 * top, 1.03 * top
        pad = max(0.04 * (max(ys) - min(ys)), 1e-3)
        return min(ys) - pad, max(ys) + pad

    def bar_places(self, panel: Panel, share: float = BAR_STEP) -> list[tuple[Line, list[float]]]:
        """The panel's lines with bars, and where the bars are, ``share`` of the axis apart.

        Single points are apart already (:func:`side_by_side`), and so are lines no two of which
        have a point at one place.
        """
        barred = panel.barred
        left, right = self.x_range
        places = [x for line in barred for x in set(line.x)]
        apart = self.has_one_layer or len(set(places)) == len(places)
        step = 0.0 if apart else share * (right - left)
        first = -(len(barred) - 1) / 2
        return [(line, [x + (first + i) * step for x in line.x]) for i, line in enumerate(barred)]

    def label_heights(self, share: float) -> list[float]:
        """Where each label of the last panel goes, so that none covers another.

        First the lines, then the labelled levels. ``share`` is a label's height as a share of the
        axis.
        """
        bottom, top = self.y_range
        last = self.panels[-1]
        ends = [line.y[-1] for line in last.lines]
        ends += [level.y for level in last.levels if level.label]
        return spread(ends, share * (top - bottom), bottom, top)


def subtitle_of(*parts: str) -> str:
    """A subtitle of several parts; those that are empty are left out."""
    return " · ".join(filter(None, parts))


def intervals_name(lines: Iterable[Line]) -> str:
    """What a subtitle calls the intervals of these lines."""
    return "bars" if all(line.has_bars for line in lines) else "bands"


def paired_note(lines: Iterable[Line], reference: str, item: str) -> str:
    """What a subtitle says of lines whose intervals are those of a difference, laid at their
    points: ``bands: 95 % intervals of the difference to clean, paired by example``; nothing where
    none has an interval."""
    drawn = list(lines)
    if not any(line.is_wide for line in drawn):
        return ""
    name = intervals_name(drawn)
    return f"{name}: 95 % intervals of the difference to {reference}, paired by {item}"


def answers_note(config: Mapping[str, Any]) -> list[str]:
    """Notes for a title: that accuracy is among labels, among each example's answer and foil, or of
    answers of several tokens, where it is, and how many examples were left out, for what of them;
    else nothing."""
    labels = config.get("answers", "vocabulary")
    notes = [] if isinstance(labels, str) else [f"answers among {len(labels)} labels"]
    if labels == "foil":
        notes = ["answers: answer or foil, chance 0.500"]
    notes += filter(None, [answer_lengths(config)])
    skipped = config.get("skipped") or {}
    reasons = ", ".join(f"{n} for the {reason}" for reason, n in skipped.items())
    return notes + ([f"{sum(skipped.values())} left out ({reasons})"] if skipped else [])


def chance_level(config: Mapping[str, Any]) -> list[Level]:
    """The accuracy of a guess between each example's answer and its foil, where these are compared;
    else nothing."""
    between = config.get("answers") == "foil"
    return [Level("chance 50.0%", 0.5, dotted(MUTED))] * between


def answer_lengths(config: Mapping[str, Any]) -> str:
    """A phrase such as "answers of 1 to 4 tokens"; an empty text where all are of one."""
    lengths = [int(length) for length in config.get("answer_tokens") or {}]
    shortest, longest = min(lengths, default=1), max(lengths, default=1)
    if longest == 1:
        return ""
    return f"answers of {f'{shortest} to ' if shortest < longest else ''}{longest} tokens"


def side_by_side(lines: Sequence[Line], x_is_share: bool) -> list[Line]:
    """Single points of one layer, moved apart so that their intervals can be seen; other lines as
    they are."""
    if any(len(line.x) != 1 for line in lines):
        return list(lines)
    step = 0.012 if x_is_share else 0.12
    first = -(len(lines) - 1) / 2
    return [replace(line, x=[line.x[0] + (first + i) * step]) for i, line in enumerate(lines)]


def model_name(config: Mapping[str, Any]) -> str:
    """The model's name; a path or a long name without its folders or organisation, and what it was
    trained on in short."""
    name, *trained = str(config.get("model", "Model")).split(" · ")
    if len(name) > 30 or Path(name).is_absolute():
        parts = [part for part in Path(name).parts if part not in UNTELLING]
        name = short(parts[-1] if parts else name, 30)
    return subtitle_of(name, *(short(part, 40) for part in trained))


def short(text: str, longest: int = 32) -> str:
    """``text``, its middle left out if it is longer than ``longest`` characters."""
    if len(text) <= longest:
        return text
    half = (longest - 1) // 2
    return f"{text[:half]}…{text[-half:]}"


def short_each(
    texts: Sequence[str], longest: int = 32, cut: Callable[[str, int], str] = short
) -> list[str]:
    """Each text as ``cut`` shortens it; different ones that it makes alike end in a number."""
    cuts = [cut(text, longest) for text in texts]
    alike: dict[str, list[str]] = {}
    for text, one in dict(zip(texts, cuts, strict=True)).items():
        alike.setdefault(one, []).append(text)
    labels = []
    for text, one in zip(texts, cuts, strict=True):
        number = f" ({alike[one].index(text) + 1})"
        several = len(alike[one]) > 1
        labels.append(short(text, max(longest - len(number), 3)) + number if several else one)
    return labels


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move numbers apart until neighbours differ by ``gap``, each as little as may be (least
    squares), and then inside [low, high] as far as there is room. Order is kept."""
    if not wanted:
        return []
    order = np.argsort(wanted, kind="stable")
    steps = gap * np.arange(len(order))
    placed = isotonic_regression(np.asarray(wanted, float)[order] - steps).x + steps
    placed = np.minimum(np.maximum(placed, low + steps), high - steps[::-1])
    moved = np.empty(len(order))
    moved[order] = placed
    return moved.tolist()
