"""A chart as a plotly figure that is at home in notebooks."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any, Final

import plotly.graph_objects as go

from interp_compose.errors import InputError
from interp_compose.plots.canvas import WIDTH, Width, head_of
from interp_compose.plots.chart import Chart, Level, Line, Panel, short
from interp_compose.plots.chart_layout import MORE
from interp_compose.plots.static import Picture, small_png_bytes
from interp_compose.plots.theme import BAND_OPACITY, LEADER, LEVEL_OPACITY, TEMPLATE, harmless

CONFIG: Final[dict[str, Any]] = {
    "displaylogo": False,
    "responsive": True,
    "typesetMath": False,
    "showSendToCloud": False,  # plotly's tool bar would offer to upload the data
    "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"],
}
HEIGHT: Final = 480  # pixels
LABEL_SHARE: Final = 0.052  # a label's height, of the axis
GAP: Final = 0.03  # between panels, of the plot's width
HOVER: Final = "%{y:.1%}  [%{customdata[0]:.1%}, %{customdata[1]:.1%}]  n = %{customdata[2]}"
VALUE: Final = re.compile(r" [0-9.]+%$")
"""At the end of a level's name."""
PLOTLY_MIME: Final = "application/vnd.plotly.v1+json"


class ChartFigure(go.Figure):  # type: ignore[misc]
    """A plotly figure that stays small and works offline in notebooks, and that saves pictures.

    plotly's own notebook output carries plotly.js (4 MB a notebook) or fetches it from the web.
    This one hands over the figure's data, which VS Code and JupyterLab draw with the plotly they
    bring along, and a PNG for every other viewer.

    Pictures are drawn by matplotlib, without a browser. They take over a title, a subtitle, an
    axis' title or a width that was changed (``figure.update_layout(title="…")``); where the figure
    was changed otherwise, saving a picture is refused, and a notebook has none.
    """

    _chart: Picture | None = None
    _ipython_display_ = None  # else IPython would never ask for the bundle below
    _repr_html_ = None  # plotly's own fetches plotly.js from a CDN

    @property
    def chart(self) -> Picture | None:
        """What is drawn; None in a copy made by plotly or pickle."""
        return self._chart

    def save(self, path: str | os.PathLike[str], *, width: Width | None = None) -> Path:
        """Write the figure to ``path``: a picture (``.pdf``, ``.svg``, ``.png``), or a page to
        explore (``.html``, 4 MB, nothing is fetched).

        The same figure gives the same bytes. A PDF's font is embedded (type 42), and an SVG's text
        is text. Blank margins at the right and below are cut off, so that a picture may be narrower
        than ``width``.

        Args:
            width: of a picture on paper: "column" (3.25 inches), "page" (6.75 inches) or inches. It
                is laid out anew, so that no letter is smaller than 7 points. By default as wide as
                in a notebook: 8.4 inches, or what its panels need.

        Raises:
            OptionError: ``path`` ends otherwise; no width that a figure can have.
            InputError: the figure was changed in a way that a picture cannot follow, or is a copy
                made by plotly or pickle; or it has no room in ``width``. Names the changes, or the
                width that it needs.
            OutputError: the file cannot be written.
        """
        from interp_compose.plots.export import save

        return save(self, path, width)

    def write_image(self, *args: Any, **kwargs: Any) -> None:
        """plotly's way needs a browser.

        Raises:
            InputError: always; names :meth:`save`.
        """
        raise InputError(
            "plotly's write_image and to_image need a browser; "
            "call figure.save('x.pdf'), or .svg or .png"
        )

    to_image = write_image

    def _repr_mimebundle_(
        self, include: object = None, exclude: object = None, **_: object
    ) -> dict[str, Any]:
        from interp_compose.plots.edits import as_edited

        data = json.loads(self.to_json())
        bundle: dict[str, Any] = {PLOTLY_MIME: data | {"config": CONFIG}}
        bundle["text/plain"] = "interactive figure"
        if self._chart is None:
            return bundle
        try:
            chart, width = as_edited(self)
        except InputError as refusal:
            bundle["text/plain"] = f"interactive figure, without a picture: {refusal}"
        else:
            bundle["text/plain"] = f"figure: {chart.title}. {chart.subtitle}"
            bundle["image/png"] = small_png_bytes(chart, width)
        return bundle

    def show(self, *args: Any, **kwargs: Any) -> None:
        """Show the figure: in a notebook as above; elsewhere, or with arguments, plotly's way."""
        ipython = sys.modules.get("IPython")
        shell = ipython.get_ipython() if ipython else None
        if args or kwargs or not hasattr(shell, "kernel"):
            super().show(*args, **kwargs)
        else:
            from IPython.display import display

            display(self)


