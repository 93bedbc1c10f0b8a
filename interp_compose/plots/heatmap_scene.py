"""A heat map, or bubbles, as a scene."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from interp_compose.plots.chart import short
from interp_compose.plots.heatmap import HeatMap
from interp_compose.plots.heatmap_bubbles import EDGE, LEGEND, Bubbles
from interp_compose.plots.heatmap_hatching import OPACITY, hatching
from interp_compose.plots.heatmap_layout import Layout, dot_places, lay_out, shown
from interp_compose.plots.heatmap_scale import BLACK, STROKE, WHITE, Scale, scale_of
from interp_compose.plots.scene import (
    Axes,
    Axis,
    Bar,
    Cells,
    Hover,
    Item,
    Marks,
    Ring,
    Scene,
    Strokes,
    Text,
    Words,
    said,
)

LONGEST_HOVER: Final = 80  # characters of a line


def scene_of(heatmap: HeatMap, width: float | None) -> Scene:
    """Cells or bubbles, their signs, labels and colour bar."""
    layout, scale = lay_out(heatmap, width), scale_of(heatmap)
    bubbles = isinstance(heatmap, Bubbles)
    items = (_bubbles if bubbles else _cells)(heatmap, layout, scale)
    n_rows, n_columns = len(heatmap.rows), len(heatmap.columns)
    columns = [(float(j), text) for j, text in shown(heatmap.column_labels, layout.column_step)]
    rows = [(float(i), text) for i, text in shown(layout.rows, layout.row_step)]
    last = layout.keys[-1].row + 1 if layout.keys else 0
    heights = [6 + LEGEND * (last - key.row - 0.5) for key in layout.keys]
    keys = list(zip(layout.keys, heights, strict=True))
    return Scene(
        width=layout.fixed_width or layout.canvas,
        height=layout.figure_height,
        head=layout.head,
        axes=[
            Axes(
                (layout.left, layout.top, layout.width, layout.height),
                Axis(-0.5, n_columns - 0.5, _title(layout.x_title), columns, turned=layout.turned),
                Axis(n_rows - 0.5, -0.5, _title(layout.y_title), rows, size=layout.label_size),
                items,
                "grid" if bubbles else "bare",
            )
        ],
        texts=[
            Text(key.text, (0.0, 1.0), key.text_x - layout.left, -up, across="left", panel=0)
            for key, up in keys
        ],
        rings=[
            Ring(key.x - layout.left, -up, key.diameter) for key, up in keys if key.diameter
        ],
        bar=_bar(layout, scale),
        is_wide=layout.is_full,
    )  # fmt: skip


def _bar(layout: Layout, scale: Scale) -> Bar | None:
    length = layout.height if layout.bar_top is None else layout.width
    return Bar(scale, layout.bar_title, length, layout.bar_top) if scale.ticks else None


def _title(text: str) -> list[str]:
    return [text] if text else []


def _cells(heatmap: HeatMap, layout: Layout, scale: Scale) -> list[Item]:
    """Grey cells where there is no number, numbers' cells, hatching, numbers, and marks."""
    values = np.full((len(heatmap.rows), len(heatmap.columns)), np.nan)
    for i, j, value in heatmap.measured:
        values[i, j] = scale.place(value)
    items: list[Item] = []
    if heatmap.gaps:
        grey = np.where(np.isnan(values), 0.0, np.nan)
        ends = [((j - 0.5, i + 0.5), (j + 0.5, i - 0.5)) for i, j in heatmap.gaps]
        items += [Cells(grey, None, layout.gap), Strokes(ends, STROKE)]
    told = [[_told(heatmap, i, j) for j in range(len(heatmap.columns))]
            for i in range(len(heatmap.rows))]  # fmt: skip
    hover = Hover(_says(heatmap), told)
    items.append(Cells(values, scale, layout.gap, hover=hover, says_gaps=True))
    for ink, strokes in hatching(heatmap, layout, scale).items():
        if strokes:
            items.append(Strokes(strokes, ink, opacity=OPACITY))
    for ink in (BLACK, WHITE) if layout.numbers else ():
        cells = [(i, j) for i, j, value in heatmap.measured if scale.ink(value) == ink]
        texts = [heatmap.text(i, j) for i, j in cells]
        items.append(Words(*_middles(cells), texts, ink, 11.0))
    if heatmap.marked:
        places = dot_places(heatmap, layout, scale)
        marker = "triangle-up" if heatmap.mark == "triangle" else "circle"
        x, y, inks = (list(part) for part in zip(*places, strict=True))
        items.append(Marks(x, y, layout.dot, marker, inks))
    return items


def _bubbles(bubbles: HeatMap, layout: Layout, scale: Scale) -> list[Item]:
    """A circle for each number, a cross where there is none."""
    assert isinstance(bubbles, Bubbles)
    diameters = bubbles.diameters(layout.cell)
    says = _says(bubbles)
    items: list[Item] = []
    measured = [(i, j) for i, j, _ in bubbles.measured]
    for cells in (measured, bubbles.gaps):
        if not cells:
            continue
        x, y = _middles(cells)
        hover = Hover(says, [_told(bubbles, i, j) for i, j in cells])
        if cells is measured:
            sizes = [diameters[bubbles.sizes[i][j]] for i, j in cells]
            places = [scale.place(value) for _, _, value in bubbles.measured]
            items.append(Marks(x, y, sizes, values=places, edge=EDGE, hover=hover))
        else:
            items.append(Marks(x, y, 8.0, "x-thin", STROKE, hover=hover))
    return items


def _middles(cells: Sequence[tuple[int, int]]) -> tuple[list[float], list[float]]:
    """x and y of cells, each (row, column)."""
    return [float(j) for _, j in cells], [float(i) for i, _ in cells]


def _says(heatmap: HeatMap) -> str:
    names = (heatmap.y_title, heatmap.x_title, heatmap.value_name)
    lines = [
        f"{said(short(name, LONGEST_HOVER))}: " * bool(name) + f"{{{k}}}"
        for k, name in enumerate(names)
    ]
    return "\n".join(lines) + "{3}" * bool(heatmap.hover)


def _told(heatmap: HeatMap, i: int, j: int) -> list[str]:
    """A cell's row, column and number, and the line added to them."""
    labels = (heatmap.rows[i], heatmap.columns[j])
    row, column = (" ".join(short(label, LONGEST_HOVER).split()) for label in labels)
    more = heatmap.hover[i][j] if heatmap.hover else ""
    extra = "\n" + " ".join(short(more, LONGEST_HOVER).split()) if more else ""
    return [row, column, heatmap.text(i, j), extra][: 3 + bool(heatmap.hover)]
