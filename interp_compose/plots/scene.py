"""What a picture is made of, apart from how it is drawn.

A kind of figure says what it shows in a description, and lays that out as a :class:`Scene` of these
parts. The backends, :mod:`.interactive` (plotly) and :mod:`.static` (matplotlib), draw scenes, and
know no kind. Lengths are in pixels (:mod:`.canvas`), counted from a figure's upper left corner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, UInt8

from interp_compose.plots.canvas import Head
from interp_compose.plots.heatmap_scale import Scale
from interp_compose.plots.theme import INK, Style

Side = Literal["left", "center", "right"]
Level = Literal["top", "middle", "bottom", "baseline"]


@dataclass(frozen=True)
class Hover:
    """What the interactive figure says of a point.

    ``says`` is a format string: ``{x}``, ``{y}``, ``{z}`` and ``{text}`` are the point's, ``{0}``,
    ``{1}``, … what its row of ``rows`` holds. With ``among`` it is next to the item's name, with
    what is said of others at the same x.
    """

    says: str
    rows: Sequence[Any] = ()
    among: bool = False


@dataclass(frozen=True)
class Curve:
    """A line with a marker at each point; ``ends`` are the low and high ends of single points."""

    name: str
    style: Style
    x: Sequence[float]
    y: Sequence[float]
    hover: Hover
    ends: tuple[Sequence[float], Sequence[float]] | None = None


@dataclass(frozen=True)
class Band:
    """What lies between two lines."""

    x: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    colour: str


@dataclass(frozen=True)
class Rule:
    """A horizontal line across the axes, with its name in the hover."""

    y: float
    style: Style
    name: str = ""
    at: Sequence[float] = ()
    says: str = ""


@dataclass(frozen=True)
class Strokes:
    """Straight lines, each from (x, y) to (x, y)."""

    ends: Sequence[tuple[tuple[float, float], tuple[float, float]]]
    colour: str
    width: float = 1.0
    opacity: float = 1.0


@dataclass(frozen=True)
class Marks:
    """Points as markers, of one colour, of one each, or of their ``values`` on the colour bar."""

    x: Sequence[float]
    y: Sequence[float]
    size: float | Sequence[float]  # diameters
    marker: str = "circle"  # or "x-thin"
    colour: str | Sequence[str] = INK
    values: Sequence[float] | None = None
    edge: str = ""
    opacity: float = 1.0
    hover: Hover | None = None
    group: str = ""  # of the legend


@dataclass(frozen=True)
class Words:
    """Points as texts."""

    x: Sequence[float]
    y: Sequence[float]
    texts: Sequence[str]
    colour: str
    size: float
    hover: Hover | None = None
    group: str = ""


@dataclass(frozen=True, eq=False)
class Cells:
    """A number, or NaN, for each row and column; cell [i, j] is ``step`` wide and high, and the
    first one's middle is at (``start``, ``start``). Coloured by the scene's bar, or grey."""

    values: Float[np.ndarray, "rows columns"]
    scale: Scale | None
    gap: float = 0.0
    start: float = 0.0
    step: float = 1.0
    hover: Hover | None = None
    says_gaps: bool = False


@dataclass(frozen=True, eq=False)
class Image:
    """An image [y, x, channel] between two corners."""

    pixels: UInt8[np.ndarray, "y x channel"]
    left: float
    top: float
    width: float
    height: float


Item = Curve | Band | Rule | Strokes | Marks | Words | Cells | Image


@dataclass(frozen=True)
class Axis:
    """One direction: its ends, its ticks, and what it is.

    Without ``ticks`` a backend chooses about ``most`` round numbers. ``labels`` is False where the
    numbers are those of another axis, or there is no room; the hover may read them all the same.
    """

    low: float
    high: float
    title: Sequence[str] = ()
    ticks: Sequence[tuple[float, str]] | None = None
    most: int = 7
    is_share: bool = False
    whole: bool = False
    is_scientific: bool = False  # large numbers as powers of ten
    turned: bool = False
    labels: bool = True
    size: float = 12.0
    hover: str = ""  # what the hover calls a place on it


@dataclass(frozen=True)
class Axes:
    """A panel: left, top, width and height of its box, and what is drawn into it, in order.

    ``look`` is "open" (two axis lines and a grid), "bare" (none), "grid" (lines at ticks alone) or
    "frame" (a frame of ``colour``).
    """

    box: tuple[float, float, float, float]
    x: Axis
    y: Axis
    items: Sequence[Item]
    look: Literal["open", "bare", "grid", "frame"] = "open"
    colour: str = ""
    paper: str = ""  # where there is no number
    square: bool = False  # cells stay square where a part is looked at


@dataclass(frozen=True)
class Text:
    """A line of text, (dx, dy) from a place in a panel's box, or in the box of all panels.

    ``share`` is that place: (0, 0) is the lower left corner.
    """

    text: str
    share: tuple[float, float]
    dx: float = 0.0
    dy: float = 0.0
    panel: int | None = None
    size: float = 12.0
    colour: str = INK
    across: Side = "center"
    down: Level = "middle"
    turned: bool = False


@dataclass(frozen=True)
class Ring:
    """A circle, (dx, dy) from the upper left corner of the first panel."""

    dx: float
    dy: float
    diameter: float


@dataclass(frozen=True)
class Label:
    """A name right of the last panel, at the height ``to``; a leader joins it to (x, y)."""

    text: str
    x: float
    y: float
    to: float
    colour: str


@dataclass(frozen=True)
class Key:
    """A name of the legend with its sample, which begins at (x, y): a line, or a marker alone."""

    name: str
    style: Style
    x: float
    y: float
    line: Literal["", "plain", "marked"] = ""
    group: str = ""  # what it means, where the name is shortened


@dataclass(frozen=True)
class Bar:
    """A colour bar right of all panels, ``length`` high, level with their middle; or, of a picture
    on narrow paper, below them, from ``top`` on, ``length`` wide."""

    scale: Scale
    title: Sequence[str]
    length: float
    top: float | None = None


@dataclass(frozen=True)
class Scene:
    """A whole picture; ``follows``: panels share both axes. ``is_wide``: the interactive figure is
    as wide as its page."""

    width: float
    height: float
    head: Head
    axes: Sequence[Axes]
    texts: Sequence[Text] = ()
    rings: Sequence[Ring] = ()
    labels: Sequence[Label] = ()
    keys: Sequence[Key] = ()
    bar: Bar | None = None
    follows: bool = False
    unified: bool = False  # one hover for all items at an x
    is_wide: bool = True

    @property
    def box(self) -> tuple[float, float, float, float]:
        """Left, top, width and height of all panels together."""
        left, top = (min(axes.box[k] for axes in self.axes) for k in (0, 1))
        right = max(axes.box[0] + axes.box[2] for axes in self.axes)
        bottom = max(axes.box[1] + axes.box[3] for axes in self.axes)
        return left, top, right - left, bottom - top
