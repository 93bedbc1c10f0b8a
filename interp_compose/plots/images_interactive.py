"""A grid of images as a plotly figure that is at home in notebooks."""

from __future__ import annotations

from base64 import b64encode

import plotly.graph_objects as go

from interp_compose.plots.images import ImageGrid, lay_out, png_of
from interp_compose.plots.interactive import ChartFigure
from interp_compose.plots.theme import TEMPLATE, harmless


def draw_images(grid: ImageGrid) -> ChartFigure:
    """The grid as a plotly figure; every text in it is escaped here. Each cell says on hover what
    it is."""
    layout = lay_out(grid)
    width, height = layout.width, layout.height
    figure = ChartFigure()
    figure._chart = grid
    cell = layout.cell
    middles, hover = [], []
    for row, images in enumerate(grid.images):
        for column, image in enumerate(images):
            x, y = layout.corner(row, column)
            figure.add_layout_image(
                source=f"data:image/png;base64,{b64encode(png_of(image)).decode()}",
                xref="x", yref="y", x=x, y=y, sizex=cell[0], sizey=cell[1], sizing="stretch",
                layer="below",
            )  # fmt: skip
            middles.append((x + cell[0] / 2, y + cell[1] / 2))
            hover.append(harmless(grid.hover[row][column]))
    figure.add_trace(
        go.Scatter(
            x=[x for x, _ in middles],
            y=[y for _, y in middles],
            mode="markers",
            marker={"size": 0.6 * cell[1], "symbol": "square", "opacity": 0},
            text=hover,
            hovertemplate="%{text}<extra></extra>",
        )
    )
    bare = {"visible": False, "fixedrange": True}
    figure.update_layout(
        template=TEMPLATE,
        width=width,
        height=height,
        margin={"l": 0, "r": 0, "t": 0, "b": 0},
        title={
            "text": "<br>".join(map(harmless, layout.head.title)),
            "subtitle": {"text": "<br>".join(map(harmless, layout.head.subtitle))},
            "x": 0.02,
            "y": 1 - 22 / height,
        },
        xaxis={**bare, "range": (0, width)},
        yaxis={**bare, "range": (height, 0)},
        hovermode="closest",
    )
    for text, x, y, align in layout.texts:
        figure.add_annotation(
            text=harmless(text), x=x, y=y, xref="x", yref="y", showarrow=False,
            xanchor=align, yanchor="middle", font_size=12,
        )  # fmt: skip
    return figure
