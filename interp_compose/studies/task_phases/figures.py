"""Figures of decoders on a task: accuracy by size of the training set, and over training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from interp_compose.plots.chart import Chart, Panel
from interp_compose.plots.interactive import ChartFigure, draw
from interp_compose.plots.theme import COMPARISON_STYLES
from interp_compose.studies.core.figures import lines_of
from interp_compose.studies.core.shares import ALL
from interp_compose.studies.task_phases.result import with_settings


def accuracy_figure(summary: pd.DataFrame, config: Mapping[str, Any]) -> ChartFigure:
    """What each setting gets right of each split, by the number of training sequences: the mean
    over seeds, bars from the smallest to the largest."""
    overall = summary[summary["kind"] == ALL]
    sizes = sorted(set(overall["size"]))
    placed = overall.assign(place=overall["size"].map(sizes.index).astype(float))
    columns = ("place", "mean", "smallest", "largest")
    panels = [
        Panel(
            lines_of(_by_setting(own), *columns, n="n_seeds", interval="bars"),
            [],
            title=str(split),
        )
        for split, own in placed.groupby("split", sort=False)
    ]
    return draw(
        Chart(
            title=f"{config['task']}: sequences that are right",
            subtitle=_subtitle(config, "mean over seeds, bars: smallest to largest"),
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


def curve_figure(curve: pd.DataFrame, config: Mapping[str, Any]) -> ChartFigure:
    """The share of a sample of each split that is right, over training with the largest size; bands
    from the smallest seed to the largest."""
    last = with_settings(curve[curve["size"] == curve["size"].max()])
    over_seeds = (
        last.groupby(["setting", "split", "step"], sort=False)["accuracy"]
        .agg(["mean", "min", "max", "size"])
        .reset_index()
    )
    steps = sorted(set(over_seeds["step"]))
    panels = [
        Panel(
            lines_of(_by_setting(own), "step", "mean", "min", "max", n="size"),
            [],
            title=str(split),
        )
        for split, own in over_seeds.groupby("split", sort=False)
    ]
    return draw(
        Chart(
            title=f"{config['task']}: exact match over training",
            subtitle=_subtitle(
                config, f"at most {config['n_curve']} sequences of a split", "bands: all seeds"
            ),
            x_title="step",
            y_title="exact match",
            x_is_share=False,
            panels=panels,
            x_name="step",
            x_ticks=[float(step) for step in steps[:: max(1, len(steps) // 4)]],
            x_step=float(over_seeds["step"].max()) / max(config["n_looks"], 1),
        )
    )


def _by_setting(frame: pd.DataFrame) -> list[tuple[str, Any, pd.DataFrame]]:
    """Label, style and rows of each setting."""
    settings = list(dict.fromkeys(frame["setting"]))
    return [
        (name, COMPARISON_STYLES[i % len(COMPARISON_STYLES)], frame[frame["setting"] == name])
        for i, name in enumerate(settings)
    ]


def _subtitle(config: Mapping[str, Any], *more: str) -> str:
    """Like "2 layers, width 64 · 5 seeds · …"."""
    count = len(config["seeds"])
    seeds = f"{count} seed{'' if count == 1 else 's'}"
    return " · ".join((f"{config['n_layers']} layers, width {config['d_model']}", seeds, *more))
