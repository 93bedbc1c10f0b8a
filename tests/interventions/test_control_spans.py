"""Where spans of controls lie, against every way that there is and texts worked out by hand."""

from __future__ import annotations

import itertools
from functools import partial

import pytest
import torch
from hypothesis import given, settings, strategies as st

from interp_compose.interventions.control_spans import (
    n_moved,
    n_several,
    on_sides,
    shuffled_groups,
    straddled_groups,
)
from interp_compose.interventions.pooling import PooledLayout
from tests.interventions.test_pooling import groupings


@given(groups=groupings(), seed=st.integers(0, 99), example=st.integers(0, 99))
@settings(max_examples=60)
def test_shuffling_keeps_sizes_specials_and_the_prediction(
    groups: list[int], seed: int, example: int
) -> None:
    shuffled = shuffled_groups(groups, seed=seed, example=example)
    assert shuffled == shuffled_groups(groups, seed=seed, example=example)
    assert [g < 0 for g in shuffled] == [g < 0 for g in groups]

    def sizes(units: list[int]) -> list[int]:
        return [units.count(unit) for unit in sorted({*units} - {-1})]

    assert sorted(sizes(shuffled)) == sorted(sizes(groups))
    assert sizes(shuffled)[-1] == sizes(groups)[-1]
    kept = [g for g in shuffled if g >= 0]
    assert kept == sorted(kept)


def test_the_last_unit_may_be_let_go() -> None:
    groups = [-1, 0, 1, 1, 1, -1]
    variants = {
        tuple(shuffled_groups(groups, seed=seed, example=0, keep_last=False)) for seed in range(9)
    }
    assert variants == {(-1, 0, 1, 1, 1, -1), (-1, 0, 0, 0, 1, -1)}
    assert {tuple(shuffled_groups(groups, seed=seed, example=0)) for seed in range(9)} == {
        tuple(groups)
    }


def test_shuffling_moves_something_and_depends_on_seed_and_example() -> None:
    groups = [0, 1, 1, 2, 3, 3, 3, 4, 5, 5, 6]
    variants = {
        tuple(shuffled_groups(groups, seed=seed, example=example))
        for seed in range(3)
        for example in range(3)
    }
    assert len(variants) > 4
    assert tuple(groups) not in {tuple(shuffled_groups(groups, seed=0, example=0))}


# --- one token off -------------------------------------------------------------------------------


@st.composite
def texts(draw: st.DrawFn) -> list[int]:
    """Units of mostly one or two tokens, and special tokens anywhere between them."""
    sizes = draw(st.lists(st.sampled_from([0, 1, 1, 1, 2, 2, 3]), min_size=1, max_size=9))
    units = iter(range(len(sizes)))
    return [unit for n in sizes for unit in ([next(units)] * n if n else [-1])]


def spans(groups: list[int]) -> list[tuple[int, int]]:
    """First token and number of tokens of each unit, in order."""
    units = dict.fromkeys(unit for unit in groups if unit >= 0)
    return [(groups.index(unit), groups.count(unit)) for unit in units]


def plans(groups: list[int], keep_last: bool) -> list[tuple[list[list[tuple[int, int]]], set]]:
    """Of each stretch between special tokens, that is of tokens at these places, its runs of units
    of several tokens, and the places of units of one token that may give way."""
    stretches, units = [], spans(groups)
    if keep_last and units:
        units = units[:-1]
    for special, places in itertools.groupby(range(len(groups)), lambda at: groups[at] < 0):
        if special:
            continue
        inside, runs = {*places}, []
        several = [unit for unit in units if unit[0] in inside and unit[1] > 1]
        for unit in several:
            if runs and sum(runs[-1][-1]) == unit[0]:
                runs[-1].append(unit)
            else:
                runs.append([unit])
        stretches.append((runs, {first for first, n in units if n == 1 and first in inside}))
    return stretches


def best(runs: list[list[tuple[int, int]]], single: set[int], left_first: bool) -> tuple[int, int]:
    """Of every choice of sides in which no two runs take one token, and none takes a token that is
    no unit of its own: the most units moved and, of these, the most runs in turn."""
    scores = []
    for sides in itertools.product((-1, 0, 1), repeat=len(runs)):
        takes = [
            run[0][0] - 1 if side < 0 else sum(run[-1])
            for run, side in zip(runs, sides, strict=True)
            if side
        ]
        if len({*takes}) == len(takes) and {*takes} <= single:
            turns = itertools.cycle((-1, 1) if left_first else (1, -1))
            scores.append(
                (
                    sum(len(run) for run, side in zip(runs, sides, strict=True) if side),
                    sum(side == turn for side, turn in zip(sides, turns, strict=False)),
                )
            )
    return max(scores)


