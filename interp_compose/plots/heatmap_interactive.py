"""A heat map as a plotly figure that is at home in notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import plotly.graph_objects as go

from interp_compose.plots.chart import short
from interp_compose.plots.heatmap import HeatMap
from interp_compose.plots.heatmap_bubbles import EDGE, LEGEND, Bubbles
from interp_compose.plots.heatmap_hatching import OPACITY, hatching
from interp_compose.plots.heatmap_layout import BAR, Layout, dot_places, lay_out, shown
from interp_compose.plots.heatmap_scale import BLACK, GREY, STROKE, WHITE, Scale, scale_of
from interp_compose.plots.interactive import ChartFigure
from interp_compose.plots.theme import INK, TEMPLATE, harmless

NO_BREAK_SPACE: Final = "\N{NO-BREAK SPACE}"  # keeps the bar's title away from its ticks
LONGEST_HOVER: Final = 80  # characters of a line


def draw_heatmap(heatmap: HeatMap) -> ChartFigure:
    """The map as a plotly figure; every text in it is escaped here.

    The cells' z are the numbers, or their logarithms to base 10 where ``log``.
    """
    layout, scale = lay_out(heatmap), scale_of(heatmap)
    figure = ChartFigure()
    figure._chart = heatmap
    if isinstance(heatmap, Bubbles):
        figure.add_traces(_bubbles(heatmap, layout, scale))
        _add_legend(figure, layout)
    else:
        if heatmap.gaps:
            figure.add_traces(_gaps(heatmap, layout))
        figure.add_trace(_cells(heatmap, layout, scale))
    if heatmap.hatched:
        figure.add_traces(_hatching(heatmap, layout, scale))
    if layout.numbers:
        figure.add_traces([_numbers(heatmap, scale, ink) for ink in (BLACK, WHITE)])
    if heatmap.marked:
        figure.add_trace(_dots(heatmap, layout, scale))
    figure.update_layout(
        template=TEMPLATE,
        height=layout.figure_height,
        width=layout.fixed_width,
        title={
            "text": "<br>".join(map(harmless, layout.head.title)),
            "subtitle": {"text": "<br>".join(map(harmless, layout.head.subtitle))},
            "xref": "container",
            "x": 0.02,
            "y": 1 - 22 / layout.figure_height,
        },
        margin={"t": layout.top, "b": layout.bottom, "l": layout.left, "r": layout.right},
        hovermode="closest",
    )
    _dress(figure, heatmap, layout)
    return figure


def _cells(heatmap: HeatMap, layout: Layout, scale: Scale) -> go.Heatmap:
    z: list[list[float | None]] = [[None] * len(heatmap.columns) for _ in heatmap.rows]
    for i, j, value in heatmap.measured:
        z[i][j] = scale.place(value)
    return go.Heatmap(
        z=z,
        zmin=scale.low,
        zmax=scale.high,
        colorscale=_colours(scale),
        showscale=bool(scale.ticks),
        colorbar=colour_bar(layout.width_share, layout.height, scale, layout.bar_title),
        xgap=layout.gap,
        ygap=layout.gap,
        customdata=_hover_data(heatmap),
        hovertemplate=_hover_template(heatmap),
        hoverongaps=True,
    )


def _bubbles(bubbles: Bubbles, layout: Layout, scale: Scale) -> list[go.Scatter]:
    """A circle for each number, a cross where there is none."""
    data = _hover_data(bubbles)
    diameters = bubbles.diameters(layout.cell)
    circles = {
        "size": [diameters[bubbles.sizes[i][j]] for i, j, _ in bubbles.measured],
        "color": [scale.place(value) for _, _, value in bubbles.measured],
        "cmin": scale.low,
        "cmax": scale.high,
        "colorscale": _colours(scale),
        "showscale": bool(scale.ticks),
        "colorbar": colour_bar(layout.width_share, layout.height, scale, layout.bar_title),
        "line": {"color": EDGE, "width": 1},
        "opacity": 1,
    }
    crosses = {"symbol": "x-thin", "size": 8, "line": {"color": STROKE, "width": 1.6}}
    return [
        go.Scatter(
            x=[j for _, j in cells],
            y=[i for i, _ in cells],
            mode="markers",
            marker=marker,
            customdata=[data[i][j] for i, j in cells],
            hovertemplate=_hover_template(bubbles),
        )
        for cells, marker in (
            ([(i, j) for i, j, _ in bubbles.measured], circles),
            (bubbles.gaps, crosses),
        )
        if cells
    ]


def _add_legend(figure: ChartFigure, layout: Layout) -> None:
    """The sizes and their names, in rows above the cells."""
    corner = {"xref": "paper", "yref": "paper"}
    rows = layout.keys[-1].row + 1 if layout.keys else 0
    for key in layout.keys:
        middle = LEGEND * (rows - key.row - 0.5) + 6  # pixels above the cells
        radius, x = key.diameter / 2, key.x - layout.left
        if radius:
            figure.add_shape(
                **corner,
                type="circle",
                xsizemode="pixel",
                ysizemode="pixel",
                xanchor=0,
                yanchor=1,
                x0=x - radius,
                x1=x + radius,
                y0=middle - radius,
                y1=middle + radius,
                line={"color": INK, "width": 1},
            )
        figure.add_annotation(
            **corner,
            text=harmless(key.text),
            x=0,
            xshift=key.text_x - layout.left,
            xanchor="left",
            y=1,
            yshift=middle,
            yanchor="middle",
            showarrow=False,
            font={"size": 12},
        )


def _colours(scale: Scale) -> list[list[float | str]]:
    last = len(scale.stops) - 1
    return [[k / last, stop] for k, stop in enumerate(scale.stops)]


def _hatching(heatmap: HeatMap, layout: Layout, scale: Scale) -> list[go.Scatter]:
    return [
        go.Scatter(
            x=[x for a, b in strokes for x in (a[0], b[0], None)],
            y=[y for a, b in strokes for y in (a[1], b[1], None)],
            mode="lines",
            line={"color": ink, "width": 1},
            opacity=OPACITY,
            hoverinfo="skip",
        )
        for ink, strokes in hatching(heatmap, layout, scale).items()
        if strokes
    ]


def _hover_data(heatmap: HeatMap) -> list[list[list[str]]]:
    """For each cell its row, column and number, and the line added to them, each ready to show."""
    rows, columns = (
        [harmless(short(label, LONGEST_HOVER)) for label in labels]
        for labels in (heatmap.rows, heatmap.columns)
    )
    data = [
        [[row, column, harmless(heatmap.text(i, j))] for j, column in enumerate(columns)]
        for i, row in enumerate(rows)
    ]
    for i, extras in enumerate(heatmap.hover):
        for j, extra in enumerate(extras):
            data[i][j].append("<br>" + harmless(short(extra, LONGEST_HOVER)) if extra else "")
    return data


def _hover_template(heatmap: HeatMap) -> str:
    names = (heatmap.y_title, heatmap.x_title, heatmap.value_name)
    lines = [
        f"{harmless(short(name, LONGEST_HOVER))}: " * bool(name) + f"%{{customdata[{k}]}}"
        for k, name in enumerate(names)
    ]
    return "<br>".join(lines) + "%{customdata[3]}" * bool(heatmap.hover) + "<extra></extra>"


def _gaps(heatmap: HeatMap, layout: Layout) -> list[Any]:
    """Grey cells where there is no number, each with a stroke through it."""
    z: list[list[int | None]] = [[None] * len(heatmap.columns) for _ in heatmap.rows]
    for i, j in heatmap.gaps:
        z[i][j] = 0
    grey = go.Heatmap(
        z=z,
        colorscale=[[0, GREY], [1, GREY]],
        showscale=False,
        xgap=layout.gap,
        ygap=layout.gap,
        hoverinfo="skip",
    )
    strokes = go.Scatter(
        x=[x for _, j in heatmap.gaps for x in (j - 0.5, j + 0.5, None)],
        y=[y for i, _ in heatmap.gaps for y in (i + 0.5, i - 0.5, None)],
        mode="lines",
        line={"color": STROKE, "width": 1},
        hoverinfo="skip",
    )
    return [grey, strokes]


def _numbers(heatmap: HeatMap, scale: Scale, ink: str) -> go.Scatter:
    """The numbers that are written in one ink."""
    cells = [(i, j) for i, j, value in heatmap.measured if scale.ink(value) == ink]
    return go.Scatter(
        x=[j for _, j in cells],
        y=[i for i, _ in cells],
        text=[harmless(heatmap.text(i, j)) for i, j in cells],
        mode="text",
        textfont={"color": ink, "size": 11},
        hoverinfo="skip",
    )


def _dots(heatmap: HeatMap, layout: Layout, scale: Scale) -> go.Scatter:
    places = dot_places(heatmap, layout, scale)
    return go.Scatter(
        x=[x for x, _, _ in places],
        y=[y for _, y, _ in places],
        mode="markers",
        marker={
            "size": layout.dot,
            "color": [ink for _, _, ink in places],
            **({"symbol": "triangle-up"} if heatmap.mark == "triangle" else {}),
        },
        hoverinfo="skip",
    )


def colour_bar(x: float, length: float, scale: Scale, title: Sequence[str]) -> dict[str, Any]:
    """The colour bar right of the cells, level with their middle: ``length`` pixels, its title in
    lines."""
    return {
        "x": x,
        "xpad": BAR,
        "y": 0.5,
        "ypad": 0,
        "lenmode": "pixels",
        "len": length,
        "thickness": BAR,
        "outlinewidth": 0,
        "ticks": "outside",
        "ticklen": 3,
        "tickcolor": "#999999",
        "tickfont": {"size": 12},
        "tickvals": [place for place, _ in scale.ticks],
        "ticktext": [text + NO_BREAK_SPACE for _, text in scale.ticks],
        "title": {
            "text": "<br>".join(map(harmless, title)),
            "side": "right",
            "font": {"size": 12},
        },
    }


def _dress(figure: ChartFigure, heatmap: HeatMap, layout: Layout) -> None:
    """Labels and titles; no grid, no frame."""
    bare = {
        "showgrid": isinstance(heatmap, Bubbles),
        "showline": False,
        "tickcolor": WHITE,
        "tickmode": "array",
    }
    columns = shown(heatmap.column_labels, layout.column_step)
    rows = shown(layout.rows, layout.row_step)
    figure.update_xaxes(
        **bare,
        title_text=harmless(layout.x_title),
        range=(-0.5, len(heatmap.columns) - 0.5),
        domain=(0, layout.width_share),
        tickvals=[j for j, _ in columns],
        ticktext=[harmless(text) for _, text in columns],
        tickangle=-90 if layout.turned else 0,
    )
    figure.update_yaxes(
        **bare,
        title_text=harmless(layout.y_title),
        range=(len(heatmap.rows) - 0.5, -0.5),
        tickvals=[i for i, _ in rows],
        ticktext=[harmless(text) for _, text in rows],
        tickfont_size=layout.label_size,
    )
