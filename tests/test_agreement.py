"""Intervals and differences against explicitly resampled lists; bad input."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import numpy as np
import pytest

from interp_compose.errors import InputError, OptionError
from interp_compose.stats.agreement import METRICS, agreement, bootstrap_counts
from interp_compose.stats.intervals import bootstrap_interval, expanded_percentiles
from tests.slow_agreement import ALL, SLOW, judged, slow_agreement, slow_interval
from tests.untyped import outcomes_of


@pytest.mark.parametrize("metric", ALL)
@pytest.mark.parametrize("digits", [12, 2, 1], ids=["no ties", "ties", "many ties"])
def test_every_field_is_that_of_explicitly_resampled_lists(metric: str, digits: int) -> None:
    x, y = judged(23, 3, 5, metric=metric)
    x, y = x.round(digits), y.round(digits)
    asked: dict[str, Any] = {"level": 0.9, "samples": 53, "seed": 7}
    got = agreement(x, y, metric, reference=x[:, 1], **asked)
    expected = slow_agreement(x, y, metric, x[:, 1], **asked)
    np.testing.assert_allclose(np.stack(got), expected, rtol=0, atol=1e-12)
    assert np.isfinite(expected).all()
    assert (got.low < got.value).all()
    assert (got.value < got.high).all()


@pytest.mark.parametrize("metric", ALL)
def test_blocks_of_samples_join(metric: str) -> None:
    """Enough pairs that 199 samples need more than one block; the last is not full."""
    x, y = judged(1627, 2, 3, metric=metric)
    got = agreement(x.round(3), y.round(2), metric, samples=199)
    order = np.random.default_rng(0)
    drawn = [order.integers(0, 1627, 1627) for _ in range(199)]
    for cell in range(2):
        each = [
            agreement(x.round(3)[d, cell : cell + 1], y.round(2)[d], metric, samples=1).value[0]
            for d in drawn
        ]
        assert (got.low[cell], got.high[cell]) == pytest.approx(
            slow_interval(each, 1627, 0.95), abs=1e-12
        )


@pytest.mark.parametrize("metric", ALL)
def test_the_reference_itself_differs_by_exactly_zero(metric: str) -> None:
    """To the last bit, whatever its place among the columns of a matrix product."""
    x, y = judged(101, 17, 11, metric=metric)
    for cell in range(17):
        got = agreement(x, y, metric, reference=x[:, cell], samples=20)
        own = (got.difference[cell], got.difference_low[cell], got.difference_high[cell])
        assert own == (0.0, 0.0, 0.0)
        others = np.arange(17) != cell
        assert (got.difference_low < got.difference_high)[others].all()


def test_the_difference_is_paired() -> None:
    """Two cells that agree pair by pair differ by little, whatever the pairs drawn."""
    x, y = judged(200, 3, 0, metric="pearson")
    near = x[:, 2] + 1e-4 * np.random.default_rng(1).normal(size=200)
    got = agreement(x[:, 2:], y, "pearson", reference=near)
    assert got.high[0] - got.low[0] > 0.05
    assert 0 < got.difference_high[0] - got.difference_low[0] < 0.001


@pytest.mark.parametrize("metric", ALL)
def test_without_a_reference_there_is_no_difference(metric: str) -> None:
    x, y = judged(31, 5, 0, metric=metric)
    alone, beside = agreement(x, y, metric), agreement(x, y, metric, reference=x[:, 0])
    assert np.isnan(alone[3:]).all()
    np.testing.assert_allclose(np.stack(alone[:3]), np.stack(beside[:3]), rtol=0, atol=1e-14)
    assert all(field.shape == (5,) and field.dtype == np.float64 for field in alone + beside)


@pytest.mark.parametrize("metric", METRICS["score"])
def test_samples_without_a_value_are_left_out(metric: str) -> None:
    """One pair stands out of twelve; about a third of the samples, (11/12)^12, do not vary."""
    x, y = np.zeros(12), np.random.default_rng(0).random(12)
    x[3] = 1
    drawn = bootstrap_counts(12, 200, 0)
    values = np.array([SLOW[metric](x.repeat(times), y.repeat(times)) for times in drawn])
    there = values[~np.isnan(values)]
    assert 40 < 200 - len(there) < 100
    got = agreement(x[:, None], y, metric, samples=200)
    assert (got.low[0], got.high[0]) == pytest.approx(slow_interval(there.tolist(), 12, 0.95))


@pytest.mark.parametrize(("metric", "n"), [("pearson", 10), ("spearman", 10), ("auc", 10)])
def test_no_interval_from_few_pairs_or_where_every_sample_is_perfect(metric: str, n: int) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.random((n, 1)), (np.arange(n) % 2).astype(float)
    got = agreement(x, y, metric, reference=rng.random(n))
    assert np.isfinite(np.stack(got)).all()
    for few in (slice(1, None), slice(3, None)):  # for auc four of a label, then fewer
        got = agreement(x[few], y[few], metric, reference=x[few, 0])
        assert np.isfinite([got.value, got.difference]).all()
        assert np.isnan([got.low, got.high, got.difference_low, got.difference_high]).all()
    got = agreement(y[:, None], y, metric)
    assert got.value[0] == pytest.approx(1)
    assert np.isnan([got.low[0], got.high[0]]).all()


@pytest.mark.parametrize("metric", METRICS["score"])
def test_too_few_samples_with_a_value_give_no_interval(metric: str) -> None:
    """Both vary only if pairs 0 and 2 are drawn: in 12 of 27 samples, fewer than half."""
    x, y = np.array([[0.0], [0.0], [1.0]]), np.array([0.0, 1.0, 1.0])
    got = agreement(x, y, metric, reference=x[:, 0])
    assert got.value[0] == pytest.approx(0.5, abs=1e-15)
    assert np.isnan([got.low[0], got.high[0], got.difference_low[0], got.difference_high[0]]).all()
    assert got.difference[0] == 0


def test_exactly_half_of_the_samples_are_enough() -> None:
    """A correlation exists if both the pair that stands out in x and the one in y are drawn."""
    x, y = np.zeros((12, 1)), np.zeros(12)
    x[3], y[7] = 1, 1
    both = [bool(times[3] and times[7]) for times in bootstrap_counts(12, 400, 0)]
    share = np.cumsum(both) / np.arange(1, 401)
    half, fewer = int(np.flatnonzero(share == 0.5)[-1]) + 1, 400
    assert half > 20
    assert share[-1] < 0.5
    assert agreement(x, y, "pearson", samples=half).low[0] < 0
    assert np.isnan(agreement(x, y, "pearson", samples=fewer).low[0])


def test_counts_are_the_draws_of_the_means_interval() -> None:
    values = np.random.default_rng(0).random((37, 3))
    counts = bootstrap_counts(37, 211, 9)
    assert counts.shape == (211, 37)
    assert (counts.sum(axis=1) == 37).all()
    rng = np.random.default_rng(9)
    for times in counts:
        drawn = rng.integers(0, 37, 37)
        assert times.tolist() == [int((drawn == pair).sum()) for pair in range(37)]
    expected = expanded_percentiles(counts @ values / 37, 37, 0.9)
    got = bootstrap_interval(values, level=0.9, samples=211, seed=9)
    np.testing.assert_allclose(np.stack(got), expected, rtol=0, atol=1e-14)


def test_seed_and_level() -> None:
    x, y = judged(61, 1, 0, metric="pearson")
    first, again = agreement(x, y, "pearson"), agreement(x, y, "pearson")
    other, wide = agreement(x, y, "pearson", seed=1), agreement(x, y, "pearson", level=0.99)
    np.testing.assert_array_equal(np.stack(first), np.stack(again))
    assert first.value == other.value == wide.value
    assert first.low != other.low
    assert wide.low < first.low < first.high < wide.high


def test_input_is_left_as_it_was() -> None:
    x, y = judged(11, 3, 0, metric="pearson")
    before = x.copy(), y.copy()
    agreement(x, y, "pearson", reference=x[:, 0], samples=5)
    assert np.array_equal(x, before[0])
    assert np.array_equal(y, before[1])


def test_float32_is_computed_in_float64() -> None:
    x, y = judged(31, 2, 0, metric="pearson")
    narrow = x.astype(np.float32)
    got, expected = agreement(narrow, y, "pearson"), agreement(narrow.astype(float), y, "pearson")
    np.testing.assert_array_equal(np.stack(got), np.stack(expected))


def test_metrics_are_those_that_exist() -> None:
    assert set(METRICS["score"]) | set(METRICS["label"]) == set(ALL)
    x, y = judged(5, 0, 0, metric="auc")
    for metric in ALL:
        assert agreement(x, y, metric, reference=y).value.shape == (0,)


def test_memory_stays_small() -> None:
    """1627 pairs × 1000 samples: 13 MB in float64, so a few such arrays at the most."""
    x, y = judged(1627, 5, 0, metric="pearson")
    for metric in METRICS["score"]:
        tracemalloc.start()
        agreement(x, y, metric, reference=x[:, 0])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 50e6


@pytest.mark.parametrize("metric", METRICS["score"])
def test_the_interval_covers_the_truth(metric: str) -> None:
    """Bivariate normal, ρ = ½; Spearman's is then 6/π arcsin(ρ/2) (Pearson 1907)."""
    truth = 0.5 if metric == "pearson" else 6 / math.pi * math.asin(0.25)
    rng = np.random.default_rng(8)
    covered = 0
    for repetition in range(200):
        y = rng.normal(size=100)
        x = 0.5 * y + math.sqrt(0.75) * rng.normal(size=100)
        got = agreement(x[:, None], y, metric, samples=300, seed=repetition)
        covered += bool(got.low[0] <= truth <= got.high[0])
    assert 0.88 <= covered / 200 <= 0.99


