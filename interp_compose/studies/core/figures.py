"""What the figures of several studies have in common: lines from a frame, a model's short name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import pandas as pd

from interp_compose.plots.chart import Line, short
from interp_compose.plots.theme import Style


def line_of(
    label: str,
    style: Style,
    rows: pd.DataFrame,
    x: str,
    y: str,
    low: str,
    high: str,
    *,
    n: str = "n",
    interval: Literal["band", "bars"] = "band",
) -> Line:
    """Rows as a line from left to right, by the names of their columns.

    A row whose y is NaN has no point; a point without an interval has its y as both ends.
    """
    rows = rows.dropna(subset=[y]).sort_values(x)
    return Line(
        label=label,
        style=style,
        x=rows[x].astype(float).tolist(),
        y=rows[y].astype(float).tolist(),
        low=rows[low].astype(float).fillna(rows[y]).tolist(),
        high=rows[high].astype(float).fillna(rows[y]).tolist(),
        n=rows[n].astype(int).tolist(),
        interval=interval,
    )


def lines_of(
    named: Iterable[tuple[str, Style, pd.DataFrame]],
    x: str,
    y: str,
    low: str,
    high: str,
    **how: Any,
) -> list[Line]:
    """:func:`line_of` each label, style and rows; none of those that have no point."""
    lines = [line_of(label, style, rows, x, y, low, high, **how) for label, style, rows in named]
    return [line for line in lines if line.x]


def model_name(config: Mapping[str, Any]) -> str:
    """The model's name, a long one without its folder or organisation."""
    name = str(config.get("model", "Model"))
    return name if len(name) <= 30 else short(name.rstrip("/").rsplit("/", 1)[-1], 30)
