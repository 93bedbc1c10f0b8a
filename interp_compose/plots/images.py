"""What a grid of images says, and how much room it needs, apart from how it is drawn.

Lengths are in pixels.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from jaxtyping import UInt8
from PIL import Image as Picture

from interp_compose.errors import InputError
from interp_compose.plots.canvas import WIDTH, Head, check_room, head_of
from interp_compose.plots.chart import short, short_each
from interp_compose.plots.scene import Axes, Axis, Hover, Image, Item, Marks, Scene, Side, Text

NARROWEST: Final = 84.0  # a cell, where no width is asked for
LEAST: Final = 36.0  # a cell, where one is
MOST_LEFT: Final = 0.3  # of that width, for the rows' names
WIDEST: Final = 190.0
LONGEST: Final = 36  # characters of a row's name
LONGEST_COLUMN: Final = 10
CHARACTER: Final = 7.4
TOP: Final = 84.0  # title and subtitle
NAMES: Final = 46.0  # names of columns and what they are
GAP: Final = 8.0
MARGIN: Final = 24.0


@dataclass(frozen=True, eq=False)
class ImageGrid:
    """Images in rows and columns, all of one shape, [y, x, channel] in whole numbers to 255.

    ``columns`` are the names above and ``rows`` those left of the grid, from top to bottom;
    ``x_title`` says what the columns are. ``hover`` is what the interactive figure says of each.

    Raises:
        InputError: no row or no column; images or texts that are not one for each cell; images of
            several shapes.
    """

    title: str
    subtitle: str
    x_title: str
    columns: Sequence[str]
    rows: Sequence[str]
    images: Sequence[Sequence[UInt8[np.ndarray, "y x channel"]]]
    hover: Sequence[Sequence[str]]

    def __post_init__(self) -> None:
        shape = (len(self.rows), len(self.columns))
        if not all(shape):
            raise InputError(f"a grid of {shape[0]} rows and {shape[1]} columns; pass some of each")
        for name, cells in (("images", self.images), ("hover", self.hover)):
            if len(cells) != shape[0] or any(len(row) != shape[1] for row in cells):
                raise InputError(f"{name} are not {shape[0]} rows of {shape[1]}; pass one a cell")
        shapes = {image.shape for row in self.images for image in row}
        if len(shapes) != 1:
            raise InputError(f"images have the shapes {sorted(shapes)}; expected one for all")


@dataclass(frozen=True, eq=False)
class ImageLayout:
    """Where everything is, with cells as large as the width lets them be; ``asked`` is the width
    that the figure has to have, if any."""

    grid: ImageGrid
    asked: float | None = None

    @cached_property
    def head(self) -> Head:
        return head_of(self.grid.title, self.grid.subtitle, self.width)

    @property
    def row_names(self) -> list[str]:
        most = LONGEST if self.asked is None else int(MOST_LEFT * self.asked / CHARACTER)
        return short_each(self.grid.rows, min(most, LONGEST))

    @property
    def column_names(self) -> list[str]:
        most = min(int((self.cell[0] + GAP) / CHARACTER) - 1, LONGEST_COLUMN)
        return short_each(self.grid.columns, most)

    @cached_property
    def left(self) -> float:
        """Where the first column begins."""
        return MARGIN + CHARACTER * max(map(len, self.row_names)) + GAP

    @cached_property
    def cell(self) -> tuple[float, float]:
        """A cell's width and height."""
        n = len(self.grid.columns)
        width = ((self.asked or WIDTH) - self.left - MARGIN - (n - 1) * GAP) / n
        width = min(max(width, NARROWEST if self.asked is None else LEAST), WIDEST)
        y, x, _ = self.grid.images[0][0].shape
        return width, width * y / x

    @cached_property
    def width(self) -> float:
        needed = self.corner(0, len(self.grid.columns) - 1, 0.0)[0] + self.cell[0] + MARGIN
        if self.asked is not None:
            check_room(needed, self.asked, "these images")
        return self.asked or max(WIDTH, needed)

    @property
    def height(self) -> float:
        return self.corner(len(self.grid.rows) - 1, 0)[1] + self.cell[1] + MARGIN

    def corner(self, row: int, column: int, more: float | None = None) -> tuple[float, float]:
        """A cell's upper left corner, counted from the figure's; −1 is the last row or column."""
        width, height = self.cell
        row, column = row % len(self.grid.rows), column % len(self.grid.columns)
        top = TOP + NAMES + (self.head.more if more is None else more)
        return self.left + column * (width + GAP), top + row * (height + GAP)

    @property
    def placed_names(self) -> list[tuple[str, float, float, Side]]:
        """Names of rows and columns and what the columns are: text, x, y of its middle, and how it
        lies to x."""
        width, height = self.cell
        right, top = self.corner(0, len(self.grid.columns) - 1)
        middle = (self.left + right + width) / 2
        title = short(self.grid.x_title, int(2 * min(middle, self.width - middle) / CHARACTER))
        texts: list[tuple[str, float, float, Side]] = [(title, middle, top - NAMES + 12, "center")]
        for column, name in enumerate(self.column_names):
            texts.append((name, self.corner(0, column)[0] + width / 2, top - NAMES + 34, "center"))
        for row, name in enumerate(self.row_names):
            texts.append((name, self.left - GAP, self.corner(row, 0)[1] + height / 2, "right"))
        return [text for text in texts if text[0]]


def scene_of(grid: ImageGrid, width: float | None) -> Scene:
    """Every image in its cell, which says on hover what it is."""
    layout = ImageLayout(grid, width)
    across, high = layout.cell
    places = [
        (row, column, *layout.corner(row, column))
        for row in range(len(grid.rows))
        for column in range(len(grid.columns))
    ]
    items: list[Item] = [
        Image(grid.images[row][column], x, y, across, high) for row, column, x, y in places
    ]
    told = [[" ".join(grid.hover[row][column].split())] for row, column, _, _ in places]
    middles = [(x + across / 2, y + high / 2) for _, _, x, y in places]
    x_of, y_of = ([middle[k] for middle in middles] for k in (0, 1))
    hover = Hover("{0}", told)
    items.append(Marks(x_of, y_of, 0.6 * high, "square", opacity=0.0, hover=hover))
    (left, top), (right, bottom) = layout.corner(0, 0), layout.corner(-1, -1)
    right, bottom = right + across, bottom + high
    axes = Axes(
        (left, top, right - left, bottom - top),
        Axis(left, right, ticks=(), labels=False),
        Axis(bottom, top, ticks=(), labels=False),
        items,
        "bare",
    )
    texts = [
        Text(text, (0.0, 1.0), x - left, y - top, 0, 12.3, across=align)
        for text, x, y, align in layout.placed_names
    ]
    return Scene(layout.width, layout.height, layout.head, [axes], texts, is_wide=False)


def png_of(image: UInt8[np.ndarray, "y x channel"]) -> bytes:
    """An image as a PNG."""
    buffer = io.BytesIO()
    Picture.fromarray(image).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def image_of(png: bytes) -> UInt8[np.ndarray, "y x channel"]:
    """The image of a PNG."""
    return np.asarray(Picture.open(io.BytesIO(png)).convert("RGB"))


def side_by_side(
    images: Sequence[UInt8[np.ndarray, "y x channel"]], gap: int = 1
) -> UInt8[np.ndarray, "y width channel"]:
    """Images of one height as one, grey lines of ``gap`` pixels between them."""
    line = np.full((images[0].shape[0], gap, 3), 200, dtype=np.uint8)
    parts = [part for image in images for part in (line, image)]
    return np.concatenate(parts[1:], axis=1)
