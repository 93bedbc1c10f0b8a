"""Scenes drawn by matplotlib, for papers and for viewers without JavaScript.

It draws on a ``matplotlib.figure.Figure`` of its own: pyplot, the backend and the user's
settings are neither read nor changed.
"""

from __future__ import annotations

import io
import itertools
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes as Drawn
from matplotlib.axis import XAxis, YAxis
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.lines import Line2D
from matplotlib.patches import Circle
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import Affine2D, Bbox

from interp_compose.plots.canvas import MARGIN, PIXELS, POINT
from interp_compose.plots.heatmap_scale import GREY
from interp_compose.plots.palette import few_colours
from interp_compose.plots.scene import (
    Axes,
    Axis,
    Band,
    Cells,
    Curve,
    Image,
    Item,
    Label,
    Marks,
    Rule,
    Scene,
    Strokes,
    Words,
)
from interp_compose.plots.theme import (
    BAND_OPACITY,
    EDGE,
    FRAME,
    GRID,
    INK,
    LEADER,
    MARKERS,
    MUTED,
    Style,
)

DPI: Final = 160
SMALL_DPI: Final = 110
PRINT_DPI: Final = 300
CLEAR: Final = (0.0, 0.0, 0.0, 0.0)
FAMILY: Final = "DejaVu Sans"  # comes with matplotlib, so figures agree on every machine
SHADES: Final = 256  # in a colour bar
TICK: Final = 7.6  # pixels: the width of a letter of its ticks
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


def small_png_bytes(scene: Scene) -> bytes:
    """The scene as a PNG of 110 pixels an inch, for notebooks: about 30 kB."""
    png = picture(scene, "png", dpi=SMALL_DPI)
    return few_colours(png, scene.bar.scale if scene.bar else None)


def picture(scene: Scene, kind: str, *, dpi: int = DPI) -> bytes:
    """The scene as a file of matplotlib ("png", "pdf" or "svg"); the same scene, the same bytes.

    What is blank right of what is drawn and below it is cut off.
    """
    with _our_settings():
        figure = painted(scene, dpi)
        buffer = io.BytesIO()
        figure.savefig(buffer, format=kind, metadata=UNDATED[kind], bbox_inches=_cropped(figure))
    data = buffer.getvalue()
    return data.replace(b"'DejaVu Sans'", SVG_FONTS) if kind == "svg" else data


@contextmanager
def _our_settings() -> Iterator[None]:
    """These pictures' settings, whatever matplotlib has, for the length of a ``with`` block."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(VECTORS)
        yield


def drawn_width(scene: Scene) -> float:
    """Pixels across that are left once what is blank at the right is cut off."""
    with _our_settings():
        return float(_cropped(painted(scene)).width) * PIXELS


def _cropped(figure: Figure) -> Bbox:
    """Inches: the canvas up to a margin right of what is drawn and below it."""
    width, height = figure.get_size_inches()
    drawn, margin = figure.get_tightbbox(), MARGIN / PIXELS
    bottom, right = max(0.0, drawn.y0 - margin), min(width, drawn.x1 + margin)
    return Bbox.from_extents(0, bottom, right, height)


def painted(scene: Scene, dpi: int = DPI) -> Figure:
    """The scene as a matplotlib figure, under whatever settings matplotlib has now."""
    inches = (scene.width / PIXELS, scene.height / PIXELS)
    figure = Figure(figsize=inches, dpi=dpi, facecolor="white")
    all_axes = [_panel(figure, scene, axes) for axes in scene.axes]
    for label in scene.labels:
        _label(all_axes[-1], label)
    if scene.bar:
        _bar(figure, scene)
    if scene.keys or scene.rings:
        _samples(figure, scene)
    for k, (line, y, size) in enumerate(scene.head.placed):
        colour = INK if k < len(scene.head.title) else MUTED
        _write(figure, scene, (MARGIN, y), line, size, colour)
    for text in scene.texts:
        place = _place(scene, text.panel, text.share, text.dx, text.dy)
        down = {"middle": "center"}.get(text.down, text.down)
        look: dict[str, Any] = {"ha": text.across, "va": down, "rotation": 90 * text.turned}
        _write(figure, scene, place, text.text, text.size, text.colour, **look)
    return figure


def plain(colour: str) -> dict[str, Any]:
    """Options for text as it is: ``$`` starts no formula, ``_`` and ``<`` mean nothing."""
    return {"color": colour, "family": FAMILY, "parse_math": False}


def drawable(text: str) -> str:
    """Characters that the font has; others become "�" instead of a warning. Lines stay lines."""
    font = get_font(findfont(FontProperties(family=FAMILY)))
    lines = [" ".join(line.split()) for line in text.split("\n")]
    has = font.get_char_index
    return "\n".join(
        "".join(c if has(ord(c)) else "\N{REPLACEMENT CHARACTER}" for c in line) for line in lines
    )


def _place(
    scene: Scene, panel: int | None, share: tuple[float, float], dx: float, dy: float
) -> tuple[float, float]:
    """Pixels from the figure's upper left corner."""
    left, top, width, height = scene.box if panel is None else scene.axes[panel].box
    return left + share[0] * width + dx, top + (1 - share[1]) * height + dy


