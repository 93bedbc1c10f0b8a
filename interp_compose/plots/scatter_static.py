"""A scatter drawn by matplotlib; see :mod:`.static`."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from interp_compose.plots.canvas import PIXELS, POINT, SMALLEST
from interp_compose.plots.heatmap import NOT_MEASURED
from interp_compose.plots.lettering import FAMILY, add_axes, drawable, plain, write, write_head
from interp_compose.plots.scatter import Scatter, ScatterPanel
from interp_compose.plots.scatter_layout import KEY, ScatterLayout, lay_out
from interp_compose.plots.theme import GRID, INK, MARKERS, MUTED


def paint_scatter(scatter: Scatter, dpi: int, width: float | None = None) -> Figure:
    """The scatter as a matplotlib figure, under whatever settings matplotlib has now."""
    layout = lay_out(scatter, width)
    size = (layout.width / PIXELS, layout.height / PIXELS)
    figure = Figure(figsize=size, dpi=dpi, facecolor="white")
    for i, (panel, place) in enumerate(zip(scatter.panels, layout.panels, strict=True)):
        axes = add_axes(figure, layout, *place)
        _draw_points(axes, panel)
        _dress(axes, panel, layout.titles[i], place[2])
        if i % layout.per_row == 0:
            axes.set_ylabel(drawable(scatter.y_title), size=9.5, **plain(INK))
    left, _, across, _ = layout.panels[layout.per_row - 1]
    middle = (layout.panels[0][0] + left + across) / 2
    write(figure, layout, middle, layout.bottom + 44, scatter.x_title, 13.7, ha="center")
    write_head(figure, layout.head, layout.width, layout.height)
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
                axes.text(
                    x, y, drawable(text), size=SMALLEST * POINT, ha="center", va="center", **ink
                )


def _dress(axes: Axes, panel: ScatterPanel, title: str, across: float) -> None:
    """Ranges, ticks and grid; in a panel without points a word instead."""
    axes.set_xlim(*panel.x_range)
    axes.set_ylim(*panel.y_range)
    axes.set_title(drawable(title), size=9.5, loc="left", **plain(INK))
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#999999")
    if not panel.n_measured:
        axes.set_xticks([])
        axes.set_yticks([])
        middle = {"transform": axes.transAxes, "ha": "center", "va": "center", **plain(MUTED)}
        axes.text(0.5, 0.5, NOT_MEASURED, size=9.5, **middle)
        return
    axes.xaxis.set_major_locator(MaxNLocator(min(5, int(across / 45)), steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.ticklabel_format(scilimits=(-2, 4), useMathText=False)
    axes.grid(color=GRID, lw=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(color="#999999", labelcolor=INK, labelsize=8.5, labelfontfamily=FAMILY)


def _draw_legend(figure: Figure, scatter: Scatter, layout: ScatterLayout) -> None:
    """Every group's marker and name."""
    axes = add_axes(figure, layout, 0.0, 0.0, layout.width, layout.height)
    axes.set_axis_off()
    axes.set_xlim(0, layout.width)
    axes.set_ylim(layout.height, 0)
    for (x, y, name), style in zip(layout.names, scatter.legend.values(), strict=True):
        marker = MARKERS[style.marker]
        axes.scatter(x + KEY - 10, y, s=(8 * POINT) ** 2, marker=marker, color=style.colour, lw=0)
        axes.text(x + KEY, y, drawable(name), size=12 * POINT, va="center", **plain(INK))
