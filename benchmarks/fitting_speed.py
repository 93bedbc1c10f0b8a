"""How fast small transformers fit data that break the rule (complexity control, Fig. 8).

Run with ``python -m benchmarks.fitting_speed --out out/speed``: 135 runs, about half a minute of
one core each, on seeds from 500 on, which nothing was tried on. ``--norm post`` takes the post-LN
model at the paper's two init rates and two layers (30 runs), ``--redraw`` trains nothing and draws
the figures of the result file again. The same from the command line::

    interp-compose speed --gammas 0.4,0.5,0.8 --depths 2,3,4 --violations 0,1,5 --seeds 5 \
        --first-seed 500 --out out/speed
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pandas as pd

import interp_compose as ic
from benchmarks.common import IMAGES, RESULTS, machine, plain_rows, write
from interp_compose.papers.complexity.studies.fitting_speed.figures import (
    fitting_epochs_figure,
    fitting_pairs_figure,
    violations_roc_figure,
)

RATES: Final = {"pre": (0.4, 0.5, 0.8), "post": (0.5, 0.8)}
"""0.5 is the paper's large initialisation, at which the pre-LN model learns pairs; at 0.4 it
memorises single sequences."""
NAMES: Final = {"pre": "fitting_speed", "post": "fitting_speed_post"}
DEPTHS: Final = {"pre": (2, 3, 4), "post": (2, 3, 4)}
VIOLATIONS: Final = (0, 1, 5)
SHOWN_DEPTH: Final = 2
"""Of the figures that are of one depth."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, print, write ``results/fitting_speed.json`` (``fitting_speed_post.json``) and the
    figures of the pages."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--norm", default="pre", choices=tuple(RATES))
    parser.add_argument("--redraw", action="store_true")
    options = parser.parse_args(arguments)
    if options.redraw:
        redraw(options.norm)
        return
    if options.out is None:
        parser.error("--out: expected a folder for the runs")
    speed = ic.complexity.fitting_speed(
        RATES[options.norm],
        DEPTHS[options.norm],
        VIOLATIONS,
        options.out,
        seeds=5,
        first_seed=500,
        run=ic.complexity.PhaseRun(norm=options.norm),
    )
    print(speed.summary())
    keep(speed, options.norm)
    redraw(options.norm)


def keep(speed: ic.complexity.FittingSpeed, norm: str) -> None:
    """Write the result file of one norm."""
    roc = speed.roc
    tables = {
        "cells": speed.cells,
        "runs": speed.frame,
        "pair_cells": speed.pair_cells,
        "roc": roc[roc["n_layers"] == SHOWN_DEPTH],
    }
    rows = {key: plain_rows(table) for key, table in tables.items()}
    write(NAMES[norm], {"config": speed.config, **rows, **machine()})


def redraw(norm: str) -> None:
    """Draw the figures of the pages from the result file."""
    found = json.loads((RESULTS / f"{NAMES[norm]}.json").read_text(encoding="utf-8"))
    cells, pairs = (pd.DataFrame(found[name]) for name in ("cells", "pair_cells"))
    config = found["config"]
    one = pairs[(pairs["n_layers"] == SHOWN_DEPTH) & (pairs["violations"] == 1)]
    figures = {
        "fitting_epochs": fitting_epochs_figure(cells, measure="accuracy", config=config),
        "fitting_epochs_by_loss": fitting_epochs_figure(cells, measure="loss", config=config),
        "fitting_pairs": fitting_pairs_figure(one, config=config),
    }
    if "roc" in found:  # a file to which an init rate was added later has none
        roc, own = pd.DataFrame(found["roc"]), cells[cells["n_layers"] == SHOWN_DEPTH]
        figures["violations_roc"] = violations_roc_figure(roc, own, config=config)
    start = NAMES[norm].replace("fitting_", "")
    for name, figure in figures.items():
        if len(DEPTHS[norm]) == 1 and name != "fitting_pairs":
            continue  # a table says it
        figure.save(IMAGES / f"{start}_{name}.png")


if __name__ == "__main__":
    main()
