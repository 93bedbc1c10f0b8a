"""The phase diagram that the documentation shows, and whether other seeds say the same.

Run with ``python -m benchmarks.phase_diagram --out out/phases``. ``--norm post`` takes the post-LN
model, ``--unclipped`` gradients as they are, and ``--first-seed 300 --again`` sets a second
diagram, of other seeds, beside the first. It trains what the folder lacks: 132 runs, about 40 s of
one core each; ``--redraw`` trains nothing and draws the figures of the result file again. The
seeds, from 200 on, are not those on which the setting was tried (below 200). The
same from the command line::

    interp-compose phases --gammas 0.2:0.4:0.1,0.45:0.6:0.05,0.7:1.0:0.1 \
        --weight-decays 0,0.01,0.1,1 --seeds 3 --first-seed 200 --out out/phases
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

import interp_compose as ic
from benchmarks.common import IMAGES, RESULTS, machine, plain_rows, spread_of, write
from interp_compose.papers.complexity.studies.anchors.phase import doubt_of
from interp_compose.papers.complexity.studies.phases.figures import (
    phase_bubble_figure,
    phase_curve_figure,
    phase_map_figure,
)

RATES = (0.2, 0.3, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7, 0.8, 0.9, 1.0)
DECAYS = (0.0, 0.01, 0.1, 1.0)
CELL = ["init_rate", "weight_decay"]
CURVE = 0.01
SHOWN = ("pre", "post")
"""Settings with figures on the pages."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, print, write ``results/phase_diagram_{norm}.json`` and the figures of the pages."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--redraw", action="store_true")
    parser.add_argument("--norm", default="pre", choices=("pre", "post"))
    parser.add_argument("--unclipped", action="store_true")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=200)
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args(arguments)
    setting = f"{options.norm}_unclipped" if options.unclipped else options.norm
    name = f"phase_diagram_{setting}"
    if options.redraw:
        redraw(setting)
        return
    if options.out is None:
        parser.error("--out: expected a folder for the runs")
    diagram = ic.complexity.phase_diagram(
        RATES,
        DECAYS,
        options.out,
        seeds=options.seeds,
        first_seed=options.first_seed,
        run=ic.complexity.PhaseRun(norm=options.norm, clip=None if options.unclipped else 1.0),
    )
    print(diagram.summary())
    if options.again:
        found = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
        first = pd.DataFrame(found["cells"])
        found["again"] = {
            "seeds": diagram.config["seeds"],
            "cells": plain_rows(diagram.cells),
            "runs": plain_rows(diagram.frame),
            "risen": risen(diagram.history),
            **agreement(first, diagram.cells),
        }
        write(name, found)
        return
    circuits = diagram.circuits.drop(columns="seed")
    write(
        name,
        {
            "config": diagram.config,
            "cells": plain_rows(diagram.cells),
            "runs": plain_rows(diagram.frame),
            "circuits": plain_rows(spread_of(circuits, [*CELL, "mode"])),
            "onsets": plain_rows(diagram.onsets),
            "risen": risen(diagram.history),
            **machine(),
        },
    )
    if setting in SHOWN:
        redraw(setting)


def redraw(setting: str) -> None:
    """Draw the figures of the pages from ``results/phase_diagram_{setting}.json``."""
    found = json.loads((RESULTS / f"phase_diagram_{setting}.json").read_text(encoding="utf-8"))
    cells = pd.DataFrame(found["cells"])
    cells["doubt"] = cells["agree"].map(doubt_of)
    config = found["config"]
    figures = {
        "phase_curve": phase_curve_figure(cells, weight_decay=CURVE, config=config),
        "phase_map": phase_map_figure(cells, config=config),
        "phase_bubbles": phase_bubble_figure(cells, config=config),
    }
    for name, figure in figures.items():
        figure.save(IMAGES / f"{name}_{setting}.png")


def risen(history: pd.DataFrame) -> dict[str, list[int]]:
    """Runs whose training loss ends at more than twice its smallest value, of how many, by weight
    decay."""
    losses = history.dropna(subset="train_loss").sort_values("step")
    runs = losses.groupby([*CELL, "seed"])["train_loss"].agg(["last", "min"]).reset_index()
    runs["rose"] = runs["last"] > 2 * runs["min"]
    return {
        f"{decay:g}": [int(own["rose"].sum()), len(own)]
        for decay, own in runs.groupby("weight_decay")
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


if __name__ == "__main__":
    main()
