"""A training run: loss or accuracy against the optimiser's steps, in training and validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np
import pandas as pd
from jaxtyping import Int

from interp_compose.plots.chart import Chart, Line, Panel, model_name, subtitle_of
from interp_compose.plots.interactive import ChartFigure, draw
from interp_compose.plots.theme import BLUE, VERMILLION, Style
from interp_compose.stats.intervals import wilson_interval

STEP_PLACES: Final = 24
Value = Literal["loss", "accuracy"]
TITLES: Final = {"loss": "cross-entropy of the answer (nats)", "accuracy": "accuracy"}


def nearby(steps: pd.Series[int]) -> Int[np.ndarray, "step"]:
    """Which of some twenty places, of equal width, each step belongs to."""
    # + 1, so that the last step is inside
    edges = np.linspace(steps.min(), steps.max() + 1, STEP_PLACES + 1)
    return np.digitize(steps, edges)


def history_figure(
    steps: pd.DataFrame, evaluations: pd.DataFrame, value: Value, config: Mapping[str, Any]
) -> ChartFigure:
    """Both frames as :class:`.history.TrainingHistory` has them; without a validation split, the
    second one is empty."""
    column = "task_loss" if value == "loss" else value
    groups = steps.groupby(nearby(steps["step"]))
    table = groups[column].agg(["mean", "min", "max", "size"]).assign(step=groups["step"].mean())
    x, mean, low, high, size = (
        table[name].tolist() for name in ("step", "mean", "min", "max", "size")
    )
    lines = [Line("training batches", Style(BLUE, "circle"), x, mean, low, high, size)]
    notes = [f"task {config['task']}", "points: means of nearby steps, bands: their range"]
    if len(evaluations):
        ends: Sequence[Any] = [evaluations[value]] * 2
        if value == "accuracy":
            n = evaluations["n"].to_numpy()
            ends = wilson_interval((evaluations[value] * n).round().to_numpy(int), n)
            notes.append("bars of validation: 95 % intervals")
        low, high = (list(map(float, end)) for end in ends)
        x, y = (evaluations[name].astype(float).tolist() for name in ("step", value))
        counts = evaluations["n"].tolist()
        lines.append(
            Line("validation", Style(VERMILLION, "square"), x, y, low, high, counts, "bars")
        )
    carma = config.get("carma") or {}
    kind = "CARMA" if carma.get("weight") else "fine-tuning"
    return draw(
        Chart(
            title=f"{model_name(config)}: {value} in training ({kind})",
            subtitle=subtitle_of(*notes),
            x_title="step (0 = the model as it was given)",
            y_title=TITLES[value],
            y_is_share=value == "accuracy",
            panels=[Panel(lines, [])],
            x_name="step",
            x_step=float(steps["step"].max()) / STEP_PLACES,
        )
    )
