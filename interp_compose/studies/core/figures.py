"""What the figures of several studies have in common: lines from a frame, a model's short name."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import cycle
from typing import Any, Literal

import pandas as pd

from interp_compose.plots.chart import Line
from interp_compose.plots.theme import OWN_STYLES, PROTOCOL_STYLES, Style

Named = tuple[str, Style, pd.DataFrame]
"""A label, its style, and the rows of its line."""


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
    named: Iterable[Named],
    x: str,
    y: str,
    low: str,
    high: str,
    **how: Any,
) -> list[Line]:
    """:func:`line_of` each label, style and rows; none of those that have no point."""
    lines = [line_of(label, style, rows, x, y, low, high, **how) for label, style, rows in named]
    return [line for line in lines if line.x]


def by_pooling(frame: pd.DataFrame) -> list[Named]:
    """Label, style and rows of each pooling, in the order of the rows; controls, which are dashed,
    are named as such."""
    names = list(dict.fromkeys(frame["pooling"]))
    yours = [name for name in names if name not in PROTOCOL_STYLES]
    styles = {**PROTOCOL_STYLES, **dict(zip(yours, cycle(OWN_STYLES), strict=False))}
    return [
        (
            name if styles[name].dash == "solid" else f"{name} (control)",
            styles[name],
            frame[frame["pooling"] == name],
        )
        for name in names
    ]