def _write(
    figure: Figure,
    scene: Scene,
    place: tuple[float, float],
    text: str,
    size: float,
    colour: str,
    **look: Any,
) -> None:
    x, y = place[0] / scene.width, 1 - place[1] / scene.height
    figure.text(x, y, drawable(text), size=size * POINT, **look, **plain(colour))


def _add(figure: Figure, scene: Scene, x: float, y: float, width: float, height: float) -> Drawn:
    across, down = scene.width, scene.height
    return figure.add_axes((x / across, 1 - (y + height) / down, width / across, height / down))


def _panel(figure: Figure, scene: Scene, axes: Axes) -> Drawn:
    drawn = _add(figure, scene, *axes.box)
    for item in axes.items:
        _draw(drawn, scene, item)
    drawn.set_xlim(axes.x.low, axes.x.high)
    drawn.set_ylim(axes.y.low, axes.y.high)
    drawn.spines[:].set_visible(False)
    if axes.look == "open":
        drawn.spines[["left", "bottom"]].set(visible=True, color=EDGE)
        drawn.grid(color=GRID, lw=0.7)
    elif axes.look == "grid":
        drawn.vlines([at for at, _ in axes.x.ticks or ()], *drawn.get_ylim(), color=GRID, lw=0.7)
        drawn.hlines([at for at, _ in axes.y.ticks or ()], *drawn.get_xlim(), color=GRID, lw=0.7)
    elif axes.look == "frame" and axes.colour:
        drawn.spines[:].set(visible=True, color=axes.colour, linewidth=0.6)
    if axes.paper:
        drawn.set_facecolor(axes.paper)
    drawn.set_axisbelow(True)
    length = 3.5 if axes.look == "open" else 0.0
    for side, axis in ((drawn.xaxis, axes.x), (drawn.yaxis, axes.y)):
        side.set_tick_params(
            color=EDGE, labelcolor=INK, labelsize=axis.size * POINT, labelfontfamily=FAMILY,
            length=length, pad=3.5 if axes.look != "frame" else 3.0,
        )  # fmt: skip
        _ticks(side, axis)
    return drawn


def _ticks(side: XAxis | YAxis, axis: Axis) -> None:
    if axis.ticks is not None:
        ticks = axis.ticks if axis.labels else ()
        texts = [drawable(text) for _, text in ticks]
        side.set_ticks([at for at, _ in ticks], texts, parse_math=False)
        side.set_tick_params(rotation=90 if axis.turned else 0)
    elif axis.whole:
        side.set_major_locator(MaxNLocator(axis.most, integer=True, min_n_ticks=1))
    else:
        side.set_major_locator(MaxNLocator(axis.most, steps=[1, 2, 5, 10]))
    if axis.is_share:
        side.set_major_formatter(_per_cent)
    elif axis.is_scientific and axis.ticks is None:
        side.set_major_formatter(_with_power)
    if not axis.labels:
        side.set_tick_params(labelleft=False, labelbottom=False)
    if axis.title:
        title = drawable("\n".join(axis.title))
        side.set_label_text(title, size=13.7 * POINT, **plain(INK))


def _per_cent(share: float, _: object = None) -> str:
    return f"{100 * share:.6g}%".replace("-", "\N{MINUS SIGN}")


