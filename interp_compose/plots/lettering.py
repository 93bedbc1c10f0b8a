"""Text as matplotlib draws it: words stay words, in a font that every machine has."""

from __future__ import annotations

from typing import Any, Final, Protocol, runtime_checkable

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font

from interp_compose.plots.canvas import MARGIN, POINT, Head
from interp_compose.plots.theme import INK, MUTED

FAMILY: Final = "DejaVu Sans"  # comes with matplotlib, so figures agree on every machine


def plain(colour: str) -> dict[str, Any]:
    """Options for text as it is: ``$`` starts no formula, ``_`` and ``<`` mean nothing."""
    return {"color": colour, "family": FAMILY, "parse_math": False}


def drawable(text: str) -> str:
    """One line of characters that the font has; others become "�" instead of a warning."""
    font = get_font(findfont(FontProperties(family=FAMILY)))
    flat = " ".join(text.split())
    return "".join(c if font.get_char_index(ord(c)) else "\N{REPLACEMENT CHARACTER}" for c in flat)


@runtime_checkable
class Canvas(Protocol):
    """A layout: how large the figure is, in pixels."""

    @property
    def width(self) -> float: ...

    @property
    def height(self) -> float: ...


def add_axes(
    figure: Figure, canvas: Canvas, x: float, y: float, width: float, height: float
) -> Axes:
    """Axes with their upper left corner there, counted from the figure's."""
    across, down = canvas.width, canvas.height
    return figure.add_axes((x / across, 1 - (y + height) / down, width / across, height / down))


def write(
    figure: Figure, canvas: Canvas, x: float, y: float, text: str, size: float, **how: Any
) -> None:
    """A line of text there; its size in pixels."""
    style = plain(how.pop("colour", INK))
    across, up = x / canvas.width, 1 - y / canvas.height
    figure.text(across, up, drawable(text), size=size * POINT, **how, **style)


def write_head(figure: Figure, head: Head, width: float, height: float) -> None:
    """Title and subtitle."""
    for k, (text, y, size) in enumerate(head.placed):
        colour = INK if k < len(head.title) else MUTED
        place = (MARGIN / width, 1 - y / height)
        figure.text(*place, drawable(text), size=size * POINT, **plain(colour))
