"""``encoders``: encoders that another command pre-trained, judged on pairs of texts."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from jaxtyping import Float, Int
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tqdm.auto import tqdm

from interp_compose._versions import environment_versions, gathered_versions
from interp_compose.checks import is_whole
from interp_compose.errors import InputError, MissingDataError, OptionError
from interp_compose.models.load import load_model
from interp_compose.models.small_encoder import SmallEncoderModel
from interp_compose.runs.folder import versions_of
from interp_compose.stats.agreement import agreement, rounding, told_apart
from interp_compose.studies.core.finished import finished_of_all
from interp_compose.studies.core.keywords import keywords
from interp_compose.studies.core.output import held_folder, write_result
from interp_compose.studies.core.sequence_run import MODEL
from interp_compose.studies.encoders.options import EncodersCommand, EncodersOptions
from interp_compose.studies.encoders.result import (
    ALL,
    EMBEDDINGS,
    MIRROR,
    OUTPUTS,
    SCORES,
    EncoderScores,
)
from interp_compose.studies.encoders.vectors import Read, vectors
from interp_compose.studies.pretrain.run import PLACE, WORK, PretrainingRun
from interp_compose.tasks.load import load_pairs
from interp_compose.tasks.pairs import Pair, PairTask

COMMAND: Final = "interp-compose pretrain"
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
        InputError: the folder holds something else; pairs that are too few; a phrase that is longer
            than the encoder's context.
        CorruptFileError: a run was altered after it was done.
    """
    opened = _opened(runs, asked)
    _check(tasks, asked)
    rows: list[Row] = []
    for run, folder in tqdm(opened, desc="encoders", unit="run", disable=not asked.progress):
        model = load_model(str(folder / MODEL), device="cpu")
        assert isinstance(model, SmallEncoderModel)
        for name, task in tasks.items():
            about = {**{place: getattr(run, place) for place in PLACE}, "task": name}
            rows += [{**about, **row} for row in _judged(model, task, run.seed, asked)]
    config = {
        "study": "encoders",
        **{name: one for name, one in asdict(opened[0][0]).items() if name not in PLACE},
        "models": list(dict.fromkeys(run.model for run, _ in opened)),
        "seeds": sorted({run.seed for run, _ in opened}),
        "tasks": {name: dict(task.report) for name, task in tasks.items()},
        "outputs": list(asked.outputs),
        "embeddings": list(asked.embeddings),
        "limit": asked.limit,
    }
    trained = {folder.name: versions_of(folder) for _, folder in opened}
    return EncoderScores(
        config=config,
        frames={SCORES.name: SCORES.of(rows)},
        versions=gathered_versions({"encoders": environment_versions(), **trained}),
    )


def _opened(
    runs: str | os.PathLike[str], asked: EncodersOptions
) -> list[tuple[PretrainingRun, Path]]:
    """The runs, model by model; each model has every seed."""
    found = finished_of_all(runs, PretrainingRun, work=WORK, command=COMMAND, varies=PLACE)
    there = {(run.model, run.seed): (run, folder) for run, folder in found}
    models = list(dict.fromkeys(model for model, _ in there))
    if asked.models is not None:
        _check_names("models", asked.models, models)
        models = list(asked.models)
    seeds = sorted({seed for model, seed in there if model in models})
    for model in models:
        missing = [seed for seed in seeds if (model, seed) not in there]
        if missing:
            raise MissingDataError(
                f"{runs} holds no finished run of {model!r} of the seeds "
                f"{', '.join(map(str, missing))}, which other models have; give the command "
                f"`{COMMAND}` that fills it again, or leave the model out"
            )
    return [there[model, seed] for model in models for seed in seeds]


def _check(tasks: Mapping[str, PairTask], asked: EncodersOptions) -> None:
    _check_names("outputs", asked.outputs, OUTPUTS)
    _check_names("embeddings", asked.embeddings, EMBEDDINGS)
    if asked.limit is not None and (not is_whole(asked.limit) or asked.limit < 1):
        raise OptionError(f"limit={asked.limit!r}: expected a whole number, 1 or more, or None")
    if not tasks:
        raise OptionError("tasks is empty: expected at least one, such as load_pairs('bird')")


def _check_names(option: str, given: Sequence[str], known: Iterable[str]) -> None:
    wrong = [one for one in given if one not in (known := list(known))]
    if not given or wrong or len({*given}) < len(given):
        raise OptionError(
            f"{option}={list(given)!r}: expected one or more of {', '.join(known)}, each once"
        )


def _judged(
    model: SmallEncoderModel, task: PairTask, seed: int, asked: EncodersOptions
) -> Iterator[Row]:
    """The scores of one model on one task."""
    test = task.test[: asked.limit]
    outputs = [one for one in asked.outputs if one in model.lens.outputs]
    if not outputs:
        raise OptionError(
            f"outputs={list(asked.outputs)!r}: {model.name!r} has {', '.join(model.lens.outputs)} "
            "alone"
        )
    target = np.array([pair.label if pair.score is None else pair.score for pair in test], float)
    texts = [text for pair in test for text in (pair.text1, pair.text2)]
    read, _ = vectors(model, texts, None, outputs, asked.embeddings)
    metrics = ("pearson", "spearman") if test[0].label is None else ("auc",)
    for place, both in read.items():
        cosines = _cosines(both)
        for subset, rows in _subsets(test).items():
            for metric in metrics:
                value = _agreement(cosines[rows], target[rows], metric)
                yield _row(place, subset, metric, value, len(rows), 0)
    train = task.train[: asked.limit]
    if test[0].label is not None and train:
        yield from _classified(model, train, test, seed, outputs, asked.embeddings)


def _row(place: tuple[str, str], subset: str, metric: str, value: float, n: int, n_cut: int) -> Row:
    named = dict(zip(("output", "embedding"), place, strict=True))
    return {**named, "subset": subset, "metric": metric, "value": value, "n": n, "n_cut": n_cut}


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
    """All pairs, named subsets, and where there are scores the mirror pairs."""
    found = {ALL: np.arange(len(pairs))}
    for name in dict.fromkeys(pair.subset for pair in pairs if pair.subset):
        found[name] = np.flatnonzero([pair.subset == name for pair in pairs])
    mirrors = np.flatnonzero([pair.is_mirror and pair.label is None for pair in pairs])
    return found | ({MIRROR: mirrors} if len(mirrors) else {})


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
    if len(np.unique(labels)) < 2:
        raise InputError(
            f"all {len(train)} training pairs have the label {labels[0]}; expected both, to train "
            "a classifier (take more of them: limit)"
        )
    (given, _), (asked_, n_cut) = (
        _of_pairs(model, pairs, outputs, embeddings) for pairs in (train, test)
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
            yield _row(place, subset, "accuracy", share, int(rows.sum()), n_cut)


def _of_pairs(
    model: SmallEncoderModel,
    pairs: Sequence[Pair],
    outputs: Sequence[str],
    embeddings: Sequence[str],
) -> tuple[Read, int]:
    first, second = ([getattr(pair, name) for pair in pairs] for name in ("text1", "text2"))
    return vectors(model, first, second, outputs, embeddings)


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
    names = ("outputs", "embeddings", "limit") + (("models",) if asked.models else ())
    config = {"study": "encoders", **{name: getattr(asked, name) for name in names}}
    with held_folder(output.out, EncoderScores, config, overwrite=output.overwrite):
        result = encoders(command.runs, tasks_of(command.tasks), **vars(asked))
        write_result(output.out, result, overwrite=output.overwrite)
    return result
