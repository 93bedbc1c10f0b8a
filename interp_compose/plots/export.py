"""Figures as files: pictures for papers, and pages to explore (:mod:`.pages`)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from interp_compose.errors import OptionError
from interp_compose.plots.canvas import Width, pixels
from interp_compose.plots.describe import Described, scene_of
from interp_compose.plots.edits import as_edited
from interp_compose.plots.interactive import ChartFigure
from interp_compose.plots.pages import page_bytes
from interp_compose.plots.scene import Scene
from interp_compose.plots.static import DPI, PRINT_DPI, drawn_width, picture
from interp_compose.runs.files import atomic_write

PICTURES: Final = ("pdf", "png", "svg")
NEARLY: Final = 3.0  # pixels: letters are no wider than this at another resolution


def picture_bytes(figure: ChartFigure, kind: str = "png", *, width: Width | None = None) -> bytes:
    """The figure drawn by matplotlib, which needs no browser; the same figure, the same bytes.

    What is blank right of it and below it is cut off. A PNG has 160 pixels in an inch, or 300 where
    a width is given; a PDF's font is embedded, an SVG's text is text. No file holds a date.

    Raises:
        OptionError: no width that a figure can have.
        InputError: the figure was edited in a way that a picture cannot follow; plotly copied it,
            and it no longer knows what it shows; or there is no room for it in this width.
    """
    print_width = pixels(width)
    chart, edited_width = as_edited(figure)
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
