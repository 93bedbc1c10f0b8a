"""The figure of decoders on a task: accuracy by size of the training set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from interp_compose.plots.chart import Chart, Panel
from interp_compose.plots.interactive import ChartFigure, draw
from interp_compose.studies.core.figures import by_value, lines_of, n_seeds
from interp_compose.studies.core.shares import ALL


def accuracy_figure(summary: pd.DataFrame, config: Mapping[str, Any]) -> ChartFigure:
    """What each setting gets right of each split, by the number of training sequences: the mean
    over seeds, bars from the smallest to the largest."""
    overall = summary[summary["kind"] == ALL]
    sizes = sorted(set(overall["size"]))
    placed = overall.assign(place=overall["size"].map(sizes.index).astype(float))
    columns = ("place", "mean", "smallest", "largest")
    panels = [
        Panel(
            lines_of(by_value(own, "setting"), *columns, n="n_seeds", interval="bars"),
            [],
            title=str(split),
        )
        for split, own in placed.groupby("split", sort=False)
    ]
    return draw(
        Chart(
            title=f"{config['task']}: sequences that are right",
            subtitle=" · ".join((*about(config), "mean over seeds, bars: smallest to largest")),
            x_title="training sequences",
            y_title="exact match",
            x_is_share=False,
            panels=panels,
            x_name="",
            x_ticks=[float(i) for i in range(len(sizes))],
            x_notes=[f"{size:,}" for size in sizes],
            x_is_category=True,
        )
    )


def about(config: Mapping[str, Any]) -> tuple[str, str]:
    """Like ("2 layers, width 64", "5 seeds")."""
    return f"{config['n_layers']} layers, width {config['d_model']}", n_seeds(config)
