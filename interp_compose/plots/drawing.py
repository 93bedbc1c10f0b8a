"""Any description as a figure."""

from __future__ import annotations

from interp_compose.plots.heatmap import HeatMap
from interp_compose.plots.heatmap_interactive import draw_heatmap
from interp_compose.plots.images import ImageGrid
from interp_compose.plots.images_interactive import draw_images
from interp_compose.plots.interactive import ChartFigure, draw
from interp_compose.plots.matrices import MatrixGrid
from interp_compose.plots.matrices_interactive import draw_matrices
from interp_compose.plots.scatter import Scatter
from interp_compose.plots.scatter_interactive import draw_scatter
from interp_compose.plots.static import Picture


def drawn(chart: Picture) -> ChartFigure:
    """The figure that a description makes."""
    if isinstance(chart, HeatMap):
        return draw_heatmap(chart)
    if isinstance(chart, MatrixGrid):
        return draw_matrices(chart)
    if isinstance(chart, ImageGrid):
        return draw_images(chart)
    return draw_scatter(chart) if isinstance(chart, Scatter) else draw(chart)
