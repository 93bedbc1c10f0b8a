"""The complexity of a model's weight matrices: layers × matrices."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Final

import pandas as pd

from interp_compose.models.weight_matrices import MATRICES
from interp_compose.plots.chart import short, subtitle_of
from interp_compose.plots.heatmap import HeatMap
from interp_compose.plots.interactive import ChartFigure, draw

TITLES: Final = {
    "stable_rank": "stable rank",
    "effective_rank": "effective rank",
    "spectral_entropy": "spectral entropy",
    "frobenius_norm": "Frobenius norm",
    "mean_abs_cosine": "mean |cosine| of two neurons",
    "n_directions": "condensed directions",
    "largest_direction": "neurons in the largest direction",
}
"""What can be drawn, and how it is called."""
FORMATS: Final = {"n_directions": ",.0f", "largest_direction": ",.0f", "mean_abs_cosine": ".3f"}
REFERENCES: Final = {
    "stable_rank": "random_stable_rank",
    "mean_abs_cosine": "random_abs_cosine",
}
"""Columns with the value of a random matrix of the same shape. It depends on the shape: a map shows
numbers divided by it, so that colours can be compared."""


def complexity_figure(
    frame: pd.DataFrame, measure: str, *, config: Mapping[str, Any]
) -> ChartFigure:
    """One measure of every matrix of every layer, heads merged; a row per kind of matrix. One that
    has a reference in :data:`REFERENCES` is divided by it.

    Embedding and unembedding belong to no layer and are in the subtitle.

    Args:
        frame: a report's rows; of these the merged ones (head -1) are drawn.
        measure: one of :data:`TITLES`.
        config: names model and number of layers.
    """
    merged = frame[frame["head"] == -1]
    n_layers = int(config["n_layers"])
    inside = merged[merged["layer"].between(0, n_layers - 1)]
    by_place = {(row["layer"], row["matrix"]): row for row in inside.to_dict("records")}
    rows = [name for name in MATRICES if name in set(inside["matrix"])]
    cells = [[by_place.get((layer, name)) for layer in range(n_layers)] for name in rows]
    is_divided = measure in REFERENCES
    style = ".2f" if is_divided else FORMATS.get(measure, ".1f")
    unit = "1: a random matrix of the same shape" if is_divided else ""
    ends = _ends(merged[~merged.index.isin(inside.index)], measure, style)
    return draw(
        HeatMap(
            title=f"{short(str(config.get('model', 'Model')), 30)}: {TITLES[measure]} of weights",
            subtitle=subtitle_of(unit, ends),
            x_title="layer",
            y_title="matrix",
            columns=[str(layer) for layer in range(n_layers)],
            rows=rows,
            values=[[_number(cell, measure) for cell in row] for row in cells],
            value_name=TITLES[measure] + ", divided by a random matrix's" * is_divided,
            value_format="" if is_divided else FORMATS.get(measure, ""),
            hover=[[_hover(cell, measure) for cell in row] for row in cells],
        )
    )


def _number(row: Mapping[Hashable, Any] | None, measure: str) -> float | None:
    """The number that a cell shows."""
    if row is None:
        return None
    return float(row[measure] / (row[REFERENCES[measure]] if measure in REFERENCES else 1))


def _hover(row: Mapping[Hashable, Any] | None, measure: str) -> str:
    """Like "768 × 768; 81.3, a random matrix: 192.0"."""
    if row is None:
        return ""
    shape = f"{row['rows']} × {row['cols']}"
    if measure not in REFERENCES:
        return shape
    value, random = (
        format(row[name], FORMATS.get(measure, ".1f")) for name in (measure, REFERENCES[measure])
    )
    return f"{shape}; {value}, a random matrix: {random}"


def _ends(rows: pd.DataFrame, measure: str, style: str) -> str:
    """Like "W_E 0.31 · W_pos 0.06 · W_U is W_E"."""
    return subtitle_of(
        *(
            f"{row['matrix']} is {row['tied_to']}"
            if row["tied_to"]
            else f"{row['matrix']} {format(_number(row, measure), style)}"
            for row in rows.to_dict("records")
        )
    )