# Bad input.

X, Y = judged(5, 2, 0, metric="auc")


def spoilt(values: np.ndarray, at: tuple[int, ...], value: float) -> np.ndarray:
    values = values.copy()
    values[at] = value
    return values


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cosines": spoilt(X, (3, 1), math.nan)}, "cosines has nan for pair 3; expected finite"),
        ({"target": spoilt(Y, (2,), math.inf)}, "target has inf for pair 2; expected finite"),
        ({"reference": spoilt(Y, (4,), -math.inf)}, "reference has -inf for pair 4"),
        ({"target": spoilt(Y, (1,), 0.5)}, "target is 0.5 for pair 1; auc expects labels 0 or 1"),
        ({"cosines": X[:0], "target": Y[:0]}, "target has the shape [0]; expected [pairs], one"),
        ({"samples": 0}, "samples=0: expected an integer, 1 or more"),
        ({"seed": -1}, "seed=-1: expected an integer, 0 or more"),
        ({"level": 95.0}, "level is 95.0; expected a confidence between 0 and 1"),
        ({"level": 0.0}, "level is 0.0"),
        ({"level": math.nan}, "level is nan"),
    ],
)
def test_bad_input_is_refused(changes: dict[str, Any], message: str) -> None:
    call: dict[str, Any] = {"cosines": X, "target": Y, "metric": "auc"} | changes
    with pytest.raises(InputError) as caught:
        agreement(**call)
    assert message in str(caught.value)


