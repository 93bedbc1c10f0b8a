"""A scatter as a plotly figure that is at home in notebooks."""

from __future__ import annotations

from typing import Any, Final

import plotly.graph_objects as go

from interp_compose.plots.chart import short
from interp_compose.plots.heatmap import NOT_MEASURED
from interp_compose.plots.interactive import ChartFigure
from interp_compose.plots.scatter import LONGEST_NAME, Group, Scatter, ScatterPanel
from interp_compose.plots.scatter_layout import BOTTOM, LEFT, lay_out
from interp_compose.plots.theme import MUTED, TEMPLATE, Style, harmless

LONGEST_HOVER: Final = 80  # characters of a name


def draw_scatter(scatter: Scatter) -> ChartFigure:
    """The scatter as a plotly figure; every text in it is escaped here.

    A click on a name of the legend hides its group in every panel.
    """
    layout = lay_out(scatter)
    figure = ChartFigure()
    figure._chart = scatter
    for i, panel in enumerate(scatter.panels):
        number = "" if i == 0 else str(i + 1)
        traces = [trace for group in panel.groups for trace in _points(group, panel)]
        nothing = go.Scatter(x=[None], y=[None], showlegend=False)  # else plotly draws no axes
        for trace in traces or [nothing]:
            figure.add_trace(trace.update(xaxis=f"x{number}", yaxis=f"y{number}"))
        _dress(figure, panel, number, layout.domain(i))
    for name, style in scatter.legend.items():
        figure.add_trace(_key(name, style))
    figure.update_layout(
        template=TEMPLATE,
        height=layout.height,
        title={
            "text": "<br>".join(map(harmless, layout.head.title)),
            "subtitle": {"text": "<br>".join(map(harmless, layout.head.subtitle))},
            "y": 1 - 22 / layout.height,
        },
        margin={"t": layout.top, "b": BOTTOM, "l": LEFT, "r": layout.right},
        hovermode="closest",
        showlegend=bool(layout.names),
        legend={
            "x": 1.01,
            "xanchor": "left",
            "y": 1,
            "yanchor": "top",
            "itemsizing": "constant",
            "groupclick": "togglegroup",
            "tracegroupgap": 0,
        },
    )
    figure.layout.yaxis.title.text = harmless(scatter.y_title)
    figure.add_annotation(
        text=harmless(scatter.x_title),
        showarrow=False,
        xref="paper",
        x=0.5,
        yref="paper",
        y=0,
        yanchor="top",
        yshift=-28,
    )
    return figure


def _points(group: Group, panel: ScatterPanel) -> list[go.Scatter]:
    """The group's markers, and its texts."""
    name = harmless(short(group.name, LONGEST_HOVER))
    where = "(%{x:.3g}, %{y:.3g})<extra></extra>"
    hover = {False: f"{name}<br>{where}" if name else where, True: f"%{{text}} {name}<br>{where}"}
    traces = []
    for is_text in (False, True):
        points = [point for point in group.measured if bool(point[2]) == is_text]
        if not points:
            continue
        trace = go.Scatter(
            x=[_rounded(x) for x, _, _ in points],
            y=[_rounded(y) for _, y, _ in points],
            hovertemplate=hover[is_text],
            legendgroup=harmless(group.name),
            showlegend=False,
        )
        if is_text:
            ink = {"size": 10, "color": group.style.text_colour}
            trace.update(mode="text", textfont=ink, text=[harmless(text) for _, _, text in points])
        else:
            look = {"symbol": group.style.marker, "color": group.style.colour, "opacity": 0.85}
            trace.update(mode="markers", marker={**look, "size": panel.point})
        traces.append(trace)
    return traces


def _rounded(value: float) -> float:
    """Five digits, which is finer than a screen; the figure stays small."""
    return float(f"{value:.5g}")


def _key(name: str, style: Style) -> go.Scatter:
    """A name in the legend, with a marker even where the group is drawn as texts."""
    return go.Scatter(
        x=[None],
        y=[None],
        mode="markers",
        marker={"symbol": style.marker, "color": style.colour},
        name=harmless(short(name, LONGEST_NAME)),
        legendgroup=harmless(name),
        showlegend=True,
        hoverinfo="skip",
    )


def _dress(
    figure: ChartFigure, panel: ScatterPanel, number: str, domain: tuple[float, float]
) -> None:
    """Ranges and title; in a panel without points a word instead."""
    empty = not panel.n_measured
    ticks: dict[str, Any] = {"nticks": 6, "exponentformat": "e"}
    if empty:
        ticks = {"showticklabels": False, "showgrid": False, "ticks": ""}
    figure.layout[f"xaxis{number}"] = {
        "domain": domain, "range": panel.x_range, "anchor": f"y{number}", **ticks,
    }  # fmt: skip
    figure.layout[f"yaxis{number}"] = {
        "range": panel.y_range, "anchor": f"x{number}", **ticks,
    }  # fmt: skip
    place = {"xref": f"x{number} domain", "yref": f"y{number} domain", "showarrow": False}
    if panel.heading:
        figure.add_annotation(
            text=harmless(panel.heading), x=0, xanchor="left", y=1, yanchor="bottom", yshift=4,
            **place,
        )  # fmt: skip
    if empty:
        figure.add_annotation(text=NOT_MEASURED, x=0.5, y=0.5, font_color=MUTED, **place)
