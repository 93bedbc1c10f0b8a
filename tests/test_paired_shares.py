"""Two shares of the same examples: an exact test and an interval, against their definitions."""

from __future__ import annotations

import math
from math import comb

import numpy as np
import pytest

from interp_compose.errors import InputError
from interp_compose.stats.intervals import bootstrap_interval, wilson_interval
from interp_compose.stats.paired_shares import paired_interval, paired_shares


def outcomes(both: int, first: int, second: int, neither: int) -> tuple[np.ndarray, np.ndarray]:
    one = [True] * (both + first) + [False] * (second + neither)
    two = [True] * both + [False] * first + [True] * second + [False] * neither
    return np.array(one), np.array(two)


@pytest.mark.parametrize("counts", [(36, 12, 2, 0), (5, 7, 3, 9), (1, 4, 6, 1), (0, 3, 0, 5)])
def test_p_is_the_coins_and_the_interval_newcombes(counts: tuple[int, int, int, int]) -> None:
    both, first, second, neither = counts
    found = paired_shares(*outcomes(*counts))
    n, m = sum(counts), first + second
    chances = [comb(m, k) / 2**m for k in range(m + 1)]
    assert found.p == pytest.approx(sum(c for c in chances if c <= chances[first] * (1 + 1e-12)))
    assert (found.only_first, found.only_second, found.n) == (first, second, n)

    def wilson(k: int) -> tuple[float, float, float]:
        z, p = 1.959963984540054, k / n
        centre, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return p, (centre - half) / (1 + z * z / n), (centre + half) / (1 + z * z / n)

    (p1, l1, u1), (p2, l2, u2) = wilson(both + first), wilson(both + second)
    sides = (both + first) * (second + neither) * (both + second) * (first + neither)
    cross = both * neither - first * second
    phi = 0.0
    if sides:
        phi = (max(cross - n / 2, 0) if cross > 0 else cross) / math.sqrt(sides)
    low = math.sqrt((p1 - l1) ** 2 - 2 * phi * (p1 - l1) * (u2 - p2) + (u2 - p2) ** 2)
    high = math.sqrt((u1 - p1) ** 2 - 2 * phi * (u1 - p1) * (p2 - l2) + (p2 - l2) ** 2)
    assert found.difference == pytest.approx((first - second) / n)
    assert found.ci_low == pytest.approx(p1 - p2 - low, abs=1e-12)
    assert found.ci_high == pytest.approx(p1 - p2 + high, abs=1e-12)


def test_newcombes_own_example() -> None:
    found = paired_shares(*outcomes(36, 12, 2, 0))  # his table IV, method 10
    assert (found.ci_low, found.ci_high) == (
        pytest.approx(0.0569, abs=5e-5),
        pytest.approx(0.3404, abs=5e-5),
    )


def test_no_example_that_tells_them_apart() -> None:
    found = paired_shares(*outcomes(3, 0, 0, 4))
    assert (found.p, found.difference) == (1.0, 0.0)
    assert found.ci_low < 0 < found.ci_high


def test_what_is_no_pair_is_refused() -> None:
    with pytest.raises(InputError, match="expected one of each per example"):
        paired_shares(np.array([True]), np.array([True, False]))
    with pytest.raises(InputError, match="there is no example"):
        paired_shares(np.array([], bool), np.array([], bool))


def test_intervals_by_column_are_newcombes_or_of_drawn_examples() -> None:
    """Right and wrong; shares, by a bootstrap of their differences; differences without a spread,
    by the shares' own interval."""
    right, other = outcomes(36, 12, 2, 0)
    shares = right - np.tile([0.25, 0.5], 25) * right  # a part of it
    equal = np.full(50, 2 / 3)
    ones = np.ones((50, 1))
    newcombe = paired_shares(right, other)
    low, high = paired_interval(np.c_[right, shares], np.c_[other, other])
    assert (low[0], high[0]) == (newcombe.ci_low, newcombe.ci_high)
    drawn = bootstrap_interval((shares - other)[:, None])
    assert (low[1], high[1]) == (drawn[0][0], drawn[1][0])
    low, high = paired_interval(equal[:, None], ones)
    own = wilson_interval(50 * 2 / 3, 50)
    assert (low[0], high[0]) == (pytest.approx(own[0] - 1), pytest.approx(own[1] - 1))
    low, high = paired_interval(ones, ones)
    assert low[0] < 0 < high[0]
