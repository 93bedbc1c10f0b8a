"""Complexity of weights while LRF and a Transformer learn a split of SCAN: run ``lrf_watched``.

At each evaluation of ``generalise`` the mean stable rank and condensation of the matrices that all
models have; kept are means over seeds by step, exact match on the test split beside them, and
differences to the Transformer after the last step, paired by seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import interp_compose as ic
from benchmarks.watching import kept_of, watched
from interp_compose.papers.lrf.studies.generalise import measure
from interp_compose.papers.lrf.studies.generalise.reads import WatchedSequence

MATRICES: Final = (
    *("W_Q", "W_K", "W_V", "W_O", "W_in", "W_out"),
    *("W_Q_cross", "W_K_cross", "W_V_cross", "W_O_cross"),
)


def train(config: Mapping[str, Any], folder: Path) -> None:
    """One run of the study, watched."""
    with watched(WatchedSequence, folder):
        measure.train(config, folder)


def measured(folder: Path, task: str, models: Sequence[str], seeds: int) -> dict[str, Any]:
    """Train all, watched."""
    with patch.object(measure, "TRAIN", "benchmarks.lrf_watched:train"):
        trained = ic.lrf.generalise(
            ic.load_sequences(task), models, folder, seeds=seeds, where="workers"
        )
    curve = trained.frames["curve"]
    right = curve[curve["split"] == "test"].rename(columns={"accuracy": "value"})
    right = right[["model", "seed", "step", "value"]].assign(measure="exact match")
    config = {"task": task, "seeds": trained.config["seeds"], "matrices": list(MATRICES)}
    return {"config": config, **kept_of(folder, MATRICES, models, [right])}
