"""What the figures of several studies have in common: lines from a frame, a model's short name."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import cycle
from math import inf
from typing import Any, Literal

import numpy as np
import pandas as pd

from interp_compose.plots.chart import Line
from interp_compose.plots.theme import OWN_STYLES, PROTOCOL_STYLES, Style
from interp_compose.stats.paired_shares import paired_interval

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
    on: str | None = None,
    within: tuple[float, float] = (-inf, inf),
) -> Line:
    """Rows as a line from left to right, by the names of their columns.

    A row whose y is NaN has no point; a point without an interval has its y as both ends. Where
    what is drawn is compared with a reference on the same examples or seeds, ``low`` and ``high``
    end the interval of the paired difference to it, and ``on`` is the reference's own number: the
    line differs from the reference where its interval does not hold that. Ends are kept ``within``
    what is possible.
    """
    rows = rows.dropna(subset=[y]).sort_values(x)
    base = rows[on].astype(float) if on else 0.0
    low_end, high_end = ((base + rows[end].astype(float)).clip(*within) for end in (low, high))
    return Line(
        label=label,
        style=style,
        x=rows[x].astype(float).tolist(),
        y=rows[y].astype(float).tolist(),
        low=low_end.fillna(rows[y]).tolist(),
        high=high_end.fillna(rows[y]).tolist(),
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


def share_lines(named: Iterable[Named], x: str, y: str, **how: Any) -> list[Line]:
    """:func:`lines_of` shares that :func:`against` has compared with a reference."""
    return lines_of(named, x, y, "low", "high", on="reference", within=(0.0, 1.0), **how)


def against(
    rows: pd.DataFrame, shares: pd.DataFrame, other: pd.Series | pd.DataFrame
) -> pd.DataFrame:
    """A curve's rows with ``reference``, the mean of what it is compared with, and ``low`` and
    ``high``, which end the interval of its paired difference (:func:`.paired_interval`).

    Args:
        rows: one per layer.
        shares: what each example has right, 0 … 1, [example, layer].
        other: the same of the reference, or one number per example for all layers.
    """
    second = other.loc[shares.index].to_numpy(float).reshape(len(shares), -1)
    second = np.broadcast_to(second, shares.shape)
    low, high = paired_interval(shares.to_numpy(float), second)
    compared = pd.DataFrame({"low": low, "high": high}, shares.columns)
    return rows.join(compared.assign(reference=second.mean(axis=0)), on="layer")


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