def _with_power(value: float, _: object = None) -> str:
    """A number such as "0.2", "2e−4" and "2e6"."""
    text = f"{value:.6g}"
    if value and not 1e-2 <= abs(value) < 1e4:
        digits, power = f"{value:.5e}".split("e")
        text = f"{float(digits):g}e{int(power)}"
    return text.replace("-", "\N{MINUS SIGN}")


def _draw(drawn: Drawn, scene: Scene, item: Item) -> None:
    look: dict[str, Any]
    match item:
        case Band():
            look = {"color": item.colour, "alpha": BAND_OPACITY, "lw": 0}
            drawn.fill_between(item.x, item.low, item.high, **look)
        case Curve():
            if item.ends is not None:
                drawn.vlines(item.x, *item.ends, color=item.style.colour, lw=1)
            drawn.plot(item.x, item.y, **_look(item.style))
        case Rule():
            style = item.style
            dash = DASHES[style.dash]
            drawn.axhline(item.y, color=style.colour, lw=style.width * 0.7, ls=dash, zorder=1.5)
        case Strokes():
            look = {"linewidths": 0.72 * item.width, "alpha": item.opacity}
            drawn.add_collection(LineCollection(item.ends, colors=item.colour, **look))
        case Marks():
            _marks(drawn, scene, item)
        case Words():
            look = {"size": item.size * POINT, "ha": "center", "va": "center_baseline"}
            for x, y, text in zip(item.x, item.y, item.texts, strict=True):
                drawn.text(x, y, drawable(text), **look, **plain(item.colour))
        case Cells():
            _cells(drawn, item)
        case Image():
            extent = (item.left, item.left + item.width, item.top + item.height, item.top)
            drawn.imshow(item.pixels, interpolation="nearest", aspect="auto", extent=extent)
            corners = [(item.left + a * item.width, item.top + b * item.height)
                       for a, b in ((0, 0), (1, 0), (1, 1), (0, 1), (0, 0))]  # fmt: skip
            drawn.add_collection(LineCollection([corners], colors=FRAME, linewidths=0.8))


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


def _marks(drawn: Drawn, scene: Scene, marks: Marks) -> None:
    if not marks.opacity:
        return  # there for the hover alone
    colour = marks.colour
    if marks.values is not None and scene.bar is not None:
        colour = [scene.bar.scale.colour_of_place(value) for value in marks.values]
    thin = marks.marker == "x-thin"
    drawn.scatter(
        marks.x,
        marks.y,
        s=(np.asarray(marks.size, float) * POINT) ** 2,
        marker="x" if thin else MARKERS[marks.marker],
        c=colour if isinstance(colour, list) else None,
        color=None if isinstance(colour, list) else colour,
        edgecolors=marks.edge or None,
        linewidths=1.2 if thin else 0.6 if marks.edge else 0,
        alpha=marks.opacity,
        zorder=3,
    )


def _cells(drawn: Drawn, cells: Cells) -> None:
    """Every number; of a matrix with more rows than pixels every k-th row and column, the same down
    and across, so that it keeps its diagonal. Where there is none, what lies below is seen."""
    low, scale = cells.start - cells.step / 2, cells.scale
    rows, columns = cells.values.shape
    if cells.gap or scale is None:
        shades = [
            [(*to_rgb(GREY if scale is None else scale.colour_of_place(value)), 1.0)
             if not math.isnan(value) else CLEAR for value in row]
            for row in cells.values
        ]  # fmt: skip
        drawn.pcolormesh(
            low + cells.step * np.arange(columns + 1),
            low + cells.step * np.arange(rows + 1),
            shades,
            edgecolors="white" if cells.gap else "none",
            linewidth=cells.gap * POINT,
            antialiased=bool(cells.gap),
        )
        return
    every = math.ceil(rows / drawn.bbox.height)
    picked = cells.values[::every, ::every] if rows == columns else cells.values
    every = every if rows == columns else 1
    down, across = (low + n * every * cells.step for n in picked.shape)
    colours = LinearSegmentedColormap.from_list("", scale.stops, SHADES)
    drawn.imshow(
        np.ma.masked_invalid(picked),
        cmap=colours.with_extremes(bad=CLEAR),
        vmin=scale.low,
        vmax=scale.high,
        interpolation="nearest",
        aspect="auto",
        extent=(low, across, down, low),
    )


