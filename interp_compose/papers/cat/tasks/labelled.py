"""Texts, or pairs of them, with a class or a score each, in named splits: for classifiers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from interp_compose._public import public
from interp_compose.checks import drawn
from interp_compose.errors import DataFormatError, InputError, OptionError
from interp_compose.tasks.rows import check_split, is_text, shown
from interp_compose.tasks.shown_task import ShownTask

SPLITS: Final = ("train", "validation", "test", "ood")
METRICS_OF_LABELS: Final = ("accuracy", "matthews", "f1")
METRICS_OF_SCORES: Final = ("pearson", "spearman")


@public
@dataclass(frozen=True)
class LabelledText:
    """A text, or two of them; its ``target``: the number of its class (from 0), or its score."""

    text1: str
    text2: str | None
    target: float

    @property
    def texts(self) -> tuple[str, ...]:
        """The one text, or the two."""
        return (self.text1,) if self.text2 is None else (self.text1, self.text2)


@public
@dataclass(frozen=True, repr=False)
class LabelledTask(ShownTask):
    """Texts, or pairs of texts, with a class or a score each, in named splits.

    Raises:
        OptionError: a split or a metric that there is none of.
        InputError: no training or no test texts; a text that is blank; one text where others are
            pairs; a class that is none of the labels, or a score that is not finite; training texts
            that are all of one class or have all one score.
    """

    name: str
    splits: Mapping[str, tuple[LabelledText, ...]]
    """``"train"`` and ``"test"``, perhaps ``"validation"``, on which weights are chosen, and
    ``"ood"``: another distribution (CAT, Table 3)."""
    labels: tuple[str, ...] = ()
    """The names of the classes; none where targets are scores."""
    metrics: tuple[str, ...] = ("accuracy",)
    """For classes ``"accuracy"``, ``"matthews"``, ``"f1"`` (of class 1); for scores ``"pearson"``
    and ``"spearman"``. The first is the task's own."""
    report: Mapping[str, int | str | float] = field(default_factory=dict)
    """Counts, and where the data are from."""

    def __post_init__(self) -> None:
        unknown = [name for name in self.splits if name not in SPLITS]
        if unknown:
            raise OptionError(
                f"splits of {self.name!r} name {unknown[0]!r}: expected some of {', '.join(SPLITS)}"
            )
        self._check_metrics()
        for split in ("train", "test"):
            if not self.splits.get(split):
                raise InputError(
                    f"the {split} split of {self.name!r} is empty: expected one text or more, to "
                    f"{'train a classifier' if split == 'train' else 'measure it on'}"
                )
        first = self.splits["train"][0]
        for split, items in self.splits.items():
            for number, item in enumerate(items):
                where = f"text {number} of the {split} split of {self.name!r}"
                if (item.text2 is None) != (first.text2 is None):
                    raise InputError(f"{where} is {shown(item)}: expected all pairs, or none")
                self._check(item, where)
        check_told_apart(self.splits["train"], self.name)

    def _check_metrics(self) -> None:
        known = METRICS_OF_LABELS if self.labels else METRICS_OF_SCORES
        wrong = [name for name in self.metrics if name not in known]
        if wrong or not self.metrics:
            raise OptionError(
                f"metrics={list(self.metrics)} of {self.name!r}, whose targets are "
                f"{'classes' if self.labels else 'scores'}: expected some of {', '.join(known)}"
            )
        if len(self.labels) == 1 or ("f1" in self.metrics and len(self.labels) != 2):
            raise OptionError(
                f"labels={list(self.labels)} of {self.name!r}: expected two or more, and two for f1"
            )

    def _check(self, item: LabelledText, where: str) -> None:
        for text in item.texts:
            if not is_text(text):
                raise InputError(f"{where} is {text!r}: expected a text that is not blank")
        if not math.isfinite(item.target):
            raise InputError(f"{where} has the score {item.target}: expected a finite number")
        if self.labels and item.target not in range(len(self.labels)):
            raise InputError(
                f"{where} has the class {item.target:g}: expected 0 … {len(self.labels) - 1} "
                f"({', '.join(self.labels)})"
            )

    def split(self, name: str) -> tuple[LabelledText, ...]:
        """The texts of a split, none where the task has none of that name.

        Raises:
            OptionError: a name that no task has.
        """
        check_split(name, SPLITS)
        return self.splits.get(name, ())

    def limited(self, limit: int | None) -> LabelledTask:
        """So many texts of each split at most, drawn at random, always the same ones.

        Raises:
            InputError: the training texts that are left are all of one class.
        """
        splits = {name: drawn(items, limit) for name, items in self.splits.items()}
        return LabelledTask(self.name, splits, self.labels, self.metrics, self.report)


def check_told_apart(items: Sequence[LabelledText], name: str) -> None:
    """Refuse training texts that are all alike in their class or score.

    Raises:
        InputError: they are.
    """
    if len({item.target for item in items}) < 2:
        raise InputError(
            f"all {len(items)} training texts of {name!r} have the class or score "
            f"{items[0].target:g}: expected several, to train a classifier (take more of them)"
        )


def class_of(label: str, labels: Sequence[str], where: str) -> float:
    """The number of a class; ``where`` names the row in the ``DataFormatError`` of another."""
    if label not in labels:
        raise DataFormatError(
            f"{where} has {shown(label)} as its label; expected one of {', '.join(labels)}"
        )
    return float(labels.index(label))


def score_of(text: str, where: str, low: float, high: float) -> float:
    """A score between two ends; ``where`` names the row in the ``DataFormatError`` of another."""
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not low <= score <= high:
        raise DataFormatError(
            f"{where} has {shown(text)} as its score; expected a number from {low:g} to {high:g}"
        )
    return score


def counted(
    splits: Mapping[str, Sequence[LabelledText]], source: str
) -> dict[str, int | str | float]:
    """The report of a task: its source, and how many texts each split has."""
    return {"source": source, **{f"{name}_all": len(items) for name, items in splits.items()}}


def shuffled(items: Iterable[LabelledText], seed: int = 0) -> tuple[LabelledText, ...]:
    """The items in an order that the seed alone decides: files are sorted by class."""
    shuffled_items = list(items)
    Random(seed).shuffle(shuffled_items)
    return tuple(shuffled_items)
