"""``task_phases``: a grid of trainings on a task of sequences, and what came of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from interp_compose.errors import OptionError
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.models.memory import weights_digest
from interp_compose.papers.complexity.grid.decoder_run import config_of_runs, runs_of, sizes_of
from interp_compose.papers.complexity.grid.settings import AXES, KEY
from interp_compose.papers.complexity.grid.together import plan_of, step_bytes
from interp_compose.papers.complexity.models.small_decoder import SmallDecoderModel
from interp_compose.papers.complexity.studies.task_phases.options import (
    GAMMAS,
    TaskPhasesCommand,
    TaskTraining,
)
from interp_compose.papers.complexity.studies.task_phases.result import TaskPhases
from interp_compose.papers.complexity.studies.task_phases.run import WORK, TaskRun
from interp_compose.papers.complexity.studies.task_phases.start import shape_of, start_of
from interp_compose.papers.shared.grid.grid import numbers, result_of_grid, run_grid
from interp_compose.papers.shared.grid.sequence_data import (
    SequenceData,
    check_measured,
    keep,
    plain,
)
from interp_compose.papers.shared.grid.start import check_shape_left_out, keep_start
from interp_compose.papers.works import WORKS
from interp_compose.runs.checksums import digest_of
from interp_compose.runs.sweep import check_options
from interp_compose.studies.core.keywords import keywords
from interp_compose.studies.core.options import GridOptions
from interp_compose.tasks.sequences import SequenceTask, load_sequences

MODULE: Final = WORKS[WORK]
"""Where the functions are that train them."""


@dataclass(frozen=True, kw_only=True)
class TaskPhasesOptions(GridOptions):
    """What :func:`task_phases` takes by name."""

    sizes: Sequence[int] | None = None
    """Numbers of training sequences; None: all that the task has."""
    run: TaskTraining | None = None
    """Shape and training of every run."""
    model: LensModel | None = None
    """A GPT-2 of :func:`load_model` to fine-tune instead of training from scratch; its shape is the
    runs', and ``init_rates`` is then empty."""


@keywords(TaskPhasesOptions)
def task_phases(
    task: SequenceTask,
    init_rates: Sequence[float],
    weight_decays: Sequence[float],
    out: str | os.PathLike[str],
    options: TaskPhasesOptions,
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
        init_rates: γ; a larger one is a smaller initialisation. Empty with ``model``.
        weight_decays: of AdamW, on every parameter.
        out: folder for the runs: data, histories and weights.
        options: every option.

    Raises:
        OptionError: a grid that is empty or repeats; a shape, a rate or a size that cannot be;
            init rates of a model that is given.
        CapabilityError: the model that is given is no GPT-2.
        InputError: ``out`` holds another sweep.
        ModelError: runs failed; the others are kept. Names the first and its log.
    """
    check_options(options.where, options.workers, options.slurm)
    check_measured(task)
    start = _start(task, init_rates, options)
    runs = _runs(task, init_rates, weight_decays, options, start)
    keep(task.splits, Path(out).absolute())
    if start is not None:
        keep_start(start, Path(out).absolute())

    def bytes_of_each() -> int:
        shape = runs[0].model_config(SequenceData.of(task.splits, one_sequence=True))
        return step_bytes(shape, runs[0].batch_tokens, shape.n_ctx, runs[0].batch_tokens)

    plan = plan_of(WORK, MODULE, runs, options, bytes_of_each)
    return result_of_grid(TaskPhases, plan, KEY, _config(task, runs, start), out, options)


def _runs(
    task: SequenceTask,
    init_rates: Sequence[float],
    weight_decays: Sequence[float],
    options: TaskPhasesOptions,
    start: SmallDecoderModel | None,
) -> list[TaskRun]:
    common = {**asdict(options.run or TaskTraining()), "data": digest_of(plain(task.splits))}
    if start is not None:
        common |= {**shape_of(start.lens.cfg), "start": weights_digest(start)}
    sizes = len(task.splits["train"]) if options.sizes is None else options.sizes
    rates = None if start is not None else init_rates
    runs = runs_of(TaskRun, common, rates, weight_decays, sizes, options)
    data = SequenceData.of(task.splits, one_sequence=True)
    for run in runs:
        if run.seed == runs[0].seed:
            run.check(data)
    return runs


def _start(
    task: SequenceTask, init_rates: Sequence[float], options: TaskPhasesOptions
) -> SmallDecoderModel | None:
    """The given model on the task's words."""
    if options.model is None:
        return None
    if init_rates:
        raise OptionError(
            f"init_rates={list(init_rates)!r} with the model {options.model.name!r}, which has its "
            "weights already: leave them out (init_rates=(); no --gammas)"
        )
    start = start_of(options.model, SequenceData.of(task.splits, one_sequence=True))
    default = TaskTraining()
    check_shape_left_out(options.model, shape_of(start.lens.cfg), options.run or default, default)
    return start


def _config(
    task: SequenceTask, runs: Sequence[TaskRun], start: SmallDecoderModel | None
) -> dict[str, Any]:
    """What a result says of itself."""
    config = config_of_runs("task_phases", task.name, task.report, runs)
    return config if start is None else {**config, "model": start.name}


def run(command: TaskPhasesCommand) -> TaskPhases:
    """The command ``interp-compose phases --task …``: train what is missing, and write."""
    task = load_sequences(command.source.task, data_dir=command.source.data_dir)
    rates = [] if command.model is not None else numbers(GAMMAS, "gammas")
    if command.gammas is not None:
        rates = numbers(command.gammas, "gammas")
    decays = numbers(command.weight_decays, "weight_decays")
    sizes = sizes_of(command.sizes)
    model = None if command.model is None else load_model(command.model)
    values: Mapping[str, Any] = {
        **vars(command.grid),
        "sizes": sizes,
        "run": command.run,
        "model": model,
    }
    options = TaskPhasesOptions(**values)
    check_measured(task)
    start = _start(task, rates, options)
    return run_grid(
        command.output,
        TaskPhases,
        _config(task, _runs(task, rates, decays, options, start), start),
        list(AXES),
        lambda bar: task_phases(
            task, rates, decays, command.output.out, **{**values, "progress": bar}
        ),
    )
