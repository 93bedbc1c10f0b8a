"""Anchor tasks that cannot be, and requests that no task can meet: refused by name."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from interp_compose.errors import InputError, OptionError, PositionError
from interp_compose.tasks.anchors import AnchorTask, violations
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
import torch
from interp_compose.tasks.anchors import AnchorTask, violations

task = AnchorTask()
g = torch.Generator()
one = torch.tensor([0])


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
    "groups a text": lambda: violations("1"),
    "half a group": lambda: violations(1.0),
    "anchors a list": lambda: AnchorTask(anchors=["a", "b"]),
    "anchors numbered": lambda: AnchorTask(anchors={1: 5}),
    "an operation a text": lambda: AnchorTask(anchors={"a": "+5"}, unseen=()),
    "an operation a switch": lambda: AnchorTask(anchors={"a": True}, unseen=()),
    "an operation of halves": lambda: AnchorTask(anchors={"a": lambda x: x / 2}, unseen=()),
    "an operation that answers": lambda: AnchorTask(violations={("a", "b"): lambda x: x > 3}),
    "violations a number": lambda: AnchorTask(violations=3),
    "violations of lists": lambda: AnchorTask(violations={"ab": 3}),
    "unseen a text": lambda: AnchorTask(unseen="cd"),
    "unseen nothing": lambda: AnchorTask(unseen=None),
    "unseen of texts": lambda: AnchorTask(unseen=("cd",)),
    "unseen of lists": lambda: AnchorTask(unseen=(["c", "d"],)),
    "unseen of lists in a chain": lambda: AnchorTask(unseen=((["c"], "d"),)),
    "half an anchor": lambda: AnchorTask(n_anchors=2.0),
    "n_anchors a switch": lambda: AnchorTask(n_anchors=True),
    "length nothing": lambda: AnchorTask(length=None),
    "numbers one": lambda: AnchorTask(numbers=20),
    "numbers three": lambda: AnchorTask(numbers=(20, 50, 99)),
    "numbers of halves": lambda: AnchorTask(numbers=(20.0, 99.0)),
    "numbers nothing": lambda: AnchorTask(numbers=None),
    "noise a range": lambda: AnchorTask(noise=range(20, 99)),
    "d_vocab a switch": lambda: AnchorTask(d_vocab=True),
    "an unknown modulus": lambda: AnchorTask(modulus="text"),
    "modulus a list": lambda: AnchorTask(modulus=["paper"]),
    "an unknown split": lambda: task.sample("test", 5, seed=0),
    "splits": lambda: task.sample(["train"], 5, seed=0),
    "n a switch": lambda: task.sample("train", True, seed=0),
    "half a sample": lambda: task.sample("train", 5.0, seed=0),
    "no seed": lambda: task.sample("train", 5, seed=None),
    "seed a switch": lambda: task.sample("train", 5, seed=True),
    "a key of halves": lambda: task.apply(23.5, ("a", "b")),
    "a chain of text": lambda: task.apply(23, "ab"),
    "a position a text": lambda: task.is_test_key(23, "0"),
    "keys a list": lambda: task.build([20], one, one, g),
    "keys of floats": lambda: task.build(torch.tensor([20.0]), one, one, g),
    "a key alone": lambda: task.build(torch.tensor(20), one, one, g),
    "more keys": lambda: task.build(torch.tensor([20, 21]), one, one, g),
    "one sample": lambda: task.sample("train", 5, seed=0)[3],
    "swapped tokens": lambda: task.swapped(torch.zeros(3, 9)),
}
"""
OUTCOMES = {
    "numbers of numpy": "accepted",
    "groups a switch": "OptionError: groups=True",
    "groups a text": "OptionError: groups='1'",
    "half a group": "OptionError: groups=1.0",
    "anchors a list": "OptionError: AnchorTask: anchors=['a', 'b'] is a list; expected a mapping f",
    "anchors numbered": "OptionError: AnchorTask: anchors key=1 is an int; expected a string",
    "an operation a text": "OptionError: AnchorTask: anchors['a']='+5' is a str; expected an integ",
    "an operation a switch": "OptionError: AnchorTask: anchors['a']=True is a bool; expected an in",
    "an operation of halves": "InputError: the operation of 'a' makes 10.0 of 20",
    "an operation that answers": "InputError: the operation of ('a', 'b') makes True of 20",
    "violations a number": "OptionError: AnchorTask: violations=3 is an int; expected a mapping fr",
    "violations of lists": "OptionError: AnchorTask: violations key='ab' is a str; expected a ",
    "unseen a text": "OptionError: AnchorTask: unseen='cd' is a str; expected a sequence (each ite",
    "unseen nothing": "OptionError: AnchorTask: unseen=None; expected a sequence (each item a sequ",
    "unseen of texts": "OptionError: AnchorTask: unseen[0]='cd' is a str; expected a sequence (eac",
    "unseen of lists": "accepted",
    "unseen of lists in a chain": "OptionError: AnchorTask: unseen[0][0]=['c'] is a list; expected",
    "half an anchor": "OptionError: AnchorTask: n_anchors=2.0 is a float; expected an integer",
    "n_anchors a switch": "OptionError: AnchorTask: n_anchors=True is a bool; expected an integer",
    "length nothing": "OptionError: AnchorTask: length=None; expected an integer",
    "numbers one": "OptionError: AnchorTask: numbers=20 is an int; expected (an integer, an intege",
    "numbers three": "OptionError: AnchorTask: numbers=(20, 50, 99) is a tuple; expected (an integ",
    "numbers of halves": "OptionError: AnchorTask: numbers[0]=20.0 is a float; expected an integer",
    "numbers nothing": "OptionError: AnchorTask: numbers=None; expected (an integer, an integer)",
    "noise a range": "OptionError: AnchorTask: noise=range(20, 99) is a range; expected (an intege",
    "d_vocab a switch": "OptionError: AnchorTask: d_vocab=True is a bool; expected an integer or N",
    "an unknown modulus": "OptionError: AnchorTask: modulus='text'; expected one of 'pape",
    "modulus a list": "OptionError: AnchorTask: modulus=['paper'] is a list; expected one of 'pape",
    "an unknown split": "OptionError: AnchorTask.sample: split='test'; expected one of 't",
    "splits": "OptionError: AnchorTask.sample: split=['train'] is a list; expected one of 'train',",
    "n a switch": "OptionError: AnchorTask.sample: n=True is a bool; expected an integer",
    "half a sample": "OptionError: AnchorTask.sample: n=5.0 is a float; expected an integer",
    "no seed": "OptionError: AnchorTask.sample: seed=None; expected an integer",
    "seed a switch": "OptionError: AnchorTask.sample: seed=True is a bool; expected an integer",
    "a key of halves": "OptionError: AnchorTask.apply: key=23.5 is a float; expected an integer",
    "a chain of text": "OptionError: AnchorTask.apply: chain='ab' is a str; expected a sequence (e",
    "a position a text": "OptionError: AnchorTask.is_test_key: position='0' is a str; expected an ",
    "keys a list": "OptionError: AnchorTask.build: keys=[20] is a list; expected a tensor [sample]",
    "keys of floats": "OptionError: AnchorTask.build: keys is a Tensor [1] of torch.float32; expec",
    "a key alone": "OptionError: AnchorTask.build: keys is a Tensor [] of torch.int64; expected a ",
    "more keys": "OptionError: AnchorTask.build: chains is a Tensor [1] of torch.int64; expected a",
    "one sample": "OptionError: AnchorData: which=3 is an int; expected a tensor [some] of integer",
    "swapped tokens": "OptionError: AnchorTask.swapped: data is a Tensor [3, 9] of torch.float32; ",
}


def test_untyped_misuse_is_refused_by_name() -> None:
    """In a process of its own: here beartype would be there first."""
    outcomes = outcomes_of(UNTYPED)
    assert set(outcomes) == set(OUTCOMES)
    for name, start in OUTCOMES.items():
        assert outcomes[name].startswith(start), f"{name}: {outcomes[name]}"