@given(groups=texts(), left_first=st.booleans(), keep_last=st.booleans())
@settings(max_examples=300)
def test_spans_are_one_token_off_in_the_best_of_all_ways(
    groups: list[int], left_first: bool, keep_last: bool
) -> None:
    options = {"left_first": left_first, "keep_last": keep_last}
    straddled = straddled_groups(groups, **options)
    assert straddled == straddled_groups(groups, **options)
    # Specials stay; units are numbered in order, each in one piece, and every token has one.
    assert [unit < 0 for unit in straddled] == [unit < 0 for unit in groups]
    units, moved = spans(groups), spans(straddled)
    assert [unit for unit in straddled if unit >= 0] == [
        number for number, (_, n) in enumerate(moved) for _ in range(n)
    ]
    # As many positions after pooling, of the same sizes, those of several tokens in one order.
    assert sorted(n for _, n in moved) == sorted(n for _, n in units)
    before, after = ([one for one in some if one[1] > 1] for some in (units, moved))
    assert [n for _, n in before] == [n for _, n in after]
    if keep_last and units:
        assert units[-1] == moved[-1]
    # A span of several tokens moves by one token at most; one that moves is no unit.
    sides = {one: two[0] - one[0] for one, two in zip(before, after, strict=True)}
    assert {*sides.values()} <= {-1, 0, 1}
    assert {*after} & {*before} == {one for one, side in sides.items() if side == 0}
    assert n_several(groups) == len(before)
    assert n_moved(groups, straddled) == sum(side != 0 for side in sides.values())
    # Runs move as one, as many units as can, as many runs in turn as can.
    for runs, single in plans(groups, keep_last):
        of_runs = [{sides[unit] for unit in run} for run in runs]
        assert all(len(of_run) == 1 for of_run in of_runs)
        turns = itertools.cycle((-1, 1) if left_first else (1, -1))
        score = (
            sum(sides[unit] != 0 for run in runs for unit in run),
            sum(side == {turn} for side, turn in zip(of_runs, turns, strict=False)),
        )
        assert score == best(runs, single, left_first)


@given(groups=texts(), left_first=st.booleans())
def test_one_token_off_the_pooled_sequence_is_as_long(groups: list[int], left_first: bool) -> None:
    straddled = straddled_groups(groups, left_first=left_first)
    mask = torch.ones(1, len(groups)).long()
    layouts = [PooledLayout.from_groups(torch.tensor([one]), mask) for one in (groups, straddled)]
    assert layouts[0].n_positions == layouts[1].n_positions


@pytest.mark.parametrize(
    ("groups", "left", "right"),
    [
        # In turn; the last unit stays, and the unit before it may give way.
        ([0, 1, 1, 2, 3, 4, 4, 5, 6], [0, 0, 1, 2, 3, 4, 5, 5, 6], [0, 1, 2, 2, 3, 3, 4, 5, 6]),
        # Units side by side move as one.
        ([0, 1, 1, 2, 2, 2, 3, 4], [0, 0, 1, 1, 1, 2, 3, 4], [0, 1, 2, 2, 3, 3, 3, 4]),
        # The last unit gives way to none, and nor does a special token or the text's edge.
        ([-1, 0, 1, 1, 2], [-1, 0, 0, 1, 2], [-1, 0, 0, 1, 2]),
        ([0, 0, 1, 2], [0, 1, 1, 2], [0, 1, 1, 2]),
        ([-1, 0, 0, -1, 1, 2], [-1, 0, 0, -1, 1, 2], [-1, 0, 0, -1, 1, 2]),
        # One token between two runs gives way to one of them; the other goes the other way.
        ([0, 1, 1, 2, 3, 3, 4], [0, 0, 1, 2, 2, 3, 4], [0, 0, 1, 2, 2, 3, 4]),
        # Where only one of two runs can move, it is the one with more units.
        ([0, 0, 1, 2, 2, 3, 3, 4], [0, 0, 1, 1, 2, 2, 3, 4], [0, 0, 1, 1, 2, 2, 3, 4]),
    ],
)
def test_one_token_off_by_hand(groups: list[int], left: list[int], right: list[int]) -> None:
    assert straddled_groups(groups, left_first=True) == left
    assert straddled_groups(groups, left_first=False) == right


def test_the_last_unit_moves_where_nothing_is_predicted_from_it() -> None:
    off = partial(straddled_groups, left_first=False)
    assert off([0, 1, 1, -1], keep_last=False) == [0, 0, 1, -1]
    assert off([0, 1, 1, -1], keep_last=True) == [0, 1, 1, -1]


def test_each_side_of_an_encoder_decoder_is_placed_alone() -> None:
    off = partial(straddled_groups, left_first=True)
    # Source "0 1 1 </s>", then the target's start token, "2 2 3 4": no span crosses the border.
    assert on_sides(off, [0, 1, 1, -1, -1, 2, 2, 3, 4], 4) == [0, 0, 1, -1, -1, 2, 3, 3, 4]
    assert on_sides(off, [0, 1, 1, -1, -1, 2, 2, 3], 4) == [0, 0, 1, -1, -1, 2, 2, 3]
    assert on_sides(off, [0, 0, 1, 2], None) == [0, 1, 1, 2]
    assert on_sides(off, [-1, -1, 0], 1) == [-1, -1, 0]
