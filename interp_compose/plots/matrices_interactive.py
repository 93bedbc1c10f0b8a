"""A grid of matrices as a plotly figure that is at home in notebooks."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go

from interp_compose.plots.canvas import MARGIN, head_of
from interp_compose.plots.chart import short
from interp_compose.plots.heatmap import NOT_MEASURED
from interp_compose.plots.heatmap_interactive import LONGEST_HOVER, colour_bar
from interp_compose.plots.heatmap_scale import GREY, STROKE
from interp_compose.plots.interactive import ChartFigure
from interp_compose.plots.matrices import SCALE, MatrixGrid, MatrixPanel
from interp_compose.plots.matrices_layout import (
    LINE_OPACITY,
    LONGEST_NAME,
    TEXT_LINE,
    TITLE,
    GridLayout,
    lay_out,
)
from interp_compose.plots.theme import INK, TEMPLATE, harmless

MOST_CELLS: Final = 1_500_000  # 10 MB


def draw_matrices(grid: MatrixGrid) -> ChartFigure:
    """The grid as a plotly figure; every text in it is escaped here.

    Numbers have three digits. Of matrices that together would make the figure heavy, every second,
    third, … row and column is kept, and the subtitle says so.
    """
    layout = lay_out(grid)
    step = thinning(grid)
    subtitle = head_of(grid.title, grid.subheading(_note(step)), layout.width).subtitle
    figure = ChartFigure()
    figure._chart = grid
    traces = []
    for k, (i, j, panel) in enumerate(grid.places):
        number = "" if k == 0 else str(k + 1)
        drawn = _missing(grid, i, j) if panel is None else _drawn(layout, panel, i, j, step)
        traces += [trace.update(xaxis=f"x{number}", yaxis=f"y{number}") for trace in drawn]
        _dress(figure, layout, number, i, j, panel, step)
    figure.add_traces(traces)
    figure.update_layout(
        template=TEMPLATE,
        width=layout.width,
        height=layout.height,
        title={
            "text": "<br>".join(map(harmless, layout.head.title)),
            "subtitle": {"text": "<br>".join(map(harmless, subtitle))},
            "xref": "container",
            "x": MARGIN / layout.width,
            "y": 1 - 22 / layout.height,
        },
        margin={"t": layout.top, "b": layout.bottom, "l": layout.left, "r": layout.right},
        plot_bgcolor=GREY,  # seen where there is no number
        hovermode="closest",
        coloraxis=_colours(layout),
        annotations=_texts(layout),
    )
    return figure


def thinning(grid: MatrixGrid) -> int:
    """1, or k where only every k-th row and column is drawn."""
    cells = sum(panel.values.size for _, _, panel in grid.places if panel is not None)
    return max(1, math.ceil(math.sqrt(cells / MOST_CELLS)))


def _note(step: int) -> str:
    return f"1 row in {step} is drawn" if step > 1 else ""


def _drawn(
    layout: GridLayout, panel: MatrixPanel, row: int, column: int, step: int
) -> list[go.Heatmap | go.Scatter]:
    """The matrix, and lines between its blocks."""
    grid = layout.grid
    rounded = np.round(panel.values[::step, ::step].astype(float), 3) + 0.0  # no −0
    cells = rounded.astype(object)
    cells[np.isnan(rounded)] = None
    start = {"x0": (step - 1) / 2, "dx": step, "y0": (step - 1) / 2, "dy": step}
    named = grid.names_of(panel)
    matrix = go.Heatmap(
        z=cells.tolist(),
        **start,
        coloraxis="coloraxis",
        hoverongaps=False,
        hovertemplate="<br>".join(
            [
                *_panel_name(grid, row, column),
                "%{y}<br>%{x}" if named else "row %{y}, column %{x}",
                f"{harmless(short(grid.value_name, LONGEST_HOVER))}: %{{z:.3f}}<extra></extra>",
            ]
        ),
    )
    edges = layout.edges(panel)
    low, high = -0.5, grid.size_of(panel) - 0.5
    places: list[float | None] = [place for edge in edges for place in (edge, edge, None)]
    along: list[float | None] = [place for _ in edges for place in (low, high, None)]
    return [matrix, _stroke(places + along, along + places, INK, LINE_OPACITY)][: 1 + bool(edges)]


def _missing(grid: MatrixGrid, row: int, column: int) -> list[go.Heatmap | go.Scatter]:
    """A grey square with a stroke through it."""
    low, high = -0.5, grid.size_of(None) - 0.5
    grey = go.Heatmap(
        z=[[0]],
        x0=(low + high) / 2,
        dx=high - low,
        y0=(low + high) / 2,
        dy=high - low,
        colorscale=[[0, GREY], [1, GREY]],
        showscale=False,
        hovertemplate="<br>".join([*_panel_name(grid, row, column), NOT_MEASURED])
        + "<extra></extra>",
    )
    return [grey, _stroke([low, high], [high, low], STROKE, 1.0)]


def _stroke(x: list[Any], y: list[Any], colour: str, opacity: float) -> go.Scatter:
    line = {"color": colour, "width": 0.7}
    return go.Scatter(x=x, y=y, mode="lines", line=line, opacity=opacity, hoverinfo="skip")


def _panel_name(grid: MatrixGrid, row: int, column: int) -> list[str]:
    name = short(grid.panel_name(row, column), LONGEST_HOVER)
    return [harmless(name)] if name else []


def _dress(
    figure: ChartFigure,
    layout: GridLayout,
    number: str,
    row: int,
    column: int,
    panel: MatrixPanel | None,
    step: int,
) -> None:
    """A panel's place and the names of its rows; the hover reads them even where none is shown."""
    grid = layout.grid
    n = grid.size_of(panel)
    left, under = layout.labels(row, column, panel)
    longest = LONGEST_NAME if layout.named else LONGEST_HOVER
    numbers = [str(k) for k in range(n)] if step > 1 else []
    names = [harmless(short(name, longest)) for name in grid.names_of(panel) or numbers][::step]
    bare = {
        "showgrid": False,
        "ticks": "",
        "automargin": False,
        "mirror": True,
        "linecolor": GREY if panel is None else "#bbbbbb",
        "tickfont": {"size": 10},
        "tickmode": "array",
        "tickvals": [k * step + (step - 1) / 2 for k in range(len(names))],
        "ticktext": names,
    }
    if not names:
        bare |= {"tickmode": "auto", "tickvals": None, "ticktext": None}
        bare |= {"hoverformat": ".0f"}
    start = layout.x(column) - layout.left
    end = layout.grid_height - (layout.y(row) - layout.top)
    figure.layout[f"xaxis{number}"] = bare | {
        "domain": _share(start, start + layout.side, layout.grid_width),
        "range": (-0.5, n - 0.5),
        "anchor": f"y{number}",
        "constrain": "domain",
        "showticklabels": under,
        "tickangle": 0 if layout.flat_names(panel) else -90,
    }
    figure.layout[f"yaxis{number}"] = bare | {
        "domain": _share(end - layout.side, end, layout.grid_height),
        "range": (n - 0.5, -0.5),
        "anchor": f"x{number}",
        "scaleanchor": f"x{number}",  # cells stay square where a part is looked at
        "constrain": "domain",
        "showticklabels": left,
    }


