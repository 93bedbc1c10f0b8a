"""Figures of pre-training: the loss of masked tokens, and the codes of a word, over training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import pandas as pd

from interp_compose.papers.shared.grid.figures import curve_figure, n_seeds
from interp_compose.plots.interactive import ChartFigure

COMPOSED: Final = {
    "cat": "cat: every block composes",
    "cat-last": "cat-last: the last block composes",
    "fixed": "-fixed: random codes (control)",
    "mlp": "-mlp: no codes (control)",
}
"""What a subtitle says of models, by name or by its end."""


def told_of_models(models: Iterable[str]) -> list[str]:
    """What composes in each, and each control, once."""
    parts = []
    for model in models:
        name, _, end = model.rpartition("-")
        parts += [name, end] if end in COMPOSED and name else [model]
    return [COMPOSED[one] for one in dict.fromkeys(parts) if one in COMPOSED]


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
        of="measured on {} held-out masked tokens",
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
        of="of the {} codes of a block",
    )


def _about(config: Mapping[str, Any]) -> tuple[str, str]:
    """Like ("4 layers, width 128", "3 seeds")."""
    return f"{config['n_layers']} layers, width {config['d_model']}", n_seeds(config)
