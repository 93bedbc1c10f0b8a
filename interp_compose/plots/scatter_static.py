"""A scatter drawn by matplotlib; see :mod:`.static`."""

from __future__ import annotations

from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from interp_compose.plots.heatmap import NOT_MEASURED
from interp_compose.plots.lettering import FAMILY, drawable, plain
from interp_compose.plots.scatter import Scatter, ScatterPanel
from interp_compose.plots.scatter_layout import BOTTOM, KEY, LINE, ScatterLayout, lay_out
from interp_compose.plots.theme import GRID, INK, MARKERS, MUTED

PIXELS: Final = 104  # of the layout, in an inch
POINT: Final = 72 / PIXELS  # points in a pixel of the layout


def paint_scatter(scatter: Scatter, dpi: int) -> Figure:
    """The scatter as a matplotlib figure, under whatever settings matplotlib has now."""
    layout = lay_out(scatter)
    width, height = layout.width, layout.height
    figure = Figure(figsize=(width / PIXELS, height / PIXELS), dpi=dpi, facecolor="white")
    size = (layout.panel / width, layout.panel_height / height)
    for i, panel in enumerate(scatter.panels):
        axes = figure.add_axes((layout.left(i) / width, BOTTOM / height, *size))
        _draw_points(axes, panel)
        _dress(axes, panel)
        if i == 0:
            axes.set_ylabel(drawable(scatter.y_title), size=9.5, **plain(INK))
    middle = (layout.left(0) + layout.left(len(scatter.panels) - 1) + layout.panel) / 2
    for x, y, text, points, colour, align in (
        (0.02 * 874, height - 26, scatter.heading, 12.5, INK, "left"),
        (0.02 * 874, height - 55, scatter.subheading, 8.5, MUTED, "left"),
        (middle, 14, scatter.x_title, 9.5, INK, "center"),
    ):
        where = (x / width, y / height)
        figure.text(*where, drawable(text), size=points, ha=align, **plain(colour))
    _draw_legend(figure, scatter, layout)
    return figure


def _draw_points(axes: Axes, panel: ScatterPanel) -> None:
    size = (panel.point * POINT) ** 2
    for group in panel.groups:
        marks = [(x, y) for x, y, text in group.measured if not text]
        axes.scatter(
            [x for x, _ in marks],
            [y for _, y in marks],
            s=size,
            marker=MARKERS[group.style.marker],
            color=group.style.colour,
            linewidths=0,
            alpha=0.85,
            zorder=2,
        )
        for x, y, text in group.measured:
            if text:
                ink = plain(group.style.text_colour)
                axes.text(x, y, drawable(text), size=10 * POINT, ha="center", va="center", **ink)


def _dress(axes: Axes, panel: ScatterPanel) -> None:
    """Ranges, ticks and grid; in a panel without points a word instead."""
    axes.set_xlim(*panel.x_range)
    axes.set_ylim(*panel.y_range)
    axes.set_title(drawable(panel.heading), size=9.5, loc="left", **plain(INK))
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#999999")
    if not panel.n_measured:
        axes.set_xticks([])
        axes.set_yticks([])
        middle = {"transform": axes.transAxes, "ha": "center", "va": "center", **plain(MUTED)}
        axes.text(0.5, 0.5, NOT_MEASURED, size=9.5, **middle)
        return
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.ticklabel_format(scilimits=(-2, 4), useMathText=False)
    axes.grid(color=GRID, lw=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(color="#999999", labelcolor=INK, labelsize=8.5, labelfontfamily=FAMILY)


def _draw_legend(figure: Figure, scatter: Scatter, layout: ScatterLayout) -> None:
    """Every group's marker and name, in a column right of the panels."""
    if not layout.names:
        return
    left = layout.width - layout.right
    width, height = layout.right, layout.panel_height
    whole = (layout.width, layout.height)
    box = (left / whole[0], BOTTOM / whole[1], width / whole[0], height / whole[1])
    axes = figure.add_axes(box)
    axes.set_axis_off()
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    for k, (name, style) in enumerate(zip(layout.names, scatter.legend.values(), strict=True)):
        y = LINE * (k + 0.5)
        marker = MARKERS[style.marker]
        axes.scatter(KEY - 10, y, s=(8 * POINT) ** 2, marker=marker, color=style.colour, lw=0)
        axes.text(KEY, y, drawable(name), size=12 * POINT, va="center", **plain(INK))
