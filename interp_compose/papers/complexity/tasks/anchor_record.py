"""A task on anchor functions as plain values, for the configuration of a run, and read again.

An operation that is a number stays one. A function becomes the pairs of what it is given in this
task and what it makes of that, so that two functions of equal values are the same task.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from interp_compose.errors import InputError
from interp_compose.papers.complexity.tasks.anchors import (
    AnchorTask,
    Chain,
    Operation,
    applied,
)

Pairs = list[list[int]]
"""Of each value, in rising order, it and what a function makes of it."""


@dataclass(frozen=True)
class Lookup:
    """A function that is known at some whole numbers; ``KeyError`` at others."""

    values: Mapping[int, int]

    def __call__(self, value: int) -> int:
        """What the function makes of the value."""
        return self.values[value]


def record_of(task: AnchorTask) -> dict[str, Any]:
    """The task as JSON has it: names, numbers, and lists in the order of the task.

    Raises:
        InputError: a function that gives no whole number of a value that it meets only where a
            violation takes the place of the rule; a function that gives another number of a value
            than it gave before.
    """
    task = _called_once(task)
    low, high = task.numbers
    keys = range(low, high + 1)
    met = _met(task, keys)
    return {
        # Pairs and no dictionary: token ids go by the order of the names.
        "anchors": [[name, _pairs(one, met[name], name)] for name, one in task.anchors.items()],
        "unseen": [list(chain) for chain in task.unseen],
        "n_anchors": int(task.n_anchors),
        "length": int(task.length),
        "numbers": [low, high],
        "noise": None if task.noise is None else list(task.noise),
        "modulus": task.modulus,
        "violations": [
            [list(chain), _pairs(one, keys, chain)] for chain, one in task.violations.items()
        ],
        "d_vocab": None if task.d_vocab is None else int(task.d_vocab),
    }


def task_of(record: Mapping[str, Any]) -> AnchorTask:
    """The task of such a record."""
    noise = record["noise"]
    return AnchorTask(
        anchors={name: _operation(one) for name, one in record["anchors"]},
        unseen=tuple(tuple(chain) for chain in record["unseen"]),
        n_anchors=record["n_anchors"],
        length=record["length"],
        numbers=tuple(record["numbers"]),
        noise=None if noise is None else tuple(noise),
        modulus=record["modulus"],
        violations={tuple(chain): _operation(one) for chain, one in record["violations"]},
        d_vocab=record["d_vocab"],
    )


def violating_groups(task: AnchorTask) -> list[list[Chain]]:
    """The chains that break the rule, those of the same anchors in another order together, in the
    order in which the task names them."""
    groups: dict[tuple[str, ...], list[Chain]] = {}
    for chain in task.violations:
        groups.setdefault(tuple(sorted(chain)), []).append(chain)
    return list(groups.values())


def with_groups(task: AnchorTask, n: int) -> AnchorTask:
    """The task with its first ``n`` violating groups alone, and the vocabulary of all of them."""
    kept = [chain for group in violating_groups(task)[:n] for chain in group]
    violations = {chain: task.violations[chain] for chain in kept}
    return replace(task, violations=violations, d_vocab=task.vocabulary)


def looked_up(task: AnchorTask) -> list[str]:
    """Sentences on unseen chains whose targets are those of a seen chain for every key: a model
    answers them without composing, if it takes the one for the other."""
    low, high = task.numbers
    targets = {
        chain: tuple(task.apply(key, chain) for key in range(low, high + 1))
        for chain in task.chains
    }
    seen = {targets[chain]: chain for chain in task.chains[: task.n_seen]}
    return [
        f"the targets of the unseen {' '.join(chain)} are those of {' '.join(seen[targets[chain]])}"
        ", which training shows: right answers there may be looked up, not composed"
        for chain in task.unseen
        if targets[chain] in seen
    ]


def described(record: Mapping[str, Any]) -> str:
    """Like "own anchors a +3, b −2, double f(x)"."""
    parts = [
        f"{name} {'f(x)' if isinstance(one, list) else f'{one:+d}'.replace('-', '−')}"
        for name, one in record["anchors"]
    ]
    return f"own anchors {', '.join(parts)}"


def _called_once(task: AnchorTask) -> AnchorTask:
    """The task with functions that are called once for each value, and give the same targets."""
    once = replace(
        task,
        anchors={name: _cached(one) for name, one in task.anchors.items()},
        violations={chain: _cached(one) for chain, one in task.violations.items()},
    )
    differs = (once._outcomes != task._outcomes).nonzero().tolist()
    if differs:
        chain, key = differs[0]
        raise InputError(
            f"the target of {task.numbers[0] + key} {' '.join(task.chains[chain])} was "
            f"{int(task._outcomes[chain, key])}, and is now {int(once._outcomes[chain, key])}: "
            "expected operations that give the same number of a value each time, without "
            "randomness or anything that changes between calls"
        )
    return once


def _cached(operation: Operation) -> Operation:
    return cache(operation) if callable(operation) else operation


def _met(task: AnchorTask, keys: Collection[int]) -> dict[str, set[int]]:
    """What each operation is given: the keys, and what other operations make of them, to the length
    of a chain."""
    met: dict[str, set[int]] = {name: set() for name in task.anchors}
    given = set(keys)
    for _ in range(task.n_anchors):
        made: set[int] = set()
        for name, operation in task.anchors.items():
            met[name] |= given
            made |= {applied(operation, value, name) for value in given}
        given = made
    return met


def _pairs(operation: Operation, met: Collection[int], name: str | Chain) -> int | Pairs:
    if callable(operation):
        return [[value, applied(operation, value, name)] for value in sorted(met)]
    return int(operation)


def _operation(recorded: int | Pairs) -> Operation:
    if isinstance(recorded, int):
        return recorded
    return Lookup({value: made for value, made in recorded})  # noqa: C416  pairs are lists
