"""Figures of encoders on texts and pairs of them: a metric by model and output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

from interp_compose.papers.cat.studies.pretrain.result import told_of_models
from interp_compose.papers.shared.grid.figures import (
    BARS,
    beside,
    by_value,
    n_seeds,
    of_several,
    seed_lines,
    unjoined,
)
from interp_compose.plots.chart import Chart, Panel, subtitle_of
from interp_compose.plots.interactive import ChartFigure, draw

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
TASKS: Final = {"bird": "BiRD", "paws-qqp": "PAWS-QQP", "sst": "SST", "squad": "SQuAD"}
"""Names of data sets in titles."""
READINGS: Final = {
    "cont": "cont: contextual",
    "comp": "comp: composed",
    "mix": "mix: both",
    "mirror": "mirror: “a b” with “b a”",
    "cls": "cls: [CLS]",
}
"""What a subtitle says of outputs, subsets and embeddings."""


def _training(row: pd.Series) -> str:
    """How the encoder, or a classifier of it, was trained, where it was and that is not the usual:
    like ", end-to-end, 50 %", or ", tuned on PAWS-QQP" of another task."""
    if row["tuned"] == "no":
        return ""
    share = "" if row["share"] == 1 else f", {100 * row['share']:g} %"
    if row["trained_on"] == row["task"]:
        return f", {row['tuned']}{share}"
    return f", tuned on {TASKS.get(row['trained_on'], row['trained_on'])}{share}"


def scores_figure(summary: pd.DataFrame, metric: str, config: Mapping[str, Any]) -> ChartFigure:
    """The mean over seeds, bars from the smallest to the largest, of each model and output; a
    colour for each task, subset and embedding."""
    rows = summary[summary["metric"] == metric]
    readings = list(dict.fromkeys(rows["model"] + "\n" + rows["output"]))
    place = (rows["model"] + "\n" + rows["output"]).map(readings.index).astype(float)
    has_several = rows["task"].nunique() > 1
    named = rows["subset"] + ", " + rows["embedding"] + rows.apply(_training, axis=1)
    titles = rows["task"].map(lambda task: TASKS.get(task, task))
    named = titles + ": " + named if has_several else named
    placed = rows.assign(place=place + beside(named), name=named)
    tasks = ", ".join(dict.fromkeys(titles))
    shown = {*rows["output"], *rows["subset"], *rows["embedding"]}
    notes = (
        str(config.get("sample", "")).removeprefix(", "),
        *told_of_models(dict.fromkeys(rows["model"])),
        *(note for name, note in READINGS.items() if name in shown),
    )
    return draw(
        Chart(
            title=f"{tasks}: {TITLES[metric]}",
            subtitle=subtitle_of(n_seeds(config), *of_several(config, BARS), *notes),
            x_title="",
            y_title=TITLES[metric],
            y_is_share=metric in ("accuracy", "exact_match"),
            panels=[Panel(seed_lines(unjoined(by_value(placed, "name")), "place"), [])],
            categories=readings,
        )
    )
