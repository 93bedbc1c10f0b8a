"""The grids of a phase diagram: numbers as they are written on a command line, and the runs."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any, Final

import torch

from interp_compose.papers.complexity.grid.together import NUMBER, fit, step_bytes
from interp_compose.papers.complexity.studies.anchors.run import PhaseRun
from interp_compose.papers.works import WORKS
from interp_compose.runs.folder import SweepPlan
from interp_compose.studies.core.grid import seeds_of, swept
from interp_compose.studies.core.options import GridOptions

WORK: Final = "anchors"
"""What a sweep calls these runs."""
TRAIN: Final = WORKS[WORK]
"""The function that trains them."""
GRID: Final = ("init_rate", "weight_decay", "seed")
"""What tells the runs of a phase diagram apart."""


def run_bytes(run: PhaseRun) -> int:
    """What training such a run needs at most, about: weights, activations of a batch, data."""
    task = run.task
    step = step_bytes(
        run.decoder_config(task), run.batch_size * task.length, task.length, run.batch_size
    )
    data = 2 * (task.length + 1) * (run.samples + 4 * run.n_test)  # integers are twice as long
    return step + NUMBER * data


def at_a_time(runs: Sequence[PhaseRun], memory: int) -> int:
    """How many of these runs, the largest of them, a GPU of so many bytes trains together."""
    return fit(max(map(run_bytes, {run.kind for run in runs})), len(runs), memory)


def trained(
    work: str,
    function: str,
    runs: Sequence[PhaseRun],
    out: str | os.PathLike[str],
    options: GridOptions,
) -> tuple[Path, ...]:
    """The folder of each run, done where it was missing; all refused where one cannot be.

    With a GPU, and ``where`` "here", as many are trained at a time as its memory holds
    (:func:`at_a_time`).

    Raises:
        InputError: a run that cannot be trained; ``out`` holds another sweep.
        ModelError: runs failed; the others are kept. Names the first and its log.
    """
    for run in runs:
        run.check()
    at_once = 1
    if torch.cuda.is_available() and options.where == "here":
        at_once = at_a_time(runs, torch.cuda.get_device_properties(0).total_memory)
    plan = SweepPlan(work, [asdict(run) for run in runs], at_once, function)
    return swept(plan, out, options)


def grid_config(study: str, runs: Sequence[PhaseRun], axes: Mapping[str, str]) -> dict[str, Any]:
    """What a result says of itself: its setting, and the values on each axis of its grid.

    ``axes`` holds what an axis is called, and the field of a run that it varies.
    """
    values = {axis: sorted({getattr(run, name) for run in runs}) for axis, name in axes.items()}
    return {"study": study, **setting_of(runs[0], axes.values()), **values}


def runs_of(
    run: PhaseRun, axes: Mapping[str, Sequence[Any]], options: GridOptions
) -> list[PhaseRun]:
    """Every run of a grid: ``run`` with another seed and other values of the fields in ``axes``,
    of which the last one changes first.

    Raises:
        OptionError: fewer than one seed.
    """
    return [
        replace(run, seed=seed, **dict[str, Any](zip(axes, values, strict=True)))
        for seed in seeds_of(options)
        for values in product(*axes.values())
    ]


def setting_of(run: PhaseRun, grid: Collection[str] = GRID) -> dict[str, Any]:
    """What the runs of a grid have in common."""
    return {name: value for name, value in asdict(run).items() if name not in grid}
