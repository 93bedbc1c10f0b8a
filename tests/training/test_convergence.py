"""Runs that were stopped too early, and runs that were not, by hand-made histories."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from interp_compose.training.evaluate import convergence

NONE: Sequence[tuple[int, float]] = ()


def judged(
    losses: Sequence[float], accuracies: Sequence[tuple[int, float]] = NONE, n: int = 100
) -> tuple[bool, str]:
    """``accuracies`` are (step, accuracy) on ``n`` validation examples."""
    steps = pd.DataFrame({"task_loss": [float(loss) for loss in losses]})
    rows = [{"step": step, "accuracy": accuracy, "n": n} for step, accuracy in accuracies]
    return convergence(steps, pd.DataFrame(rows, columns=["step", "accuracy", "n"]))


def test_a_loss_that_still_falls() -> None:
    losses = np.linspace(5, 1, 100)
    last, before = losses[-10:].mean(), losses[-20:-10].mean()
    expected = f"the training loss was still falling ({before:.3f} to {last:.3f})"
    assert judged(losses) == (False, expected)


@given(
    level=st.floats(0, 1e3, allow_subnormal=False),
    n=st.integers(20, 400),
    accuracy=st.floats(0, 1),
)
def test_a_loss_at_rest(level: float, n: int, accuracy: float) -> None:
    evaluations = [(n * i // 4, accuracy) for i in range(5)]
    assert judged([level] * n, evaluations) == (True, "")


@given(st.lists(st.floats(0, 100), min_size=20, max_size=60))
def test_a_loss_that_rises_is_not_said_to_fall(losses: list[float]) -> None:
    assert judged(sorted(losses)) == (True, "")


@given(st.lists(st.floats(0.1, 100), min_size=20, max_size=60), st.floats(1, 50))
def test_only_the_shape_of_the_loss_matters(losses: list[float], factor: float) -> None:
    """Above the floor a curve and its multiple are judged alike."""
    assert judged(losses)[0] == judged([factor * loss for loss in losses])[0] or _close_call(losses)


def _close_call(losses: Sequence[float]) -> bool:
    """A fall so near one of its two bounds that rounding decides."""
    tenth = len(losses) // 10
    last, before = np.array(losses[-tenth:]), np.array(losses[-2 * tenth : -tenth])
    fall = before.mean() - last.mean()
    error = np.sqrt((before.var(ddof=1) + last.var(ddof=1)) / tenth)
    return bool(np.isclose(fall, 2 * error) or np.isclose(fall, 0.1 * before.mean()))


def test_noise_is_no_fall() -> None:
    """A fall of a fifth, but steps that differ by far more."""
    rng = np.random.default_rng(0)
    losses = 1 + 0.8 * rng.standard_normal(100).clip(-1, 1)
    losses[-20:-10] += 1.1 - losses[-20:-10].mean()
    losses[-10:] += 0.9 - losses[-10:].mean()
    assert judged(losses) == (True, "")
    quiet = np.concatenate([np.ones(80), np.full(10, 1.1), np.full(10, 0.9)])
    assert judged(quiet)[0] is False


@pytest.mark.parametrize(("drop", "settled"), [(0.09, True), (0.11, False)])
def test_a_fall_counts_from_a_tenth(drop: float, settled: bool) -> None:
    losses = [2.0] * 90 + [2.0 * (1 - drop)] * 10
    assert judged(losses)[0] is settled


def test_a_loss_near_zero_may_go_on_falling() -> None:
    losses = [1.0] * 80 + [0.08] * 10 + [0.04] * 10
    assert judged(losses) == (True, "")
    assert judged([1.0] * 80 + [0.8] * 10 + [0.4] * 10)[0] is False


@pytest.mark.parametrize("n", [1, 7, 19])
def test_too_short(n: int) -> None:
    assert judged([1.0] * n) == (False, f"{n} steps are too few to come to rest")


def test_an_accuracy_that_still_rises() -> None:
    evaluations = [(0, 0.1), (25, 0.2), (50, 0.3), (75, 0.4), (100, 0.7)]
    expected = "validation accuracy was still rising (0.400 to 0.700)"
    assert judged([1.0] * 100, evaluations) == (False, expected)


def test_a_rise_within_two_standard_errors_is_none() -> None:
    """√((0.24 + 0.25) / n) is 0.07 at 100 examples and 0.007 at 10,000."""
    evaluations = [(0, 0.1), (60, 0.4), (100, 0.5)]
    assert judged([1.0] * 100, evaluations, n=100) == (True, "")
    assert judged([1.0] * 100, evaluations, n=10_000)[0] is False


def test_an_accuracy_that_has_been_there_before() -> None:
    evaluations = [(0, 0.1), (30, 0.2), (60, 0.9), (90, 0.2), (100, 0.7)]
    assert judged([1.0] * 100, evaluations) == (True, "")


@pytest.mark.parametrize(
    "evaluations",
    [
        NONE,
        [(0, 0.0), (100, 0.9)],  # two: before and after
        [(0, 0.0), (10, 0.1), (100, 0.9)],  # none in the third quarter
    ],
)
def test_an_accuracy_that_cannot_be_followed_says_nothing(
    evaluations: Sequence[tuple[int, float]],
) -> None:
    assert judged([1.0] * 100, evaluations) == (True, "")


def test_both_reasons_are_told() -> None:
    settled, why = judged(np.linspace(5, 1, 100), [(0, 0.1), (60, 0.2), (100, 0.9)])
    assert not settled
    assert why.startswith("the training loss was still falling (")
    assert why.endswith("; validation accuracy was still rising (0.200 to 0.900)")


def test_what_it_cannot_see() -> None:
    """A plateau looks like rest, and so does a run whose learning rate has fallen to zero."""
    assert judged([5.0] * 100)[0]
    steps = np.arange(100)
    annealed = 3 + np.cos(np.pi * steps / 100)  # still at 2 nats, and flat at the end
    assert judged(annealed)[0]
