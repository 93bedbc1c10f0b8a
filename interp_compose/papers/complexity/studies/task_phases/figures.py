"""Figures of decoders on a task: accuracy and steps to fit by size of the training set, and the
square of sums that is held out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

from interp_compose.papers.complexity.tasks.addition import block_of
from interp_compose.papers.shared.grid.figures import (
    MEANS,
    MOST_KINDS,
    about_decoders,
    grid_figure,
    kinds_figure,
    means_of_seeds,
    of_several,
    size_figure,
)
from interp_compose.papers.shared.grid.shares import ALL
from interp_compose.plots.chart import subtitle_of
from interp_compose.plots.heatmap import HeatMap
from interp_compose.plots.interactive import ChartFigure, draw

SQUARE: Final = {
    "outside": "outside the held-out square",
    "inside": "inside the held-out square",
}
"""Splits of sums, in words."""
CELL = ["setting", "init_rate", "weight_decay", "size"]


def accuracy_figure(summary: pd.DataFrame, config: Mapping[str, Any]) -> ChartFigure:
    """What each setting gets right of each split, by the number of training sequences."""
    return size_figure(
        summary[summary["kind"] == ALL],
        config,
        by="split",
        title="sequences that are right",
        x_title="training sequences",
        y_title="exact match",
        y_is_share=True,
    )


def map_figure(summary: pd.DataFrame, config: Mapping[str, Any]) -> ChartFigure | None:
    """What each init rate and weight decay gets right, where both vary."""
    rows = summary[summary["kind"] == ALL]
    return grid_figure(
        rows.assign(split=rows["split"].map(lambda split: SQUARE.get(split, split))),
        config,
        by="split",
        title="exact match",
        unit="training sequences",
        y_is_share=True,
    )


def types_figure(
    summary: pd.DataFrame, differences: pd.DataFrame, config: Mapping[str, Any]
) -> ChartFigure | None:
    """What each setting gets right of each type, with the largest training set; None where there
    are not several (beside all together), or the types are a square's blocks."""
    largest = summary["size"].max()
    rows, pairs = (table[table["size"] == largest] for table in (summary, differences))
    if not 2 < rows["kind"].nunique() <= MOST_KINDS or rows["kind"].map(block_of).notna().any():
        return None
    notes = (*about_decoders(config), f"{largest:,} training sequences", *of_several(config, MEANS))
    return kinds_figure(rows, pairs, config, subtitle_of(*notes), by="setting")


def fitted(fits: pd.DataFrame) -> pd.Series[bool]:
    """Of each setting and size, whether all runs fit the training data."""
    return (
        fits["steps"].notna().groupby([fits[name] for name in CELL], sort=False, dropna=False).all()
    )


def steps_figure(fits: pd.DataFrame, config: Mapping[str, Any], loss: float) -> ChartFigure:
    """How many steps the training data take, by their number (complexity control, Fig. 7E); where a
    run does not fit them there is no point."""
    means = means_of_seeds(fits, CELL, "steps")
    return size_figure(
        means[fitted(fits).to_numpy()].assign(split=""),
        config,
        by="split",
        title=f"steps to a training loss of {loss:g}",
        x_title="training sequences",
        y_title="steps",
        y_is_share=False,
    )


def blocks_of(summary: pd.DataFrame) -> pd.DataFrame:
    """The rows of blocks of a square of sums, with the largest training set."""
    blocks = summary["kind"].map(block_of)
    rows: pd.DataFrame = summary.assign(block=blocks)[blocks.notna()]
    largest: pd.DataFrame = rows[rows["size"] == rows["size"].max()]
    return largest


def square_figure(blocks: pd.DataFrame, config: Mapping[str, Any]) -> ChartFigure:
    """Which sums of the square are right: a row for each setting and block of a, a column for each
    block of b."""
    a, b = zip(*blocks["block"], strict=True)
    table = blocks.assign(row=blocks["setting"] + ": " + pd.Series(a, blocks.index), b=list(b))
    means = table.pivot_table("mean", "row", "b", sort=False)
    size = f"{int(blocks['size'].iloc[0]):,} training sequences"
    return draw(
        HeatMap(
            title=f"{config['task']}: held-out sums a + b that are right",
            subtitle=subtitle_of(*about_decoders(config), size),
            x_title="second number, b",
            y_title="setting: first number, a",
            columns=means.columns.tolist(),
            rows=means.index.tolist(),
            values=means.to_numpy().tolist(),
            value_name=" ".join(("exact match", *of_several(config, "(mean over seeds)"))),
            limits=(0.0, 1.0),
        )
    )
