"""The same chart drawn by matplotlib, for papers and for viewers without JavaScript.

It draws on a :class:`matplotlib.figure.Figure` of its own: pyplot, the backend and the user's
settings are neither read nor changed.
"""

from __future__ import annotations

import io
import math
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator
from matplotlib.transforms import Bbox
from PIL import Image

from interp_compose.plots.canvas import MARGIN, PIXELS
from interp_compose.plots.chart import BAR_STEP, Chart, Level, Line, short
from interp_compose.plots.chart_layout import KEY, LINE, TICK, ChartLayout, lay_out
from interp_compose.plots.heatmap import HeatMap
from interp_compose.plots.heatmap_static import paint_heatmap
from interp_compose.plots.images import ImageGrid
from interp_compose.plots.images_static import paint_images
from interp_compose.plots.lettering import FAMILY, add_axes, drawable, plain, write, write_head
from interp_compose.plots.matrices import MatrixGrid
from interp_compose.plots.matrices_static import paint_matrices
from interp_compose.plots.scatter import Scatter
from interp_compose.plots.scatter_static import paint_scatter
from interp_compose.plots.theme import (
    BAND_OPACITY,
    GRID,
    INK,
    LEADER,
    LEVEL_OPACITY,
    MARKERS,
    Style,
)

DPI: Final = 160
SMALL_DPI: Final = 110
MOST_BYTES: Final = 140_000  # of a picture in a notebook
BAR: Final = 3.4  # pixels from one line's bars to the next one's, at least
VECTORS: Final[dict[Any, Any]] = {
    "pdf.fonttype": 42,  # a font's own outlines, which editors and publishers can read
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "interp_compose",  # else names inside the file are drawn by chance
}
UNDATED: Final[dict[str, dict[str, str | None]]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "svg": {"Date": None, "Creator": None},
}
SVG_FONTS: Final = b"'DejaVu Sans', Verdana, sans-serif"  # Verdana's letters are as wide
DASHES: Final = {"solid": "-", "dash": (0, (5, 2)), "dot": (0, (1, 1.6))}

Picture = Chart | HeatMap | Scatter | MatrixGrid | ImageGrid
"""What both backends can draw."""


def small_png_bytes(chart: Picture, width: float | None = None) -> bytes:
    """The chart as a PNG of 110 pixels an inch, for notebooks: about 30 kB.

    In a palette of 256 colours, but where colours are numbers and the file stays small without.
    """
    png = picture(chart, "png", dpi=SMALL_DPI, width=width)
    shaded = isinstance(chart, HeatMap | MatrixGrid)
    return png if shaded and len(png) <= MOST_BYTES else few_colours(png, 256)


def few_colours(png: bytes, colours: int) -> bytes:
    """The same picture with a palette: about a third of the bytes."""
    full = Image.open(io.BytesIO(png)).convert("RGB")
    buffer = io.BytesIO()
    full.quantize(colours, dither=Image.Dither.NONE).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def picture(chart: Picture, kind: str, *, dpi: int = DPI, width: float | None = None) -> bytes:
    """The chart as a file of matplotlib ("png", "pdf" or "svg"); the same chart, the same bytes.

    What is blank right of what is drawn and below it is cut off.
    """
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(VECTORS)
        figure = painted(chart, dpi, width)
        buffer = io.BytesIO()
        figure.savefig(buffer, format=kind, metadata=UNDATED[kind], bbox_inches=_cropped(figure))
    data = buffer.getvalue()
    return data.replace(b"'DejaVu Sans'", SVG_FONTS) if kind == "svg" else data


def _cropped(figure: Figure) -> Bbox:
    """Inches: the canvas up to a margin right of what is drawn and below it."""
    width, height = figure.get_size_inches()
    drawn, margin = figure.get_tightbbox(), MARGIN / PIXELS
    return Bbox.from_extents(
        0, max(0.0, drawn.y0 - margin), min(width, drawn.x1 + margin), height
    )  # fmt: skip


def painted(chart: Picture, dpi: int, width: float | None = None) -> Figure:
    """The picture as a figure of matplotlib; a width is in pixels of the layout."""
    if isinstance(chart, HeatMap):
        return paint_heatmap(chart, dpi, width)
    if isinstance(chart, MatrixGrid):
        return paint_matrices(chart, dpi, width)
    if isinstance(chart, ImageGrid):
        return paint_images(chart, dpi, width)
    if isinstance(chart, Scatter):
        return paint_scatter(chart, dpi, width)
    return paint(chart, dpi, width)


def paint(chart: Chart, dpi: int = DPI, width: float | None = None) -> Figure:
    """The chart as a matplotlib figure, under whatever settings matplotlib has now."""
    layout = lay_out(chart, width)
    size = (layout.width / PIXELS, layout.height / PIXELS)
    figure = Figure(figsize=size, dpi=dpi, facecolor="white")
    all_axes = []
    for k, (panel, (x, y, across, high)) in enumerate(
        zip(chart.panels, layout.panels, strict=True)
    ):
        axes = add_axes(figure, layout, x, y, across, high)
        all_axes.append(axes)
        for line in panel.banded:
            _draw_band(axes, line)
        for line, xs in chart.bar_places(panel, max(BAR_STEP, BAR / across)):
            axes.vlines(xs, line.low, line.high, color=line.style.colour, lw=1)
        for level in panel.levels:
            _draw_level(axes, level)
        for line in panel.lines:
            _draw_curve(axes, line)
        _dress(axes, chart, layout)
        title = "\n".join(map(drawable, layout.panel_titles[k]))
        axes.set_title(title, size=9.5, loc="left", **plain(INK))
        if k % layout.per_row:
            axes.tick_params(labelleft=False)
    _name_axes(figure, layout)
    if layout.keys:
        _draw_legend(figure, layout)
    else:
        _label(all_axes[-1], chart, layout)
    write_head(figure, layout.head, layout.width, layout.height)
    return figure


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
    axes.plot(line.x, line.y, **_look(line.style))


