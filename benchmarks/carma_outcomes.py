"""What is kept of a comparison of CARMA and fine-tuning: runs ``carma_mini_base_*``.

Times stay behind: :mod:`benchmarks.carma` measures those, side by side on a quiet machine.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from interp_compose.papers.carma.differences import AVERAGE
from interp_compose.stats.seeds import paired_difference


def config(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Without digests, and of the model's folder its name alone."""
    kept = {key: value for key, value in stated.items() if "sha256" not in key}
    return kept | {"model": str(stated["model"]).rstrip("/").split("/")[-1]}


def rows(frame: pd.DataFrame) -> Any:
    """Records in JSON's types, with six decimals and without times; a gap is null."""
    frame = frame.drop(columns=["seconds", "step_seconds"], errors="ignore")
    return json.loads(frame.to_json(orient="records", double_precision=6))


def gain_by_layer(values: pd.DataFrame) -> dict[str, dict[str, float | int]]:
    """CARMA minus plain fine-tuning under CAP, mean of the poolings, in percentage points.

    ``mean`` is its mean over all layers, ``slope`` its least-squares slope in points per layer,
    ``early_minus_late`` the gain at the first layer minus that at the last; each is taken per seed
    and then averaged. Intervals and p are Student's t over seeds, each a test of its own, not
    corrected.
    """
    cap = values[(values["metric"] == "cap") & (values["pooling"] == AVERAGE)]
    wide = cap.pivot_table(index=["seed", "layer"], columns="version", values="value")
    gain = (wide["carma"] - wide["ft"]).unstack("layer").sort_index(axis=1)
    layers = gain.columns.to_numpy(float)
    centred = layers - layers.mean()
    per_seed = {
        "mean": gain.mean(axis=1),
        "slope": gain @ centred / (centred**2).sum(),
        "early_minus_late": gain.iloc[:, 0] - gain.iloc[:, -1],
    }
    return {
        name: dataclasses.asdict(paired_difference(each.to_numpy(), np.zeros(len(each))))
        for name, each in per_seed.items()
    }
