"""``compare``: the model as it is, fine-tuned, and fine-tuned with CARMA, over several seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from interp_compose.checks import check_limit
from interp_compose.errors import CorruptFileError, InputError, MissingDataError, OptionError
from interp_compose.models.lens_model import LensModel
from interp_compose.papers.carma.inputs import write_inputs
from interp_compose.papers.carma.options import CarmaCommand
from interp_compose.papers.carma.plan import (
    CompareOptions,
    ComparePlan,
    carma_of,
    check_depth,
    limited,
    plan_comparison,
    training_of,
)
from interp_compose.papers.carma.result import Comparison
from interp_compose.papers.carma.run import (
    TRAIN,
    WORK,
    VersionRun,
    inputs_of,
    run_configs,
    run_name,
    run_version,
)
from interp_compose.papers.carma.synonyms.load import synonym_source
from interp_compose.papers.carma.tables import TABLES, checked_tables
from interp_compose.runs.files import locked, plain_json
from interp_compose.runs.folder import SweepPlan, hashed
from interp_compose.runs.sweep import check_options
from interp_compose.studies.core.command import loaded
from interp_compose.studies.core.grid import Grid
from interp_compose.studies.core.keywords import keywords
from interp_compose.studies.core.options import Execution
from interp_compose.studies.core.output import held_folder, write_result
from interp_compose.tasks.load import check_task, load_task
from interp_compose.tasks.task import Task
from interp_compose.training.history import Tracker


@keywords(CompareOptions)
def compare(model: LensModel, task: Task, options: CompareOptions) -> Comparison:
    """What CARMA changes beside plain fine-tuning (sections 4 and 5).

    Per seed, fine-tuning and CARMA start from the same weights and see the same batches; both, and
    the model as it is, are measured on the test split: accuracy, word-level CAP curves for mean,
    max and sum pooling, and consistency under synonyms, which are drawn anew for each seed and
    are the same for all versions.

    Args:
        model: from :func:`load_model`, in evaluation mode; it stays as it is.
        task: from :func:`load_task`, with train, validation and test examples.
        options: every option.

    Raises:
        InputError: before any work, with the value and the remedy: several processes
            (``WORLD_SIZE``) and a folder with another sweep among them.
        CapabilityError: an encoder, or weights in half precision; a model that another process
            cannot build again from its configuration and weights.
        InterventionError: CARMA, pooling or replacing would do nothing, or interventions are open
            on the model.
        MissingDataError, MissingPackageError: the synonyms are not there.
        NonFiniteError: a training broke; names version, seed, step and term. Other runs are kept.
        ModelError: a run failed otherwise; names the first and its folder.
    """
    check_options(options.where, options.workers, options.slurm)
    if options.folder is None and options.where != "here":
        raise OptionError(
            f"where={options.where!r} without a folder: other processes read and write their runs "
            "there; give folder=…, or choose where='here'"
        )
    if options.watch is not None and options.where != "here":
        raise OptionError(
            f"watch is a function of this process, and where={options.where!r}: other processes do "
            "not have it; choose where='here', or leave watch out"
        )
    plan = plan_comparison(model, task, options, partial(synonym_source, task=task.name))
    return carry_out(plan, options.folder, options, watch=options.watch)


def carry_out(
    plan: ComparePlan,
    folder: str | Path | None,
    execution: Execution,
    *,
    watch: Callable[[str], Tracker] | None = None,
) -> Comparison:
    """Every run of a plan, and the comparison of them.

    Raises:
        InputError: ``folder`` holds another sweep.
        ModelError: runs failed; the others are kept.
        OutputError: the folder cannot be written to, or another process is writing there.
    """
    elsewhere, configs = execution.where != "here", run_configs(plan)
    numbers = {hashed(config): f"{n}/{len(configs)}" for n, config in enumerate(configs, start=1)}

    def run_here(config: Mapping[str, Any], place: Path | None) -> VersionRun:
        label = numbers[hashed(config)]
        return run_version(
            plan, config, place, label=label, progress=execution.progress, watch=watch
        )

    def tables_of(runs: Sequence[VersionRun]) -> dict[str, pd.DataFrame]:
        frames = {
            table: pd.concat([run.frames[table] for run in runs if table in run.frames])
            for table in TABLES
            if table not in plan.drawn
        }
        return checked_tables({**frames, **plan.drawn})

    if folder is None:
        runs = [run_here(config, None) for config in configs]
        return Comparison.from_runs(tables_of(runs), plan.config)
    grid = Grid(
        result=Comparison,
        plan=SweepPlan(WORK, configs, function=TRAIN),
        place=("version", "seeds"),
        config=plan.config,
        axes=("versions", "seeds"),
        keep=lambda out: write_inputs(plan, inputs_of(configs[0], out)) if elsewhere else None,
        tables=lambda _, __, folders: tables_of([VersionRun.load(one) for one in folders]),
        here=run_here,
        name=lambda config, folder: run_name(config),
    )
    with locked(folder):
        # A bar of the sweep around the runs' own bars would garble them
        return grid.train(folder, replace(execution, progress=execution.progress and elsewhere))


def finished(folder: Path, plan: ComparePlan) -> Comparison | None:
    """The comparison that ``folder`` holds, if it is this plan's, and none of its runs that are
    still there is damaged."""
    try:
        comparison = Comparison.load(folder)
    except (MissingDataError, CorruptFileError, InputError):
        return None
    if comparison.config != plain_json(plan.config, "config"):
        return None
    runs = SweepPlan(WORK, run_configs(plan)).runs(folder)
    return None if any(run.is_done and run.damage() for run in runs) else comparison


def run(command: CarmaCommand) -> Comparison:
    """The command ``interp-compose carma``: ``report.html``, tables, figures, and ``runs/``.

    An interrupted comparison goes on when it is started again with the same options; one that is
    finished is read from ``out``, and only its figures and report are made anew. With more seeds
    and ``overwrite``, the runs that are there are not trained again.

    Raises:
        InputError: ``out`` holds another run's result or runs, and ``overwrite`` is off.
        InputError, ModelError, MissingDataError: before work starts; nothing is written.
    """
    output, source, settings = command.output, command.task, command.study
    check_options(command.execution.where, command.execution.workers, None)
    carma = carma_of(command)
    check_limit(source.limit)
    check_task(source.task, source.data_dir)
    model = loaded(command.model)
    if settings.paper:
        check_depth(command.model.model, model.n_layers)
    task = load_task(source.task, model, data_dir=source.data_dir, seed=settings.seed)
    plan = plan_comparison(
        model,
        limited(task, source.limit, settings.seed),
        CompareOptions(
            seeds=settings.seeds[0] if len(settings.seeds) == 1 else settings.seeds,
            carma=carma,
            config=training_of(command, sum(weight.numel() for weight in model.parameters())),
            synonyms=settings.synonyms,
            rates=settings.rates,
            layers=settings.layers,
            answers=settings.answers,
        ),
        partial(
            synonym_source,
            task=source.task,
            data_dir=source.data_dir if source.task == "idm" else None,
            frequency=settings.frequency,
        ),
    )
    with held_folder(output.out, Comparison, plan.config, overwrite=output.overwrite):
        comparison = finished(output.out, plan) or carry_out(
            plan,
            output.out,
            replace(command.execution, progress=not output.quiet),
        )
        write_result(output.out, comparison, overwrite=output.overwrite)
    return comparison
