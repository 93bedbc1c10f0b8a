"""``generalise``: a sweep of trainings, done where they are missing, and what came of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from interp_compose.checks import check_limit, drawn, sample_note
from interp_compose.errors import OptionError
from interp_compose.papers.lrf.models.seq2seq import Seq2SeqConfig
from interp_compose.papers.lrf.studies.generalise.options import (
    GeneraliseCommand,
    SeedOptions,
    SequenceTraining,
)
from interp_compose.papers.lrf.studies.generalise.result import Generalisation
from interp_compose.papers.lrf.studies.generalise.run import PLACE, WORK, SequenceRun
from interp_compose.papers.shared.grid.sequence_data import (
    SequenceData,
    check_measured,
    keep,
    plain,
)
from interp_compose.papers.works import WORKS
from interp_compose.runs.checksums import digest_of
from interp_compose.runs.folder import SweepPlan
from interp_compose.runs.sweep import check_options
from interp_compose.studies.core.grid import result_of_grid, run_grid, seeds_of
from interp_compose.studies.core.keywords import keywords
from interp_compose.tasks.sequences import SequenceTask, load_sequences, report_of

TRAIN: Final = WORKS[WORK]
"""The function that trains them."""
AXES: Final = ("models", "seeds")


@dataclass(frozen=True, kw_only=True)
class GeneraliseOptions(SeedOptions):
    """What :func:`generalise` takes by name."""

    run: SequenceTraining | None = None
    """Shape and training of every run."""


@keywords(GeneraliseOptions)
def generalise(
    task: SequenceTask,
    models: Sequence[str],
    out: str | os.PathLike[str],
    options: GeneraliseOptions,
) -> Generalisation:
    """Train encoder–decoders on a compositional task, and compare what they get right.

    All models of a seed see the same batches and begin with the same weights where they have the
    same. Nothing is selected: the weights after the last step are measured, on every pair of every
    split but the training's. A sequence is right if all of it is, its end included.

    Runs that ``out`` holds already are not done again; a call that is interrupted goes on from
    their checkpoints.

    Args:
        task: from :func:`load_sequences`.
        models: "transformer", "lrf" (fuse-attention in both stacks; LRF), "lrf-encoder",
            "lrf-decoder", and as controls "parameters" (the same parameters in a second
            self-attention), "previous" (fuse-attention that sees the layer before alone) and
            "deeper" (a layer more in each stack); each also with its positions, such as
            "transformer-relative". Others are compared with the first.
        out: folder for the runs: data, histories and weights.
        options: every option.

    Raises:
        OptionError: no model, one that is unknown or named twice; a shape that cannot be; workers
            or SLURM's options that do not go with ``where``.
        InputError: ``out`` holds another sweep.
        ModelError: runs failed; the others are kept. Names the first and its log.
    """
    check_options(options.where, options.workers, options.slurm)
    runs = _runs(task, models, options)
    keep(task.splits, Path(out).absolute())
    plan = SweepPlan(WORK, [asdict(run) for run in runs], None, TRAIN)
    return result_of_grid(Generalisation, plan, PLACE, _config(task, runs), out, options)


def _runs(
    task: SequenceTask, models: Sequence[str], options: GeneraliseOptions
) -> list[SequenceRun]:
    if not models:
        raise OptionError("models is empty: expected at least one, such as 'transformer'")
    for model in models:
        if models.count(model) > 1:
            raise OptionError(f"models name {model!r} more than once; each run is done once")
    digest = digest_of(plain(task.splits))
    shape = asdict(options.run or SequenceTraining())
    runs = [
        SequenceRun(**shape, data=digest, model=model, seed=seed)
        for seed in seeds_of(options)
        for model in models
    ]
    check_measured(task)
    data = SequenceData.of(task.splits, one_vocabulary=runs[0].one_vocabulary)
    known: dict[Seq2SeqConfig, str] = {}
    for run in runs[: len(models)]:
        run.train_config([len(pair) for pair in data.splits["train"]])
        config = run.model_config(data)
        if config.fuse == "previous" and config.n_encoder_layers == config.n_decoder_layers == 1:
            config = replace(config, fuse="both")  # there is one layer before
        if config in known:
            raise OptionError(
                f"models name {known[config]!r} and {run.model!r}, which are the same model with "
                "these options; leave one of them out"
            )
        known[config] = run.model
    return runs


def _config(task: SequenceTask, runs: Sequence[SequenceRun]) -> dict[str, Any]:
    """What a result says of itself."""
    shape = {name: value for name, value in asdict(runs[0]).items() if name not in PLACE}
    return {
        "study": "generalise",
        "task": task.name,
        "data_report": dict(task.report),
        **shape,
        "models": list(dict.fromkeys(run.model for run in runs)),
        "seeds": sorted({run.seed for run in runs}),
    }


def run(command: GeneraliseCommand) -> Generalisation:
    """The command ``interp-compose generalise``: train what is missing, and write."""
    source, models = command.source, command.models.split(",")
    check_limit(source.limit)
    task = limited(load_sequences(source.task, data_dir=source.data_dir), source.limit)
    options = GeneraliseOptions(**vars(command.seeds) | {"run": command.run})
    return run_grid(
        command.output,
        Generalisation,
        _config(task, _runs(task, models, options)),
        AXES,
        lambda bar: generalise(
            task, models, command.output.out, **vars(replace(options, progress=bar))
        ),
    )


def limited(task: SequenceTask, limit: int | None) -> SequenceTask:
    """The task with so many pairs of each split at most, always the same ones."""
    if limit is None:
        return task
    splits = {name: drawn(pairs, limit) for name, pairs in task.splits.items()}
    report = report_of(str(task.report["source"]), splits, overlap=True)
    return SequenceTask(f"{task.name}{sample_note(limit)}", splits, report)
