"""Intervals against slow references written from the formulas."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given, strategies as st

from interp_compose.errors import InputError
from interp_compose.stats.intervals import (
    bootstrap_interval,
    expanded_percentiles,
    share_interval,
    wilson_interval,
)
from interp_compose.stats.paired_shares import paired_interval

Z95 = 1.959963984540054


def wilson_by_root(k: int, n: int, z: float) -> tuple[float, float]:
    """The p₀ at which (p̂ − p₀)² = z² p₀(1 − p₀)/n: the quadratic's two roots."""
    p = k / n
    a, b, c = 1 + z * z / n, -(2 * p + z * z / n), p * p
    root = math.sqrt(max(b * b - 4 * a * c, 0.0))
    return (-b - root) / (2 * a), (-b + root) / (2 * a)


@given(st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_solves_its_quadratic(counts: tuple[int, int]) -> None:
    k, n = counts
    low, high = wilson_interval(k, n)
    expected = wilson_by_root(k, n, Z95)
    assert (low, high) == pytest.approx(expected, abs=1e-9)
    assert 0 <= low <= k / n <= high <= 1
    mirrored = wilson_interval(n - k, n)
    assert (1 - mirrored[1], 1 - mirrored[0]) == pytest.approx((low, high), abs=1e-12)


def test_wilson_known_value() -> None:
    low, high = wilson_interval(8, 10)
    assert (low, high) == pytest.approx((0.4901625, 0.9433178), abs=1e-7)


def test_wilson_has_exact_ends_and_a_width_there() -> None:
    assert wilson_interval(0, 7)[0] == 0.0
    assert wilson_interval(7, 7)[1] == 1.0
    assert wilson_interval(0, 7)[1] > 0.3
    assert wilson_interval(7, 7)[0] < 0.7


def test_wilson_broadcasts_and_has_nan_for_nothing() -> None:
    low, high = wilson_interval(np.array([[0, 3], [2, 5]]), np.array([0, 5]) + np.array([[0], [2]]))
    assert low.shape == high.shape == (2, 2)
    assert math.isnan(low[0, 0])
    assert math.isnan(high[0, 0])
    assert (low[1, 1], high[1, 1]) == wilson_interval(5, 7)
    scalar = wilson_interval(0, 0)
    assert all(isinstance(end, float) and math.isnan(end) for end in scalar)


def test_wilson_level_widens() -> None:
    narrow, wide = wilson_interval(3, 11, level=0.5), wilson_interval(3, 11, level=0.99)
    assert wide[0] < narrow[0] < 3 / 11 < narrow[1] < wide[1]


@pytest.mark.parametrize("counts", [(-1, 5), (6, 5), (1, -1), (float("nan"), 5)])
def test_wilson_refuses_impossible_counts(counts: tuple[float, float]) -> None:
    with pytest.raises(InputError, match=r"is no proportion; expected 0 ≤ successes ≤ n"):
        wilson_interval(*counts)


@pytest.mark.parametrize("level", [0.0, 1.0, 95.0])
def test_levels_are_refused(level: float) -> None:
    with pytest.raises(InputError, match=r"level is .* between 0 and 1, e\.g\. 0\.95"):
        wilson_interval(1, 2, level=level)
    with pytest.raises(InputError, match="level is"):
        bootstrap_interval(np.ones((2, 1)), level=level)


def test_bootstrap_is_the_expanded_percentile_of_resampled_means() -> None:
    """Against a plain Python bootstrap with draws of its own; only noise may differ. Of 53 values
    t is 2.0066, and the ends lie at Φ(−√(53 / 52) t) = 2.14 %."""
    rng = np.random.default_rng(3)
    values = rng.random((53, 2))
    values[:, 1] = values[:, 0] ** 2
    low, high = bootstrap_interval(values, samples=4000, seed=1)
    draws = random.Random(7)
    for column in range(2):
        means = sorted(
            sum(values[draws.randrange(53), column] for _ in range(53)) / 53 for _ in range(4000)
        )
        assert low[column] == pytest.approx(means[86], abs=0.01)
        assert high[column] == pytest.approx(means[3914], abs=0.01)


@pytest.mark.parametrize(
    ("n", "t"), [(2, 12.706205), (5, 2.776445), (10, 2.262157), (31, 2.042272)]
)
def test_percentiles_are_as_far_out_as_few_examples_take(n: int, t: float) -> None:
    """t: Student's tabulated quantile of .975 with n − 1 degrees of freedom."""
    values = np.random.default_rng(n).random((1000, 2))
    alpha = math.erfc(math.sqrt(n / (n - 1)) * t / math.sqrt(2)) / 2  # Φ(−√(n / (n − 1)) t)
    assert alpha < 0.025
    for column, ends in zip(values.T, expanded_percentiles(values, n, 0.95).T, strict=True):
        ordered = sorted(column)
        for share, end in zip((alpha, 1 - alpha), ends, strict=True):
            below = min(int(999 * share), 998)  # interpolated between two of the thousand
            part = 999 * share - below
            assert end == pytest.approx((1 - part) * ordered[below] + part * ordered[below + 1])


@pytest.mark.parametrize(("n", "most"), [(10, 0.075), (30, 0.065)])
def test_one_interval_in_twenty_misses_the_mean(n: int, most: float) -> None:
    """Percentiles of 2.5 and 97.5 miss it 10.5 and 6.9 times in a hundred."""
    values = np.random.default_rng(0).standard_normal((n, 4000))
    low, high = bootstrap_interval(values, samples=500)
    assert 0.04 < ((low > 0) | (high < 0)).mean() < most


def test_bootstrap_keeps_an_examples_columns_together() -> None:
    """A column and one minus it: every draw's means sum to one, so the ends mirror exactly."""
    x = np.random.default_rng(0).random(31)
    low, high = bootstrap_interval(np.stack([x, 1 - x], axis=1))
    assert low[0] == pytest.approx(1 - high[1], abs=1e-12)
    assert high[0] == pytest.approx(1 - low[1], abs=1e-12)


def test_bootstrap_is_seeded() -> None:
    values = np.random.default_rng(0).random((29, 3))
    first, again = bootstrap_interval(values), bootstrap_interval(values)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, bootstrap_interval(values, seed=1))


