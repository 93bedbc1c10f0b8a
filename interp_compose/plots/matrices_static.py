"""A grid of matrices drawn by matplotlib; see :mod:`.static`."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure

from interp_compose.plots.canvas import MARGIN, PIXELS, POINT, SMALLEST
from interp_compose.plots.chart import short
from interp_compose.plots.heatmap_layout import BAR, LINE
from interp_compose.plots.heatmap_scale import GREY, STROKE
from interp_compose.plots.lettering import FAMILY, add_axes, drawable, plain, write, write_head
from interp_compose.plots.matrices import SCALE, MatrixGrid, MatrixPanel
from interp_compose.plots.matrices_layout import (
    LINE_OPACITY,
    LONGEST_NAME,
    TEXT_LINE,
    TITLE,
    GridLayout,
    lay_out,
)
from interp_compose.plots.theme import INK

GRADIENT: Final = 256  # shades
FRAME: Final = "#bbbbbb"


def paint_matrices(grid: MatrixGrid, dpi: int, width: float | None = None) -> Figure:
    """The grid as a matplotlib figure, under whatever settings matplotlib has now."""
    layout = lay_out(grid, width)
    size = (layout.width / PIXELS, layout.height / PIXELS)
    figure = Figure(figsize=size, dpi=dpi, facecolor="white")
    shades = LinearSegmentedColormap.from_list("", SCALE.stops, GRADIENT)
    colours = shades.with_extremes(bad=GREY)
    for i, j, panel in grid.places:
        axes = add_axes(figure, layout, layout.x(j), layout.y(i), layout.side, layout.side)
        if panel is None:
            _strike(axes, grid.size_of(panel))
        else:
            _draw_cells(axes, panel, colours, layout.side * dpi / PIXELS)
            axes.spines[:].set(color=FRAME, linewidth=0.6)
            _part(axes, layout, panel)
        _name(axes, layout, i, j, panel)
        for k, line in enumerate(layout.text(panel)):
            below = layout.y(i) + layout.side + layout.below(i, j, panel) + k * TEXT_LINE
            middle = layout.x(j) + layout.side / 2
            write(figure, layout, middle, below, line, 11.0, ha="center", va="top")
    _write_titles(figure, layout)
    _draw_bar(figure, layout)
    return figure


def _draw_cells(axes: Axes, panel: MatrixPanel, colours: Colormap, pixels: float) -> None:
    """Every number; of a matrix with more rows than pixels every k-th row and column.

    The picks are the same down and across, so that no panel loses its diagonal.
    """
    n = len(panel.values)
    step = math.ceil(n / pixels)
    picked = panel.values[::step, ::step]
    end = len(picked) * step - 0.5
    axes.imshow(
        np.ma.masked_invalid(picked),
        cmap=colours,
        vmin=SCALE.low,
        vmax=SCALE.high,
        interpolation="nearest",
        aspect="auto",
        extent=(-0.5, end, end, -0.5),
    )
    axes.set_xlim(-0.5, n - 0.5)
    axes.set_ylim(n - 0.5, -0.5)


def _strike(axes: Axes, n: int) -> None:
    """A grey square with a stroke through it."""
    axes.set_facecolor(GREY)
    axes.spines[:].set_visible(False)
    axes.set_xlim(-0.5, n - 0.5)
    axes.set_ylim(n - 0.5, -0.5)
    axes.plot([-0.5, n - 0.5], [n - 0.5, -0.5], color=STROKE, lw=0.7)


def _part(axes: Axes, layout: GridLayout, panel: MatrixPanel) -> None:
    """Thin lines between blocks."""
    n = layout.grid.size_of(panel)
    edges = layout.edges(panel)
    look: dict[str, Any] = {"color": INK, "lw": 0.5, "alpha": LINE_OPACITY}
    axes.vlines(edges, -0.5, n - 0.5, **look)
    axes.hlines(edges, -0.5, n - 0.5, **look)


def _name(axes: Axes, layout: GridLayout, row: int, column: int, panel: MatrixPanel | None) -> None:
    """The names of its rows left of it and under it, where they belong."""
    names = [drawable(short(name, LONGEST_NAME)) for name in layout.grid.names_of(panel)]
    left, under = layout.labels(row, column, panel)
    places = range(len(names))
    axes.set_yticks(places if left else [], names if left else [], parse_math=False)
    axes.set_xticks(
        places if under else [],
        names if under else [],
        rotation=0 if layout.flat_names(panel) else 90,
        parse_math=False,
    )
    axes.tick_params(
        length=0, pad=3, labelcolor=INK, labelsize=SMALLEST * POINT, labelfontfamily=FAMILY
    )  # fmt: skip


def _write_titles(figure: Figure, layout: GridLayout) -> None:
    """Of the figure, of the columns and of the rows."""
    grid = layout.grid
    write_head(figure, layout.head, layout.width, layout.height)
    half = layout.side / 2
    for j, title in enumerate(layout.column_titles):
        x = layout.x(j) + half
        write(figure, layout, x, layout.top - 6, title, 12.0, ha="center")
    upright: dict[str, Any] = {"rotation": 90, "ha": "center", "va": "center"}
    flat: dict[str, Any] = {"ha": "right", "va": "center"}
    edge = layout.left - layout.name_room
    for i, title in enumerate(layout.row_titles):
        x = edge - 4 - LINE / 2 if layout.turned_rows else edge - 7
        how = upright if layout.turned_rows else flat
        write(figure, layout, x, layout.y(i) + half, title, 12.0, **how)
    x_title, y_title = layout.titles
    above = layout.top - 6 - TITLE * any(grid.columns)
    middle = layout.left + layout.grid_width / 2, layout.top + layout.grid_height / 2
    write(figure, layout, middle[0], above, x_title, 13.7, ha="center")
    write(figure, layout, MARGIN + 6, middle[1], y_title, 13.7, **upright)


def _draw_bar(figure: Figure, layout: GridLayout) -> None:
    """The colour bar right of the panels, level with their middle."""
    x = layout.left + layout.grid_width + BAR
    y = layout.top + (layout.grid_height - layout.bar_height) / 2
    axes = add_axes(figure, layout, x, y, float(BAR), layout.bar_height)
    shades = [[to_rgb(SCALE.colour_at((k + 0.5) / GRADIENT))] for k in range(GRADIENT)]
    axes.imshow(shades, origin="lower", aspect="auto", extent=(0, 1, SCALE.low, SCALE.high))
    axes.spines[:].set_visible(False)
    axes.set_xticks([])
    axes.yaxis.tick_right()
    axes.yaxis.set_label_position("right")
    axes.set_yticks([place for place, _ in SCALE.ticks], [text for _, text in SCALE.ticks])
    axes.tick_params(
        color="#999999", labelcolor=INK, labelsize=12 * POINT, labelfontfamily=FAMILY, length=3
    )
    title = drawable(layout.bar_title)
    axes.set_ylabel(title, size=12 * POINT, rotation=270, va="bottom", labelpad=6, **plain(INK))
