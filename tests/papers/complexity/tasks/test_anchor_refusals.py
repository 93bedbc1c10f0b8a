"""Anchor tasks that cannot be, and requests that no task can meet: refused by name."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from interp_compose.errors import InputError, OptionError, PositionError
from interp_compose.papers.complexity.tasks.anchors import AnchorTask, violations
from tests.untyped import outcomes_of

SPLITS = ("train", "id", "ood")


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"anchors": {}}, OptionError, r"anchors=\{\}: expected names"),
    ({"anchors": {"a": 1, "": 2}}, OptionError, "expected names"),
    ({"unseen": (("c", "e"),)}, OptionError, r"unseen names \('c', 'e'\): .* 2 .* a, b, c, d"),
    ({"unseen": (("c",),)}, OptionError, r"unseen names \('c',\)"),
    ({"unseen": (("c", "d"), ("c", "d"))}, OptionError, "names a chain twice"),
    ({"unseen": tuple(itertools.product("abcd", repeat=2))}, OptionError, "no chain to train"),
    ({"violations": {("a", "e"): 3}}, OptionError, r"violations names \('a', 'e'\)"),
    ({"n_anchors": 3, "violations": violations(1)}, OptionError, "unseen names .*tuple of 3"),
    ({"n_anchors": 0}, OptionError, "n_anchors=0: expected a whole number, 1 or more"),
    ({"length": 2}, OptionError, r"length=2: .*3 or more \(room for a key and its anchors\)"),
    ({"numbers": (4, 99)}, OptionError, r"numbers=\(4, 99\): .* the smallest above 4"),
    ({"numbers": (99, 20)}, OptionError, r"numbers=\(99, 20\)"),
    ({"numbers": (20, 2**31)}, OptionError, "the largest below 2³¹"),
    ({"noise": (3, 9)}, OptionError, r"noise=\(3, 9\)"),
    ({"numbers": (20, 10**7)}, OptionError, "n_anchors=2 of 4 anchors, with 9999981 keys"),
    ({"n_anchors": 10**9, "length": 10**9 + 1, "unseen": ()}, OptionError, "chain fewer"),
    ({"d_vocab": 99}, OptionError, r"d_vocab=99: .*100 or more \(room for keys and noise\)"),
    ({"d_vocab": 109}, InputError, "99 a a is 109, outside the vocabulary 0 … 108: raise the voc"),
    ({"numbers": (15, 99)}, InputError, "target of 15 d d is -1, .*: raise the smallest number"),
    ({"anchors": {"a": 10**30}, "unseen": ()}, InputError, "outside the vocabulary 0 … 2147483647"),
    ({"numbers": (21, 26)}, InputError, "leave no test key for position 6 .*x mod 7 = 6"),
    ({"length": 3}, InputError, "leave no training key for position 0 .*or another length"),
    ({"length": 50, "numbers": (20, 30)}, InputError, "leave no test key for position 0"),
]


@pytest.mark.parametrize(("options", "error", "message"), BAD, ids=[str(bad[2]) for bad in BAD])
def test_what_does_not_fit_is_refused(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        AnchorTask(**options)
    assert type(caught.value) is error


def test_just_enough_fits() -> None:
    assert AnchorTask(d_vocab=110).vocabulary == 110
    assert AnchorTask(d_vocab=201).vocabulary == 201
    assert AnchorTask(numbers=(16, 99)).apply(16, ("d", "d")) == 0
    assert AnchorTask(noise=(200, 210)).vocabulary == 211
    shortest = AnchorTask(length=3, modulus="code")
    assert shortest.sample("id", 5, seed=0).positions.tolist() == [0] * 5
    least = AnchorTask(numbers=(21, 27))  # one test key a position, six for training
    assert set((least.sample("id", 50, seed=0).keys % 7).tolist()) == set(range(7))


def test_requests_that_cannot_be_met_are_refused() -> None:
    task = AnchorTask()
    with pytest.raises(OptionError, match='no chains for split "ood": name some in unseen='):
        AnchorTask(unseen=()).sample("ood", 5, seed=0)
    with pytest.raises(OptionError, match="n=0: expected a whole number, 1 to 10000000"):
        task.sample("train", 0, seed=0)
    for seed in (-1, 2**32, 2**63):
        with pytest.raises(OptionError, match=f"seed={seed}: expected an integer from 0 to 2³²"):
            task.sample("train", 5, seed=seed)
    with pytest.raises(OptionError, match=r"apply names \('a', 'e'\)"):
        task.apply(23, ("a", "e"))
    for position in (-1, 7):
        with pytest.raises(PositionError, match=f"position={position}: a key can be at 0 … 6"):
            task.is_test_key(23, position)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (([19], [0], [0]), "keys hold 19: expected numbers from 20 to 99"),
        (([100], [0], [0]), "keys hold 100"),
        (([20], [16], [0]), "chains hold 16: expected numbers from 0 to 15"),
        (([20], [-1], [0]), "chains hold -1"),
        (([20], [0], [7]), "positions hold 7: expected numbers from 0 to 6"),
    ],
)
def test_sequences_that_the_task_does_not_have_are_not_built(values: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        AnchorTask().build(*map(torch.tensor, values), torch.Generator())


UNTYPED = """
import numpy as np
from interp_compose.papers.complexity.tasks.anchors import AnchorTask, violations


