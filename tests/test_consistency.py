"""ConsistSyn, its spread and paired differences, against formulas written out and scipy's tests."""

from __future__ import annotations

import math
from statistics import mean, stdev
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import integrate, stats

from interp_compose.errors import InputError
from interp_compose.stats.seeds import (
    coefficient_of_variation,
    coefficient_of_variation_interval,
    consist_syn,
    holm,
    is_saturated,
    mean_interval,
    normalised_improvement,
    paired_difference,
)

FT = [50.1, 52.3, 49.8, 51.0, 50.9]
CARMA = [51.0, 52.9, 50.1, 51.9, 50.8]
NUMBERS = st.lists(st.floats(1, 100), min_size=2, max_size=8)


def flags(text: str) -> Any:
    return np.array([letter == "1" for letter in text], dtype=bool)


def test_consist_syn_by_hand() -> None:
    assert consist_syn(flags("11100"), flags("10011")) == pytest.approx(100 / 3)
    assert consist_syn(flags("110"), flags("111")) == 100  # newly right ones do not count
    assert math.isnan(consist_syn(flags("00"), flags("11")))


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1))
def test_consist_syn_counts_in_the_open(pairs: list[tuple[bool, bool]]) -> None:
    before, after = (np.array(side) for side in zip(*pairs, strict=True))
    kept = [b for a, b in pairs if a]
    got = consist_syn(before, after)
    assert math.isnan(got) if not kept else got == pytest.approx(100 * sum(kept) / len(kept))


@pytest.mark.parametrize(("before", "after"), [("11", "1"), ("", "")])
def test_consist_syn_refuses_other_shapes(before: str, after: str) -> None:
    with pytest.raises(InputError, match=r"before has the shape \(\d,\) and after"):
        consist_syn(flags(before), flags(after))


def test_coefficient_of_variation() -> None:
    by_hand = math.sqrt(sum((x - mean(FT)) ** 2 for x in FT) / 4) / mean(FT)
    assert coefficient_of_variation(FT) == pytest.approx(by_hand, rel=1e-12)
    assert coefficient_of_variation(FT) == pytest.approx(float(stats.variation(FT, ddof=1)))
    assert coefficient_of_variation([3.0, 3.0]) == 0
    assert math.isnan(coefficient_of_variation([3.0]))
    assert math.isnan(coefficient_of_variation([0.0, 0.0]))


@given(NUMBERS, st.floats(0.01, 100))
def test_scaling_leaves_the_coefficient_of_variation(values: list[float], scale: float) -> None:
    scaled = [scale * x for x in values]
    expected = coefficient_of_variation(values)
    assert coefficient_of_variation(scaled) == pytest.approx(expected, rel=1e-6, abs=1e-12)
    one, two = (coefficient_of_variation_interval(x) for x in (values, scaled))
    assert one == pytest.approx(two, rel=1e-4, abs=1e-12, nan_ok=True)


def chi2_quantile(p: float, v: int) -> float:
    """By bisection of the integral of the density."""

    def below(x: float) -> float:
        def density(u: float) -> float:
            return u ** (v / 2 - 1) * math.exp(-u / 2) / (2 ** (v / 2) * math.gamma(v / 2))

        return float(integrate.quad(density, 0, x)[0])

    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) < p else (low, middle)
    return low


def test_vangels_interval_from_the_formula() -> None:
    n, k = len(FT), stdev(FT) / mean(FT)
    low, high = (
        k / math.sqrt(((u + 2) / n - 1) * k**2 + u / (n - 1))
        for u in (chi2_quantile(0.975, n - 1), chi2_quantile(0.025, n - 1))
    )
    assert coefficient_of_variation_interval(FT) == pytest.approx((low, high), rel=1e-6)
    assert low < k < high


def test_vangels_interval_covers_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    ends = [coefficient_of_variation_interval(rng.normal(1, 0.1, 5).tolist()) for _ in range(2000)]
    covered = np.mean([low <= 0.1 <= high for low, high in ends])
    assert 0.935 < covered < 0.965  # standard error 0.005


def test_ends_that_do_not_exist_are_nan() -> None:
    low, high = coefficient_of_variation_interval([1.0, 100.0, 2.0, 1.0])
    assert low > 0
    assert math.isnan(high)
    assert all(map(math.isnan, coefficient_of_variation_interval([5.0])))
    assert coefficient_of_variation_interval([5.0, 5.0]) == (0, 0)


def test_normalised_improvement() -> None:
    assert normalised_improvement(52.46, 50.89) == pytest.approx(3.0851, abs=1e-4)
    assert normalised_improvement(40.0, 50.0) == -20
    assert math.isnan(normalised_improvement(1.0, 0.0))


def test_mean_interval_is_students() -> None:
    expected = stats.t.interval(0.9, 4, loc=mean(FT), scale=stats.sem(FT))
    assert mean_interval(FT, 0.9) == pytest.approx(expected, rel=1e-12)
    assert all(map(math.isnan, mean_interval([1.0])))


