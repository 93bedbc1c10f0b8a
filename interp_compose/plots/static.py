"""The same chart drawn by matplotlib, for papers and for viewers without JavaScript.

It draws on a :class:`matplotlib.figure.Figure` of its own: pyplot, the backend and the user's
settings are neither read nor changed.
"""

from __future__ import annotations

import io
from typing import Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, PercentFormatter
from PIL import Image

from interp_compose.plots.chart import Chart, Level, Line, short
from interp_compose.plots.heatmap import HeatMap
from interp_compose.plots.heatmap_static import paint_heatmap
from interp_compose.plots.images import ImageGrid
from interp_compose.plots.images_static import paint_images
from interp_compose.plots.lettering import FAMILY, drawable, plain
from interp_compose.plots.matrices import MatrixGrid
from interp_compose.plots.matrices_static import paint_matrices
from interp_compose.plots.scatter import Scatter
from interp_compose.plots.scatter_static import paint_scatter
from interp_compose.plots.theme import BAND_OPACITY, GRID, INK, LEVEL_OPACITY, MARKERS, MUTED

SIZE: Final = (8.4, 4.6)  # inches, with one panel
MORE: Final = 2.2  # inches wider with each further panel
GAP: Final = 0.22  # inches between panels
DPI: Final = 160
SMALL_DPI: Final = 110
LABEL_SHARE: Final = 0.05
DASHES: Final = {"solid": "-", "dash": (0, (5, 2)), "dot": (0, (1, 1.6))}

Picture = Chart | HeatMap | Scatter | MatrixGrid | ImageGrid
"""What both backends can draw."""


def small_png_bytes(chart: Picture) -> bytes:
    """The chart as a PNG of 924 × 506 pixels (one panel) in 128 colours: 30 kB, for notebooks.

    A heat map is as wide; its height grows with its rows. So is a scatter of up to two panels. A
    grid of matrices or of images is as large as its panels need.
    """
    return few_colours(png_bytes(chart, dpi=SMALL_DPI), 128)


def few_colours(png: bytes, colours: int) -> bytes:
    """The same picture with a palette: about a third of the bytes."""
    full = Image.open(io.BytesIO(png)).convert("RGB")
    buffer = io.BytesIO()
    full.quantize(colours, dither=Image.Dither.NONE).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def png_bytes(chart: Picture, *, dpi: int = DPI) -> bytes:
    """The chart as a PNG, one panel 1344 × 736 pixels; the same chart gives the same bytes.

    A heat map is as wide; its height grows with its rows. So is a scatter of up to two panels. A
    grid of matrices or of images is as large as its panels need.
    """
    with mpl.rc_context():
        mpl.rcdefaults()
        buffer = io.BytesIO()
        painted(chart, dpi).savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def painted(chart: Picture, dpi: int) -> Figure:
    """The picture as a figure of matplotlib."""
    if isinstance(chart, HeatMap):
        return paint_heatmap(chart, dpi)
    if isinstance(chart, MatrixGrid):
        return paint_matrices(chart, dpi)
    if isinstance(chart, ImageGrid):
        return paint_images(chart, dpi)
    return paint_scatter(chart, dpi) if isinstance(chart, Scatter) else paint(chart, dpi)


def paint(chart: Chart, dpi: int = DPI) -> Figure:
    """The chart as a matplotlib figure, under whatever settings matplotlib has now."""
    width = SIZE[0] + MORE * (len(chart.panels) - 1)
    figure = Figure(figsize=(width, SIZE[1]), dpi=dpi, facecolor="white")
    all_axes = _lay_out(figure, chart)
    for axes, panel in zip(all_axes, chart.panels, strict=True):
        for line in panel.lines:
            if not line.has_bars:
                _draw_band(axes, line)
        for line, xs in chart.bar_places(panel):
            axes.vlines(xs, line.low, line.high, color=line.style.colour, lw=1)
        for level in panel.levels:
            _draw_level(axes, level)
        for line in panel.lines:
            _draw_curve(axes, line)
        _dress(axes, chart)
        axes.set_title(drawable(panel.title), size=9.5, loc="left", **plain(INK))
    _name_axes(all_axes, chart)
    _label(all_axes[-1], chart)
    left = 0.02 * SIZE[0] / width
    figure.text(left, 0.945, drawable(chart.heading), size=12.5, **plain(INK))
    figure.text(left, 0.885, drawable(chart.subheading), size=8.5, **plain(MUTED))
    return figure


