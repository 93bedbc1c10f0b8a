"""How every figure looks.

Colours are Okabe and Ito's, told apart with any common colour vision; each line also has a marker
of its own, so that figures survive greyscale. Controls are greyish and dashed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Final, Literal

INK: Final = "#222222"
MUTED: Final = "#666666"
EDGE: Final = "#999999"  # of axes
FRAME: Final = "#bbbbbb"  # around matrices and images
GRID: Final = "#e6e6e6"
LEADER: Final = "#c4c4c4"  # from a line's end to its name: grey, so that it is no data
FONT: Final = "Inter, Helvetica Neue, Helvetica, Arial, sans-serif"
BAND_OPACITY: Final = 0.13

BLUE, VERMILLION, GREEN = "#0072B2", "#D55E00", "#009E73"
PURPLE, ORANGE, SKY = "#CC79A7", "#E69F00", "#56B4E9"

Dash = Literal["solid", "dash", "dot"]
Marker = Literal[
    "circle", "square", "diamond", "triangle-up", "triangle-down", "x", "cross", "star"
]

MARKERS: Final = {
    "circle": "o",
    "square": "s",
    "diamond": "D",
    "triangle-up": "^",
    "triangle-down": "v",
    "x": "X",
    "cross": "P",
    "star": "*",
}
"""Markers by their names here, and what matplotlib calls them."""


@dataclass(frozen=True)
class Style:
    """One line's looks; ``width`` in pixels (interactive) or points (static)."""

    colour: str
    marker: Marker
    dash: Dash = "solid"
    width: float = 2.2
    filled: bool = True

    @property
    def text_colour(self) -> str:
        """The same hue, dark enough to read on white."""
        channels = (int(self.colour[i : i + 2], 16) for i in (1, 3, 5))
        return "#" + "".join(f"{int(0.7 * channel):02x}" for channel in channels)


PROTOCOL_STYLES: Final = {
    "mean": Style(BLUE, "circle", width=3.4),  # wide: mean and sum nearly coincide in pre-LN models
    "max": Style(VERMILLION, "square"),
    "sum": Style(GREEN, "diamond", width=1.6, filled=False),
    "last": Style("#A3478A", "triangle-up", dash="dash", width=1.6),
    "first": Style("#8C6D1F", "triangle-down", dash="dash", width=1.6),
    "straddling": Style("#5F63A6", "cross", dash="dot", width=1.6),
    "shuffled": Style("#707070", "x", dash="dot", width=1.6),
    "average": Style(BLUE, "circle", width=2.6),
}

OWN_STYLES: Final = (Style(SKY, "cross"), Style(ORANGE, "star"), Style(PURPLE, "triangle-up"))
"""Styles of poolings that are functions of the user's."""

CLEAN_STYLE: Final = Style(INK, "circle", width=1.3)
"""The style of the clean model's level."""

COMPARISON_STYLES: Final = (
    Style(BLUE, "circle"),
    Style(VERMILLION, "square"),
    Style(GREEN, "diamond"),
    Style(PURPLE, "triangle-up"),
    Style(ORANGE, "x"),
    Style(SKY, "cross"),
    Style(INK, "star"),
)


def styles_of(names: Iterable[Hashable]) -> dict[Any, Style]:
    """A style for each name, in their order; after seven they return."""
    return dict(zip(dict.fromkeys(names), cycle(COMPARISON_STYLES), strict=False))


def dotted(colour: str) -> Style:
    """The style of a level, in the colour of the line that it is compared with."""
    return Style(colour, "circle", "dot", 1.3)