def draw(chart: Chart) -> ChartFigure:
    """The chart as a plotly figure; every text in it is escaped here."""
    figure = ChartFigure()
    figure._chart = chart
    for i, panel in enumerate(chart.panels):
        x, y = _axis("x", i), _axis("y", i)
        bands = [_band(line) for line in panel.banded]
        bars = [_bars(line, xs) for line, xs in chart.bar_places(panel) if len(xs) > 1]
        curves = [_curve(line, chart.y_is_share) for line in panel.lines]
        levels = [] if chart.has_one_layer else _hover_of_levels(chart, panel)
        for trace in [*bands, *bars, *curves, *levels]:
            figure.add_trace(trace.update(xaxis=x, yaxis=y))
        for level in panel.levels:
            for shape in _level(level):
                figure.add_shape(shape | {"xref": f"{x} domain", "yref": y})
    head = head_of(chart.title, chart.told, WIDTH + MORE * (len(chart.panels) - 1))
    titled = any(panel.title for panel in chart.panels)
    figure.update_layout(
        template=TEMPLATE,
        height=HEIGHT + (28 if titled else 0) + head.more,
        title={
            "text": "<br>".join(map(harmless, head.title)),
            "subtitle": {"text": "<br>".join(map(harmless, head.subtitle))},
        },
        margin={"t": (112 if titled else 84) + head.more, "r": 40 + 8 * chart.label_length},
        hovermode="closest" if chart.has_one_layer else "x unified",
        annotations=[*_labels(chart), *_titles(chart)],
    )
    _dress(figure, chart)
    return figure


def _axis(letter: str, panel: int) -> str:
    """plotly's name for a panel's axis: x, x2, x3, …"""
    return letter if panel == 0 else f"{letter}{panel + 1}"


def _dress(figure: ChartFigure, chart: Chart) -> None:
    """Ranges, ticks and titles of the axes; further panels follow the first when zoomed."""
    n = len(chart.panels)
    width = (1 - GAP * (n - 1)) / n
    for i in range(n):
        x, y = _axis("xaxis", i), _axis("yaxis", i)
        name = chart.x_name or ("depth" if chart.x_is_share else "layer")
        where = name + (" %{x:.0%}" if chart.x_is_share else " %{x}")
        step = {"tickformat": ".0%"} if chart.x_is_share else {"dtick": _layer_step(chart)}
        figure.layout[x] = {"range": chart.x_range, "unifiedhovertitle_text": where, **step}
        if chart.x_ticks:
            figure.layout[x].update(tickmode="array", tickvals=list(chart.x_ticks))
        if chart.x_notes:
            texts = ["<br>".join(map(harmless, text.split("\n"))) for text in chart.tick_texts]
            where = name if chart.x_is_category else name + " %{x:~g}"
            figure.layout[x].update(ticktext=texts, unifiedhovertitle_text=where)
        figure.layout[y] = {"range": chart.y_range, "nticks": 8}
        if chart.y_is_share:
            figure.layout[y].tickformat = "~%"
        if n > 1:
            start = i * (width + GAP)
            figure.layout[x].domain = (start, min(1.0, start + width))  # sums round up
            figure.layout[y].anchor = _axis("x", i)
        if i > 0:
            figure.layout[x].update(anchor=_axis("y", i), matches="x")
            figure.layout[y].update(matches="y", showticklabels=False)
    figure.layout.yaxis.title.text = harmless(chart.y_title)
    if n == 1:
        figure.layout.xaxis.title.text = harmless(chart.x_title)


def _titles(chart: Chart) -> list[dict[str, Any]]:
    """Each panel's title above it, and the x axis' title under the middle of several panels."""
    plain = {"showarrow": False, "yref": "paper"}
    titles: list[dict[str, Any]] = [
        {
            **plain,
            "text": harmless(panel.title),
            "xref": f"{_axis('x', i)} domain",
            "x": 0,
            "xanchor": "left",
            "y": 1,
            "yanchor": "bottom",
            "yshift": 4,
        }
        for i, panel in enumerate(chart.panels)
        if panel.title
    ]
    if len(chart.panels) > 1:
        titles.append(
            {
                **plain,
                "text": harmless(chart.x_title),
                "xref": "paper",
                "x": 0.5,
                "y": 0,
                "yanchor": "top",
                "yshift": -30,
            }
        )
    return titles