def _lay_out(figure: Figure, chart: Chart) -> list[Axes]:
    """One pair of axes for each panel, room for the labels at the right of the last."""
    inch = 1 / figure.get_figwidth()
    n = len(chart.panels)
    left = (0.085 if chart.y_is_share else 0.1) * SIZE[0] * inch
    right = 1 - (0.04 + 0.0095 * chart.label_length) * SIZE[0] * inch
    width = (right - left - (n - 1) * GAP * inch) / n
    height = 0.66 if any(panel.title for panel in chart.panels) else 0.70
    notes = 0.035 if chart.x_notes else 0.0
    bottom, height = 0.125 + notes, height - notes
    return [
        figure.add_axes((left + i * (width + GAP * inch), bottom, width, height)) for i in range(n)
    ]


def _draw_band(axes: Axes, line: Line) -> None:
    colour = line.style.colour
    axes.fill_between(line.x, line.low, line.high, color=colour, alpha=BAND_OPACITY, lw=0)


def _draw_level(axes: Axes, level: Level) -> None:
    style = level.style
    dash = DASHES[style.dash]
    if level.band is not None:
        axes.axhspan(*level.band, color=style.colour, alpha=LEVEL_OPACITY, lw=0, zorder=1.4)
    axes.axhline(level.y, color=style.colour, lw=style.width * 0.7, ls=dash, zorder=1.5)


def _draw_curve(axes: Axes, line: Line) -> None:
    style = line.style
    axes.plot(
        line.x,
        line.y,
        color=style.colour,
        ls=DASHES[style.dash],
        lw=style.width * 0.8,
        marker=MARKERS[style.marker],
        ms=5,
        mfc=style.colour if style.filled else "white",
        mew=0 if style.filled else 1.1,
    )


def _dress(axes: Axes, chart: Chart) -> None:
    """Ranges, ticks and grid."""
    axes.set_xlim(*chart.x_range)
    axes.set_ylim(*chart.y_range)
    if chart.y_is_share:
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=None))
    axes.yaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_locator(MaxNLocator(16, integer=True, min_n_ticks=1))
    if chart.x_is_share:
        axes.xaxis.set_major_locator(MaxNLocator(6))
        axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    if chart.x_ticks:
        axes.xaxis.set_major_locator(FixedLocator(list(chart.x_ticks)))
    if chart.x_notes:
        texts = ["\n".join(map(drawable, text.split("\n"))) for text in chart.tick_texts]
        axes.set_xticks(list(chart.x_ticks), texts, parse_math=False)
    axes.grid(color=GRID, lw=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#999999")
    axes.tick_params(color="#999999", labelcolor=INK, labelsize=8.5, labelfontfamily=FAMILY)


def _name_axes(all_axes: list[Axes], chart: Chart) -> None:
    """Titles of the shared axes: y at the first panel, x under the middle of all."""
    first, last = all_axes[0], all_axes[-1]
    box = first.get_position()
    middle = (last.get_position().x1 - box.x0) / (2 * box.width)  # in widths of the first panel
    first.set_xlabel(drawable(chart.x_title), size=9.5, x=middle, **plain(INK))
    first.set_ylabel(drawable(chart.y_title), size=9.5, **plain(INK))
    for axes in all_axes[1:]:
        axes.tick_params(labelleft=False)


def _label(axes: Axes, chart: Chart) -> None:
    """Each line's name beside its end, joined to it by a hairline."""
    left, right = chart.x_range
    panel = chart.panels[-1]
    named = [(line.label, line.x[-1], line.y[-1], line.style) for line in panel.lines]
    named += [(level.label, right, level.y, level.style) for level in panel.levels if level.label]
    heights = chart.label_heights(LABEL_SHARE)
    for (text, x, y, style), height in zip(named, heights, strict=True):
        axes.annotate(
            drawable(short(text)),
            xy=(x, y),
            xytext=(right + 0.02 * (right - left), height),
            va="center",
            size=9,
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": style.colour,
                "lw": 0.6,
                "shrinkA": 2,
                "shrinkB": 0,
                "relpos": (0, 0.5),
            },
            **plain(style.text_colour),
        )
