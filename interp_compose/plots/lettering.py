"""Text as matplotlib draws it: words stay words, in a font that every machine has."""

from __future__ import annotations

from typing import Any, Final

from matplotlib.font_manager import FontProperties, findfont, get_font

FAMILY: Final = "DejaVu Sans"  # comes with matplotlib, so figures agree on every machine


def plain(colour: str) -> dict[str, Any]:
    """Options for text as it is: ``$`` starts no formula, ``_`` and ``<`` mean nothing."""
    return {"color": colour, "family": FAMILY, "parse_math": False}


def drawable(text: str) -> str:
    """One line of characters that the font has; others become "�" instead of a warning."""
    font = get_font(findfont(FontProperties(family=FAMILY)))
    flat = " ".join(text.split())
    return "".join(c if font.get_char_index(ord(c)) else "\N{REPLACEMENT CHARACTER}" for c in flat)
