"""``phase_diagram``: a grid of runs, done where they are missing, and what came of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from interp_compose._public import public
from interp_compose.errors import OptionError
from interp_compose.runs.files import read_json
from interp_compose.runs.folder import versions_of
from interp_compose.runs.result import gathered_versions
from interp_compose.studies.anchors.grid import (
    GRID,
    TRAIN,
    WORK,
    Where,
    runs_of,
    setting_of,
    trained,
)
from interp_compose.studies.anchors.run import (
    CIRCUITS as CIRCUITS_FILE,
    HISTORY as HISTORY_FILE,
    PhaseRun,
)
from interp_compose.studies.phases.result import CIRCUITS, HISTORY, RUNS, PhaseDiagram


@public
def phase_diagram(
    init_rates: Sequence[float],
    weight_decays: Sequence[float],
    out: str | os.PathLike[str],
    *,
    seeds: int = 3,
    first_seed: int = 0,
    run: PhaseRun | None = None,
    where: Where = "workers",
    workers: int | None = None,
    slurm: Mapping[str, Any] | None = None,
    progress: bool = True,
) -> PhaseDiagram:
    """Train a model for every init rate, weight decay and seed, and name the phase of each
    (complexity control, section IV, Figs 3 and 5C).

    Runs that ``out`` holds already, of this grid or another, are not done again; a call that is
    interrupted loses the runs in flight at most. With a GPU, runs are trained many at a time.

    Args:
        init_rates: γ; a larger one is a smaller initialisation.
        weight_decays: of AdamW, on every parameter.
        out: folder for the runs: histories and weights.
        seeds: runs per cell, each with data, initialisation and order of its own.
        first_seed: the first of them.
        run: everything else; its init rate, weight decay and seed are not read.
        where: as :func:`run_sweep` has it: in this process, in one worker process per core, or in
            jobs of a cluster.
        workers: how many.
        slurm: what the cluster's jobs ask for.
        progress: show a bar.

    Raises:
        OptionError: a grid that is empty or repeats; a shape, a rate or data that cannot be.
        InputError: ``out`` holds another sweep.
        ModelError: runs failed; the others are kept. Names the first and its log.
    """
    base = PhaseRun() if run is None else run
    if not base.hold_out:
        raise OptionError(
            "run.hold_out=False leaves no unseen pairs, on which phases depend; ic.fitting_speed "
            "trains such runs"
        )
    runs = runs_of(base, init_rates, weight_decays, seeds, first_seed)
    folders = trained(
        WORK, TRAIN, runs, out, where=where, workers=workers, slurm=slurm, progress=progress
    )
    config = {
        "study": "phases",
        **setting_of(base),
        "init_rates": sorted({each.init_rate for each in runs}),
        "weight_decays": sorted({each.weight_decay for each in runs}),
        "seeds": sorted({each.seed for each in runs}),
    }
    return _diagram(runs, folders, config)


def _diagram(
    runs: Sequence[PhaseRun], folders: Sequence[Path], config: Mapping[str, Any]
) -> PhaseDiagram:
    last, history, circuits = [], [], []
    for run, folder in zip(runs, folders, strict=True):
        place = {name: getattr(run, name) for name in GRID}
        rows = [{**place, **row} for row in read_json(folder / HISTORY_FILE)["rows"]]
        history += rows
        circuits += [{**place, **row} for row in read_json(folder / CIRCUITS_FILE)]
        last.append({**rows[-1], "phase": ""})  # the diagram names it
    diagram = PhaseDiagram.from_rows(
        _frame(last, RUNS), _frame(history, HISTORY), _frame(circuits, CIRCUITS), config
    )
    versions = gathered_versions({folder.name: versions_of(folder) for folder in folders})
    return replace(diagram, versions=versions)


def _frame(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(columns)).astype(dict(columns))
