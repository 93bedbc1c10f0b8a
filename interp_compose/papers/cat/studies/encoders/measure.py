"""``encoders``: encoders that another command pre-trained, judged on texts and pairs of texts."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any, Final

from interp_compose._versions import gathered_versions
from interp_compose.checks import check_names, drawn, is_whole, sample_note
from interp_compose.errors import InputError, OptionError
from interp_compose.models.own_folder import WEIGHTS
from interp_compose.papers.cat.studies.encoders.cosines import FEWEST, are_apart
from interp_compose.papers.cat.studies.encoders.data import (
    classes_of,
    keep,
    labelled_value,
    pairs_value,
    spans_value,
)
from interp_compose.papers.cat.studies.encoders.options import EncodersCommand, EncodersOptions
from interp_compose.papers.cat.studies.encoders.result import (
    EMBEDDINGS,
    OUTPUTS,
    SCORES,
    TUNED,
    WORDS,
    EncoderScores,
)
from interp_compose.papers.cat.studies.encoders.run import WORK as JUDGED, JudgedRun, note_source
from interp_compose.papers.cat.studies.encoders.tuned import nested
from interp_compose.papers.cat.studies.pretrain.finished import FinishedEncoder, finished_encoders
from interp_compose.papers.cat.studies.pretrain.measure import PLACE, PretrainingRun
from interp_compose.papers.cat.tasks.labelled import LabelledTask, check_told_apart
from interp_compose.papers.cat.tasks.load_labelled import load_labelled
from interp_compose.papers.cat.tasks.squad import SpanTask, load_squad
from interp_compose.papers.shared.grid.finished import left_out
from interp_compose.papers.shared.grid.sequence_run import MODEL
from interp_compose.papers.works import WORKS
from interp_compose.runs.files import make_folder, read_json
from interp_compose.runs.folder import DONE, DONE_KEYS, SweepPlan, versions_of
from interp_compose.runs.sweep import check_options
from interp_compose.studies.core.grid import RESULT, run_grid, swept
from interp_compose.studies.core.keywords import keywords
from interp_compose.tasks.load import load_pairs
from interp_compose.tasks.pairs import PairTask
from interp_compose.tasks.table import names_of

JUDGE: Final = WORKS[JUDGED]
"""The function that judges one."""
AXES: Final = ("models", "seeds", "tasks", "outputs", "embeddings", "tuned", "shares")
"""What a later call may have more of."""
DEFAULTS: Final = {"frozen": (20, 1e-3), "end-to-end": (4, 1e-4)}
"""Epochs and peak learning rate."""
Tasks = Mapping[str, PairTask | LabelledTask | SpanTask]
SQUAD: Final = "squad"
Opened = Sequence[FinishedEncoder]


@keywords(EncodersOptions)
def encoders(
    runs: str | os.PathLike[str],
    tasks: Mapping[str, PairTask | LabelledTask | SpanTask],
    out: str | os.PathLike[str],
    options: EncodersOptions,
) -> EncoderScores:
    """Judge encoders that :func:`pretrain` trained, all seeds of them, on texts and pairs of texts.

    Of pairs with scores, such as BiRD's phrases: Pearson's and Spearman's correlation of the scores
    with the cosines of the two texts' vectors, over all pairs, those of each subset, and those that
    mirror each other ("water body", "body water"). Of pairs with labels, such as PAWS': the area
    under the ROC curve of these cosines.

    Of labelled texts with a training split, the metrics of a classifier of the vector of a text, or
    of a pair, whose texts are read at once: an MLP of one hidden layer, as wide as the vector, on
    the frozen encoder (CAT, section 5.1), or trained with it end to end (CAT, appendix C.3). A
    validation split chooses among epochs; without one, the weights after the last are measured.
    Encoders that are tuned end to end are judged again on pairs without a training split.

    Of questions whose answers are spans of a text, SQuAD's, exact match and F1 by SQuAD's own
    evaluation: an MLP of each word's vector says where the answer begins and ends. Those with
    adversarial sentences are measured by each question's worst variant.

    Runs that ``out`` holds already are not done again; a call that is interrupted goes on from
    their checkpoints.

    Args:
        runs: the folder that they were trained in.
        tasks: from :func:`load_pairs`, :func:`load_labelled` and :func:`load_squad`, by name.
        out: folder for the runs: tasks, and what each measured.
        options: every option.

    Raises:
        OptionError: no task; a model, an output, an embedding or a way of tuning that is unknown or
            named twice; a share outside (0, 1] or named twice; a number that cannot be.
        MissingDataError: no finished runs there, or none of a model or of one of its seeds.
        InputError: a folder holds something else; pairs that are fewer than three, or all judged
            alike; training texts, or a share of them, of one class.
        CorruptFileError: a run was altered after it was done.
        ModelError: runs failed; the others are kept. Names the first and its log.
    """
    _check(tasks, options)
    opened = _opened(runs, options)
    labelled = _labelled(tasks, options)
    _check_shares(opened, labelled, options.shares)
    out = make_folder(Path(out).absolute())
    planned = _planned(opened, labelled, tasks, out, options)
    note_source(Path(runs), out)
    folders = swept(SweepPlan(JUDGED, [asdict(run) for run in planned], None, JUDGE), out, options)
    rows = [row for folder in folders for row in read_json(folder / RESULT)["scores"]]
    trained = {each.folder.name: versions_of(each.folder) for each in opened}
    judged = {folder.name: versions_of(folder) for folder in folders}
    return EncoderScores(
        config=_config(opened, tasks, options),
        frames={SCORES.name: SCORES.of(rows)},
        versions=gathered_versions({**judged, **trained}),
    )


def _config(opened: Opened, tasks: Tasks, options: EncodersOptions) -> dict[str, Any]:
    """What a result says of itself."""
    return {
        "study": "encoders",
        **{name: one for name, one in asdict(opened[0].run).items() if name not in PLACE},
        "models": list(dict.fromkeys(each.run.model for each in opened)),
        "seeds": sorted({each.run.seed for each in opened}),
        "tasks": {name: dict(task.report) for name, task in tasks.items()},
        "outputs": list(options.outputs),
        "embeddings": list(options.embeddings),
        "tuned": list(options.tuned),
        "shares": list(options.shares),
        "tuning": {way: _numbers(way, options) for way in DEFAULTS},
        "limit": options.limit,
        "sample": sample_note(options.limit),
        **({} if options.models else left_out(opened)),
    }


def _numbers(way: str, options: EncodersOptions) -> dict[str, Any]:
    """How classifiers are trained, by default or as asked."""
    epochs, lr = DEFAULTS[way]
    return {
        "epochs": epochs if options.epochs is None else options.epochs,
        "lr": lr if options.lr is None else options.lr,
        "batch_size": options.batch_size,
    }


def _planned(
    opened: Opened,
    classes: Mapping[str, LabelledTask],
    tasks: Tasks,
    out: Path,
    options: EncodersOptions,
) -> list[JudgedRun]:
    """The runs, whose tasks are written where they are missing. What one reading of the texts
    serves is one run: all outputs and embeddings of an encoder that stays as it is."""
    pairs = {
        name: keep(pairs_value(task, options.limit), out)
        for name, task in tasks.items()
        if isinstance(task, PairTask)
    }
    labelled = {name: keep(labelled_value(task), out) for name, task in classes.items()}
    again = {name: digest for name, digest in pairs.items() if name not in labelled}
    spans = {
        name: keep(spans_value(task.limited(options.limit)), out)
        for name, task in tasks.items()
        if isinstance(task, SpanTask)
    }
    planned: list[JudgedRun] = []
    for run, folder in ((each.run, each.folder) for each in opened):
        files = read_json(folder / DONE, DONE_KEYS)["files"]
        one: dict[str, Any] = {
            "encoder": folder.name,
            "weights": files[f"{MODEL}/{WEIGHTS}"],
            "model": run.model,
            "seed": run.seed,
        }
        full: dict[str, Any] = {
            "outputs": _outputs_of(run, options),
            "embeddings": list(options.embeddings),
        }
        each = [
            {"outputs": [output], "embeddings": [embedding], "pairs": again}
            for output, embedding in product(*full.values())
        ]
        words: dict[str, Any] = {**full, "embeddings": [WORDS]}
        each_words = [{**words, "outputs": [output]} for output in words["outputs"]]
        for name in tasks:
            if name in pairs:
                setup: dict[str, Any] = {"task": name, "data": pairs[name], "tuned": "no"}
                planned.append(JudgedRun(**one, **setup, **full))
            trained = {**labelled, **spans}
            for way, share in product(options.tuned if name in trained else (), options.shares):
                setup = {"task": name, "data": trained[name], "tuned": way, "share": float(share)}
                setup |= _numbers(way, options)
                at_once, parts = (words, each_words) if name in spans else (full, each)
                readings: list[dict[str, Any]] = [at_once] if way == "frozen" else parts
                planned += [JudgedRun(**one, **setup, **reading) for reading in readings]
    return planned


def _labelled(tasks: Tasks, options: EncodersOptions) -> dict[str, LabelledTask]:
    """What classifiers are trained on."""
    labelled: dict[str, LabelledTask] = {}
    for name, task in tasks.items():
        if isinstance(task, LabelledTask):
            labelled[name] = task
        elif isinstance(task, PairTask) and task.train and task.train[0].label is not None:
            labelled[name] = classes_of(name, task)
    return {name: task.limited(options.limit) for name, task in labelled.items()}


def _opened(runs: str | os.PathLike[str], options: EncodersOptions) -> list[FinishedEncoder]:
    """The runs, model by model; each has an output that is asked for."""
    opened = finished_encoders(runs, options.models)
    for each in opened:
        if not _outputs_of(each.run, options):
            raise OptionError(
                f"outputs={list(options.outputs)!r}: the model {each.run.model!r} composes nothing "
                "and has 'cont' alone; ask for that too, or leave the model out (models)"
            )
    return opened


def _outputs_of(run: PretrainingRun, options: EncodersOptions) -> list[str]:
    return [one for one in options.outputs if run.composes or one == "cont"]


def _check(tasks: Tasks, options: EncodersOptions) -> None:
    check_options(options.where, options.workers, options.slurm)
    check_names("outputs", options.outputs, OUTPUTS)
    check_names("embeddings", options.embeddings, EMBEDDINGS)
    check_names("tuned", options.tuned, TUNED[1:])
    for name in ("limit", "epochs", "batch_size"):
        value = getattr(options, name)
        if value is not None and (not is_whole(value) or value < 1):
            raise OptionError(f"{name}={value!r}: expected a whole number, 1 or more")
    if options.lr is not None and not (math.isfinite(options.lr) and options.lr > 0):
        raise OptionError(f"lr={options.lr!r}: expected a finite number above 0")
    shares = list(options.shares)
    if not shares or len({*shares}) < len(shares) or not all(0 < one <= 1 for one in shares):
        raise OptionError(
            f"shares={shares!r}: expected one or more numbers above 0 and up to 1, each once"
        )
    if not tasks:
        raise OptionError("tasks is empty: expected at least one, such as load_pairs('bird')")
    for name, task in tasks.items():
        pairs = drawn(task.test, options.limit) if isinstance(task, PairTask) else ()
        if isinstance(task, PairTask) and not are_apart(pairs):
            raise InputError(
                f"the task {name!r} has {len(pairs)} test pairs whose scores or "
                f"labels are not several: expected {FEWEST} pairs or more, not all judged alike "
                "(take more of them: limit)"
            )


def _check_shares(
    opened: Opened, labelled: Mapping[str, LabelledTask], shares: Sequence[float]
) -> None:
    """That each share of the training texts has several classes."""
    for name, task in labelled.items():
        train = task.split("train")
        for seed in sorted({each.run.seed for each in opened}):
            chosen = nested(len(train), min(shares), seed)
            which = f"{name} (share {min(shares):g}, seed {seed})"
            check_told_apart([train[i] for i in chosen], which)


def tasks_of(text: str) -> dict[str, PairTask | LabelledTask | SpanTask]:
    """``"bird=FOLDER,sst=FOLDER,mine=FILE"``, loaded.

    Raises:
        OptionError: no NAME=PLACE, or a name twice; and as :func:`load_pairs`,
            :func:`load_labelled` and :func:`load_squad`.
    """
    tasks: dict[str, PairTask | LabelledTask | SpanTask] = {}
    for part in text.split(","):
        name, equals, place = part.partition("=")
        if not (name and equals and place) or name in tasks:
            raise OptionError(
                f"tasks={text!r}: {part!r}: expected NAME=FOLDER (bird, paws-qqp, {SQUAD}, "
                f"{', '.join(names_of('labelled'))}) or NAME=FILE, by commas, each name once"
            )
        if name == SQUAD:
            tasks[name] = load_squad(place)
        elif name in names_of("labelled"):
            labelled = load_labelled(name, data_dir=place)
            tasks[labelled.name] = labelled
        elif Path(place).suffix in (".tsv", ".jsonl"):
            tasks[name] = load_pairs(place)
        else:
            pairs = load_pairs(name, data_dir=place)
            tasks[pairs.name] = pairs
    return tasks


def _shares_of(text: str) -> list[float]:
    try:
        return [float(one) for one in text.split(",")]
    except ValueError as error:
        raise OptionError(
            f"shares={text!r}: expected numbers, by commas, such as 0.1,0.5"
        ) from error


def run(command: EncodersCommand) -> EncoderScores:
    """The command ``interp-compose encoders``: results (Parquet, CSV), figures as HTML and PNG.

    Raises:
        InputError: ``out`` is ``runs``, or holds another study's result and ``overwrite`` is off.
    """
    output = command.output
    if output.out.resolve() == command.runs.resolve():
        raise InputError(
            f"--out and --runs are both {output.out}; choose another --out, so that the tables of "
            "the training stay"
        )
    options = replace(
        command.study,
        models=None if command.models is None else command.models.split(","),
        outputs=command.outputs.split(","),
        embeddings=command.embeddings.split(","),
        tuned=command.tuned.split(","),
        shares=_shares_of(command.shares),
    )
    tasks = tasks_of(command.tasks)
    _check(tasks, options)
    opened = _opened(command.runs, options)
    _check_shares(opened, _labelled(tasks, options), options.shares)
    config = _config(opened, tasks, options)
    return run_grid(
        output,
        EncoderScores,
        config,
        AXES,
        lambda bar: encoders(
            command.runs, tasks, output.out, **vars(replace(options, progress=bar))
        ),
    )
