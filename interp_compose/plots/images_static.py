"""A grid of images drawn by matplotlib; see :mod:`.static`."""

from __future__ import annotations

from matplotlib.figure import Figure

from interp_compose.plots.canvas import PIXELS
from interp_compose.plots.images import ImageGrid, lay_out
from interp_compose.plots.lettering import add_axes, write, write_head


def paint_images(grid: ImageGrid, dpi: int, width: float | None = None) -> Figure:
    """The grid as a matplotlib figure, under whatever settings matplotlib has now."""
    layout = lay_out(grid, width)
    size = (layout.width / PIXELS, layout.height / PIXELS)
    figure = Figure(figsize=size, dpi=dpi, facecolor="white")
    for row, images in enumerate(grid.images):
        for column, image in enumerate(images):
            axes = add_axes(figure, layout, *layout.corner(row, column), *layout.cell)
            axes.imshow(image, interpolation="nearest", aspect="auto")
            axes.set_xticks([])
            axes.set_yticks([])
            axes.spines[:].set_color("#bbbbbb")
    write_head(figure, layout.head, layout.width, layout.height)
    for text, x, y, align in layout.texts:
        write(figure, layout, x, y, text, 12.3, ha=align, va="center")
    return figure
