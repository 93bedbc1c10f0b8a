"""Figures as pages to explore, which fetch nothing from a network.

plotly.js draws them, and has 4.8 MB. Pages of one folder share a copy of it, whose name carries its
version; a page that is saved alone has it inside.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Final

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs, get_plotlyjs_version

from interp_compose.plots.chart import Chart
from interp_compose.plots.interactive import CONFIG, ChartFigure
from interp_compose.plots.scatter import Scatter

SCRIPT: Final = f"plotly_{get_plotlyjs_version()}.min.js"
"""The copy of plotly.js that the pages of a folder share."""
PAGE: Final = Template((Path(__file__).parent / "page.html").read_text(encoding="utf-8"))
LOW: Final = 600.0  # pixels: a higher figure, of several rows of panels, keeps its height


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
    is_wide = isinstance(figure.chart, Chart | Scatter) and figure.layout.width is None
    as_high_as_window = is_wide and figure.layout.height < LOW
    shown = go.Figure(figure).update_layout(height=None) if as_high_as_window else figure
    drawn = shown.to_json().removesuffix("}") + f', "config": {json.dumps(CONFIG)}}}'
    script = f">{get_plotlyjs()}" if alone else f' src="{SCRIPT}">'
    page = PAGE.substitute(
        title=html.escape(_title(figure)),
        script=SCRIPT,
        plotly=f"<script{script}</script>",
        drawn=drawn,
    )
    return page.encode(errors="replace")


def _title(figure: ChartFigure) -> str:
    """The figure's title, and the first part of its subtitle, such as the task."""
    title = figure.layout.title
    texts = [title.text, (title.subtitle.text or "").partition(" · ")[0]]
    return html.unescape(" · ".join(filter(None, texts)).replace("<br>", " "))
