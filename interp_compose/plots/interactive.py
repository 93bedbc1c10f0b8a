"""A chart as a plotly figure that is at home in notebooks."""

from __future__ import annotations

import json
import sys
from typing import Any, Final

import plotly.graph_objects as go

from interp_compose.plots.chart import Chart, Line, short
from interp_compose.plots.static import small_png_bytes
from interp_compose.plots.theme import BAND_OPACITY, TEMPLATE, harmless

CONFIG: Final[dict[str, Any]] = {
    "displaylogo": False,
    "responsive": True,
    "typesetMath": False,
    "showSendToCloud": False,  # plotly's tool bar would offer to upload the data
    "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"],
}
HEIGHT: Final = 480  # pixels
LABEL_SHARE: Final = 0.052  # a label's height, of the axis
HOVER: Final = "%{y:.1%}  [%{customdata[0]:.1%}, %{customdata[1]:.1%}]  n = %{customdata[2]}"
PLOTLY_MIME: Final = "application/vnd.plotly.v1+json"


class ChartFigure(go.Figure):  # type: ignore[misc]
    """A plotly figure that stays small and works offline in notebooks.

    plotly's own notebook output carries plotly.js (4 MB a notebook) or fetches it from the web.
    This one hands over the figure's data, which VS Code and JupyterLab draw with the plotly they
    bring along, and a PNG for every other viewer. The PNG is drawn from ``chart``: changes made to
    the figure afterwards show in the interactive picture only.
    """

    _chart: Chart | None = None
    _ipython_display_ = None  # else IPython would never ask for the bundle below
    _repr_html_ = None  # plotly's own fetches plotly.js from a CDN

    @property
    def chart(self) -> Chart | None:
        """What is drawn; None in a copy made by plotly or pickle."""
        return self._chart

    def _repr_mimebundle_(
        self, include: object = None, exclude: object = None, **_: object
    ) -> dict[str, Any]:
        data = json.loads(self.to_json())
        bundle: dict[str, Any] = {PLOTLY_MIME: data | {"config": CONFIG}}
        bundle["text/plain"] = "interactive figure"
        if self._chart is not None:
            bundle["text/plain"] = f"figure: {self._chart.title}. {self._chart.subtitle}"
            bundle["image/png"] = small_png_bytes(self._chart)
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
    for line in chart.lines:
        if len(line.x) > 1:
            figure.add_trace(_band(line))
    for level in chart.levels:
        figure.add_shape(
            type="line",
            xref="paper",
            x0=0,
            x1=1,
            y0=level.y,
            y1=level.y,
            layer="between",
            line={
                "color": level.style.colour,
                "dash": level.style.dash,
                "width": level.style.width,
            },
        )
    for line in chart.lines:
        figure.add_trace(_curve(line))
    figure.update_layout(
        template=TEMPLATE,
        height=HEIGHT,
        title={
            "text": harmless(short(chart.title, 80)),
            "subtitle": {"text": harmless(short(chart.subtitle, 120))},
        },
        margin_r=40 + 8 * chart.label_length,
        hovermode="closest" if chart.has_one_layer else "x unified",
        annotations=_labels(chart),
    )
    where = "depth %{x:.0%}" if chart.x_is_share else "layer %{x}"
    figure.update_xaxes(
        title_text=harmless(chart.x_title),
        range=chart.x_range,
        unifiedhovertitle_text=where,
        **({"tickformat": ".0%"} if chart.x_is_share else {"dtick": _layer_step(chart)}),
    )
    figure.update_yaxes(
        title_text=harmless(chart.y_title), range=chart.y_range, tickformat="~%", nticks=8
    )
    return figure


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


def _curve(line: Line) -> go.Scatter:
    style = line.style
    single = len(line.x) == 1  # a band has no area there
    above = [h - y for h, y in zip(line.high, line.y, strict=True)]
    below = [y - low for y, low in zip(line.y, line.low, strict=True)]
    return go.Scatter(
        x=list(line.x),
        y=list(line.y),
        name=harmless(line.label),
        customdata=[list(row) for row in zip(line.low, line.high, line.n, strict=True)],
        hovertemplate=HOVER,
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
    """Each line's name beside its end, joined to it by a hairline."""
    right = chart.x_range[1]
    reach = 0.02 * (right - chart.x_range[0])
    named = [(line.label, line.x[-1], line.y[-1], line.style) for line in chart.lines]
    named += [(level.label, right, level.y, level.style) for level in chart.levels if level.label]
    heights = chart.label_heights(LABEL_SHARE)
    return [
        {
            "text": harmless(short(text)),
            "x": x,
            "y": y,
            "ax": right + reach,
            "ay": height,
            "axref": "x",
            "ayref": "y",
            "xanchor": "left",
            "showarrow": True,
            "arrowhead": 0,
            "arrowwidth": 0.8,
            "arrowcolor": style.colour,
            "font": {"color": style.text_colour, "size": 13},
        }
        for (text, x, y, style), height in zip(named, heights, strict=True)
    ]


def _layer_step(chart: Chart) -> int:
    """Layers are whole numbers: a tick at each, or at every second, fifth, tenth, …"""
    low, high = chart.x_range
    return next(step for step in (1, 2, 5, 10, 20, 50, 100, 1000) if (high - low) / step <= 16)
