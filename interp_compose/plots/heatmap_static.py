"""A heat map drawn by matplotlib; see :mod:`.static`."""

from __future__ import annotations

from typing import Final

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from interp_compose.plots.canvas import PIXELS, POINT
from interp_compose.plots.heatmap import HeatMap
from interp_compose.plots.heatmap_bubbles import EDGE, LEGEND, Bubbles
from interp_compose.plots.heatmap_hatching import OPACITY, hatching
from interp_compose.plots.heatmap_layout import (
    BAR,
    Layout,
    dot_places,
    lay_out,
    shown,
)
from interp_compose.plots.heatmap_scale import GREY, STROKE, Scale, scale_of
from interp_compose.plots.lettering import FAMILY, drawable, plain, write_head
from interp_compose.plots.theme import GRID, INK

GRADIENT: Final = 256  # shades in the colour bar


def paint_heatmap(heatmap: HeatMap, dpi: int, width: float | None = None) -> Figure:
    """The map as a matplotlib figure, under whatever settings matplotlib has now."""
    layout, scale = lay_out(heatmap, width), scale_of(heatmap)
    canvas, height = layout.canvas, layout.figure_height
    figure = Figure(figsize=(canvas / PIXELS, height / PIXELS), dpi=dpi, facecolor="white")
    box = (layout.left / canvas, layout.bottom / height)
    size = (layout.width / canvas, layout.height / height)
    axes = figure.add_axes((*box, *size))
    if isinstance(heatmap, Bubbles):
        _draw_bubbles(axes, heatmap, layout, scale)
        _draw_legend(figure, layout)
    else:
        _draw_cells(axes, heatmap, layout, scale)
        _draw_gaps(axes, heatmap)
    for ink, strokes in hatching(heatmap, layout, scale).items():
        axes.add_collection(LineCollection(strokes, colors=ink, linewidths=0.7, alpha=OPACITY))
    if layout.numbers:
        _write_numbers(axes, heatmap, scale)
    _draw_dots(axes, heatmap, layout, scale)
    axes.set_xlim(-0.5, len(heatmap.columns) - 0.5)
    axes.set_ylim(len(heatmap.rows) - 0.5, -0.5)
    _dress(axes, heatmap, layout)
    if scale.ticks:
        _draw_bar(figure, layout, scale)
    write_head(figure, layout.head, canvas, height)
    return figure


def _draw_cells(axes: Axes, heatmap: HeatMap, layout: Layout, scale: Scale) -> None:
    rows, columns = len(heatmap.rows), len(heatmap.columns)
    shades = [[to_rgb(GREY)] * columns for _ in range(rows)]
    for i, j, value in heatmap.measured:
        shades[i][j] = to_rgb(scale.colour(value))
    axes.pcolormesh(
        [j - 0.5 for j in range(columns + 1)],
        [i - 0.5 for i in range(rows + 1)],
        shades,
        edgecolors="white" if layout.gap else "none",
        linewidth=layout.gap * POINT,
        antialiased=bool(layout.gap),
    )


def _draw_bubbles(axes: Axes, bubbles: Bubbles, layout: Layout, scale: Scale) -> None:
    """A circle for each number, a cross where there is none, on a grid."""
    axes.vlines(range(len(bubbles.columns)), -0.5, len(bubbles.rows) - 0.5, color=GRID, lw=0.7)
    axes.hlines(range(len(bubbles.rows)), -0.5, len(bubbles.columns) - 0.5, color=GRID, lw=0.7)
    diameters = bubbles.diameters(layout.cell)
    axes.scatter(
        [j for _, j, _ in bubbles.measured],
        [i for i, _, _ in bubbles.measured],
        s=[(diameters[bubbles.sizes[i][j]] * POINT) ** 2 for i, j, _ in bubbles.measured],
        color=[scale.colour(value) for _, _, value in bubbles.measured],
        edgecolors=EDGE,
        linewidths=0.6,
        zorder=3,
    )
    x, y = [j for _, j in bubbles.gaps], [i for i, _ in bubbles.gaps]
    axes.scatter(x, y, s=(8 * POINT) ** 2, marker="x", color=STROKE, linewidths=1.2, zorder=3)


