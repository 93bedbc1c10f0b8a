"""COGS: the lines of exposure, which alone show the words and constructions that its generalisation
split tests, shown more often.

Kim and Linzen 2020, section 3.1: what is tested in a new place is shown by one *exposure example*,
a sentence (kinds ``exposure_example_…``), or the word alone (kind ``primitive``; of its 143 words
three are tested, and many others are in sentences as well).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, Literal

import numpy as np

from interp_compose.errors import OptionError
from interp_compose.tasks.sequences import SequencePair, SequenceTask

MOST: Final = 1000
DRAW: Final = 0
"""Seed of the lines that are repeated in the control, the same for every run."""


def exposure_lines(pairs: Sequence[SequencePair]) -> list[int]:
    """Where the lines of exposure are."""
    return [
        i
        for i, pair in enumerate(pairs)
        if pair.kind == "primitive" or pair.kind.startswith("exposure_example")
    ]


def with_exposures(
    task: SequenceTask, exposures: int, of: Literal["tested", "others"]
) -> SequenceTask:
    """The task with each line of exposure so often in the training split, the repeats at its end;
    with ``of`` "others", the control, as many other lines of about the same lengths instead.

    One exposure is the task itself.

    Raises:
        OptionError: a number that cannot be; a task without lines of exposure, or without as many
            others; a control of one exposure, which repeats nothing.
    """
    if not 1 <= exposures <= MOST:
        raise OptionError(f"exposures={exposures!r}: expected a whole number, 1 to {MOST}")
    if exposures == 1:
        if of == "others":
            raise OptionError(
                "exposures_of='others' with exposures=1, which repeats no line: name how often "
                "others are to be shown, as exposures=20, or leave exposures_of out"
            )
        return task
    train = task.splits["train"]
    lines = exposure_lines(train)
    if not lines:
        raise OptionError(
            f"exposures={exposures} with the task {task.name!r}, whose training split has no line "
            "of a kind 'primitive' or 'exposure_example_…': only COGS has; leave exposures out"
        )
    repeated = lines if of == "tested" else _others(train, lines)
    again = tuple(train[i] for i in repeated) * (exposures - 1)
    counts = {
        "exposures": exposures,
        "exposures_of": of,
        "train_repeated": len(repeated),
        "train_all": len(train) + len(again),
    }
    splits = {**task.splits, "train": (*train, *again)}
    name = f"{task.name}, {exposures} exposures" + (" of others" if of == "others" else "")
    return SequenceTask(name, splits, {**task.report, **counts})


def _others(train: Sequence[SequencePair], lines: Sequence[int]) -> list[int]:
    """For each of ``lines``, the shortest first, one that is none of them and that no earlier one
    took: of its length in tokens or, where none is left, of the nearest; drawn at random.

    Raises:
        OptionError: there are fewer others.
    """
    tested = set(lines)
    others = [i for i in range(len(train)) if i not in tested]
    if len(others) < len(lines):
        raise OptionError(
            f"exposures_of='others': expected at least {len(lines)} other lines, as many as there "
            f"are of exposure; the training split has {len(others)}"
        )
    of_length: dict[int, list[int]] = defaultdict(list)
    for i in np.random.default_rng(DRAW).permutation(others).tolist():
        of_length[_n_tokens(train[i])].append(i)
    chosen = []
    for length in sorted(_n_tokens(train[i]) for i in lines):
        nearest = min(of_length, key=lambda one: (abs(one - length), one))
        chosen.append(of_length[nearest].pop())
        if not of_length[nearest]:
            del of_length[nearest]
    return chosen


def _n_tokens(pair: SequencePair) -> int:
    return len(pair.source.split()) + len(pair.target.split())
