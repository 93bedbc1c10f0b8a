"""Figures of a comparison of encoder–decoders: accuracy by split and type, and over training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

import pandas as pd

from interp_compose.papers.lrf.models.shape import Positions
from interp_compose.papers.shared.grid.figures import (
    BARS,
    MEANS,
    by_value,
    crossed,
    kinds_figure,
    n_seeds,
    of_several,
    seed_lines,
    spelt,
    unjoined,
)
from interp_compose.plots.chart import Chart, Panel, subtitle_of
from interp_compose.plots.heatmap import HeatMap
from interp_compose.plots.interactive import ChartFigure, draw

ALL: Final = "all"


def accuracy_figure(summary: pd.DataFrame, config: Mapping[str, Any]) -> ChartFigure:
    """What each model gets right of each split: the mean over seeds, bars from the smallest to the
    largest."""
    overall = summary[summary["kind"] == ALL]
    models = list(dict.fromkeys(overall["model"]))
    placed = overall.assign(place=overall["model"].map(models.index).astype(float))
    return draw(
        Chart(
            title=f"{config['task']}: sequences that are right",
            subtitle=_subtitle(config, *of_several(config, BARS)),
            x_title="",
            y_title="exact match",
            panels=[Panel(seed_lines(unjoined(by_value(placed, "split")), "place"), [])],
            categories=[spelt(model).replace("-", "\n") for model in models],
        )
    )


def types_figure(
    summary: pd.DataFrame, differences: pd.DataFrame, config: Mapping[str, Any]
) -> ChartFigure:
    """The share of each type of each split that is right, by model."""
    subtitle = _subtitle(config, *of_several(config, MEANS))
    return kinds_figure(summary, differences, config, subtitle, by="model", named=_shortened)


def reads_figure(reads: pd.DataFrame, config: Mapping[str, Any]) -> ChartFigure:
    """What each layer's fuse-attention reads after the last step: means over heads and seeds, on
    the sample of the training split."""
    last = reads[(reads["step"] == reads["step"].max()) & (reads["split"] == "train")]
    means = crossed(mean_reads(last, ["model", "stack", "layer", "earlier"]))
    return draw(
        HeatMap(
            title=f"{config['task']}: what fuse-attention reads",
            subtitle=_subtitle(config, _means(config)),
            x_title="earlier output that is read",
            y_title="block",
            columns=["embeddings", *(f"block {i}" for i in range(len(means.columns) - 1))],
            rows=[f"{_shortened(model)} {stack} {layer}" for model, stack, layer in means.index],
            values=means.to_numpy().tolist(),
            value_name="attention weight",
            limits=(0.0, 1.0),
            gap_name="no such output yet",
        )
    )


def reads_kinds_figure(reads: pd.DataFrame, config: Mapping[str, Any]) -> ChartFigure:
    """How far up the last layer of each stack reads, over training, by kind of token: the mean
    earlier layer, over heads and seeds, on the sample of the training split."""
    return depths_figure(read_depths(reads), config)


def read_depths(reads: pd.DataFrame) -> pd.DataFrame:
    """How far up the last layer of each stack reads, where it has a choice: a row for each run,
    layer, step and kind of token, with the ``depth``, the mean earlier layer over heads and over
    the tokens of the training split's sample."""
    rows = reads[reads["split"] == "train"]
    rows = rows[rows["layer"] == rows.groupby(["model", "stack"])["layer"].transform("max")]
    rows = rows[rows.groupby(["model", "stack"])["earlier"].transform("nunique") > 1]
    place = ["model", "seed", "stack", "layer", "step", "kind"]
    weights = mean_reads(rows, [*place, "earlier"]).reset_index(name="weight")
    weights = weights.assign(depth=weights["weight"] * weights["earlier"])
    return weights.groupby(place, sort=False)["depth"].sum().reset_index()


def depths_figure(depths: pd.DataFrame, config: Mapping[str, Any]) -> ChartFigure:
    """What :func:`read_depths` found, a mean over seeds: a row for each kind, a column for each
    step."""
    place = ["model", "stack", "layer", "kind", "step"]
    means = crossed(depths.groupby(place, sort=False)["depth"].mean())
    rows = [f"{_shortened(model)} {stack} {n}, {kind}" for model, stack, n, kind in means.index]
    return draw(
        HeatMap(
            title=f"{config['task']}: how far up the last fuse-attention reads, over training",
            subtitle=_subtitle(config, _means(config)),
            x_title="step",
            y_title="layer and kind of token",
            columns=[f"{step:,}" for step in means.columns],
            rows=rows,
            values=means.to_numpy().tolist(),
            value_name="mean earlier layer (0: embeddings)",
            limits=(0.0, float(depths["layer"].max())),
        )
    )


def mean_reads(reads: pd.DataFrame, by: Sequence[str]) -> pd.Series:
    """Means over tokens of the weights of fuse-attention, over whatever ``by`` does not name."""
    sums = reads.assign(total=reads["weight"] * reads["n"]).groupby([*by], sort=False)
    totals = sums[["total", "n"]].sum()
    return totals["total"] / totals["n"]


def _means(config: Mapping[str, Any]) -> str:
    over = ", ".join(("heads", *of_several(config, "seeds")))
    return f"mean over {over} and tokens of the training split"


def _shortened(model: str) -> str:
    """Like "LRF rel."."""
    variant, _, positions = model.rpartition("-")
    return spelt(f"{variant} {positions[:3]}." if positions in get_args(Positions) else model)


def shape_and_seeds(config: Mapping[str, Any]) -> tuple[str, str]:
    """Like ("2 + 2 layers, width 64", "5 seeds")."""
    layers = f"{config['n_encoder_layers']} + {config['n_decoder_layers']} layers"
    if any(model.startswith("deeper") for model in config["models"]):
        layers += " (deeper: one more each)"
    return f"{layers}, width {config['d_model']}", n_seeds(config)


def _subtitle(config: Mapping[str, Any], *notes: str) -> str:
    """Like "2 + 2 layers, width 64 · 5 seeds · …"."""
    return subtitle_of(*shape_and_seeds(config), *notes)
