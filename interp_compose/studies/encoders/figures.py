"""Figures of encoders on texts and pairs of them: a metric by model and output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pandas as pd

from interp_compose.plots.chart import Chart, Panel
from interp_compose.plots.interactive import ChartFigure, draw
from interp_compose.plots.theme import COMPARISON_STYLES
from interp_compose.studies.core.figures import BARS, beside, lines_of, n_seeds, of_several

TITLES: Final = {
    "pearson": "Pearson's r with people's ratings",
    "spearman": "Spearman's ρ with people's ratings",
    "auc": "area under the ROC curve",
    "accuracy": "accuracy of a classifier",
    "matthews": "Matthews' correlation of a classifier",
    "f1": "F1 of a classifier",
    "exact_match": "answers that are right (exact match)",
    "token_f1": "F1 of an answer's words",
}


def _training(row: pd.Series) -> str:
    """How the encoder, or a classifier of it, was trained, where it was and that is not the usual:
    like ", end-to-end on paws-qqp, 50 %"."""
    if row["tuned"] == "no":
        return ""
    other = "" if row["trained_on"] == row["task"] else f" on {row['trained_on']}"
    share = "" if row["share"] == 1 else f", {100 * row['share']:g} %"
    return f", {row['tuned']}{other}{share}"


def scores_figure(summary: pd.DataFrame, metric: str, config: Mapping[str, Any]) -> ChartFigure:
    """The mean over seeds, bars from the smallest to the largest, of each model and output; a
    colour for each task, subset and embedding."""
    rows = summary[summary["metric"] == metric]
    readings = list(dict.fromkeys(rows["model"] + "\n" + rows["output"]))
    place = (rows["model"] + "\n" + rows["output"]).map(readings.index).astype(float)
    several = rows["task"].nunique() > 1
    named = rows["subset"] + ", " + rows["embedding"] + rows.apply(_training, axis=1)
    named = rows["task"] + ": " + named if several else named
    groups = rows.assign(place=place + beside(named), name=named).groupby("name", sort=False)
    lines = [
        (str(name), replace(COMPARISON_STYLES[i % len(COMPARISON_STYLES)], width=0.0), own)
        for i, (name, own) in enumerate(groups)
    ]
    columns = ("place", "mean", "smallest", "largest")
    tasks = ", ".join(dict.fromkeys(rows["task"]))
    return draw(
        Chart(
            title=f"{tasks}: {TITLES[metric]}",
            subtitle=" · ".join((n_seeds(config), *of_several(config, BARS))),
            x_title="",
            y_title=TITLES[metric],
            x_is_share=False,
            y_is_share=metric in ("accuracy", "exact_match"),
            panels=[Panel(lines_of(lines, *columns, n="n_seeds", interval="bars"), [])],
            x_name="",
            x_ticks=[float(i) for i in range(len(readings))],
            x_notes=[reading.replace("-", "\n") for reading in readings],
            x_is_category=True,
        )
    )
