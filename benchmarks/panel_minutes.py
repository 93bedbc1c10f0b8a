"""How long a run of each panel takes.

The published command of each panel of complexity control's Figs 6 and 7, ended after ``--steps``
steps, with three seeds; its runs (settings, sizes, seeds) are the repeats. The median step times
the number of steps that the published runs took is a run's training; measuring it comes on top.
The folder that it is called in holds the data: ``cogs``, ``texts``.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import pandas as pd
import torch

from benchmarks.common import Measured, Ratio, machine, spread
from docs.claims.runs import RUNS
from docs.measured import read
from docs.panel_page import PANELS
from interp_compose import cli

FIGURES = tuple(panel.figure for panel in PANELS)


def benchmark(
    device: str = "cuda" if torch.cuda.is_available() else "cpu",
    steps: int = 100,
    panels: tuple[str, ...] = FIGURES,
    threads: int = torch.get_num_threads(),
) -> Measured:
    """``panel_minutes_{device}``."""
    rows, ratios = [], []
    for panel in (each for each in PANELS if each.figure in panels):
        for run in panel.runs:
            published = max(row["steps"] for row in read(RUNS[run].file)["runs"])
            taken = step_seconds(RUNS[run].command, steps)
            low, high = spread(taken)
            row = {"panel": panel.figure, "run": run, "steps": published, "n": len(taken)}
            row |= {"step_seconds": median(taken), "low": low, "high": high}
            rows.append({**row, "minutes": published * median(taken) / 60})
            ratios.append(
                Ratio(f"a step of {panel.figure}, {run}", median(taken), (low, high), "s")
            )
    about = {"timed_steps": steps, "threads": threads}
    return Measured({f"panel_minutes_{device}": {**machine(), **about, "panels": rows}}, ratios)


def step_seconds(command: str, steps: int) -> list[float]:
    """Of each run of a published command, the median step, in this process."""
    with TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        words = [*shlex.split(command)[1:], "--max-steps", str(steps), "--seeds", "3"]
        cli.main([*words, "--out", str(out), "--where", "here", "--quiet"])
        return pd.read_csv(out / "runs.csv")["step_seconds"].tolist()
