"""``task_phases``: a grid of trainings on a task of sequences, and what came of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from interp_compose.runs.checksums import digest_of
from interp_compose.runs.folder import Plan
from interp_compose.runs.sweep import check_options
from interp_compose.studies.core.decoder_run import config_of_runs, runs_of, sizes_of
from interp_compose.studies.core.grid import numbers, result_of_grid, run_grid
from interp_compose.studies.core.keywords import keywords
from interp_compose.studies.core.options import GridOptions
from interp_compose.studies.core.sequence_data import SequenceData, check_measured, keep, plain
from interp_compose.studies.core.settings import AXES, KEY
from interp_compose.studies.task_phases.options import TaskPhasesCommand, TaskTraining
from interp_compose.studies.task_phases.result import TaskPhases
from interp_compose.studies.task_phases.run import WORK, TaskRun
from interp_compose.tasks.sequences import SequenceTask, load_sequences

TRAIN: Final = "interp_compose.studies.task_phases.run:train"
"""The function that trains them."""


@dataclass(frozen=True, kw_only=True)
class TaskPhasesOptions(GridOptions):
    """What :func:`task_phases` takes by name."""

    sizes: Sequence[int] | None = None
    """Numbers of training sequences; None: all that the task has."""
    run: TaskTraining | None = None
    """Shape and training of every run."""


@keywords(TaskPhasesOptions)
def task_phases(
    task: SequenceTask,
    init_rates: Sequence[float],
    weight_decays: Sequence[float],
    out: str | os.PathLike[str],
    asked: TaskPhasesOptions,
) -> TaskPhases:
    """Train a decoder for every init rate, weight decay, size of the training set and seed, and
    measure what it gets right of each split (complexity control, section VII, Fig. 7).

    A sequence is the task's source, a separator and its target; the loss is that of the target's
    tokens, and an answer is right if every token of it is, its end included. Nothing is selected:
    the weights after the last step are measured, on every pair of every split but the training's.

    Runs that ``out`` holds already are not done again; a call that is interrupted goes on from
    their checkpoints.

    Args:
        task: from :func:`load_sequences`.
        init_rates: γ; a larger one is a smaller initialisation.
        weight_decays: of AdamW, on every parameter.
        out: folder for the runs: data, histories and weights.
        asked: every option.

    Raises:
        OptionError: a grid that is empty or repeats; a shape, a rate or a size that cannot be.
        InputError: ``out`` holds another sweep.
        ModelError: runs failed; the others are kept. Names the first and its log.
    """
    check_options(asked.where, asked.workers, asked.slurm)
    runs = _runs(task, init_rates, weight_decays, asked)
    keep(task.splits, Path(out).absolute())
    plan = Plan(WORK, [asdict(run) for run in runs], None, TRAIN)
    return result_of_grid(TaskPhases, plan, KEY, _config(task, runs), out, asked)


def _runs(
    task: SequenceTask,
    init_rates: Sequence[float],
    weight_decays: Sequence[float],
    asked: TaskPhasesOptions,
) -> list[TaskRun]:
    common = {**asdict(asked.run or TaskTraining()), "data": digest_of(plain(task.splits))}
    sizes = len(task.splits["train"]) if asked.sizes is None else asked.sizes
    runs = runs_of(TaskRun, common, init_rates, weight_decays, sizes, asked)
    check_measured(task)
    data = SequenceData.of(task.splits, one_sequence=True)
    for run in runs:
        if run.seed == runs[0].seed:
            run.check(data)
    return runs


def _config(task: SequenceTask, runs: Sequence[TaskRun]) -> dict[str, Any]:
    """What a result says of itself."""
    return config_of_runs("task_phases", task.name, task.report, runs)


def run(command: TaskPhasesCommand) -> TaskPhases:
    """The command ``interp-compose phases --task …``: train what is missing, and write."""
    task = load_sequences(command.source.task, data_dir=command.source.data_dir)
    rates = numbers(command.gammas, "gammas")
    decays = numbers(command.weight_decays, "weight_decays")
    sizes = sizes_of(command.sizes)
    given: Mapping[str, Any] = {**vars(command.grid), "sizes": sizes, "run": command.run}
    asked = TaskPhasesOptions(**given)
    return run_grid(
        command.output,
        TaskPhases,
        _config(task, _runs(task, rates, decays, asked)),
        list(AXES),
        lambda bar: task_phases(
            task, rates, decays, command.output.out, **{**given, "progress": bar}
        ),
    )
