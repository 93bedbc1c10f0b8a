"""Following a stable rank through training: right, cheap, and not led astray."""

from __future__ import annotations

import math

import pytest
import torch

from interp_compose.errors import InputError, NonFiniteError, OptionError
from interp_compose.probes import rank_tracker as tracking
from interp_compose.probes.lanczos import TopPair, top_pair
from interp_compose.probes.rank_tracker import StableRankTracker
from tests.probes.slow import slow_rank


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Steps of each iteration that a tracker runs."""
    taken: list[int] = []

    def counted(*args: object, **options: object) -> TopPair:
        top = top_pair(*args, **options)  # type: ignore[arg-type]
        taken.append(top.steps)
        return top

    monkeypatch.setattr(tracking, "top_pair", counted)
    return taken


def test_it_follows_a_moving_matrix_in_two_steps_a_look(steps: list[int]) -> None:
    torch.manual_seed(0)
    A = torch.randn(150, 200)
    tracker = StableRankTracker(check_every=100)
    for _ in range(12):
        A = A + 1e-3 * torch.randn(150, 200)
        assert tracker.update(A) == pytest.approx(slow_rank(A), rel=1e-4)
    assert steps[0] > 10
    assert max(steps[1:]) <= 4
    assert tracker.overtaken == 0


def test_a_jump_takes_as_many_steps_as_it_needs(steps: list[int]) -> None:
    torch.manual_seed(0)
    tracker = StableRankTracker(check_every=100)
    for _ in range(4):
        A = torch.randn(150, 200)
        assert tracker.update(A) == pytest.approx(slow_rank(A), rel=1e-4)
    assert min(steps) > 10


def test_a_direction_that_overtakes_unseen_is_found_at_the_next_check() -> None:
    """Exactly orthogonal to the one followed, so that only a random start can see it."""
    tracker = StableRankTracker(check_every=3)
    values = torch.linspace(1, 0.5, 40)
    assert tracker.update(torch.diag(values)) == pytest.approx(slow_rank(torch.diag(values)), 1e-4)
    tracker._last = TopPair(1.0, torch.eye(40)[0], torch.eye(40)[0], 1)
    values[7] = 1.5
    found = [tracker.update(torch.diag(values)) for _ in range(4)]
    assert found[0] > 2 * slow_rank(torch.diag(values))  # the residual is zero all the same
    assert found[2:] == pytest.approx([slow_rank(torch.diag(values))] * 2, rel=1e-4)
    assert tracker.overtaken == 1


def test_dtypes_layouts_and_zero_may_change_on_the_way() -> None:
    torch.manual_seed(0)
    A = torch.randn(60, 60)
    tracker = StableRankTracker()
    turned = A.mT.contiguous().mT
    expected = slow_rank(A)
    for same in (A, turned, A.bfloat16(), A.double(), 1e25 * A, A):
        assert tracker.update(same) == pytest.approx(
            expected, rel=1e-2 if same.itemsize < 4 else 1e-4
        )
    assert tracker.update(0 * A) == 0
    assert tracker.update(A.requires_grad_()) == pytest.approx(expected, rel=1e-4)


def test_what_it_refuses() -> None:
    tracker = StableRankTracker()
    tracker.update(torch.eye(3))
    with pytest.raises(InputError, match=r"A has the shape \(4, 4\) and had \(3, 3\): a tracker"):
        tracker.update(torch.eye(4))
    with pytest.raises(NonFiniteError, match="A has 3 NaN or infinite entries of 9"):
        tracker.update(torch.diag(torch.full((3,), math.nan)))
    with pytest.raises(OptionError, match="check_every=0: expected a whole number of evaluations"):
        StableRankTracker(check_every=0)
    with pytest.raises(OptionError, match="tolerance=1.0: expected a number between 1e-06"):
        StableRankTracker(tolerance=1.0)
