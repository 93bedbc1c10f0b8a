"""``fitting_speed``: a grid of runs, done where they are missing, and how fast each fitted."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import pandas as pd

from interp_compose.runs.files import read_json
from interp_compose._public import public
from interp_compose.checks import is_whole
from interp_compose.errors import OptionError
from interp_compose.studies.anchors.grid import check_seeds, checked, numbers
from interp_compose.studies.anchors.run import PhaseRun
from interp_compose.studies.anchors.grid__complexity_sweep import Where, trained
from interp_compose.studies.fitting_speed.measure__speed_epochs import GRID, tables_of
from interp_compose.studies.fitting_speed.result import PAIRS, RUNS, SAMPLES, FittingSpeed
from interp_compose.studies.fitting_speed.measure__speed_run import HISTORY
from interp_compose.runs.result import gathered_versions
from interp_compose.tasks.anchors import VIOLATIONS
from interp_compose.runs.folder import versions_of

WORK: Final = "interp_compose.studies.fitting_speed.measure__speed_run:train"
MOST_LAYERS: Final = 1000


@public
def fitting_speed(
    init_rates: Sequence[float],
    depths: Sequence[int],
    violations: Sequence[int],
    out: str | os.PathLike[str],
    *,
    seeds: int = 3,
    first_seed: int = 0,
    evaluate_every: int | None = None,
    run: PhaseRun | None = None,
    where: Where = "workers",
    workers: int | None = None,
    slurm: Mapping[str, Any] | None = None,
    progress: bool = True,
) -> FittingSpeed:
    """Train a model for every init rate, depth, number of violating groups and seed, and count the
    epochs until its training data, all pairs of anchors, are fitted (complexity control, section
    VIII, Fig. 8).

    Each look is at all training samples; there is one before the first step. A run ends once it has
    both numbers of epochs that are measured, or with its last step. Runs that ``out``
    holds already, of this grid or another, are not done again; a call that is interrupted loses the
    runs in flight at most. With a GPU, runs of one depth are trained many at a time.

    Args:
        init_rates: γ; a larger one is a smaller initialisation.
        depths: numbers of layers.
        violations: groups of anchor pairs whose target breaks the rule, from 0 to 6.
        out: folder for the runs' histories.
        seeds: runs per cell, each with data, initialisation and order of its own.
        first_seed: the first of them.
        evaluate_every: steps between two looks; by default one epoch.
        run: everything else. Its init rate, layers, violations, seed, ``hold_out`` and
            ``evaluate_every`` are not read.
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
    base = base_of(PhaseRun() if run is None else run, evaluate_every)
    runs = runs_of(base, init_rates, depths, violations, seeds, first_seed)
    folders = trained(WORK, runs, out, where=where, workers=workers, slurm=slurm, progress=progress)
    config = {
        "study": "speed",
        **setting_of(base),
        "init_rates": sorted({each.init_rate for each in runs}),
        "depths": sorted({each.n_layers for each in runs}),
        "violations": sorted({each.violations for each in runs}),
        "seeds": sorted({each.seed for each in runs}),
    }
    return _measured(runs, folders, config)


def base_of(run: PhaseRun, evaluate_every: int | None) -> PhaseRun:
    """The run on all pairs of anchors, with a look every so many steps, or each epoch.

    Raises:
        OptionError: sizes that are not whole.
    """
    for name, size in (
        ("samples", run.samples),
        ("batch_size", run.batch_size),
        ("evaluate_every", 1 if evaluate_every is None else evaluate_every),
    ):
        if not is_whole(size) or size < 1:
            raise OptionError(f"{name}={size!r}: expected a whole number, 1 or more")
    epoch = -(-run.samples // run.batch_size)
    return replace(run, hold_out=False, evaluate_every=int(evaluate_every or epoch))


def runs_of(
    run: PhaseRun,
    init_rates: Sequence[float],
    depths: Sequence[int],
    violations: Sequence[int],
    seeds: int,
    first_seed: int,
) -> list[PhaseRun]:
    """Every run of a grid: ``run`` with another rate, depth, number of violating groups and seed
    each.

    Raises:
        OptionError: an axis that is empty, repeats, or holds what cannot be; fewer than one seed.
    """
    rates = checked(init_rates, "init_rates")
    layers = _whole_axis(depths, "depths", 1, MOST_LAYERS)
    groups = _whole_axis(violations, "violations", 0, len(VIOLATIONS))
    check_seeds(seeds, first_seed)
    return [
        replace(run, init_rate=rate, n_layers=depth, violations=number, seed=seed)
        for seed in range(first_seed, first_seed + seeds)
        for rate in rates
        for depth in layers
        for number in groups
    ]


def whole_numbers(text: str, name: str) -> list[int]:
    """Whole numbers as :func:`~.complexity_grid.numbers` reads them.

    Raises:
        OptionError: as there; a number that is not whole.
    """
    found = numbers(text, name)
    for value in found:
        if not value.is_integer():
            raise OptionError(f"{name}={text!r} holds {value:g}: expected whole numbers")
    return [int(value) for value in found]


def setting_of(run: PhaseRun) -> dict[str, Any]:
    """What the runs of a study have in common."""
    return {name: value for name, value in asdict(run).items() if name not in GRID}


def _whole_axis(values: Any, name: str, least: int, most: int) -> list[int]:
    found = checked(values, name)
    for value in found:
        if not value.is_integer() or not least <= value <= most:
            raise OptionError(
                f"{name} holds {value:g}: expected whole numbers from {least} to {most}"
            )
    return [int(value) for value in found]


def _measured(
    runs: Sequence[PhaseRun], folders: Sequence[Path], config: Mapping[str, Any]
) -> FittingSpeed:
    of_runs, of_pairs, of_samples = [], [], []
    for run, folder in zip(runs, folders, strict=True):
        row, pairs, samples = tables_of(run, read_json(folder / HISTORY)["rows"])
        of_runs.append(row)
        of_pairs += pairs
        if len(samples):
            of_samples.append(samples)
    samples = pd.concat(of_samples) if of_samples else pd.DataFrame(columns=list(SAMPLES))
    speed = FittingSpeed.from_rows(
        pd.DataFrame(of_runs).astype(RUNS),
        pd.DataFrame(of_pairs).astype(PAIRS),
        samples.astype(SAMPLES),
        config,
    )
    versions = gathered_versions({folder.name: versions_of(folder) for folder in folders})
    return replace(speed, versions=versions)
