"""What every task is: three lists of examples and a report on where they came from."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from interp_compose._public import public
from interp_compose.errors import OptionError
from interp_compose.tasks.examples import ExampleRows, read_example
from interp_compose.tasks.rows import check_split, read_all
from interp_compose.tasks.shown_task import ShownTask
from interp_compose.types import Example

SPLITS = ("train", "validation", "test")


@public
@dataclass(frozen=True, repr=False, init=False)
class Task(ShownTask):
    """Prompts and answers for one model, each split from what :func:`read_examples` reads.

    ``template`` is the prompt around a text, ``'{} is called a "'``; ``report`` counts the data
    before and after every filter and names the sources. ``len`` counts the examples of all splits;
    ``task[:50]`` is the task with that slice of each split.
    """

    name: str
    template: str
    train: tuple[Example, ...]
    validation: tuple[Example, ...]
    test: tuple[Example, ...]
    report: Mapping[str, int | str | float]
    labels: tuple[str, ...]
    """The answers of a classification, leading space included; none for other tasks."""

    def __init__(
        self,
        name: str = "rows",
        template: str = "{}",
        train: ExampleRows = (),
        validation: ExampleRows = (),
        test: ExampleRows = (),
        report: Mapping[str, int | str | float] | None = None,
        labels: tuple[str, ...] = (),
    ) -> None:
        vars(self).update(name=name, template=template, report=report or {}, labels=labels)
        for split, rows in zip(SPLITS, (train, validation, test), strict=True):
            vars(self)[split] = tuple(read_all(rows, read_example, row=f"{split} row"))

    def __len__(self) -> int:
        return sum(len(self.split(name)) for name in SPLITS)

    def __getitem__(self, part: object) -> Task:
        if not isinstance(part, slice):
            raise OptionError(
                f"task[{part!r}]: expected a slice of each split, such as task[:50]; one split is "
                "task.test, one example task.test[0]"
            )
        train, validation, test = (self.split(name)[part] for name in SPLITS)
        return replace(self, train=train, validation=validation, test=test)

    def _splits(self) -> Mapping[str, tuple[Example, ...]]:
        return {name: self.split(name) for name in SPLITS}

    def _example(self) -> str:
        first: Example = self._first()
        return f"{first.prompt[:80]!r} → {first.answer!r}"

    def split(self, name: str) -> tuple[Example, ...]:
        """The examples of one split; ``OptionError`` unless it is train, validation or test."""
        check_split(name, SPLITS)
        chosen: tuple[Example, ...] = getattr(self, name)
        return chosen

    def filtered(self, split: str) -> str:
        """What filters left of the data of a split, by the report; an empty text for all."""
        for tokens, answers in (("one_token", "of one token"), ("any_tokens", "of known tokens")):
            for before, after, what in (
                ("usable_definitions", f"{tokens}_in_context", "definitions: {}, none twice"),
                (f"{split}_all", f"{split}_{tokens}", "examples: {}"),
            ):
                n, left = self.report.get(before), self.report.get(after)
                if isinstance(n, int) and isinstance(left, int) and left < n:
                    return f"filters left {left:,} of {n:,} {what.format(f'answers {answers}')}"
        return ""

    def answer_set(self, answers: str) -> str | tuple[str, ...]:
        """What ``answers=`` of the studies takes: "vocabulary" itself, or for "labels" the task's.

        Raises:
            OptionError: another word, or "labels" for a task that has none.
        """
        if answers == "vocabulary":
            return answers
        if answers != "labels":
            raise OptionError(
                f"answers={answers!r}: expected 'vocabulary' or 'labels' here; 'foil', each "
                "example's answer or its foil, is for cap_curve and ablation_curve"
            )
        if not self.labels:
            raise OptionError(
                f"the task {self.name!r} has no labels to choose among; take answers='vocabulary', "
                "or in Python give the labels as a list (ic.cap_curve(…, answers=[…]))"
            )
        return self.labels


def shuffled(examples: Sequence[Example], seed: int) -> tuple[Example, ...]:
    """The examples in a random order that depends on nothing but ``seed``."""
    ordered = list(examples)
    random.Random(seed).shuffle(ordered)
    return tuple(ordered)