def _look(style: Style) -> dict[str, Any]:
    return {
        "color": style.colour,
        "ls": DASHES[style.dash],
        "lw": style.width * 0.8,
        "marker": MARKERS[style.marker],
        "ms": 5,
        "mfc": style.colour if style.filled else "white",
        "mew": 0 if style.filled else 1.1,
    }


def _dress(axes: Axes, chart: Chart, layout: ChartLayout) -> None:
    """Ranges, ticks and grid."""
    across, high = layout.panels[0][2:]
    axes.set_xlim(*chart.x_range)
    axes.set_ylim(*chart.y_range)
    if chart.y_is_share:
        axes.yaxis.set_major_formatter(_per_cent)
    axes.yaxis.set_major_locator(MaxNLocator(min(7, int(high / 32)), steps=[1, 2, 5, 10]))
    most = min(16, max(2, int(across / 24)))
    axes.xaxis.set_major_locator(MaxNLocator(most, integer=True, min_n_ticks=1))
    if chart.x_is_share:
        axes.xaxis.set_major_locator(MaxNLocator(min(6, most - 1)))
        axes.xaxis.set_major_formatter(_per_cent)
    if chart.x_ticks:
        every = 1 if chart.x_is_category else _every(chart, across)
        kept = list(chart.x_ticks)[::every]
        axes.xaxis.set_major_locator(FixedLocator(kept))
        if chart.x_notes:
            texts = ["\n".join(map(drawable, text.split("\n"))) for text in chart.tick_texts]
            axes.set_xticks(
                kept, texts[::every], parse_math=False, rotation=90 if layout.turned else 0
            )
    axes.grid(color=GRID, lw=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#999999")
    axes.tick_params(color="#999999", labelcolor=INK, labelsize=8.5, labelfontfamily=FAMILY)


def _per_cent(share: float, _: object = None) -> str:
    return f"{100 * share:.6g}%".replace("-", "\N{MINUS SIGN}")


def _every(chart: Chart, across: float) -> int:
    """1, or k where only every k-th of the given ticks has room for its text."""
    longest = max(
        *(len(f"{tick:g}") for tick in chart.x_ticks), *map(len, chart.x_notes or [""])
    )  # fmt: skip
    return max(1, math.ceil((TICK * longest + 6) * len(chart.x_ticks) / (1.1 * across)))


def _name_axes(figure: Figure, layout: ChartLayout) -> None:
    """Titles of the shared axes: y beside the first panel of each row, x under the middle."""
    left, _, across, high = layout.panels[0]
    right = layout.panels[layout.per_row - 1][0] + across
    below = layout.panels[-1][1] + high + 27 + layout.notes
    how: dict[str, Any] = {"size": 13.7, "va": "top", "ha": "center"}
    for k, text in enumerate(layout.x_title):
        write(figure, layout, (left + right) / 2, below + k * LINE, text, **how)
    how = {"size": 13.7, "va": "center", "ha": "center", "rotation": 90}
    for k, text in enumerate(layout.y_title):
        for _, y, _, _ in layout.panels[:: layout.per_row]:
            write(figure, layout, 15.0 + k * LINE, y + high / 2, text, **how)


def _draw_legend(figure: Figure, layout: ChartLayout) -> None:
    """Samples of the lines and their names, under the panels."""
    top = min(key.y for key in layout.keys) - LINE
    axes = add_axes(figure, layout, 0.0, top, layout.width, layout.height - top)
    axes.set_axis_off()
    axes.set_xlim(0, layout.width)
    axes.set_ylim(layout.height, top)
    for key in layout.keys:
        look = _look(key.style) | ({"marker": ""} if key.is_level else {})
        axes.plot([key.x, key.x + 11, key.x + 22], [key.y] * 3, markevery=[1], **look)
        name = drawable(key.name)
        axes.text(key.x + KEY, key.y, name, size=8.5, va="center_baseline", **plain(INK))


def _label(axes: Axes, chart: Chart, layout: ChartLayout) -> None:
    """Each line's name beside its end; a hairline leads to one that had to move."""
    left, right = chart.x_range
    panel = chart.panels[-1]
    named = [(line.label, line.x[-1], line.y[-1], line.style) for line in panel.lines]
    named += [(level.label, right, level.y, level.style) for level in panel.levels if level.label]
    heights = chart.label_heights(layout.label_share)
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
                "color": LEADER,
                "lw": 0.5,
                "shrinkA": 2,
                "shrinkB": 4,
                "relpos": (0, 0.5),
            },
            **plain(style.text_colour),
        )
