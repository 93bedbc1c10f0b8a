"""Known values, digits, constant sides and laws of the three measures."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from interp_compose.stats.agreement import (
    METRICS,
    Agreement,
    agreement,
    auc,
    bootstrap_counts,
    pearson,
    spearman,
)
from tests.slow_agreement import ALL, SLOW, judged, slow_agreement


def test_known_values() -> None:
    x, y = np.array([[1.0], [2.0], [3.0], [4.0]]), np.array([1.0, 2.0, 2.0, 9.0])
    # x − x̄ = ±1.5, ±0.5 and y − ȳ = −2.5, −1.5, −1.5, 5.5: 12 / √(5 · 41)
    assert agreement(x, y, "pearson").value[0] == pytest.approx(12 / math.sqrt(205), abs=1e-15)
    # ranks of y − 2.5: −1.5, 0, 0, 1.5: 4.5 / √(5 · 4.5)
    assert agreement(x, y, "spearman").value[0] == pytest.approx(math.sqrt(0.9), abs=1e-15)
    # of 2 × 3 comparisons 4 won and 1 drawn
    x, y = np.array([[0.2], [0.5], [0.5], [0.4], [0.9]]), np.array([0.0, 0.0, 1.0, 0.0, 1.0])
    assert agreement(x, y, "auc").value[0] == pytest.approx(5.5 / 6, abs=1e-15)


@pytest.mark.parametrize("metric", ALL)
def test_perfect_agreement_is_exactly_one(metric: str) -> None:
    x = np.random.default_rng(1).random(19)
    y = (x > 0.5).astype(float) if metric == "auc" else x
    up, down = agreement(x[:, None], y, metric), agreement(-x[:, None], y, metric)
    least = 0.0 if metric == "auc" else -1.0
    assert up.value == pytest.approx([1.0], abs=1e-15)
    assert up.value <= 1
    assert down.value == pytest.approx([least], abs=1e-15)
    assert down.value >= least
    assert np.isnan([*up[1:3], *down[1:3]]).all()  # one value in every sample is no interval


@pytest.mark.parametrize("centre", [0.98, -1e4, 1e300])
def test_pearson_keeps_its_digits_far_from_zero(centre: float) -> None:
    """Numbers whose spread is a millionth of their mean, and targets far from 0 as well."""
    rng = np.random.default_rng(2)
    z = rng.normal(size=29)
    x = centre * (1 + 1e-6 * z)
    y = 1e3 + 1e-3 * (z + rng.normal(size=29))
    asked: dict[str, Any] = {"level": 0.95, "samples": 31, "seed": 0}
    got = agreement(x[:, None], y, "pearson", reference=x, **asked)
    expected = slow_agreement(x[:, None], y, "pearson", x, **asked)
    np.testing.assert_allclose(np.stack(got), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("centre", "spread"),
    [(0, 1e-3), (0, 1e-9), (0, 1e-20), (0.97, 1e-6), (0.97, 1e-15)],  # the last: a few last bits
)
@pytest.mark.parametrize("outlier", ["cosine", "target"])
def test_pearson_keeps_its_digits_when_an_outlier_is_not_drawn(
    centre: float, spread: float, outlier: str
) -> None:
    rng = np.random.default_rng(4)
    x, y = centre + spread * rng.normal(size=13), rng.normal(size=13)
    x[6] = 1.0
    if outlier == "target":
        x, y = y, x
    asked: dict[str, Any] = {"level": 0.5, "samples": 61, "seed": 0}
    got = agreement(x[:, None], y, "pearson", reference=x, **asked)
    expected = slow_agreement(x[:, None], y, "pearson", x, **asked)
    np.testing.assert_allclose(np.stack(got), expected, rtol=0, atol=1e-12)
    assert got.high[0] - got.low[0] > 0.1


@pytest.mark.parametrize("metric", ALL)
@pytest.mark.parametrize("constant", ["cosines", "target"])
def test_a_constant_side_has_no_value(metric: str, constant: str) -> None:
    """0.1 + 0.2 is no binary fraction: its mean over seven is rounded, its spread is 0."""
    x, y = judged(7, 2, 0, metric=metric)
    if constant == "cosines":
        x[:, 0] = 0.1 + 0.2
    else:
        y[:] = 1 if metric == "auc" else 0.1 + 0.2
    got = agreement(x, y, metric, reference=x[:, 0], samples=40)
    if metric == "auc" and constant == "cosines":
        assert got.value[0] == 0.5
        assert np.isnan([got.low[0], got.high[0]]).all()
        assert got.difference[0] == 0
    else:
        assert np.isnan([field[0] for field in got]).all()
        assert np.isnan(got.difference[1])
    assert np.isnan(got.value[1]) == (constant == "target")


@pytest.mark.parametrize("metric", METRICS["score"])
@pytest.mark.parametrize("n", [1, 2])
def test_fewer_than_three_pairs_have_no_correlation(metric: str, n: int) -> None:
    x = np.arange(2.0 * n).reshape(n, 2)
    assert np.isnan(agreement(x, x[:, 0], metric, reference=x[:, 1])).all()
    x, y = np.array([[0.1], [0.2], [0.4]]), np.array([1.0, 2.0, 4.0])
    assert agreement(x, y, metric).value[0] == pytest.approx(1, abs=1e-15)


# Laws. Whole numbers, so that maps of them are exact and ties are frequent.

whole = st.integers(-40, 40).map(float)
pairs = st.lists(st.tuples(whole, whole, st.sampled_from([0.0, 1.0])), min_size=1, max_size=17)
Triple = tuple[float, float, float]


def of(rows: list[Triple], metric: str) -> tuple[np.ndarray, np.ndarray]:
    """Cosines of one cell, and the score or the label."""
    table = np.array(rows)
    return table[:, :1], table[:, 2 if metric == "auc" else 1].copy()


def run(x: np.ndarray, y: np.ndarray, metric: str) -> Agreement:
    return agreement(x, y, metric, samples=9, seed=1)


@pytest.mark.parametrize("metric", ALL)
@settings(max_examples=60)
@given(rows=pairs)
def test_law_range_and_slow_reference(metric: str, rows: list[Triple]) -> None:
    x, y = of(rows, metric)
    got = run(x, y, metric)
    expected = SLOW[metric](x[:, 0], y)
    assert got.value[0] == pytest.approx(expected, abs=1e-12, nan_ok=True)
    least = 0 if metric == "auc" else -1
    there = np.stack(got[:3])[~np.isnan(got[:3])]
    assert ((there >= least) & (there <= 1)).all()


@settings(max_examples=60)
@given(rows=pairs, slope=st.floats(1e-3, 1e3), shift=st.floats(-100, 100))
def test_law_pearson_under_positive_affine_maps(
    rows: list[Triple], slope: float, shift: float
) -> None:
    x, y = of(rows, "pearson")
    for mapped in (run(slope * x + shift, y, "pearson"), run(x, slope * y + shift, "pearson")):
        np.testing.assert_allclose(
            np.stack(mapped), np.stack(run(x, y, "pearson")), rtol=0, atol=1e-9
        )


@pytest.mark.parametrize("metric", ["spearman", "auc"])
@pytest.mark.parametrize("law", [np.exp, np.cbrt, lambda x: x**3 + x], ids=["exp", "root", "cube"])
@settings(max_examples=60)
@given(rows=pairs)
def test_law_ranks_under_increasing_maps(
    metric: str, law: Callable[[np.ndarray], np.ndarray], rows: list[Triple]
) -> None:
    x, y = of(rows, metric)
    expected = np.stack(run(x, y, metric))
    np.testing.assert_array_equal(np.stack(run(law(x), y, metric)), expected)
    if metric == "spearman":
        np.testing.assert_array_equal(np.stack(run(x, law(y), metric)), expected)


@pytest.mark.parametrize("metric", ALL)
@settings(max_examples=60)
@given(rows=pairs)
def test_law_a_sign_mirrors(metric: str, rows: list[Triple]) -> None:
    """AUC(−x) = 1 − AUC(x), a correlation changes its sign, and the interval's ends swap."""
    x, y = of(rows, metric)
    up, down = run(x, y, metric), run(-x, y, metric)
    total = 1.0 if metric == "auc" else 0.0
    for a, b in ((up.value, down.value), (up.low, down.high), (up.high, down.low)):
        np.testing.assert_allclose(a + b, np.where(np.isnan(a), np.nan, total), rtol=0, atol=1e-12)


@pytest.mark.parametrize("metric", METRICS["score"])
@settings(max_examples=60)
@given(rows=pairs)
def test_law_correlations_are_symmetric(metric: str, rows: list[Triple]) -> None:
    x, y = of(rows, metric)
    there, back = run(x, y, metric), run(y[:, None], x[:, 0], metric)
    np.testing.assert_allclose(np.stack(there), np.stack(back), rtol=0, atol=1e-12)


@pytest.mark.parametrize("metric", ALL)
@settings(max_examples=60)
@given(rows=pairs, seed=st.integers(0, 2**32))
def test_law_counts_are_repetitions(metric: str, rows: list[Triple], seed: int) -> None:
    """What a measure says of counts is what it says of the pairs written out."""
    x, y = of(rows, metric)
    times = bootstrap_counts(len(y), 1, seed)
    make = {"pearson": pearson, "spearman": spearman, "auc": auc}[metric]
    weighted = make(x, y)(times)
    x, y = x.repeat(times[0], axis=0), y.repeat(times[0])
    explicit = make(x, y)(np.ones((1, len(y)), np.int32))
    np.testing.assert_allclose(weighted, explicit, rtol=0, atol=1e-12)
