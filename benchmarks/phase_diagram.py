"""The phase diagram that the documentation shows.

Run with ``python -m benchmarks.phase_diagram --out out/phases`` (``--norm post`` for the post-LN
model). It trains what the folder lacks: 132 runs, about 40 s of one core each. The seeds, from
200 on, are not those on which the setting was tried (below 200). The same from the command line::

    interp-compose complexity --gammas 0.2:0.4:0.1,0.45:0.6:0.05,0.7:1.0:0.1 \
        --weight-decays 0,0.01,0.1,1 --seeds 3 --first-seed 200 --out out/phases
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

import interp_compose as ic
from benchmarks.common import machine, write
from interp_compose.plots.export import save_png

RATES = (0.2, 0.3, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7, 0.8, 0.9, 1.0)
DECAYS = (0.0, 0.01, 0.1, 1.0)
IMAGES = Path(__file__).parents[1] / "docs" / "images"


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, print, write ``results/phase_diagram_{norm}.json`` and the figures of the pages."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--norm", default="pre", choices=("pre", "post"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=200)
    options = parser.parse_args(arguments)
    diagram = ic.phase_diagram(
        RATES,
        DECAYS,
        options.out,
        seeds=options.seeds,
        first_seed=options.first_seed,
        run=ic.PhaseRun(norm=options.norm),
    )
    print(diagram.summary())
    write(
        f"phase_diagram_{options.norm}",
        {
            "config": diagram.config,
            "cells": _rows(diagram.cells),
            "circuits": _rows(_means(diagram.circuits)),
            "onsets": _rows(diagram.onsets),
            **machine(),
        },
    )
    for name, figure in diagram.figures().items():
        save_png(figure, IMAGES / f"{name}_{options.norm}.png")


def _means(circuits: pd.DataFrame) -> pd.DataFrame:
    """Mean, smallest and largest over seeds."""
    by_cell = circuits.drop(columns="seed").groupby(["init_rate", "weight_decay", "mode"])
    found = by_cell.agg(["mean", "min", "max"])
    found.columns = [f"{name}_{what}" for name, what in found.columns]
    return found.reset_index()


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Plain JSON, four digits behind the point, None for what was not measured."""
    return [
        {str(name): _plain(value) for name, value in row.items()}
        for row in frame.to_dict("records")
    ]


def _plain(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return None if math.isnan(value) else round(value, 4)


if __name__ == "__main__":
    main()
