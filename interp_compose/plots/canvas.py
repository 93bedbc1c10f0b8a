"""The canvas of a figure: how wide it is, and the lines of its title.

Lengths are in pixels, of which an inch of paper has 104. A figure is drawn anew for the width that
it gets, and never scaled, so that letters keep their size.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from typing import Final, Literal

from interp_compose.errors import InputError, OptionError
from interp_compose.plots.chart import short

Width = Literal["column", "page"] | float
"""A column or a page of a paper, or inches."""

PIXELS: Final = 104  # in an inch
POINT: Final = 72 / PIXELS  # points in a pixel
WIDTH: Final = 874.0  # of a figure in a notebook: 8.4 inches
WIDTHS: Final = {"column": 3.25, "page": 6.75}
"""Widths in inches."""
NARROWEST: Final = 2.0  # inches
WIDEST: Final = 30.0
NARROW: Final = 560.0  # below which titles are set smaller
SMALLEST: Final = 10.2  # pixels: letters of 7 points
MARGIN: Final = 17.0
PLOT: Final = 0.5  # of a given width, which the plot keeps with a legend next to it
LETTER: Final = 0.555  # a letter's width, of its size
LONGEST: Final = 280  # characters of a title or subtitle
LONGEST_HOVER: Final = 80  # of a line
TOGETHER: Final = re.compile(r"\d %|\([^()]{1,16}\)")


@dataclass(frozen=True)
class Head:
    """The lines of title and subtitle, their sizes in pixels, and ``height``: how far down they
    reach, with a distance from what follows."""

    title: tuple[str, ...]
    subtitle: tuple[str, ...]
    sizes: tuple[float, float]

    @property
    def placed(self) -> list[tuple[str, float, float]]:
        """Text, its base line from the top, and its size, of each line of both."""
        large, small = self.sizes
        y, lines = 8 + large, []
        for text in self.title:
            lines.append((text, y, large))
            y += 1.3 * large
        y += 1.6 * small - 1.3 * large + 9
        for text in self.subtitle:
            lines.append((text, y, small))
            y += 1.3 * small
        return lines

    @property
    def width(self) -> float:
        """Pixels that the lines need, with margins."""
        lines = ((self.title, self.sizes[0]), (self.subtitle, self.sizes[1]))
        longest = (LETTER * size * len(text) for texts, size in lines for text in texts)
        return max(longest, default=0.0) + 2 * MARGIN

    @property
    def more(self) -> float:
        """Pixels by which it is higher than with one line of each, in the usual size."""
        large, small = self.sizes
        return 1.3 * large * (len(self.title) - 1) + 1.3 * small * max(len(self.subtitle) - 1, 0)


def head_of(title: str, subtitle: str, width: float) -> Head:
    """The lines of a title and a subtitle on a canvas of this width."""
    sizes = (18.0, 12.3) if width >= NARROW else (14.4, 10.8)
    wrapped = [
        tuple(lines_of(short(text, LONGEST), int((width - 2 * MARGIN) / (LETTER * size))))
        for text, size in zip((title, subtitle), sizes, strict=True)
    ]
    return Head(wrapped[0], wrapped[1], sizes)


def lines_of(text: str, most: int, *, even: bool = False) -> list[str]:
    """A text in lines of so many characters, broken neither before a per cent sign nor in short
    parentheses; ``even``: of a centred text, the longest line is as short as may be."""
    kept = TOGETHER.sub(lambda match: match[0].replace(" ", "\N{NO-BREAK SPACE}"), text)
    lines = textwrap.wrap(kept, most)
    if even and len(lines) > 1:
        word = min(max(map(len, kept.split(" "))), most)
        narrower = (textwrap.wrap(kept, k) for k in range(word, most + 1))
        lines = next(tried for tried in narrower if len(tried) == len(lines))
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def literal(text: str) -> str:
    """Any text as a part of a format string, on one line that is not too long."""
    line = " ".join(short(text, LONGEST_HOVER).split())
    return line.replace("{", "{{").replace("}", "}}")


def pixels(width: Width | None) -> float | None:
    """A width as it may be given, in pixels; None for the usual one.

    Raises:
        OptionError: no width that a figure can have.
    """
    if width is None:
        return None
    inches = WIDTHS.get(width) if isinstance(width, str) else width
    if inches is None or isinstance(inches, bool) or not NARROWEST <= inches <= WIDEST:
        raise OptionError(
            f"width={width!r}: expected 'column' ({WIDTHS['column']} inches), 'page' "
            f"({WIDTHS['page']} inches), or a number of inches from {NARROWEST:g} to {WIDEST:g}"
        )
    return float(inches) * PIXELS


def legend_is_beside(plot: float, width: float | None) -> bool:
    """Whether the legend, the lines' names or the colour bar go right of the plot, which then is
    ``plot`` wide: where no width is given, or where that is half of it; else they go below.
    """
    return width is None or plot >= PLOT * width


def check_room(needed: float, width: float, what: str) -> None:
    """Refuse a canvas on which letters would have to be smaller than 7 points.

    Raises:
        InputError: says how wide it has to be.
    """
    if needed > width + 0.5:
        raise InputError(
            f"{what} in {width / PIXELS:.2f} inches would have letters smaller than 7 points, or "
            f"next to no room for the data; pass width={needed / PIXELS + 0.05:.1f} or more"
        )