def test_an_unknown_metric_is_refused() -> None:
    with pytest.raises(
        OptionError, match="unknown metric 'kendall': expected one of pearson, spearman, auc"
    ):
        agreement(X, Y, "kendall")


SCRIPT = """
import numpy as np
from interp_compose.stats.agreement import agreement
x, y = np.random.default_rng(0).random((5, 2)), np.arange(5.0)
calls = {
    "one column": lambda: agreement(x[:, 0], y, "pearson"),
    "other pairs": lambda: agreement(x[:4], y, "pearson"),
    "a wide target": lambda: agreement(x, x, "pearson"),
    "no target": lambda: agreement(x, None, "pearson"),
    "a short reference": lambda: agreement(x, y, "pearson", reference=y[:1]),
    "words": lambda: agreement(x, ["a"] * 5, "pearson"),
    "a list of metrics": lambda: agreement(x, y, ["pearson"]),
    "whole numbers": lambda: agreement(x.tolist(), list(range(5)), "pearson"),
}
"""


def test_untyped_input_is_refused() -> None:
    """In a process of its own, because here beartype would be there first."""
    got = outcomes_of(SCRIPT)
    expected = {
        "one column": "InputError: cosines has the shape [5]; expected [5, cells], one row per",
        "other pairs": "InputError: cosines has the shape [4, 2]; expected [5, cells], one row",
        "a wide target": "InputError: target has the shape [5, 2]; expected [pairs], one row per",
        "no target": "InputError: target has the shape []; expected [pairs]",
        "a short reference": "InputError: reference has the shape [1]; expected [5], one row per",
        "words": "InputError: target is no array of numbers (could not convert string to float",
        "a list of metrics": "OptionError: unknown metric ['pearson']: expected one of pearson",
        "whole numbers": "accepted",
    }
    assert set(got) == set(expected)
    for name, message in expected.items():
        assert got[name].startswith(message), name
