"""Three init rates of the phase diagram over five seeds, embeddings included.

Run with ``python -m benchmarks.phase_seeds --out out/phase-seeds``: 15 runs of about 40 s of one
core each. ``--norm post`` takes the post-LN model, at the rates of the paper's Figs 5A and 5B. The
same from the command line, but for the embeddings of each seed::

    interp-compose phases --gammas 0.4,0.5,0.8 --weight-decays 0.01 --seeds 5 \
        --first-seed 200 --out out/phase-seeds
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pandas as pd

import interp_compose as ic
from benchmarks.common import machine, plain_rows, spread_of, write

RATES: Final = {"pre": (0.4, 0.5, 0.8), "post": (0.2, 0.5, 0.8)}
DECAY: Final = 0.01
SEEDS: Final = range(200, 205)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, print, write ``results/phase_seeds.json`` (``phase_seeds_post.json``)."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--norm", default="pre", choices=tuple(RATES))
    options = parser.parse_args(arguments)
    rates, run = RATES[options.norm], ic.complexity.PhaseRun(norm=options.norm)
    diagram = ic.complexity.phase_diagram(
        rates, [DECAY], options.out, seeds=len(SEEDS), first_seed=min(SEEDS), run=run
    )
    print(diagram.summary())
    inside = {seed: ic.complexity.mechanism(options.out, rates, seed=seed) for seed in SEEDS}
    orders = pd.concat([one.orders for one in inside.values()])
    circuits = diagram.circuits.drop(columns=["seed", "weight_decay"])
    write(
        "phase_seeds" if options.norm == "pre" else f"phase_seeds_{options.norm}",
        {
            "config": diagram.config,
            "cells": plain_rows(diagram.cells),
            "onsets": plain_rows(diagram.onsets),
            "circuits": plain_rows(spread_of(circuits, ["init_rate", "mode"])),
            "orders": plain_rows(spread_of(orders, ["init_rate", "step"])),
            **machine(),
        },
    )


if __name__ == "__main__":
    main()
