"""Figures of pre-training: the loss of masked tokens, and the codes of a word, over training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from interp_compose.plots.interactive import ChartFigure
from interp_compose.studies.core.figures import curve_figure, n_seeds


def loss_figure(curve: pd.DataFrame, config: Mapping[str, Any]) -> ChartFigure:
    """The loss of held-out masked tokens, by model, a panel for each representation."""
    rows = curve.assign(split=curve["output"], n=curve["n_masked"])
    last = rows["output"] == "cont"  # which every model has: the last panel's lines are named
    rows = pd.concat([rows[~last], rows[last]])
    return curve_figure(
        rows,
        "model",
        config,
        _about(config),
        value="masked_loss",
        name="nats a masked token",
        of="held-out masked tokens",
    )


def codes_figure(codes: pd.DataFrame, config: Mapping[str, Any]) -> ChartFigure:
    """How many codes a word has, by model, a panel for each block."""
    rows = codes.assign(split=[f"layer {layer}" for layer in codes["layer"]], n=codes["n_codes"])
    return curve_figure(
        rows,
        "model",
        config,
        _about(config),
        value="codes_per_word",
        name="codes a word",
        of="codes of a block",
    )


def _about(config: Mapping[str, Any]) -> tuple[str, str]:
    """Like ("4 layers, width 128", "3 seeds")."""
    return f"{config['n_layers']} layers, width {config['d_model']}", n_seeds(config)
