"""What a figure can show, and any of it laid out."""

from __future__ import annotations

from interp_compose.plots import (
    chart_layout,
    heatmap_layout,
    images,
    matrices_layout,
    scatter_layout,
)
from interp_compose.plots.chart import Chart
from interp_compose.plots.heatmap import HeatMap
from interp_compose.plots.heatmap_bubbles import Bubbles
from interp_compose.plots.images import ImageGrid
from interp_compose.plots.matrices import MatrixGrid
from interp_compose.plots.scatter import Scatter
from interp_compose.plots.scene import Scene

Described = Chart | HeatMap | Scatter | MatrixGrid | ImageGrid


def in_short(described: Described) -> str:
    """What kind of figure it is, and how much is in it, like "line chart, 1 panel of 5 lines"."""
    match described:
        case Chart():
            n = max(len(panel.lines) for panel in described.panels)
            return (
                f"line chart, {_counted(len(described.panels), 'panel')} of {_counted(n, 'line')}"
            )
        case Scatter():
            n = sum(panel.n_measured for panel in described.panels)
            return f"scatter, {_counted(len(described.panels), 'panel')}, {_counted(n, 'point')}"
        case HeatMap():
            kind = "bubbles" if isinstance(described, Bubbles) else "heat map"
        case MatrixGrid():
            kind = "matrices"
        case ImageGrid():
            kind = "images"
    n_rows, n_columns = len(described.rows), len(described.columns)
    return f"{kind}, {_counted(n_rows, 'row')}, {_counted(n_columns, 'column')}"


def _counted(n: int, unit: str) -> str:
    return f"{n:,} {unit}{'s' * (n != 1)}"


def scene_of(described: Described, width: float | None = None, *, light: bool = False) -> Scene:
    """What is described, laid out for a width in pixels, or for the usual one; ``light``: of very
    large matrices not every row."""
    match described:
        case HeatMap():
            return heatmap_layout.scene_of(described, width)
        case MatrixGrid():
            return matrices_layout.scene_of(described, width, light=light)
        case ImageGrid():
            return images.scene_of(described, width)
        case Scatter():
            return scatter_layout.scene_of(described, width)
        case Chart():
            return chart_layout.scene_of(described, width)
