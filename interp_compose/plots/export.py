"""Figures as files: pictures for papers, and pages to explore, which fetch nothing from a network.

plotly.js draws the pages, and has 4.8 MB. Pages of one folder share a copy of it, whose name has
its version; a page that is saved alone has it inside. A page holds the figure laid out for windows
of several widths, and draws the widest one that fits.
"""

from __future__ import annotations

import html
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from string import Template
from typing import Final

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs, get_plotlyjs_version

from interp_compose.errors import InputError, OptionError
from interp_compose.plots.canvas import WIDTH, Width, pixels
from interp_compose.plots.chart import Chart
from interp_compose.plots.describe import Described, scene_of
from interp_compose.plots.edits import as_edited
from interp_compose.plots.heatmap import HeatMap
from interp_compose.plots.interactive import CONFIG, ChartFigure, draw
from interp_compose.plots.scatter import Scatter
from interp_compose.plots.scene import Scene
from interp_compose.plots.static import DPI, PRINT_DPI, drawn_width, picture
from interp_compose.runs.files import atomic_write

PICTURES: Final = ("pdf", "png", "svg")
NEARLY: Final = 3.0  # pixels: letters are no wider than this at another resolution
SCRIPT: Final = f"plotly_{get_plotlyjs_version()}.min.js"
"""The copy of plotly.js that the pages of a folder share."""
PAGE: Final = Template((Path(__file__).parent / "page.html").read_text(encoding="utf-8"))
LOW: Final = 600.0  # pixels: a higher figure, of several rows of panels, keeps its height
NARROW: Final = {0.0: 374.0, 640.0: 700.0}
"""From which width of a window on, and for which one, in pixels, a figure is laid out anew."""
USUAL: Final = 900.0
"""From which width of a window on it has its usual layout."""
NARROWEST: Final = 320.0
LARGER: Final = 2.6
"""How much wider and higher than usual a map may be on a page."""


def page_files(figures: Mapping[str, ChartFigure]) -> dict[str, bytes]:
    """Each figure as a page, and the script that these share, by the files' names."""
    pages = {f"{name}.html": page_bytes(one, alone=False) for name, one in figures.items()}
    return pages | ({SCRIPT: get_plotlyjs().encode()} if pages else {})


def page_bytes(figure: ChartFigure, *, alone: bool = True) -> bytes:
    """One page; the same figure, the same bytes.

    No text in the figure can leave its JSON string: plotly writes ``<``, ``>`` and ``/`` of every
    string as escapes.

    Args:
        figure: what it shows.
        alone: plotly.js is inside; else the page needs :data:`SCRIPT` in its folder, and says so
            where that is missing.
    """
    layouts = (f"{json.dumps(size)[:-1]}, {one.to_json()[1:]}" for one, size in _layouts(figure))
    drawn = f'{{"layouts": [{", ".join(layouts)}], "config": {json.dumps(CONFIG)}}}'
    script = f">{get_plotlyjs()}" if alone else f' src="{SCRIPT}">'
    page = PAGE.substitute(
        title=html.escape(_title(figure)),
        script=SCRIPT,
        plotly=f"<script{script}</script>",
        drawn=drawn,
    )
    return page.encode(errors="replace")


def _layouts(figure: ChartFigure) -> list[tuple[go.Figure, dict[str, float]]]:
    """The figure for narrow windows first, as far as it has room there; "from" which width of the
    window each is shown, its "least" width, below which the page scrolls, and its largest "width"
    and "height", where it has some; in pixels.

    A figure that was edited where :func:`.as_edited` cannot follow, or has a width, is shown as it
    is in every window.
    """
    try:
        described, width = as_edited(figure)
    except InputError:
        described, width = None, None
    layouts: list[tuple[go.Figure, dict[str, float]]] = []
    for start, laid_out in NARROW.items():
        if described is None or width is not None:
            break
        with suppress(InputError):  # no room for it
            size = {"from": start if layouts else 0.0, "least": max(start, NARROWEST)}
            layouts.append((draw(described, laid_out), size))
    usual, scene_width, height = go.Figure(figure), figure.layout.width, figure.layout.height
    size = {"from": 0.0, "least": scene_width or WIDTH}
    if layouts:
        size = {"from": USUAL, "least": USUAL}
    if height is not None and height < LOW and width is None:
        if isinstance(described, Chart | Scatter):
            usual.update_layout(height=None)
        elif isinstance(described, HeatMap):
            size |= {"width": LARGER * (scene_width or WIDTH), "height": LARGER * height}
            usual.update_layout(width=None, height=None)
            usual.update_coloraxes(colorbar={"lenmode": "fraction", "len": 1})
            usual.update_traces(textfont_size=14, selector={"mode": "text"})
    return [*layouts, (usual, size)]


def _title(figure: ChartFigure) -> str:
    """The figure's title, and the first part of its subtitle, such as the task."""
    title = figure.layout.title
    texts = [title.text, (title.subtitle.text or "").partition(" · ")[0]]
    return html.unescape(" · ".join(filter(None, texts)).replace("<br>", " "))


def picture_bytes(
    figure: ChartFigure, kind: str = "png", *, width: Width | None = None, dpi: int | None = None
) -> bytes:
    """The figure drawn by matplotlib, which needs no browser; the same figure, the same bytes.

    What is blank right of it and below it is cut off. A PNG has ``dpi`` pixels in an inch: 160, or
    300 where a width is given, unless another number is; a PDF's font is embedded, an SVG's text is
    text. No file holds a date.

    Raises:
        OptionError: no width that a figure can have.
        InputError: the figure was edited in a way that a picture cannot follow; plotly copied it,
            and it no longer knows what it shows; or there is no room for it in this width.
    """
    print_width = pixels(width)
    chart, edited_width = as_edited(figure)
    if dpi is None:
        dpi = PRINT_DPI if kind == "png" and print_width is not None else DPI
    pixels_across = edited_width if print_width is None else print_width
    scene = _filling(chart, pixels_across) if pixels_across else scene_of(chart)
    return picture(scene, kind, dpi=dpi)


def _filling(described: Described, width: float) -> Scene:
    """The scene laid out so that it has this width, and no more, once its blank margin is cut."""
    scene = scene_of(described, width)
    blank = width - drawn_width(scene)
    if blank <= NEARLY:
        return scene
    wider = scene_of(described, width + blank - NEARLY)
    return wider if drawn_width(wider) <= width - NEARLY / 2 else scene


def save(figure: ChartFigure, path: str | os.PathLike[str], width: Width | None) -> Path:
    """:meth:`.ChartFigure.save`."""
    path = Path(path)
    kind = path.suffix.lower().removeprefix(".")
    if kind != "html" and kind not in PICTURES:
        raise OptionError(
            f"path={str(path)!r}: expected a name that ends in .pdf, .svg, .png or .html"
        )
    if kind == "html" and width is not None:
        raise OptionError(f"width={width!r}: a page is as wide as its window; leave it out")
    data = page_bytes(figure) if kind == "html" else picture_bytes(figure, kind, width=width)
    atomic_write(path, data)
    return path
