"""Figures of how fast small transformers fit data that break the rule: runs ``fitting_speed*``."""

from __future__ import annotations

import json
from typing import Final

import pandas as pd

from benchmarks.common import IMAGES, RESULTS
from interp_compose.papers.complexity.studies.fitting_speed.figures import (
    fitting_epochs_figure,
    fitting_pairs_figure,
    violations_roc_figure,
)

SHOWN_DEPTH: Final = 2
"""Of the figures that are of one depth."""


def of_shown_depth(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows["n_layers"] == SHOWN_DEPTH]


def draw(name: str) -> None:
    """The figures of the pages, of a result file."""
    kept = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    cells, pairs = (pd.DataFrame(kept[table]) for table in ("cells", "pair_cells"))
    config, pairs = kept["config"], of_shown_depth(pairs)
    figures = {
        "fitting_epochs": fitting_epochs_figure(cells, measure="accuracy", config=config),
        "fitting_epochs_by_loss": fitting_epochs_figure(cells, measure="loss", config=config),
        "fitting_pairs": fitting_pairs_figure(pairs[pairs["violations"] == 1], config=config),
    }
    if "roc" in kept:  # a file to which an init rate was added later has none
        roc = pd.DataFrame(kept["roc"])
        figures["violations_roc"] = violations_roc_figure(roc, of_shown_depth(cells), config=config)
    for figure, drawn in figures.items():
        drawn.save(IMAGES / f"{name.replace('fitting_', '')}_{figure}.png")