def _label(drawn: Drawn, label: Label) -> None:
    """A name next to a line's end; a hairline leads to one that had to move."""
    left, right = drawn.get_xlim()
    drawn.annotate(
        drawable(label.text),
        xy=(label.x, label.y),
        xytext=(right + 0.02 * (right - left), label.to),
        va="center",
        size=13 * POINT,
        annotation_clip=False,
        arrowprops={
            "arrowstyle": "-",
            "color": LEADER,
            "lw": 0.5,
            "shrinkA": 2,
            "shrinkB": 0 if label.x >= right else 4,  # of a level, which has no marker there
            "relpos": (0, 0.5),
        },
        **plain(label.colour),
    )


def _samples(figure: Figure, scene: Scene) -> None:
    """Samples of the legend and their names, and rings, anywhere on the figure."""
    pixels = Affine2D().scale(1 / scene.width, -1 / scene.height).translate(0, 1)
    where = pixels + figure.transFigure
    for key in scene.keys:
        look = _look(key.style)
        if key.line:
            xs, look["marker"] = [0, 11, 22], look["marker"] if key.line == "marked" else ""
        else:
            xs, look["lw"], look["ms"] = [16], 0, 8 * POINT
        places = ([key.x + x for x in xs], [key.y] * len(xs))
        middle = [1] if key.line else None
        figure.add_artist(Line2D(*places, markevery=middle, transform=where, **look))
        x = key.x + (30.0 if key.line else 26.0)
        _write(figure, scene, (x, key.y), key.name, 12.0, INK, va="center_baseline")
    for ring in scene.rings:
        place = _place(scene, 0, (0.0, 1.0), ring.dx, ring.dy)
        look = {"fc": "none", "ec": INK, "lw": 0.8}
        figure.add_artist(Circle(place, ring.diameter / 2, transform=where, **look))


def _bar(figure: Figure, scene: Scene) -> None:
    """The colour bar right of the panels, level with their middle, or below them, as wide as they
    are; of its ticks as many as have room."""
    assert scene.bar is not None
    scale, length, ticks = scene.bar.scale, scene.bar.length, scene.bar.scale.ticks
    left, top, width, height = scene.box
    shades = [to_rgb(scale.colour_at((k + 0.5) / SHADES)) for k in range(SHADES)]
    look: dict[str, Any] = {"origin": "lower", "aspect": "auto"}
    turned: dict[str, Any] = {}
    along: XAxis | YAxis
    across: XAxis | YAxis
    size = 12 * POINT
    if scene.bar.top is None:
        drawn = _add(figure, scene, left + width + 14, top + (height - length) / 2, 14.0, length)
        drawn.imshow([[shade] for shade in shades], extent=(0, 1, scale.low, scale.high), **look)
        along, across = drawn.yaxis, drawn.xaxis
        drawn.yaxis.tick_right()
        drawn.yaxis.set_label_position("right")
        drawn.yaxis.labelpad = 6
        turned = {"rotation": 270, "va": "bottom"}
    else:
        start = max(left + (width - length) / 2, MARGIN)
        drawn = _add(figure, scene, start, scene.bar.top, length, 14.0)
        drawn.imshow([shades], extent=(scale.low, scale.high, 0, 1), **look)
        along, across = drawn.xaxis, drawn.yaxis
        gaps = [b - a for (a, _), (b, _) in itertools.pairwise(ticks)] or [scale.high - scale.low]
        there = length * min(gaps) / (scale.high - scale.low)
        ticks = ticks[:: math.ceil((TICK * max(len(text) for _, text in ticks) + 6) / there)]
    drawn.spines[:].set_visible(False)
    across.set_ticks([])
    texts = [drawable(text) for _, text in ticks]
    along.set_ticks([place for place, _ in ticks], texts, parse_math=False)
    drawn.tick_params(
        color=EDGE, labelcolor=INK, labelsize=size, labelfontfamily=FAMILY, length=3
    )  # fmt: skip
    title = "\n".join(map(drawable, scene.bar.title))
    along.set_label_text(title, size=size, **turned, **plain(INK))
