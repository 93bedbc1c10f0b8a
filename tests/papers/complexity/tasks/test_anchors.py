"""Anchor functions, held to a reference that reads tokens as complexity control's eqs 1, 2 do."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings, strategies as st

from interp_compose.errors import InputError, OptionError
from interp_compose.papers.complexity.tasks.anchors import (
    ANCHORS,
    UNSEEN,
    AnchorData,
    AnchorTask,
    violations,
)

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


@settings(max_examples=40)
@given(
    options=options(),
    n=st.integers(1, 40),
    seed=st.integers(0, 2**32 - 1),
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


@settings(max_examples=40)
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
