"""What a command does around its study: load, prepare, hold the folder, measure, write."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

from interp_compose._versions import environment_versions
from interp_compose.checks import check_limit, drawn, sample_note
from interp_compose.errors import InterpComposeError, warn
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.runs.files import plain_json, remove_if_empty
from interp_compose.studies.core.options import (
    OF_TASK,
    AnswerOptions,
    ModelSource,
    Output,
    SharedOutput,
    StartModel,
    TaskCommand,
)
from interp_compose.studies.core.output import check_folder, held_folder, write_result
from interp_compose.studies.core.result import StudyResult
from interp_compose.studies.core.shards import FOLDER, NotTheLastError, Shard
from interp_compose.studies.core.study import Prepared, measured, noting
from interp_compose.tasks.load import check_task, load_task
from interp_compose.types import Example

BATCHES: Final = "batches"
"""Where finished ones are kept, in the folder of a result."""
A = TypeVar("A", bound=AnswerOptions)
R = TypeVar("R", bound=StudyResult)


def loaded(source: StartModel) -> LensModel:
    """The model that a command names."""
    return load_model(
        source.model,
        name=source.name,
        device=source.device,
        dtype=source.dtype if isinstance(source, ModelSource) else None,
        revision=source.revision,
    )


def check_shard(output: Output) -> None:
    """Refuse what is no shard, before a model is loaded.

    Raises:
        OptionError: it is none.
    """
    if isinstance(output, SharedOutput) and output.shard is not None:
        Shard.of(output.shard)


def run_on_task(
    command: TaskCommand[A],
    prepare: Callable[[LensModel, Sequence[Example], A], Prepared[R]],
) -> R | str:
    """Load, measure, and write: results (Parquet, CSV), figures as HTML and as PNG.

    Raises:
        InputError: ``out`` holds another run's result and ``overwrite`` is off.
        InputError, ModelError, MissingDataError: before work starts; nothing is written.
    """
    source, options = command.task, command.study
    check_limit(source.limit)
    check_shard(command.output)
    check_task(source.task, source.data_dir)
    model = loaded(command.model)
    task = load_task(
        source.task,
        model,
        data_dir=source.data_dir,
        seed=options.seed,
        multi_token_answers=options.multi_token_answers,
    )
    split = task.split(source.split)
    examples = drawn(split, source.limit, options.seed)
    sample = sample_note(source.limit, options.seed, n=len(split))
    answers = task.answer_set("labels") if tuple(options.answers) == OF_TASK else options.answers
    options = replace(options, answers=answers, task=f"{task.name} ({source.split}{sample})")
    prepared = noting(prepare(model, examples, options), filtered=task.filtered(source.split))
    return carried_out(prepared, command.output)


def carried_out(prepared: Prepared[R], output: Output) -> R | str:
    """Measure, and write into the output's folder. Of a shard but the last: what is missing.

    An interrupted run resumes, batch by batch, when it is started again with the same options,
    and ends in the same result. One that had ended, with packages of the same versions, is read
    from the folder.

    Raises:
        InputError: as :func:`.output.check_folder`, and where shards are of another run.
        OptionError: a shard that cannot be.
    """
    out, overwrite = output.out, output.overwrite

    def keep(result: R) -> None:
        write_result(out, result, overwrite=overwrite)

    if isinstance(output, SharedOutput) and output.shard is not None:
        shard = Shard.of(output.shard)
        shard.check(len(prepared.batches))
        check_folder(out, prepared.kind, prepared.config, overwrite=overwrite)
        earlier = None if overwrite else finished(out, prepared)
        try:
            return earlier or measured(
                prepared,
                progress=not output.quiet,
                resume=shard.folder(out),
                start_afresh=overwrite,
                keep=keep,
                shard=shard,
            )
        except NotTheLastError as missing:
            return str(missing)
        finally:
            remove_if_empty(out / FOLDER)
    with held_folder(out, prepared.kind, prepared.config, overwrite=overwrite):
        earlier = None if overwrite else finished(out, prepared)
        if earlier is not None:
            if not output.quiet:
                print(f"{out} holds this result; --overwrite measures it again", file=sys.stderr)
            write_result(out, earlier, overwrite=False)
            return earlier
        if (out / FOLDER).is_dir():
            warn(f"{out / FOLDER}: a run without --shard does not use the batches of shards")
        return measured(
            prepared,
            progress=not output.quiet,
            resume=out / BATCHES,
            start_afresh=overwrite,
            keep=keep,
        )


def finished(out: Path, prepared: Prepared[R]) -> R | None:
    """The result of this very run, where the folder holds it whole."""
    try:
        earlier = prepared.kind.load(out)
    except InterpComposeError:
        return None
    same = earlier.config == plain_json(prepared.config, "config")
    return earlier if same and earlier.versions == environment_versions() else None