def test_rounding_gives_what_agrees_no_width() -> None:
    for n in range(1, 12):
        for value in (0.1, 0.29, -7.3, 1e6 / 3):
            low, high = bootstrap_interval(np.full((n, 1), value))
            assert low[0] == high[0] == value
    # 1 − 2/3 and 2/3 − 1/3 are one difference, of which an interval has a width all the same.
    shares = np.array([[1], [2 / 3], [2 / 3]])
    low, high = paired_interval(shares, shares - 1 / 3)
    assert low[0] < 1 / 3 < high[0]


def test_bootstrap_of_agreement_has_no_width() -> None:
    low, high = bootstrap_interval(np.full((5, 2), 0.25))
    assert np.array_equal(low, [0.25, 0.25])
    assert np.array_equal(high, [0.25, 0.25])


def test_shares_are_drawn_and_where_all_agree_counted() -> None:
    shares = np.array([[0, 1 / 3, 1, 0], [1 / 3, 1 / 3, 1, 0], [1, 1 / 3, 1, 0]])
    low, high = share_interval(shares)
    drawn = bootstrap_interval(shares[:, :1])
    assert (low[0], high[0]) == (drawn[0][0], drawn[1][0])
    for column, right in ((1, 1.0), (2, 3.0), (3, 0.0)):
        assert (low[column], high[column]) == pytest.approx(wilson_interval(right, 3))
    one = share_interval(np.ones((1, 1)))
    assert (one[0][0], one[1][0]) == wilson_interval(1, 1)


@pytest.mark.parametrize("shape", [(0, 3), (4,)])
def test_bootstrap_refuses_shapes(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"expected \[examples, columns\]"):
        bootstrap_interval(np.zeros(shape))
