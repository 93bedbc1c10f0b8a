"""Where tokens go in a pooled sequence, against loops in the open."""

from __future__ import annotations

import pytest
import torch

from interp_compose.errors import SpanError
from interp_compose.interventions.pooling import PooledLayout
from tests.interventions.shared import shared

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
