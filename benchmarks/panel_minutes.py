"""How long a run of each panel takes: ``python -m benchmarks.panel_minutes``.

The published command of each panel of complexity control's Figs 6 and 7, ended after ``--steps``
steps, with three seeds; its runs (settings, sizes, seeds) are the repeats. The median step times
the number of steps that the published runs took is a run's training; measuring it comes on top.
The folder that it is called in holds the data: ``cogs``, ``texts``. Writes
``results/panel_minutes_{device}.json``.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import pandas as pd
import torch

from benchmarks.common import machine, spread, write
from docs.claims.runs import RUNS
from docs.measured import read
from docs.panel_page import PANELS
from interp_compose import cli


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--panels", nargs="*", default=[panel.figure for panel in PANELS])
    options = parser.parse_args(arguments)
    rows = []
    for panel in (each for each in PANELS if each.figure in options.panels):
        for run in panel.runs:
            steps = max(row["steps"] for row in read(RUNS[run].file)["runs"])
            found = step_seconds(RUNS[run].command, options.steps)
            low, high = spread(found)
            row = {"panel": panel.figure, "run": run, "steps": steps, "n": len(found)}
            row |= {"step_seconds": median(found), "low": low, "high": high}
            rows.append({**row, "minutes": steps * median(found) / 60})
            print(rows[-1])
    device = "cuda" if torch.cuda.is_available() else "cpu"
    about = {"timed_steps": options.steps, "threads": torch.get_num_threads()}
    write(f"panel_minutes_{device}", {**machine(), **about, "panels": rows})


def step_seconds(command: str, steps: int) -> list[float]:
    """Of each run of a published command, the median step, in this process."""
    with TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        words = [*shlex.split(command)[1:], "--max-steps", str(steps), "--seeds", "3"]
        cli.main([*words, "--out", str(out), "--where", "here", "--quiet"])
        return pd.read_csv(out / "runs.csv")["step_seconds"].tolist()


if __name__ == "__main__":
    main()
