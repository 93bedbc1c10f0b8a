"""Measures over the steps of a training: a line a layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from interp_compose.plots.chart import Chart, Panel, model_name, subtitle_of
from interp_compose.plots.interactive import ChartFigure, draw
from interp_compose.plots.theme import COMPARISON_STYLES, MUTED, Style, styles_of
from interp_compose.studies.core.figures import lines_of

TITLES: Final = {
    "stable_rank": "stable rank of weights",
    "frobenius_norm": "Frobenius norm of weights",
    "effective_rank": "effective rank of weights",
    "spectral_entropy": "spectral entropy of weights (nats)",
    "mean_abs_cosine": "mean |cosine| of two neurons",
    "cap": "accuracy after pooling",
    "attention_leak": "predictions that change with words knocked out",
    "agreement": "agreement with people",
}
SHARES: Final = ("cap", "attention_leak")
MOST: Final = len(COMPARISON_STYLES)
"""Layers that are drawn; of more, evenly spaced ones."""
CLEAN: Final = Style(MUTED, "x", dash="dot", width=1.6)


def watch_figure(
    frame: pd.DataFrame, looks: pd.DataFrame, measure: str, *, config: Mapping[str, Any]
) -> ChartFigure:
    """One measure against the step: a line a layer, a panel for each pooling or metric; of weights
    one panel, the mean over the matrices of a layer.

    Args:
        frame, looks: as :class:`.result.Watched` has them.
        measure: one of :data:`TITLES`.
        config: names the model and the budget.
    """
    numbers = frame[frame["measure"] == measure]
    inside = numbers[numbers["layer"] >= 0]
    of_weights = measure not in (*SHARES, "agreement")
    if of_weights:
        # The mean over the matrices of a layer.
        means = inside.groupby(["step", "layer"])["value"].agg(["mean", "size"])
        means = means.rename(columns={"mean": "value", "size": "n"}).reset_index()
        inside = means.assign(of="", low=np.nan, high=np.nan)
    layers = sorted(inside["layer"].unique().tolist())
    drawn = [layers[i] for i in np.linspace(0, len(layers) - 1, min(len(layers), MOST)).astype(int)]
    panels = []
    for of, rows in inside.groupby("of", sort=False):
        named = [
            (f"layer {layer}", style, rows[rows["layer"] == layer])
            for layer, style in styles_of(drawn).items()
        ]
        metric = str(of).split(",")[0] if measure == "agreement" else ""
        clean = numbers[(numbers["layer"] < 0) & numbers["of"].str.startswith(metric)]
        if len(clean):
            named.append((str(clean["of"].iloc[0]).split(", ")[-1], CLEAN, clean))
        panels.append(Panel(lines_of(named, "step", "value", "low", "high"), [], title=str(of)))
    taken, skipped = int(looks["taken"].sum()), int((~looks["taken"]).sum())
    notes = [f"{taken} look{'' if taken == 1 else 's'}"]
    if skipped:
        notes.append(f"{skipped} skipped for the budget of {config['budget']:.3g}")
    if len(drawn) < len(layers):
        notes.append(f"{len(drawn)} of {len(layers)} layers")
    notes.append(_bands(measure, of_weights))
    steps = sorted(set(numbers["step"]))
    return draw(
        Chart(
            title=f"{model_name(config)}: {TITLES[measure]} over training",
            subtitle=subtitle_of(*notes),
            x_title="step",
            y_title=TITLES[measure],
            y_is_share=measure in SHARES,
            panels=panels,
            x_name="step",
            x_ticks=[float(step) for step in steps[:: max(1, -(-len(steps) // 5))]],
            x_step=float(max(steps) - min(steps)) / max(len(steps) - 1, 1) or 1.0,
        )
    )


def _bands(measure: str, of_weights: bool) -> str:
    if of_weights:
        return "mean over the matrices of a layer"
    return "" if measure == "attention_leak" else "bands: 95 % intervals"
