"""How fast small transformers fit data that break the rule (paper 004, section VIII, Fig. 8).

Run with ``python -m benchmarks.fitting_speed --out out/speed``: 90 runs, about half a minute of
one core each, on seeds from 500 on, which nothing was tried on. The same from the command line::

    interp-compose speed --gammas 0.4,0.8 --depths 2,3,4 --violations 0,1,5 --seeds 5 \
        --first-seed 500 --out out/speed
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import interp_compose as ic
from benchmarks.common import IMAGES, machine, plain_rows, write
from interp_compose.plots.export import save_png

RATES = (0.4, 0.8)
DEPTHS = (2, 3, 4)
VIOLATIONS = (0, 1, 5)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, print, write ``results/fitting_speed.json`` and the figures of the pages."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    speed = ic.fitting_speed(RATES, DEPTHS, VIOLATIONS, options.out, seeds=5, first_seed=500)
    print(speed.summary())
    tables = {"cells": speed.cells, "pair_cells": speed.pair_cells}
    rows = {key: plain_rows(table) for key, table in tables.items()}
    write("fitting_speed", {"config": speed.config, **rows, **machine()})
    for figure_name, figure in speed.figures().items():
        save_png(figure, IMAGES / f"speed_{figure_name}.png")


if __name__ == "__main__":
    main()
