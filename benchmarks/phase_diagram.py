"""What is kept of phase diagrams, and their figures: runs ``phase_diagram_*``, ``phase_seeds``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

import interp_compose as ic
from benchmarks.common import IMAGES, RESULTS, plain_rows, spread_of
from interp_compose.papers.complexity.studies.anchors.phase import doubt_of
from interp_compose.papers.complexity.studies.phases.figures import (
    phase_bubble_figure,
    phase_curve_figure,
    phase_map_figure,
)

RATES = (0.2, 0.3, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7, 0.8, 0.9, 1.0)
DECAYS = (0.0, 0.01, 0.1, 1.0)
"""The grid, for a diagram that is made in one program on a GPU."""
CELL = ["init_rate", "weight_decay"]
CURVE = 0.01
"""Weight decay of the curve."""


def circuits(rows: pd.DataFrame) -> pd.DataFrame:
    """Means, smallest and largest over seeds."""
    return spread_of(rows.drop(columns="seed"), [*CELL, "mode"])


def again(first: ic.complexity.PhaseDiagram, second: ic.complexity.PhaseDiagram) -> dict[str, Any]:
    """A diagram of other seeds, and whether it says the same."""
    return {
        "seeds": second.config["seeds"],
        "cells": plain_rows(second.cells),
        "runs": plain_rows(second.frame),
        "risen": risen(second.history),
        **agreement(first.cells, second.cells),
    }


def risen(history: pd.DataFrame) -> dict[str, list[int]]:
    """Runs whose training loss ends at more than twice its smallest value, of how many, by weight
    decay."""
    losses = history.dropna(subset="train_loss").sort_values("step")
    runs = losses.groupby([*CELL, "seed"])["train_loss"].agg(["last", "min"]).reset_index()
    runs["rose"] = runs["last"] > 2 * runs["min"]
    return {
        f"{decay:g}": [int(rows["rose"].sum()), len(rows)]
        for decay, rows in runs.groupby("weight_decay")
    }


def agreement(first: pd.DataFrame, second: pd.DataFrame) -> dict[str, list[int]]:
    """Cells with the same verdict in both, of how many: all of them, and those off the
    boundaries: where every seed of the first diagram is by itself in the cell's phase."""
    both = first.merge(second, on=CELL, suffixes=("", "_again"))
    same = both["phase"] == both["phase_again"]
    sure = both["agree"] == 1
    return {
        "same": [int(same.sum()), len(both)],
        "same_off_boundaries": [int(same[sure].sum()), int(sure.sum())],
    }


def runs_by_samples(*diagrams: ic.complexity.PhaseDiagram) -> pd.DataFrame:
    """The runs of diagrams that differ in their number of training samples."""
    return pd.concat(one.frame.assign(samples=one.config["samples"]) for one in diagrams)


def cells_by_samples(*diagrams: ic.complexity.PhaseDiagram) -> pd.DataFrame:
    """The cells of diagrams that differ in their number of training samples."""
    return pd.concat(one.cells.assign(samples=one.config["samples"]) for one in diagrams)


def orders(folder: Path, rates: Sequence[float], seeds: Sequence[int]) -> dict[str, Any]:
    """What embeddings look like in the runs of a folder."""
    each = pd.concat(
        ic.complexity.mechanism(folder, rates, seed=seed).orders.assign(seed=seed) for seed in seeds
    )
    orders = spread_of(each.drop(columns="seed"), ["init_rate", "step"])
    return {"orders": plain_rows(orders), "orders_by_seed": plain_rows(each)}


def draw(name: str) -> None:
    """The figures of the pages, of a result file."""
    kept = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    cells, config = pd.DataFrame(kept["cells"]), kept["config"]
    cells["doubt"] = cells["agree"].map(doubt_of)
    figures = {
        "phase_curve": phase_curve_figure(cells, weight_decay=CURVE, config=config),
        "phase_map": phase_map_figure(cells, config=config),
        "phase_bubbles": phase_bubble_figure(cells, config=config),
    }
    for figure, drawn in figures.items():
        drawn.save(IMAGES / f"{figure}_{name.removeprefix('phase_diagram_')}.png")
