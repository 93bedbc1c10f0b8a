"""The runs of a grid, each trained once: what the phase diagram and the fitting speed share."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import torch

from interp_compose.errors import ModelError
from interp_compose.studies.anchors.grid__complexity_memory import at_a_time
from interp_compose.studies.anchors.run import PhaseRun
from interp_compose.runs.sweep import run_sweep

Where = Literal["here", "workers", "slurm"]


def trained(
    work: str,
    runs: Sequence[PhaseRun],
    out: str | os.PathLike[str],
    *,
    where: Where,
    workers: int | None,
    slurm: Mapping[str, Any] | None,
    progress: bool,
) -> tuple[Path, ...]:
    """The folder of each run, done where it was missing; all refused where one cannot be.

    With a GPU, and ``where`` "here", as many are trained at a time as its memory holds
    (:func:`.complexity_memory.at_a_time`).

    Raises:
        InputError: a run that cannot be trained; ``out`` holds another sweep.
        ModelError: runs failed; the others are kept. Names the first and its log.
    """
    for run in runs:
        run.check()
    together = 1
    if torch.cuda.is_available() and where == "here":
        together = at_a_time(runs, torch.cuda.get_device_properties(0).total_memory)
    sweep = run_sweep(
        work,
        [asdict(run) for run in runs],
        out,
        where=where,
        workers=workers,
        slurm=slurm,
        together=together,
        progress=progress,
    )
    if sweep.failed:
        index, why = next(iter(sweep.failed.items()))
        raise ModelError(
            f"{len(sweep.failed)} of {len(runs)} runs failed; the first, in "
            f"{sweep.folders[index]}: {why}. The others are kept: call again to go on."
        )
    return tuple(sweep.folders)
