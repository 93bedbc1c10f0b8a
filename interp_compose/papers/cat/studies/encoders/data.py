"""The tasks of a study of encoders, kept beside its runs, where workers read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from interp_compose.checks import drawn
from interp_compose.errors import CorruptFileError
from interp_compose.papers.cat.tasks.labelled import LabelledTask, LabelledText
from interp_compose.papers.cat.tasks.squad import Question, SpanTask
from interp_compose.runs.checksums import digest_of, read_signed, write_signed
from interp_compose.tasks.pairs import Pair, PairTask

DATA: Final = "data"
"""The folder of the tasks."""
CLASSES: Final = ("0", "1")
"""What labels of pairs are called."""


def pairs_value(task: PairTask, limit: int | None) -> list[list[Any]]:
    """The test pairs, or some drawn at random, in JSON's types."""
    return [list(asdict(pair).values()) for pair in drawn(task.test, limit)]


def labelled_value(task: LabelledTask) -> dict[str, Any]:
    """A labelled task, in JSON's types, without its report: what is trained on, and measured."""
    splits = {
        name: [[one.text1, one.text2, one.target] for one in items]
        for name, items in task.splits.items()
    }
    return {"labels": list(task.labels), "metrics": list(task.metrics), "splits": splits}


def spans_value(task: SpanTask) -> dict[str, Any]:
    """Questions, in JSON's types, without their report; each context once."""
    numbers: dict[str, int] = {}
    splits = {
        name: [
            [
                one.id,
                one.question,
                numbers.setdefault(one.context, len(numbers)),
                [list(answer) for answer in one.answers],
            ]
            for one in items
        ]
        for name, items in task.splits.items()
    }
    return {"contexts": list(numbers), "splits": splits}


def classes_of(name: str, task: PairTask) -> LabelledTask:
    """Pairs with labels and a training split, as classes."""
    splits = {
        split: tuple(LabelledText(one.text1, one.text2, float(one.label or 0)) for one in pairs)
        for split, pairs in (("train", task.train), ("test", task.test))
    }
    return LabelledTask(name, splits, CLASSES)


def keep(values: Mapping[str, Any], out: Path) -> None:
    """Write tasks, by their digests, into the folder of a study, where they are not there yet."""
    for digest, value in values.items():
        path = _path(out, digest)
        try:
            read_signed(path)
        except CorruptFileError:
            write_signed(path, value)


def kept_pairs(out: Path, digest: str) -> list[Pair]:
    """The pairs that :func:`keep` wrote.

    Raises:
        CorruptFileError: the file is missing, was altered, or holds another task.
    """
    return [Pair(*one) for one in _kept(out, digest)]


def kept_labelled(out: Path, digest: str, name: str) -> LabelledTask:
    """The labelled task that :func:`keep` wrote.

    Raises:
        CorruptFileError: the file is missing, was altered, or holds another task.
    """
    value = _kept(out, digest)
    splits = {
        split: tuple(LabelledText(*one) for one in items)
        for split, items in value["splits"].items()
    }
    return LabelledTask(name, splits, tuple(value["labels"]), tuple(value["metrics"]))


def kept_spans(out: Path, digest: str, name: str) -> SpanTask:
    """The questions that :func:`keep` wrote.

    Raises:
        CorruptFileError: the file is missing, was altered, or holds another task.
    """
    value = _kept(out, digest)
    contexts = value["contexts"]
    splits = {
        split: tuple(
            Question(key, question, contexts[number], tuple((at, text) for at, text in answers))
            for key, question, number, answers in items
        )
        for split, items in value["splits"].items()
    }
    return SpanTask(name, splits)


def _kept(out: Path, digest: str) -> Any:
    value = read_signed(_path(out, digest))
    if digest_of(value) != digest:
        raise CorruptFileError(
            f"{_path(out, digest)} holds another task than the one of that name; delete it, and "
            "call the study again"
        )
    return value


def _path(out: Path, digest: str) -> Path:
    return out / DATA / f"{digest[:16]}.json"
