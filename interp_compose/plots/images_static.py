"""A grid of images drawn by matplotlib; see :mod:`.static`."""

from __future__ import annotations

from typing import Final

from matplotlib.figure import Figure

from interp_compose.plots.images import ImageGrid
from interp_compose.plots.lettering import drawable, plain
from interp_compose.plots.theme import INK, MUTED

PIXELS: Final = 104  # of the layout, in an inch


def paint_images(grid: ImageGrid, dpi: int) -> Figure:
    """The grid as a matplotlib figure, under whatever settings matplotlib has now."""
    width, height = grid.size
    figure = Figure(figsize=(width / PIXELS, height / PIXELS), dpi=dpi, facecolor="white")
    cell = grid.cell
    for row, images in enumerate(grid.images):
        for column, image in enumerate(images):
            x, y = grid.corner(row, column)
            box = (x / width, 1 - (y + cell[1]) / height, cell[0] / width, cell[1] / height)
            axes = figure.add_axes(box)
            axes.imshow(image, interpolation="nearest", aspect="auto")
            axes.set_xticks([])
            axes.set_yticks([])
            axes.spines[:].set_color("#bbbbbb")
    for y, text, points, colour in (
        (26, grid.heading, 12.5, INK),
        (55, grid.subheading, 8.5, MUTED),
    ):
        figure.text(
            0.02 * 874 / width, 1 - y / height, drawable(text), size=points, **plain(colour)
        )
    for text, x, y, align in grid.texts:
        place = (x / width, 1 - y / height)
        figure.text(*place, drawable(text), size=8.5, ha=align, va="center", **plain(INK))
    return figure
