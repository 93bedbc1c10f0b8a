"""Complexity of weights while LRF and a Transformer learn SCAN without ``turn left``.

The runs of ``interp-compose generalise --task scan-turn-left``, and at each of their evaluations
the mean stable rank and condensation of the matrices that all models have::

    python -m benchmarks.lrf_watched --out out/lrf-watched

Writes ``results/lrf_watched.json``: means over seeds by step, exact match on the test split beside
them, and differences to the Transformer after the last step, paired by seed; and a picture.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pandas as pd

import interp_compose as ic
from benchmarks.watching import looks_of, matrix_means, watched, write_watched
from interp_compose.papers.lrf.studies.generalise import measure
from interp_compose.papers.lrf.studies.generalise.reads import WatchedSequence

TASK: Final = "scan-turn-left"
MODELS: Final = ("transformer", "lrf")
MATRICES: Final = (
    *("W_Q", "W_K", "W_V", "W_O", "W_in", "W_out"),
    *("W_Q_cross", "W_K_cross", "W_V_cross", "W_O_cross"),
)


def train(config: Mapping[str, Any], folder: Path) -> None:
    """One run of the study, watched."""
    with watched(WatchedSequence, folder):
        measure.train(config, folder)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, print, and write results and picture."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args(arguments)
    with patch.object(measure, "TRAIN", "benchmarks.lrf_watched:train"):
        found = ic.lrf.generalise(
            ic.load_sequences(TASK), MODELS, options.out, seeds=options.seeds, where="workers"
        )
    curve = found.frames["curve"]
    right = curve[curve["split"] == "test"].rename(columns={"accuracy": "value"})
    right = right[["model", "seed", "step", "value"]].assign(measure="exact match")
    frame = pd.concat([matrix_means(looks_of(options.out), MATRICES), right], ignore_index=True)
    about = {"task": TASK, "seeds": found.config["seeds"], "matrices": list(MATRICES)}
    write_watched("lrf_watched", frame, MODELS, about)


if __name__ == "__main__":
    main()