def test_paired_difference_is_the_paired_t_test() -> None:
    got = paired_difference(CARMA, FT)
    apart = [a - b for a, b in zip(CARMA, FT, strict=True)]
    test = stats.ttest_rel(CARMA, FT)
    interval = test.confidence_interval(0.95)
    assert (got.n, got.mean_first, got.mean_second) == (5, mean(CARMA), pytest.approx(mean(FT)))
    assert got.difference == pytest.approx(mean(apart))
    assert got.standard_error == pytest.approx(stdev(apart) / math.sqrt(5))
    assert got.p == pytest.approx(float(test.pvalue))
    assert (got.ci_low, got.ci_high) == pytest.approx((interval.low, interval.high))


@given(NUMBERS, st.data())
def test_what_a_seed_adds_to_both_versions_leaves_the_difference(
    first: list[float], data: st.DataObject
) -> None:
    same_length = st.lists(st.integers(0, 1000), min_size=len(first), max_size=len(first))
    second = data.draw(same_length)
    shift = data.draw(same_length)
    whole = [round(x) for x in first]
    one = paired_difference([float(x) for x in whole], [float(x) for x in second])
    two = paired_difference(
        [float(x + s) for x, s in zip(whole, shift, strict=True)],
        [float(x + s) for x, s in zip(second, shift, strict=True)],
    )
    for name in ("difference", "standard_error", "ci_low", "ci_high", "p"):
        assert getattr(one, name) == pytest.approx(getattr(two, name), rel=1e-9, abs=1e-9)


@given(NUMBERS, st.data())
def test_swapping_the_versions_turns_the_sign(first: list[float], data: st.DataObject) -> None:
    second = data.draw(st.lists(st.floats(1, 100), min_size=len(first), max_size=len(first)))
    one, two = paired_difference(first, second), paired_difference(second, first)
    assert one.difference == pytest.approx(-two.difference)
    assert (one.ci_low, one.p) == pytest.approx((-two.ci_high, two.p))


def test_differences_that_are_all_equal() -> None:
    same = paired_difference([0.1 + 0.2, 1.0], [0.3, 1.0])  # equal but for rounding
    assert (same.difference, same.standard_error, same.p) == (0, 0, 1)
    apart = paired_difference([0.3, 0.4, 0.7], [0.2, 0.3, 0.6])
    assert apart.difference == pytest.approx(0.1)
    assert (apart.standard_error, apart.p) == (0, 0.25)  # as for three tosses, two-sided
    six = paired_difference([0.5] * 6, [0.25] * 6)
    assert six.p == 2 / 2**6 == stats.binomtest(6, 6).pvalue < 0.05
    assert apart.ci_low == apart.ci_high == apart.difference


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))
    assert holm([0.5, 0.9]) == (1, 1)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=7), st.floats(0.01, 0.99))
def test_holm_rejects_what_stepping_down_rejects(p: list[float], alpha: float) -> None:
    """One after the other from the smallest, each against α / (tests left); stop at the first."""
    rejected = [False] * len(p)
    for done, i in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        if p[i] * (len(p) - done) > alpha:
            break
        rejected[i] = True
    assert [value <= alpha for value in holm(p)] == rejected


def test_is_saturated() -> None:
    assert is_saturated([95.1, 99.0, 100.0])
    assert not is_saturated([95.0, 99.0])
    assert not is_saturated([99.0, float("nan")])
    assert is_saturated([91.0], threshold=90.0)
    with pytest.raises(InputError, match="percentages are empty; expected the ConsistSyn of each"):
        is_saturated([])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: coefficient_of_variation([]), r"values have the shape \(0,\); expected one"),
        (lambda: coefficient_of_variation([1.0, -2.0]), r"values hold -2.0; a coefficient"),
        (lambda: mean_interval([1.0, float("nan")]), r"values\[1\] is nan; expected finite"),
        (lambda: mean_interval([1.0, 2.0], 95.0), r"level is 95.0; expected a confidence between"),
        (lambda: coefficient_of_variation_interval([1.0, 2.0], 0.0), r"level is 0.0; expected"),
        (lambda: paired_difference([1.0], [2.0]), r"there is 1 seed; a paired difference needs"),
        (lambda: paired_difference([1.0, 2.0], [2.0]), r"first has 2 values and second 1; exp"),
        (lambda: paired_difference([1.0, 2.0], [2.0, float("inf")]), r"second\[1\] is inf"),
        (lambda: paired_difference([1.0, 2.0], [2.0, 1.0], 1.0), r"level is 1.0; expected"),
        (lambda: holm([0.1, 1.2]), r"p_values are \[0.1, 1.2\]; expected probabilities"),
        (lambda: holm([0.1, float("nan")]), r"p_values\[1\] is nan; expected finite numbers"),
    ],
)
def test_bad_input_is_refused(call: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


def test_an_interval_of_equal_values_has_no_width() -> None:
    values = [29.239766081871345] * 5  # whose mean rounds to another number
    assert mean_interval(values) == (values[0], values[0])
