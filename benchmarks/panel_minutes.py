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
from typing import Any

import pandas as pd
import torch

from benchmarks.common import Ratio, gpu, machine, spread
from docs.claims.runs import RUNS
from docs.measured import read
from docs.panel_page import PANELS
from interp_compose import cli

FIGURES = tuple(panel.figure for panel in PANELS)


def benchmark(
    steps: int = 100,
    panels: tuple[str, ...] = FIGURES,
    threads: int = 1,
) -> dict[str, Any]:
    """``panel_minutes_cpu``, or ``_cuda`` where there is a GPU, which the commands then take."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows = []
    for panel in (each for each in PANELS if each.figure in panels):
        for run in panel.runs:
            published = max(row["steps"] for row in read(RUNS[run].file)["runs"])
            taken = step_seconds(RUNS[run].command, steps)
            low, high = spread(taken)
            row = {"panel": panel.figure, "run": run, "steps": published, "n": len(taken)}
            row |= {"step_seconds": median(taken), "low": low, "high": high}
            rows.append({**row, "minutes": published * median(taken) / 60})
    about = {"timed_steps": steps, "threads": threads, **gpu(device)}
    return {f"panel_minutes_{device}": {**machine(), **about, "panels": rows}}


def ratios(content: dict[str, Any]) -> list[Ratio]:
    return [
        Ratio(
            f"a step of {row['panel']}, {row['run']} "
            f"({row['steps']:,} of them: {row['minutes']:.1f} min)",
            row["step_seconds"],
            [row["low"], row["high"]],
            "s",
        )
        for row in content["panels"]
    ]


def step_seconds(command: str, steps: int) -> list[float]:
    """Of each run of a published command, the median step, in this process."""
    with TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        words = [*shlex.split(command)[1:], "--max-steps", str(steps), "--seeds", "3"]
        cli.main([*words, "--out", str(out), "--where", "here", "--quiet"])
        return pd.read_csv(out / "runs.csv")["step_seconds"].tolist()
