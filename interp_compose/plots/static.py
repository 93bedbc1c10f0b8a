"""The same chart drawn by matplotlib, for papers and for viewers without JavaScript.

It draws on a :class:`matplotlib.figure.Figure` of its own: pyplot, the backend and the user's
settings are neither read nor changed.
"""

from __future__ import annotations

import io
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.ticker import MaxNLocator, PercentFormatter
from PIL import Image

from interp_compose.plots.chart import Chart, Line, short
from interp_compose.plots.theme import BAND_OPACITY, GRID, INK, MUTED

SIZE: Final = (8.4, 4.6)  # inches
DPI: Final = 160
SMALL_DPI: Final = 110
FAMILY: Final = "DejaVu Sans"  # comes with matplotlib, so figures agree on every machine
LABEL_SHARE: Final = 0.05
DASHES: Final = {"solid": "-", "dash": (0, (5, 2)), "dot": (0, (1, 1.6))}
MARKERS: Final = {
    "circle": "o",
    "square": "s",
    "diamond": "D",
    "triangle-up": "^",
    "x": "X",
    "cross": "P",
    "star": "*",
}


def small_png_bytes(chart: Chart) -> bytes:
    """The chart as a PNG of 924 × 506 pixels in 128 colours: about 30 kB, for notebooks."""
    full = Image.open(io.BytesIO(png_bytes(chart, dpi=SMALL_DPI))).convert("RGB")
    buffer = io.BytesIO()
    full.quantize(128, dither=Image.Dither.NONE).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def png_bytes(chart: Chart, *, dpi: int = DPI) -> bytes:
    """The chart as a PNG, by default of 1344 × 736 pixels; the same chart gives the same bytes."""
    with mpl.rc_context():
        mpl.rcdefaults()
        figure = Figure(figsize=SIZE, dpi=dpi, facecolor="white")
        axes = figure.add_axes((0.085, 0.125, 0.875 - 0.0095 * chart.label_length, 0.70))
        for line in chart.lines:
            _draw_band(axes, line)
        for level in chart.levels:
            style = level.style
            dash = DASHES[style.dash]
            axes.axhline(level.y, color=style.colour, lw=style.width * 0.7, ls=dash, zorder=1.5)
        for line in chart.lines:
            _draw_curve(axes, line)
        _dress(axes, chart)
        _label(axes, chart)
        figure.text(0.02, 0.945, _drawable(short(chart.title, 80)), size=12.5, **_text(INK))
        figure.text(0.02, 0.885, _drawable(short(chart.subtitle, 120)), size=8.5, **_text(MUTED))
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def _draw_band(axes: Axes, line: Line) -> None:
    colour = line.style.colour
    if len(line.x) > 1:
        axes.fill_between(line.x, line.low, line.high, color=colour, alpha=BAND_OPACITY, lw=0)
    else:
        axes.vlines(line.x, line.low, line.high, color=colour, lw=1)


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
    """Axes, ticks and grid."""
    axes.set_xlim(*chart.x_range)
    axes.set_ylim(*chart.y_range)
    axes.set_xlabel(_drawable(chart.x_title), size=9.5, **_text(INK))
    axes.set_ylabel(_drawable(chart.y_title), size=9.5, **_text(INK))
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=None))
    axes.yaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_locator(MaxNLocator(16, integer=True))
    if chart.x_is_share:
        axes.xaxis.set_major_locator(MaxNLocator(6))
        axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.grid(color=GRID, lw=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#999999")
    axes.tick_params(color="#999999", labelcolor=INK, labelsize=8.5, labelfontfamily=FAMILY)


def _label(axes: Axes, chart: Chart) -> None:
    """Each line's name beside its end, joined to it by a hairline."""
    left, right = chart.x_range
    named = [(line.label, line.x[-1], line.y[-1], line.style) for line in chart.lines]
    named += [(level.label, right, level.y, level.style) for level in chart.levels if level.label]
    heights = chart.label_heights(LABEL_SHARE)
    for (text, x, y, style), height in zip(named, heights, strict=True):
        axes.annotate(
            _drawable(short(text)),
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
            **_text(style.text_colour),
        )


def _text(colour: str) -> dict[str, Any]:
    """Text as it is: ``$`` starts no formula, ``_`` and ``<`` mean nothing."""
    return {"color": colour, "family": FAMILY, "parse_math": False}


def _drawable(text: str) -> str:
    """One line of characters that the font has; others become "�" instead of a warning."""
    font = get_font(findfont(FontProperties(family=FAMILY)))
    flat = " ".join(text.split())
    return "".join(c if font.get_char_index(ord(c)) else "\N{REPLACEMENT CHARACTER}" for c in flat)