def _level(level: Level) -> list[dict[str, Any]]:
    """The shapes of a level: its band, if it has one, and its line.

    Neither layer is "between": plotly drops such a shape where it spans the whole width.
    """
    style = level.style
    line = {"color": style.colour, "dash": style.dash, "width": style.width}
    across = {"type": "line", "x0": 0, "x1": 1, "y0": level.y, "y1": level.y}
    shapes: list[dict[str, Any]] = [{**across, "layer": "above", "line": line}]
    if level.band is not None:
        low, high = level.band
        fill = {"fillcolor": style.colour, "opacity": LEVEL_OPACITY, "line": {"width": 0}}
        shapes.append({**across, "type": "rect", "y0": low, "y1": high, "layer": "below", **fill})
    return shapes


def _hover_of_levels(chart: Chart, panel: Panel) -> list[go.Scatter]:
    """Each named level among what the hover says of a place; the shape itself says nothing."""
    xs = sorted({x for line in panel.lines for x in line.x})
    number = "%{y:.1%}" if chart.y_is_share else "%{y:.3f}"
    return [
        go.Scatter(
            x=xs,
            y=[level.y] * len(xs),
            name=harmless(VALUE.sub("", level.label)),
            hovertemplate=number,
            mode="lines",
            line={"color": level.style.colour, "width": 0},
        )
        for level in panel.levels
        if level.label
    ]


def _band(line: Line) -> go.Scatter:
    return go.Scatter(
        x=[*line.x, *reversed(line.x)],
        y=[*line.high, *reversed(line.low)],
        fill="toself",
        fillcolor=line.style.colour,
        opacity=BAND_OPACITY,
        line={"width": 0},
        mode="lines",
        hoverinfo="skip",
    )


def _bars(line: Line, xs: list[float]) -> go.Scatter:
    """Each bar a stroke, each third point a gap."""
    return go.Scatter(
        x=[place for x in xs for place in (x, x, None)],
        y=[end for low, high in zip(line.low, line.high, strict=True) for end in (low, high, None)],
        line={"color": line.style.colour, "width": 1.2},
        mode="lines",
        hoverinfo="skip",
    )


def _curve(line: Line, y_is_share: bool) -> go.Scatter:
    style = line.style
    single = len(line.x) == 1
    above = [h - y for h, y in zip(line.high, line.y, strict=True)]
    below = [y - low for y, low in zip(line.y, line.low, strict=True)]
    return go.Scatter(
        x=list(line.x),
        y=list(line.y),
        name=harmless(line.label),
        customdata=[list(row) for row in zip(line.low, line.high, line.n, strict=True)],
        hovertemplate=HOVER if y_is_share else HOVER.replace(".1%", ".3f"),
        mode="lines+markers",
        line={"color": style.colour, "dash": style.dash, "width": style.width},
        marker={
            "symbol": style.marker,
            "size": 7.5,
            "color": style.colour if style.filled else "white",
            "line": {"color": style.colour, "width": 0 if style.filled else 1.5},
        },
        error_y={"array": above, "arrayminus": below, "visible": single, "thickness": 1.2},
    )


def _labels(chart: Chart) -> list[dict[str, Any]]:
    """Each line's name beside its end in the last panel, joined to it by a hairline."""
    panel = chart.panels[-1]
    x_axis, y_axis = _axis("x", len(chart.panels) - 1), _axis("y", len(chart.panels) - 1)
    right = chart.x_range[1]
    reach = 0.02 * (right - chart.x_range[0])
    named = [(line.label, line.x[-1], line.y[-1], line.style) for line in panel.lines]
    named += [(level.label, right, level.y, level.style) for level in panel.levels if level.label]
    heights = chart.label_heights(LABEL_SHARE)
    return [
        {
            "text": harmless(short(text)),
            "x": x,
            "y": y,
            "ax": right + reach,
            "ay": height,
            "xref": x_axis,
            "yref": y_axis,
            "axref": x_axis,
            "ayref": y_axis,
            "xanchor": "left",
            "showarrow": True,
            "arrowhead": 0,
            "arrowwidth": 0.8,
            "arrowcolor": LEADER,
            "font": {"color": style.text_colour, "size": 13},
        }
        for (text, x, y, style), height in zip(named, heights, strict=True)
    ]


def _layer_step(chart: Chart) -> int:
    """Layers are whole numbers: a tick at each, or at every second, fifth, tenth, …"""
    low, high = chart.x_range
    powers = (1, 10, 100, 1000, 10_000, 100_000, 1_000_000)
    steps = (digit * power for power in powers for digit in (1, 2, 5))
    return next(step for step in steps if (high - low) / step <= 16)