def numpys():
    given = AnchorTask(
        anchors={"a": np.int64(5), "b": lambda x: np.int32(x + 1)}, unseen=[("a", "b")],
        n_anchors=np.int64(2), length=np.int32(9), numbers=[np.int64(20), np.int64(99)],
        d_vocab=np.int64(120),
    )
    plain = AnchorTask(anchors={"a": 5, "b": 1}, unseen=(("a", "b"),), d_vocab=120)
    for field in ("unseen", "n_anchors", "length", "numbers", "d_vocab"):
        mine, its = getattr(given, field), getattr(plain, field)
        assert mine == its and type(mine) is type(its), field
    assert type(given.numbers[0]) is type(given.anchors["a"]) is int
    data, same = (t.sample("id", n, seed=s) for t, n, s in
                  [(given, np.int64(6), np.int64(3)), (plain, 6, 3)])
    assert data.tokens.equal(same.tokens) and data.targets.equal(same.targets)
    assert given.apply(np.int64(23), ("a", "b")) == 29
    assert given.is_test_key(np.int8(27), np.int8(6)) is True
    assert violations(np.int64(1)) == violations(1)


calls = {
    "numbers of numpy": numpys,
    "groups a switch": lambda: violations(True),
    "half a group": lambda: violations(1.0),
    "an operation of halves": lambda: AnchorTask(anchors={"a": lambda x: x / 2}, unseen=()),
    "an operation that answers": lambda: AnchorTask(violations={("a", "b"): lambda x: x > 3}),
    "unseen of lists": lambda: AnchorTask(unseen=(["c", "d"],)),
    "an operation a text": lambda: AnchorTask(anchors={"a": "+5"}, unseen=()),
    "a switch for a number": lambda: AnchorTask(n_anchors=True),
}
"""
OUTCOMES = {
    "numbers of numpy": "accepted",
    "groups a switch": "OptionError: groups=True",
    "half a group": "OptionError: groups=1.0",
    "an operation of halves": "InputError: the operation of 'a' makes 10.0 of 20",
    "an operation that answers": "InputError: the operation of ('a', 'b') makes True of 20",
    "unseen of lists": "accepted",
    "an operation a text": "OptionError: AnchorTask: anchors['a']='+5' is a str; expected an integ",
    "a switch for a number": "OptionError: AnchorTask: n_anchors=True is a bool; expected an integ",
}


def test_untyped_misuse_is_refused_by_name() -> None:
    """In a process of its own: here beartype would be there first."""
    outcomes = outcomes_of(UNTYPED)
    assert set(outcomes) == set(OUTCOMES)
    for name, start in OUTCOMES.items():
        assert outcomes[name].startswith(start), f"{name}: {outcomes[name]}"
