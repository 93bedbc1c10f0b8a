"""``encoders``: encoders that another command pre-trained, judged on pairs of texts."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from jaxtyping import Bool, Float, Int
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tqdm.auto import tqdm

from interp_compose._versions import environment_versions, gathered_versions
from interp_compose.checks import check_names, is_whole
from interp_compose.errors import InputError, OptionError
from interp_compose.models.small_encoder import SmallEncoderModel
from interp_compose.runs.folder import versions_of
from interp_compose.stats.agreement import agreement, rounding, told_apart
from interp_compose.studies.core.keywords import keywords
from interp_compose.studies.core.output import held_folder, write_result
from interp_compose.studies.encoders.options import EncodersCommand, EncodersOptions
from interp_compose.studies.encoders.result import (
    ALL,
    EMBEDDINGS,
    MIRROR,
    OUTPUTS,
    SCORES,
    EncoderScores,
)
from interp_compose.studies.encoders.vectors import vectors
from interp_compose.studies.pretrain.finished import FinishedEncoder, finished_encoders
from interp_compose.studies.pretrain.run import PLACE, PretrainingRun
from interp_compose.tasks.load import load_pairs
from interp_compose.tasks.pairs import Pair, PairTask

FEWEST: Final = 3
"""Pairs of which a correlation exists."""
EPOCHS: Final = 50
"""Passes of a classifier over its training pairs, at most."""
Row = dict[str, Any]


@keywords(EncodersOptions)
def encoders(
    runs: str | os.PathLike[str], tasks: Mapping[str, PairTask], asked: EncodersOptions
) -> EncoderScores:
    """Judge encoders that :func:`pretrain` trained, all seeds of them, on pairs of texts.

    Of pairs with scores, such as BiRD's phrases: Pearson's and Spearman's correlation of the scores
    with the cosines of the two texts' vectors, over all pairs, those of each subset, and those that
    mirror each other ("water body", "body water"). Of pairs with labels, such as PAWS': the area
    under the ROC curve of these cosines; and where there is a training split, the accuracy of a
    classifier of the frozen encoder's vector of a pair, which reads both texts at once: an MLP of
    one hidden layer, as wide as the vector (CAT, section 5, freezes the encoder likewise), with
    its initialisation by the run's seed.

    Args:
        runs: the folder that they were trained in.
        tasks: from :func:`load_pairs`, by name.
        asked: every option.

    Raises:
        OptionError: no task; a model, an output or an embedding that is unknown or named twice; a
            number that cannot be.
        MissingDataError: no finished runs there, or none of a model or of one of its seeds.
        InputError: the folder holds something else; pairs that are fewer than three, or all judged
            alike.
        CorruptFileError: a run was altered after it was done.
    """
    _check(tasks, asked)
    opened = _opened(runs, asked)
    rows: list[Row] = []
    for each in tqdm(opened, desc="encoders", unit="run", disable=not asked.progress):
        run, model = each.run, each.model()
        for name, task in tasks.items():
            about = {**{place: getattr(run, place) for place in PLACE}, "task": name}
            own = _judged(model, task, run.seed, _outputs_of(run, asked), asked)
            rows += [{**about, **row} for row in own]
    config = _config(opened, tasks, asked)
    trained = {each.folder.name: versions_of(each.folder) for each in opened}
    return EncoderScores(
        config=config,
        frames={SCORES.name: SCORES.of(rows)},
        versions=gathered_versions({"encoders": environment_versions(), **trained}),
    )


def _config(
    opened: Sequence[FinishedEncoder],
    tasks: Mapping[str, PairTask],
    asked: EncodersOptions,
) -> dict[str, Any]:
    """What a result says of itself."""
    return {
        "study": "encoders",
        **{name: one for name, one in asdict(opened[0].run).items() if name not in PLACE},
        "models": list(dict.fromkeys(each.run.model for each in opened)),
        "seeds": sorted({each.run.seed for each in opened}),
        "tasks": {name: dict(task.report) for name, task in tasks.items()},
        "outputs": list(asked.outputs),
        "embeddings": list(asked.embeddings),
        "limit": asked.limit,
    }


def _opened(runs: str | os.PathLike[str], asked: EncodersOptions) -> list[FinishedEncoder]:
    """The runs, model by model; each has an output that is asked for."""
    opened = finished_encoders(runs, asked.models)
    for each in opened:
        if not _outputs_of(each.run, asked):
            raise OptionError(
                f"outputs={list(asked.outputs)!r}: the model {each.run.model!r} composes nothing "
                "and has 'cont' alone; ask for that too, or leave the model out (models)"
            )
    return opened


def _outputs_of(run: PretrainingRun, asked: EncodersOptions) -> list[str]:
    return [one for one in asked.outputs if run.composes or one == "cont"]


def _check(tasks: Mapping[str, PairTask], asked: EncodersOptions) -> None:
    check_names("outputs", asked.outputs, OUTPUTS)
    check_names("embeddings", asked.embeddings, EMBEDDINGS)
    if asked.limit is not None and (not is_whole(asked.limit) or asked.limit < 1):
        raise OptionError(f"limit={asked.limit!r}: expected a whole number, 1 or more, or None")
    if not tasks:
        raise OptionError("tasks is empty: expected at least one, such as load_pairs('bird')")
    for name, task in tasks.items():
        _check_pairs(name, task, asked)


def _check_pairs(name: str, task: PairTask, asked: EncodersOptions) -> None:
    """That pairs can be told apart by their scores or labels."""
    test, train = task.test[: asked.limit], task.train[: asked.limit]
    if not _are_apart(test):
        raise InputError(
            f"the task {name!r} has {len(test)} test pairs whose scores or labels are not several: "
            f"expected {FEWEST} pairs or more, not all judged alike (take more of them: limit)"
        )
    if test[0].label is not None and train and len({pair.label for pair in train}) < 2:
        raise InputError(
            f"all {len(train)} training pairs of {name!r} have the label {train[0].label}; "
            "expected both, to train a classifier (take more of them: limit)"
        )


def _are_apart(pairs: Sequence[Pair]) -> bool:
    judged = {pair.score if pair.label is None else pair.label for pair in pairs}
    return len(pairs) >= FEWEST and len(judged) > 1


def _judged(
    model: SmallEncoderModel,
    task: PairTask,
    seed: int,
    outputs: Sequence[str],
    asked: EncodersOptions,
) -> Iterator[Row]:
    """The scores of one model on one task."""
    test, train = task.test[: asked.limit], task.train[: asked.limit]
    labelled = test[0].label is not None
    target = np.array([pair.label if labelled else pair.score for pair in test], float)
    texts = [(text,) for pair in test for text in (pair.text1, pair.text2)]
    read, cut = vectors(model, texts, outputs, asked.embeddings)
    either = cut[::2] | cut[1::2]
    for place, both in read.items():
        cosines = _cosines(both)
        for subset, rows in _subsets(test).items():
            for metric in ("auc",) if labelled else ("pearson", "spearman"):
                value = _agreement(cosines[rows], target[rows], metric)
                yield _row(place, subset, metric, value, either[rows])
    if labelled and train:
        yield from _classified(model, train, test, seed, outputs, asked.embeddings)


def _row(
    place: tuple[str, str], subset: str, metric: str, value: float, cut: Bool[np.ndarray, "pair"]
) -> Row:
    named = dict(zip(("output", "embedding"), place, strict=True))
    counts = {"n": len(cut), "n_cut": int(cut.sum())}
    return {**named, "subset": subset, "metric": metric, "value": value, **counts}


def _cosines(both: Float[np.ndarray, "text d_model"]) -> Float[np.ndarray, "pair"]:
    """Of texts that follow each other, two by two."""
    lengths = np.linalg.norm(both, axis=1, keepdims=True)
    unit = both / np.maximum(lengths, np.finfo(float).tiny)
    cosines: Float[np.ndarray, "pair"] = (unit[::2] * unit[1::2]).sum(axis=1)
    return cosines


def _agreement(
    cosines: Float[np.ndarray, "pair"], target: Float[np.ndarray, "pair"], metric: str
) -> float:
    """NaN where rounding alone tells the cosines apart: all vectors are one."""
    cells = told_apart(cosines[:, None], rounding("float32"), metric)
    return float(agreement(cells, target, metric, samples=1).value[0])


def _subsets(pairs: Sequence[Pair]) -> dict[str, Int[np.ndarray, "_"]]:
    """All pairs, and named subsets and (of scores) mirror pairs that can be told apart."""
    found = {ALL: np.arange(len(pairs))}
    for name in dict.fromkeys(pair.subset for pair in pairs if pair.subset):
        found[name] = np.flatnonzero([pair.subset == name for pair in pairs])
    found[MIRROR] = np.flatnonzero([pair.is_mirror and pair.label is None for pair in pairs])
    return {name: own for name, own in found.items() if _are_apart([pairs[int(i)] for i in own])}


def _classified(
    model: SmallEncoderModel,
    train: Sequence[Pair],
    test: Sequence[Pair],
    seed: int,
    outputs: Sequence[str],
    embeddings: Sequence[str],
) -> Iterator[Row]:
    """How often a classifier of the frozen vectors is right: over all pairs, and those of each
    label."""
    labels = np.array([pair.label for pair in train])
    (given, _), (asked_, cut) = (
        vectors(model, [(pair.text1, pair.text2) for pair in pairs], outputs, embeddings)
        for pairs in (train, test)
    )
    wanted = np.array([pair.label for pair in test])
    parts = {ALL: np.ones(len(test), dtype=bool)}
    parts |= {f"label {label}": wanted == label for label in np.unique(wanted)}
    for place, vector in given.items():
        mlp = MLPClassifier((vector.shape[1],), max_iter=EPOCHS, random_state=seed)
        classifier = make_pipeline(StandardScaler(), mlp)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the number of epochs is the end
            classifier.fit(vector, labels)
        right = classifier.predict(asked_[place]) == wanted
        for subset, rows in parts.items():
            share = float(right[rows].mean())
            yield _row(place, subset, "accuracy", share, cut[rows])


def tasks_of(text: str) -> dict[str, PairTask]:
    """``"bird=FOLDER,paws-qqp=FOLDER,mine=FILE"``, loaded.

    Raises:
        OptionError: no NAME=PLACE, or a name twice; and as :func:`load_pairs`.
    """
    found: dict[str, PairTask] = {}
    for part in text.split(","):
        name, equals, place = part.partition("=")
        if not (name and equals and place) or name in found:
            raise OptionError(
                f"tasks={text!r}: {part!r}: expected NAME=FOLDER (bird, paws-qqp) or NAME=FILE, by "
                "commas, each name once"
            )
        own = Path(place).suffix in (".tsv", ".jsonl")
        found[name] = load_pairs(place) if own else load_pairs(name, data_dir=place)
    return found


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
    asked = replace(
        command.study,
        models=None if command.models is None else command.models.split(","),
        outputs=command.outputs.split(","),
        embeddings=command.embeddings.split(","),
        progress=not output.quiet,
    )
    tasks = tasks_of(command.tasks)
    _check(tasks, asked)
    config = _config(_opened(command.runs, asked), tasks, asked)
    with held_folder(output.out, EncoderScores, config, overwrite=output.overwrite):
        result = encoders(command.runs, tasks, **vars(asked))
        write_result(output.out, result, overwrite=output.overwrite)
    return result
