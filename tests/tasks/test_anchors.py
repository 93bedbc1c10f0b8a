"""Anchor functions, held to a reference that reads the tokens as paper 004's eqs 1 and 2 do."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from interp_compose.errors import InputError, OptionError, PositionError
from interp_compose.tasks.anchors import ANCHORS, UNSEEN, AnchorData, AnchorTask, violations
from tests.untyped import outcomes_of

PAPER: dict[str, Callable[[int], int]] = {  # eq. 2
    "a": lambda x: x + 5,
    "b": lambda x: x + 1,
    "c": lambda x: x - 2,
    "d": lambda x: x - 8,
}
SPLITS = ("train", "id", "ood")
Made = tuple[int, tuple[str, ...], int]
"""Key, chain and position of a sequence."""


def read(tokens: list[int], names: list[str], n_anchors: int) -> Made:
    """What a sequence was made of: the one run of anchors in it, and the token before them."""
    places = [i for i, token in enumerate(tokens) if 1 <= token <= len(names)]
    assert places == list(range(places[0], places[0] + n_anchors))
    assert places[0] >= 1
    return tokens[places[0] - 1], tuple(names[tokens[i] - 1] for i in places), places[0] - 1


def composed(key: int, chain: tuple[str, ...], functions: dict[str, Any]) -> int:
    """Eq. 1: g(g(x; first); second), for any number of anchors."""
    for anchor in chain:
        g = functions[anchor]
        key = g(key) if callable(g) else key + g
    return key


def made(task: AnchorTask, data: AnchorData) -> set[Made]:
    """Every key, chain and position in the data, from the columns that name them."""
    rows = torch.stack([data.keys, data.chains, data.positions], dim=1).unique(dim=0).tolist()
    return {(key, task.chains[chain], position) for key, chain, position in rows}


def columns(data: AnchorData) -> list[list[Any]]:
    return [
        column.tolist()
        for column in (data.tokens, data.targets, data.chains, data.keys, data.positions)
    ]


# ---- the paper's task ------------------------------------------------------------------------


def test_the_papers_numbers() -> None:
    task = AnchorTask()
    assert (task.n_positions, task.n_seen, len(task.chains), task.vocabulary) == (7, 14, 16, 110)
    assert task.chains[14:] == UNSEEN == (("c", "d"), ("d", "c"))
    assert set(task.chains) == set(itertools.product("abcd", repeat=2))
    assert task.apply(23, ("a", "b")) == 29
    assert list(ANCHORS) == list(PAPER)
    for key, chain in itertools.product(range(20, 100), task.chains):
        assert task.apply(key, chain) == PAPER[chain[1]](PAPER[chain[0]](key))


def test_the_papers_example_can_be_built() -> None:
    task = AnchorTask()
    at = [torch.tensor([value]) for value in (23, task.chains.index(("a", "b")), 0)]
    one = task.build(*at, torch.Generator().manual_seed(0))
    assert one.tokens[0, :3].tolist() == [23, 1, 2]
    assert bool((one.tokens[0, 3:] >= 20).all())
    assert one.targets.tolist() == [29]
    last = task.build(at[0], at[1], torch.tensor([6]), torch.Generator())
    assert last.tokens[0, 6:].tolist() == [23, 1, 2]


def test_seven_positions_share_the_keys_out() -> None:
    """n - 2 = 7: of 20 … 99 each remainder has 11 or 12, and each key is held out once."""
    task = AnchorTask()
    held_out = [[k for k in range(20, 100) if task.is_test_key(k, p)] for p in range(7)]
    assert [len(keys) for keys in held_out] == [12, 12, 11, 11, 11, 11, 12]
    assert sorted(itertools.chain(*held_out)) == list(range(20, 100))
    assert held_out[6][:2] == [20, 27]
    code = AnchorTask(modulus="code")
    per_key = Counter(sum(code.is_test_key(k, p) for p in range(7)) for k in range(20, 100))
    assert per_key == {1: 62, 0: 18}  # x mod 9 is 7 or 8 for 25, 26, …, 97, 98: never held out


@pytest.mark.parametrize(("modulus", "n"), [("paper", 7), ("code", 9)])
def test_the_splits_are_what_appendix_b_says_and_nothing_else(modulus: Any, n: int) -> None:
    """Enough samples to meet every key, chain and position: the sets are equal, not just apart."""
    task = AnchorTask(modulus=modulus)
    every = set(itertools.product(range(20, 100), itertools.product("abcd", repeat=2), range(7)))
    unseen = {one for one in every if one[1] in (("c", "d"), ("d", "c"))}
    held_out = {one for one in every - unseen if one[0] % n == one[2]}
    expected = {"train": every - unseen - held_out, "id": held_out, "ood": unseen}
    for split, wanted in expected.items():
        assert made(task, task.sample(split, 25 * len(wanted), seed=3)) == wanted
    assert sum(map(len, expected.values())) == len(every) == 80 * 16 * 7


def test_no_sequence_is_in_two_splits() -> None:
    """A sequence tells its key, chain and position, so that disjoint triples suffice."""
    task = AnchorTask()
    of_split = {}
    for split in SPLITS:
        data = task.sample(split, 300, seed=1)
        told = [read(row, list("abcd"), 2) for row in data.tokens.tolist()]
        by_column = zip(
            data.keys.tolist(), data.chains.tolist(), data.positions.tolist(), strict=True
        )
        assert told == [(key, task.chains[chain], position) for key, chain, position in by_column]
        of_split[split] = set(told)
    for one, two in itertools.combinations(SPLITS, 2):
        assert not of_split[one] & of_split[two]


def test_positions_and_keys_are_uniform() -> None:
    """Counts of a share p among n stay within six standard deviations, √(n p (1 - p))."""
    task = AnchorTask()
    for split, n_keys in (("train", 480), ("id", 80), ("ood", 560)):
        data = task.sample(split, 56_000, seed=2)
        positions = torch.bincount(data.positions, minlength=7)
        assert (positions - 8000).abs().max() < 6 * (56_000 * 6 / 49) ** 0.5
        at_2 = data.keys[data.positions == 2]
        counts = torch.bincount(at_2)
        kinds = int((counts > 0).sum())
        assert kinds == {"train": 69, "id": 11, "ood": 80}[split]
        mean = len(at_2) / kinds
        assert (counts[counts > 0] - mean).abs().max() < 6 * mean**0.5
        assert n_keys == len({(k, p) for k, _, p in made(task, data)})


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("n", [1, 2, 5, 14, 15, 1000])
def test_every_chain_is_equally_often_there(split: Any, n: int) -> None:
    task = AnchorTask()
    data = task.sample(split, n, seed=4)
    counts = torch.bincount(data.chains, minlength=16)
    counts = counts[14:] if split == "ood" else counts[:14]
    assert len(data) == n == int(counts.sum())
    assert int(counts.max() - counts.min()) <= 1


def test_no_chain_is_favoured_by_what_is_left_over() -> None:
    """Fewer samples than chains: over the seeds, each chain has its turn."""
    task = AnchorTask()
    seen = torch.cat([task.sample("train", 1, seed=seed).chains for seed in range(200)])
    assert set(seen.tolist()) == set(range(14))


@pytest.mark.parametrize("split", SPLITS)
def test_the_seed_decides(split: Any) -> None:
    task = AnchorTask()
    first, again, other = (task.sample(split, 50, seed=seed) for seed in (5, 5, 6))
    assert columns(first) == columns(again)
    for one, two in zip(columns(first), columns(other), strict=True):
        assert one != two


# ---- any anchors, any chains, any lengths ----------------------------------------------------


FUNCTIONS = (lambda x: 3 * x % 50, lambda x: abs(x - 40), lambda x: x // 2)


@st.composite
def options(draw: st.DrawFn) -> dict[str, Any]:
    """Of an AnchorTask; the test makes it (beartype's own randomness is no strategy's)."""
    operation = st.integers(-7, 7) | st.sampled_from(FUNCTIONS)
    names = draw(st.lists(st.sampled_from("abcdexyz"), min_size=1, max_size=4, unique=True))
    n_anchors = draw(st.integers(1, 3))
    every = list(itertools.product(names, repeat=n_anchors))
    unseen = draw(st.lists(st.sampled_from(every), max_size=len(every) - 1, unique=True))
    length = n_anchors + draw(st.integers(2, 5))
    low = 30 + draw(st.integers(0, 20))
    return {
        "anchors": {name: draw(operation) for name in names},
        "unseen": tuple(unseen),
        "n_anchors": n_anchors,
        "length": length,
        "numbers": (low, low + 2 * length + draw(st.integers(0, 10))),
        "noise": draw(st.none() | st.just((5, 9))),
        "modulus": draw(st.sampled_from(["paper", "code"])),
        "violations": draw(st.dictionaries(st.sampled_from(every), operation, max_size=3)),
    }


def task_of(options: dict[str, Any]) -> AnchorTask:
    try:
        return AnchorTask(**options)
    except InputError as error:  # operations on end may go below 0
        assume("outside the vocabulary" not in str(error))
        raise


@settings(max_examples=40, deadline=None)
@given(
    options=options(),
    n=st.integers(1, 40),
    seed=st.integers(0, 2**63 - 1),
    split=st.sampled_from(SPLITS),
)
def test_any_task_gives_what_the_reference_computes(
    options: dict[str, Any], n: int, seed: int, split: Any
) -> None:
    task = task_of(options)
    assume(split != "ood" or task.unseen)
    data = task.sample(split, n, seed=seed)
    remainders = task.length - task.n_anchors if task.modulus == "paper" else task.length
    (low, high), noise = task.numbers, task.noise or task.numbers
    assert data.tokens.shape == (n, task.length)
    rows = zip(data.tokens.tolist(), data.targets.tolist(), strict=True)
    for i, (tokens, target) in enumerate(rows):
        key, chain, position = read(tokens, list(task.anchors), task.n_anchors)
        columns_say = (data.keys[i], task.chains[data.chains[i]], data.positions[i])
        assert (key, chain, position) == columns_say
        assert low <= key <= high
        assert (chain in task.unseen) == (split == "ood")
        if split != "ood":
            assert (key % remainders == position) == (split == "id")
        rest = tokens[:position] + tokens[position + 1 + task.n_anchors :]
        assert all(noise[0] <= token <= noise[1] for token in rest)
        wrong = task.violations.get(chain)
        expected = composed(key, ("it",), {"it": wrong}) if wrong is not None else None
        assert target == (composed(key, chain, dict(task.anchors)) if wrong is None else expected)
        assert target == task.apply(key, chain) < task.vocabulary
        assert max(tokens) < task.vocabulary


@settings(max_examples=40, deadline=None)
@given(options=options(), seed=st.integers(0, 1000))
def test_swapping_turns_the_anchors_round_and_nothing_else(
    options: dict[str, Any], seed: int
) -> None:
    task = task_of(options)
    data = task.sample("train", 9, seed=seed)
    swapped = task.swapped(data)
    assert columns(task.swapped(swapped)) == columns(data)
    assert columns(swapped)[3:] == columns(data)[3:]
    both = zip(data.tokens.tolist(), swapped.tokens.tolist(), strict=True)
    for i, (before, after) in enumerate(both):
        key, chain, position = read(before, list(task.anchors), task.n_anchors)
        first, behind = position + 1, position + 1 + task.n_anchors
        assert after[first:behind] == before[first:behind][::-1]
        assert after[:first] + after[behind:] == before[:first] + before[behind:]
        assert int(swapped.targets[i]) == task.apply(key, chain[::-1])
        assert task.chains[swapped.chains[i]] == chain[::-1]


def test_swapping_leaves_the_data_alone() -> None:
    task = AnchorTask()
    data = task.sample("ood", 30, seed=0)
    before = columns(data)
    assert task.swapped(data).chains.tolist() == [29 - chain for chain in data.chains.tolist()]
    assert columns(data) == before
    with pytest.raises(InputError, match="sequences have 9 tokens: expected the task's 11"):
        AnchorTask(length=11).swapped(data)


def test_operations_may_be_functions_and_follow_one_another() -> None:
    task = AnchorTask(
        anchors={"twice": lambda x: 2 * x, "less": -3}, unseen=(("less", "twice", "twice"),),
        n_anchors=3,
    )  # fmt: skip
    assert task.apply(20, ("twice", "less", "twice")) == 74
    assert task.apply(20, ("less", "twice", "twice")) == 68
    assert (task.n_positions, len(task.chains), task.vocabulary) == (6, 8, 8 * 99 + 1)
    assert task.sample("ood", 3, seed=0).chains.tolist() == [7, 7, 7]


def test_samples_are_taken_by_slices_masks_and_indices() -> None:
    data = AnchorTask().sample("train", 10, seed=0)
    assert len(data[2:5]) == 3
    mask = torch.zeros(10, dtype=torch.bool)
    mask[[2, 3, 4]] = True
    assert columns(data[2:5]) == columns(data[mask]) == columns(data[torch.tensor([2, 3, 4])])
    assert columns(data[2:5])[0] == data.tokens.tolist()[2:5]
    assert columns(data.to("cpu")) == columns(data)


def test_a_task_keeps_its_own_operations() -> None:
    mine = dict(ANCHORS)
    task = AnchorTask(anchors=mine)
    mine["a"] = 50
    assert task.apply(23, ("a", "b")) == 29
    assert replace(task, length=11).n_positions == 9


# ---- reasoning complexity (section VIII) -----------------------------------------------------


@pytest.mark.parametrize("groups", range(7))
def test_a_group_is_a_pair_both_ways_round_with_one_wrong_target(groups: int) -> None:
    task = AnchorTask(unseen=(), violations=violations(groups))
    pairs = list(itertools.combinations("abcd", 2))  # ab, ac, ad, bc, bd, cd: appendix A's order
    for i, (one, two) in enumerate(pairs):
        for key in (20, 47, 99):
            rule = composed(key, (one, two), PAPER)
            assert task.apply(key, (one, two)) == task.apply(key, (two, one))
            assert (task.apply(key, (one, two)) != rule) == (i < groups)
    for one in "abcd":
        assert task.apply(47, (one, one)) == composed(47, (one, one), PAPER)
    data = task.sample("train", 400, seed=0)
    wrong = set()
    for tokens, target in zip(data.tokens.tolist(), data.targets.tolist(), strict=True):
        key, chain, _ = read(tokens, list("abcd"), 2)
        if target != composed(key, chain, PAPER):
            wrong.add(frozenset(chain))
    assert wrong == {frozenset(pair) for pair in pairs[:groups]}


def test_wrong_targets_are_those_of_the_authors() -> None:
    """Added instead of the sum: for (c, d) that is 4 more than the rule, as they say elsewhere."""
    task = AnchorTask(unseen=(), violations=violations(6))
    wrong = {"ab": 4, "ac": 1, "ad": -5, "bc": 5, "bd": -9, "cd": -6}
    for pair, shift in wrong.items():
        assert task.apply(50, (pair[0], pair[1])) == 50 + shift
    assert task.apply(50, ("c", "d")) == composed(50, ("c", "d"), PAPER) + 4


def test_the_sixth_group_is_held_out_by_default() -> None:
    task = AnchorTask(violations=violations(6))
    data = task.sample("ood", 8, seed=0)
    assert (data.targets - data.keys).tolist() == [-6] * 8


@pytest.mark.parametrize("groups", [-1, 7])
def test_an_unknown_number_of_groups_is_refused(groups: int) -> None:
    with pytest.raises(OptionError, match=f"groups={groups}: expected a number from 0 to 6"):
        violations(groups)


# ---- refusals --------------------------------------------------------------------------------


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
    with pytest.raises(OptionError, match="n=0: expected a whole number, 1 or more"):
        task.sample("train", 0, seed=0)
    for seed in (-1, 2**63):
        with pytest.raises(OptionError, match=f"seed={seed}: expected an integer from 0 to 2⁶³"):
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
    "anchors a list": "OptionError: anchors=['a', 'b']: expected a mapping to operations",
    "anchors numbered": "OptionError: anchors={1: 5}: expected names",
    "an operation a text": "OptionError: the operation of 'a' is '+5'",
    "an operation a switch": "OptionError: the operation of 'a' is True",
    "an operation of halves": "InputError: the operation of 'a' makes 10.0 of 20",
    "an operation that answers": "InputError: the operation of ('a', 'b') makes True of 20",
    "violations a number": "OptionError: violations=3: expected a mapping",
    "violations of lists": "OptionError: violations names 'ab'",
    "unseen a text": "OptionError: unseen='cd'",
    "unseen nothing": "OptionError: unseen=None",
    "unseen of texts": "OptionError: unseen names 'cd'",
    "unseen of lists": "OptionError: unseen names ['c', 'd']",
    "unseen of lists in a chain": "OptionError: unseen names (['c'], 'd')",
    "half an anchor": "OptionError: n_anchors=2.0",
    "n_anchors a switch": "OptionError: n_anchors=True",
    "length nothing": "OptionError: length=None",
    "numbers one": "OptionError: numbers=20",
    "numbers three": "OptionError: numbers=(20, 50, 99)",
    "numbers of halves": "OptionError: numbers=(20.0, 99.0)",
    "numbers nothing": "OptionError: numbers=None",
    "noise a range": "OptionError: noise=range(20, 99)",
    "d_vocab a switch": "OptionError: d_vocab=True",
    "an unknown modulus": "OptionError: modulus='text': expected one of paper, code",
    "modulus a list": "OptionError: modulus=['paper']: expected one of paper, code",
    "an unknown split": "OptionError: split='test': expected one of train, id, ood",
    "splits": "OptionError: split=['train']",
    "n a switch": "OptionError: n=True",
    "half a sample": "OptionError: n=5.0",
    "no seed": "OptionError: seed=None",
    "seed a switch": "OptionError: seed=True",
    "a key of halves": "OptionError: key=23.5",
    "a chain of text": "OptionError: apply names 'ab'",
    "a position a text": "OptionError: position='0'",
    "keys a list": "InputError: keys are [20]: expected a tensor with one axis",
    "keys of floats": "InputError: keys are of torch.float32",
    "a key alone": "InputError: keys are tensor(20)",
    "more keys": "InputError: 2 keys, 1 chains and 1 positions",
    "one sample": "OptionError: samples 3: expected a tensor or a slice",
    "swapped tokens": "OptionError: the data are a Tensor",
}


def test_untyped_misuse_is_refused_by_name() -> None:
    """In a process of its own: here beartype would be there first."""
    outcomes = outcomes_of(UNTYPED)
    assert set(outcomes) == set(OUTCOMES)
    for name, start in OUTCOMES.items():
        assert outcomes[name].startswith(start), f"{name}: {outcomes[name]}"