def _draw_legend(figure: Figure, layout: Layout) -> None:
    """The sizes and their names, in rows above the cells."""
    if not layout.keys:
        return
    high = LEGEND * (layout.keys[-1].row + 1)
    share = high / layout.figure_height
    bottom = 1 - (layout.top + 6) / layout.figure_height
    axes = figure.add_axes((0, bottom + 12 / layout.figure_height, 1, share))
    axes.set_axis_off()
    axes.set_xlim(0, layout.canvas)
    axes.set_ylim(high, 0)
    for key in layout.keys:
        y = LEGEND * (key.row + 0.5)
        if key.diameter:
            axes.add_patch(Circle((key.x, y), key.diameter / 2, fc="none", ec=INK, lw=0.8))
        text = drawable(key.text)
        axes.text(key.text_x, y, text, size=12 * POINT, va="center", **plain(INK))


def _draw_gaps(axes: Axes, heatmap: HeatMap) -> None:
    """A stroke through each cell without a number."""
    strokes = [[(j - 0.5, i + 0.5), (j + 0.5, i - 0.5)] for i, j in heatmap.gaps]
    axes.add_collection(LineCollection(strokes, colors=STROKE, linewidths=0.7))


def _write_numbers(axes: Axes, heatmap: HeatMap, scale: Scale) -> None:
    for i, j, value in heatmap.measured:
        axes.text(
            j,
            i,
            drawable(heatmap.text(i, j)),
            size=11 * POINT,
            ha="center",
            va="center_baseline",  # as the labels beside the rows
            **plain(scale.ink(value)),
        )


def _draw_dots(axes: Axes, heatmap: HeatMap, layout: Layout, scale: Scale) -> None:
    for x, y, ink in dot_places(heatmap, layout, scale):
        shape = "^" if heatmap.mark == "triangle" else "o"
        size = (layout.dot * POINT) ** 2
        axes.scatter(x, y, s=size, marker=shape, color=ink, linewidths=0, zorder=3)


def _dress(axes: Axes, heatmap: HeatMap, layout: Layout) -> None:
    """Labels and titles; no frame."""
    axes.spines[:].set_visible(False)
    size = layout.label_size * POINT
    axes.tick_params(length=0, labelcolor=INK, labelsize=size, labelfontfamily=FAMILY)
    rows = shown(layout.rows, layout.row_step)
    columns = shown(heatmap.column_labels, layout.column_step)
    axes.set_yticks([i for i, _ in rows], [drawable(text) for _, text in rows], parse_math=False)
    axes.set_xticks(
        [j for j, _ in columns],
        [drawable(text) for _, text in columns],
        rotation=90 if layout.turned else 0,
        size=12 * POINT,
        parse_math=False,
    )
    axes.set_xlabel(drawable(layout.x_title), size=9.5, **plain(INK))
    axes.set_ylabel(drawable(layout.y_title), size=9.5, **plain(INK))


def _draw_bar(figure: Figure, layout: Layout, scale: Scale) -> None:
    """The colour bar right of the cells, level with their middle."""
    height = layout.figure_height
    left = layout.left + layout.width + BAR
    share = layout.height / height
    axes = figure.add_axes(
        (left / layout.canvas, layout.bottom / height, BAR / layout.canvas, share)
    )
    shades = [[to_rgb(scale.colour_at((k + 0.5) / GRADIENT))] for k in range(GRADIENT)]
    axes.imshow(
        shades,
        origin="lower",
        aspect="auto",
        extent=(0, 1, scale.low, scale.high),
    )
    axes.spines[:].set_visible(False)
    axes.set_xticks([])
    axes.yaxis.tick_right()
    axes.yaxis.set_label_position("right")
    axes.set_yticks(
        [place for place, _ in scale.ticks],
        [drawable(text) for _, text in scale.ticks],
        parse_math=False,
    )
    axes.tick_params(
        color="#999999", labelcolor=INK, labelsize=12 * POINT, labelfontfamily=FAMILY, length=3
    )
    title = "\n".join(drawable(line) for line in layout.bar_title)
    axes.set_ylabel(title, size=12 * POINT, rotation=270, va="bottom", labelpad=6, **plain(INK))
