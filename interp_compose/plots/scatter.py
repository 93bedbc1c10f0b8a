"""What a scatter of points says, apart from how it is drawn: embeddings or outputs in a plane.

Sizes are found, and a scene is made, in :mod:`.scatter_layout`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from interp_compose.errors import InputError
from interp_compose.plots.chart import short
from interp_compose.plots.theme import BLUE, ORANGE, SKY, VERMILLION, Marker, Style

SHADES: Final = (
    (BLUE, "#8cc3e8"),
    (VERMILLION, "#f8b48a"),
    ("#00714f", "#7bd0b2"),
    ("#8f2f78", "#e0a6d3"),
    ("#6b4e0f", "#cfb57c"),
    ("#3a3a3a", "#aaaaaa"),
)
"""A dark and a light shade of a hue, for a pair in one order and in the other."""
PAIR_MARKERS: Final[tuple[Marker, ...]] = ("circle", "cross", "star")
TWINS: Final = (
    Style(ORANGE, "square"),
    Style(SKY, "diamond"),
    Style("#c4b400", "triangle-up"),
    Style("#d1495b", "triangle-down"),
)
"""For pairs of equal parts, which have no other order."""
MANY: Final = 200  # points in a panel, from which they are drawn smaller
LONGEST_NAME: Final = 24
LONGEST_TEXT: Final = 12
LONGEST_TITLE: Final = 44


@dataclass(frozen=True)
class Group:
    """Points of one name and look; x and y are [points].

    NaN for a point that was not measured. A point that has a text in ``texts`` is drawn as that
    text, any other as the style's marker. A group without a name is not in the legend.
    """

    name: str
    style: Style
    x: Sequence[float]
    y: Sequence[float]
    texts: Sequence[str] = ()

    @cached_property
    def measured(self) -> list[tuple[float, float, str]]:
        """x, y and text of each point that is somewhere."""
        texts = self.texts or [""] * len(self.x)
        return [
            (float(x), float(y), short(text, LONGEST_TEXT))
            for x, y, text in zip(self.x, self.y, texts, strict=True)
            if not (math.isnan(x) or math.isnan(y))
        ]


@dataclass(frozen=True)
class ScatterPanel:
    """What is drawn into one pair of axes; ``title`` may be empty."""

    groups: Sequence[Group]
    title: str = ""

    @property
    def n_measured(self) -> int:
        return sum(len(group.measured) for group in self.groups)

    @property
    def heading(self) -> str:
        """The title, and how many points are missing from a panel that shows others."""
        missing = sum(len(group.x) for group in self.groups) - self.n_measured
        note = f"{missing} not measured" if missing and self.n_measured else ""
        name = short(self.title, LONGEST_TITLE - len(note))
        return " · ".join(part for part in (name, note) if part)

    @property
    def point(self) -> float:
        """A marker's diameter in pixels."""
        return 7.0 if self.n_measured < MANY else 5.0

    @property
    def x_range(self) -> tuple[float, float]:
        return _range([x for group in self.groups for x, _, _ in group.measured])

    @property
    def y_range(self) -> tuple[float, float]:
        return _range([y for group in self.groups for _, y, _ in group.measured])


@dataclass(frozen=True)
class Scatter:
    """Points in panels side by side, each with axes of its own, and one legend.

    Raises:
        InputError: no panel; x, y and texts of one group differ in length; an infinite value; a
            name that means two groups of a panel, or for two styles.
    """

    title: str
    subtitle: str
    x_title: str
    y_title: str
    panels: Sequence[ScatterPanel]

    def __post_init__(self) -> None:
        if not self.panels:
            raise InputError("a scatter of no panels; pass at least one")
        for panel in self.panels:
            names = [group.name for group in panel.groups if group.name]
            for group in panel.groups:
                who = f"group {short(group.name)!r}"
                n = len(group.x)
                if len(group.y) != n or len(group.texts) not in (0, n):
                    raise InputError(
                        f"{who} has {n} x, {len(group.y)} y and {len(group.texts)} texts; expected "
                        "as many of each (or no text)"
                    )
                for value in filter(math.isinf, (*group.x, *group.y)):
                    raise InputError(
                        f"{who} has a point at {value}; expected finite numbers, or NaN where "
                        "nothing was measured"
                    )
                if names.count(group.name) > 1:
                    raise InputError(f"{who} is twice in one panel; join them")
                if group.name and self.legend[group.name] != group.style:
                    raise InputError(f"{who} has two styles; give it the same one in every panel")

    @property
    def legend(self) -> dict[str, Style]:
        """Every named group of a panel, in their order."""
        return {
            group.name: group.style
            for panel in self.panels
            for group in panel.groups
            if group.name
        }  # fmt: skip


def pair_styles(
    pairs: Sequence[tuple[Hashable, Hashable]],
) -> dict[tuple[Hashable, Hashable], Style]:
    """A style for each pair: (a, b) and (b, a) get a dark and a light shade of one hue.

    The one that comes first is the dark one. A pair of equal parts gets a colour and a marker
    of its own. Six hues and four such colours differ; beyond them hues return with another
    marker.
    """
    styles: dict[tuple[Hashable, Hashable], Style] = {}
    n_hues = n_twins = 0
    for a, b in dict.fromkeys(pairs):
        if a == b:
            styles[a, b] = TWINS[n_twins % len(TWINS)]
            n_twins += 1
        elif (b, a) in styles:
            dark = styles[b, a]
            light = next(light for shade, light in SHADES if shade == dark.colour)
            styles[a, b] = Style(light, dark.marker)
        else:
            marker = PAIR_MARKERS[n_hues // len(SHADES) % len(PAIR_MARKERS)]
            styles[a, b] = Style(SHADES[n_hues % len(SHADES)][0], marker)
            n_hues += 1
    return styles


def _range(values: Sequence[float]) -> tuple[float, float]:
    """A little wider than the values, for markers and texts at the edge."""
    if not values:
        return 0.0, 1.0
    low, high = min(values), max(values)
    pad = 0.07 * (high - low) or 0.1 * abs(high) or 1.0
    return low - pad, high + pad
