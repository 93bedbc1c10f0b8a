"""Figures as files: an interactive page that needs no network, and a picture."""

from __future__ import annotations

import os
from pathlib import Path

from interp_compose.errors import InputError
from interp_compose.plots.interactive import CONFIG, ChartFigure
from interp_compose.plots.static import png_bytes
from interp_compose.runs.files import atomic_write


def page_bytes(figure: ChartFigure) -> bytes:
    """One self-contained page, plotly.js inside (about 4 MB); the same figure, the same bytes.

    No text in the figure can leave its JSON string: plotly writes ``<``, ``>`` and ``/`` of every
    string as escapes.
    """
    page = figure.to_html(
        config=CONFIG, include_plotlyjs=True, include_mathjax=False, full_html=True, div_id="figure"
    )
    return page.encode()  # type: ignore[no-any-return]


def picture_bytes(figure: ChartFigure) -> bytes:
    """The figure's chart, heat map, scatter or matrices, drawn by matplotlib; needs no browser.

    One panel is 1344 × 736 pixels, each further one 352 pixels more; a heat map is 1344 pixels
    wide, and its height grows with its rows; a scatter is as wide, or wider from three panels on; a
    grid of matrices is as large as its panels need, up to 2154 × 1692 pixels in a usual grid.

    Raises:
        InputError: the figure was copied by plotly and no longer knows its chart.
    """
    if figure.chart is None:
        raise InputError(
            "this figure does not know its chart (plotly or pickle copied it); pass the figure as "
            "plot() returned it"
        )
    return png_bytes(figure.chart)


def save_html(figure: ChartFigure, path: str | os.PathLike[str]) -> Path:
    """:func:`page_bytes` as a file.

    Raises:
        OutputError: it cannot be written.
    """
    atomic_write(path, page_bytes(figure))
    return Path(path)


def save_png(figure: ChartFigure, path: str | os.PathLike[str]) -> Path:
    """:func:`picture_bytes` as a file.

    Raises:
        InputError: the figure was copied by plotly and no longer knows its chart.
        OutputError: it cannot be written.
    """
    atomic_write(path, picture_bytes(figure))
    return Path(path)
