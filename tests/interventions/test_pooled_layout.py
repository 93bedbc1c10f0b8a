"""Where tokens go in a pooled sequence, against loops in the open."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings, strategies as st

from interp_compose.errors import SpanError
from interp_compose.interventions.pooling import PooledLayout, shuffled_groups
from tests.interventions.shared import shared
from tests.interventions.test_pooling import groupings

GROUPS = torch.tensor([[-1, 0, 0, 1, -1, -1], [-1, 0, 1, 1, 1, 2]])
MASK = torch.tensor([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]])


def test_specials_stay_alone_padding_leaves_and_the_prediction_is_last() -> None:
    layout = PooledLayout.from_groups(GROUPS, MASK)
    assert layout.n_positions == 4
    assert layout.of_token.tolist() == [[1, 2, 2, 3, -1, -1], [0, 1, 2, 2, 2, 3]]
    assert layout.mask.tolist() == [[0, 1, 1, 1], [1, 1, 1, 1]]
    assert layout.last_token.tolist() == [[0, 0, 2, 3], [0, 1, 4, 5]]
    assert layout.sizes.tolist() == [[0, 1, 2, 1], [1, 1, 3, 1]]
    assert layout.affected.tolist() == [1, 1]


def test_the_side_of_the_padding_does_not_matter() -> None:
    right = PooledLayout.from_groups(GROUPS[:1], MASK[:1])
    left = PooledLayout.from_groups(GROUPS[:1].roll(2, 1), MASK[:1].roll(2, 1))
    assert torch.equal(right.mask, left.mask)
    assert torch.equal(right.of_token.roll(2, 1), left.of_token)
    positions = torch.tensor([[0, 1, 2, 3, 0, 0]])
    assert torch.equal(right.positions(positions), left.positions(positions.roll(2, 1)))


def test_positions_are_the_last_tokens_or_renumbered() -> None:
    layout = PooledLayout.from_groups(GROUPS, MASK)
    token_positions = (MASK.cumsum(1) - 1).clamp(min=0)
    assert layout.positions(token_positions).tolist() == [[0, 0, 2, 3], [0, 1, 4, 5]]
    renumbered = shared("GPT-2").renumbered(layout.positions(token_positions), layout.mask)
    assert renumbered.tolist() == [[0, 0, 1, 2], [0, 1, 2, 3]]


def test_scattered_units_are_refused() -> None:
    with pytest.raises(SpanError, match=r"groups of row 0 are scattered.*next to one another"):
        PooledLayout.from_groups(torch.tensor([[0, 1, 0]]), torch.ones(1, 3).long())


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