def _share(start: float, end: float, whole: float) -> tuple[float, float]:
    return max(start / whole, 0.0), min(end / whole, 1.0)


def _colours(layout: GridLayout) -> dict[str, Any]:
    """The scale of all panels, and its bar right of them, level with their middle."""
    last = len(SCALE.stops) - 1
    return {
        "cmin": SCALE.low,
        "cmax": SCALE.high,
        "colorscale": [[k / last, stop] for k, stop in enumerate(SCALE.stops)],
        "colorbar": colour_bar(1.0, layout.bar_height, SCALE, [layout.bar_title]),
    }


def _texts(layout: GridLayout) -> list[dict[str, Any]]:
    """Titles of columns and rows, what they are, and the text under each panel."""
    grid = layout.grid
    half = layout.side / 2
    edge = layout.left - layout.name_room
    middle = layout.left + layout.grid_width / 2, layout.top + layout.grid_height / 2
    x_title, y_title = layout.titles
    above = layout.top - 3
    upright = {"textangle": -90}
    row = {"x": edge - 13, **upright} if layout.turned_rows else {"x": edge - 7, "xanchor": "right"}
    texts: list[dict[str, Any]] = [
        {"text": x_title, "x": middle[0], "y": above - TITLE * any(grid.columns), "size": 13},
        {"text": y_title, "x": MARGIN + 6, "y": middle[1], "yanchor": "middle", "size": 13}
        | upright,
    ]
    texts += [
        {"text": title, "x": layout.x(j) + half, "y": above, "size": 12}
        for j, title in enumerate(layout.column_titles)
    ]
    texts += [
        {"text": title, "y": layout.y(i) + half, "yanchor": "middle", "size": 12} | row
        for i, title in enumerate(layout.row_titles)
    ]
    texts += [
        {
            "text": line,
            "x": layout.x(j) + half,
            "y": layout.y(i) + layout.side + layout.below(i, j, panel) + k * TEXT_LINE - 2,
            "yanchor": "top",
            "size": 11,
        }
        for i, j, panel in grid.places
        for k, line in enumerate(layout.text(panel))
    ]
    return [_annotation(layout, **text) for text in texts if text["text"]]


def _annotation(
    layout: GridLayout, text: str, x: float, y: float, size: int, **how: Any
) -> dict[str, Any]:
    """A text at a place counted in pixels from the figure's upper left corner."""
    return {
        "text": harmless(text),
        "showarrow": False,
        "xref": "paper",
        "x": 0,
        "xshift": x - layout.left,
        "xanchor": "center",
        "yref": "paper",
        "y": 1,
        "yshift": layout.top - y,
        "yanchor": "bottom",
        "borderpad": 0,
        "font": {"size": size},
    } | how
