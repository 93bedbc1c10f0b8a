"""A grid of images: what it says, and its scene; lengths in pixels (:mod:`.canvas`)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from jaxtyping import UInt8
from PIL import Image as Picture

from interp_compose.errors import InputError
from interp_compose.plots.canvas import WIDTH, check_room, head_of
from interp_compose.plots.chart import short, short_each
from interp_compose.plots.heatmap import check_cells
from interp_compose.plots.panels import Panels
from interp_compose.plots.scene import Axes, Axis, Hover, Image, Marks, Scene, Side, Text

NARROWEST: Final = 84.0  # a cell, where no width is given
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
        check_cells("images", self.images, self.rows, self.columns)
        check_cells("hover", self.hover, self.rows, self.columns)
        shapes = {image.shape for row in self.images for image in row}
        if len(shapes) != 1:
            raise InputError(f"images have the shapes {sorted(shapes)}; expected one for all")


def scene_of(grid: ImageGrid, fixed_width: float | None) -> Scene:
    """Cells as large as the width lets them be, each with its image, which says on hover what it
    is; names above the columns and left of the rows."""
    n_rows, n = len(grid.rows), len(grid.columns)
    room = LONGEST if fixed_width is None else int(MOST_LEFT * fixed_width / CHARACTER)
    row_names = short_each(grid.rows, min(room, LONGEST))
    left = MARGIN + CHARACTER * max(map(len, row_names)) + GAP
    across = ((fixed_width or WIDTH) - left - MARGIN - (n - 1) * GAP) / n
    across = min(max(across, NARROWEST if fixed_width is None else LEAST), WIDEST)
    y, x, _ = grid.images[0][0].shape
    high = across * y / x
    needed = left + n * (across + GAP) - GAP + MARGIN
    if fixed_width is not None:
        check_room(needed, fixed_width, "these images")
    width = fixed_width or max(WIDTH, needed)
    head = head_of(grid.title, grid.subtitle, width)
    top = TOP + NAMES + head.more
    panels = Panels(n_rows * n, n, (left, top), (across, high), (across + GAP, high + GAP))
    right, bottom = panels.ends

    names = short_each(grid.columns, min(int((across + GAP) / CHARACTER) - 1, LONGEST_COLUMN))
    middle = (left + right) / 2
    title = short(grid.x_title, int(2 * min(middle, width - middle) / CHARACTER))
    texts: list[tuple[str, float, float, Side]] = [(title, middle - left, 12 - NAMES, "center")]
    for k, name in enumerate(names):
        texts.append((name, k * (across + GAP) + across / 2, 34 - NAMES, "center"))
    for k, name in enumerate(row_names):
        texts.append((name, -GAP, k * (high + GAP) + high / 2, "right"))

    images = [image for row in grid.images for image in row]
    hover_rows = [[" ".join(text.split())] for row in grid.hover for text in row]
    middles = [(x + across / 2, y + high / 2) for x, y, *_ in panels.boxes]
    marks = Marks(
        [x for x, _ in middles],
        [y for _, y in middles],
        0.6 * high,
        "square",
        opacity=0.0,
        hover=Hover("{0}", hover_rows),
    )
    axes = Axes(
        (left, top, right - left, bottom - top),
        Axis(left, right, ticks=(), labels=False),
        Axis(bottom, top, ticks=(), labels=False),
        [*(Image(image, *box) for image, box in zip(images, panels.boxes, strict=True)), marks],
        "bare",
    )
    return Scene(
        width=width,
        height=bottom + MARGIN,
        head=head,
        axes=[axes],
        texts=[
            Text(text, (0.0, 1.0), x, y, 0, 12.3, across=side) for text, x, y, side in texts if text
        ],
        is_wide=False,
    )


def png_of(image: UInt8[np.ndarray, "y x channel"]) -> bytes:
    buffer = io.BytesIO()
    Picture.fromarray(image).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def image_of(png: bytes) -> UInt8[np.ndarray, "y x channel"]:
    return np.asarray(Picture.open(io.BytesIO(png)).convert("RGB"))


def side_by_side(
    images: Sequence[UInt8[np.ndarray, "y x channel"]], gap: int = 1
) -> UInt8[np.ndarray, "y width channel"]:
    """Images of one height as one, grey lines of ``gap`` pixels between them."""
    line = np.full((images[0].shape[0], gap, 3), 200, dtype=np.uint8)
    parts = [part for image in images for part in (line, image)]
    return np.concatenate(parts[1:], axis=1)
