"""Consistency under synonyms and its spread over seeds (CARMA, appendix B.4, eqs 12–14).

One seed alone has no spread: such an interval is NaN. A seed's runs of two versions share their
start and their batches, so that versions are compared by their difference *per seed*
(:func:`paired_difference`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from interp_compose.errors import InputError
from interp_compose.stats.intervals import check_level

Values = Sequence[float] | npt.NDArray[np.float64]

SATURATED = 95.0
"""Per cent above which ConsistSyn cannot distinguish versions."""

_ROUNDING = 8 * np.finfo(float).eps  # of a difference, relative to its operands


def consist_syn(before: npt.NDArray[np.bool_], after: npt.NDArray[np.bool_]) -> float:
    """ConsistSyn in per cent (eq. 12): of the examples right before, those right after as well.

    As printed, the numerator counts every example that is right after the replacement, so that
    newly right ones could lift the figure past 100; here an example counts only if it was right
    before too. NaN where no example was right before.

    Args:
        before: ``[example]``, right on the prompt as it was.
        after: ``[example]``, right on the prompt with synonyms, in the same order.

    Raises:
        InputError: other shapes than two equally long lists, or no examples.
    """
    if before.ndim != 1 or before.shape != after.shape or not before.size:
        raise InputError(
            f"before has the shape {before.shape} and after {after.shape}; expected one boolean "
            "per example in both, in the same order"
        )
    right = int(before.sum())
    return 100 * int((before & after).sum()) / right if right else float("nan")  # eq. 12


def coefficient_of_variation(values: Values) -> float:
    """σ / μ over seeds (eq. 13), σ being the sample standard deviation (divided by n − 1).

    The paper does not define σ; the sample's is the larger by √(n / (n − 1)), 12 % at 5 seeds.
    NaN for one value or a mean of 0. Raises ``InputError`` for no values, or one that is negative
    or not finite.
    """
    numbers = _performances(values)
    mean = float(numbers.mean())
    # eq. 13
    return float(numbers.std(ddof=1)) / mean if len(numbers) > 1 and mean else float("nan")


def coefficient_of_variation_interval(values: Values, level: float = 0.95) -> tuple[float, float]:
    """Vangel's (1996) interval of a coefficient of variation: McKay's (1932), modified.

    With K the coefficient of n values and u the quantile of χ² with n − 1 degrees of freedom at
    (1 ± level) / 2, an end is K / √(((u + 2) / n − 1) K² + u / (n − 1)). It is meant for normal
    values and K up to about 0.33. An end whose radicand is not positive does not exist: NaN, as
    the upper one of a large K; so are both where K is NaN.

    Raises ``InputError`` as :func:`coefficient_of_variation` does, or for a level outside (0, 1).
    """
    check_level(level)
    cv, n = coefficient_of_variation(values), len(values)
    if np.isnan(cv):
        return float("nan"), float("nan")
    ends = []
    for probability in ((1 + level) / 2, (1 - level) / 2):  # a larger u, a lower end
        u = float(stats.chi2.ppf(probability, n - 1))
        radicand = ((u + 2) / n - 1) * cv**2 + u / (n - 1)
        ends.append(cv / radicand**0.5 if radicand > 0 else float("nan"))
    return ends[0], ends[1]


def normalised_improvement(value: float, baseline: float) -> float:
    """(value − baseline) / baseline in per cent (eq. 14); NaN over a baseline of 0."""
    return 100 * (value - baseline) / baseline if baseline else float("nan")  # eq. 14


def mean_interval(values: Values, level: float = 0.95) -> tuple[float, float]:
    """Student's t interval of a mean over seeds; NaN for one value.

    Raises ``InputError`` for no values, one that is not finite, or a level outside (0, 1).
    """
    check_level(level)
    numbers = _finite("values", values)
    n, mean = len(numbers), float(numbers.mean())
    if n == 1:
        return float("nan"), float("nan")
    if numbers.min() == numbers.max():  # exactly no width, not one of rounding
        return float(numbers[0]), float(numbers[0])
    half = float(stats.t.ppf((1 + level) / 2, n - 1)) * float(numbers.std(ddof=1)) / n**0.5
    return mean - half, mean + half


@dataclass(frozen=True)
class PairedDifference:
    """The mean difference first − second over ``n`` seeds, each paired with itself.

    ``ci_low`` and ``ci_high`` end Student's t interval of the difference, ``p`` is the two-sided
    paired t test's, or the sign test's where all differences are equal.
    """

    n: int
    mean_first: float
    mean_second: float
    difference: float
    standard_error: float
    ci_low: float
    ci_high: float
    p: float


def paired_difference(first: Values, second: Values, level: float = 0.95) -> PairedDifference:
    """The difference of two versions, paired by seed: ``first[i]`` and ``second[i]`` share one.

    Where all differences are equal the standard error is 0 and the interval a point, which say
    nothing of how seeds differ: t would be infinite. Then p is the two-sided sign test's, 2 / 2ⁿ,
    which is below 0.05 from 6 seeds on; 1 if all are 0. Differences that agree to rounding are
    equal, so that 0.1 + 0.2 and 0.3 do not differ.

    Raises:
        InputError: lengths that differ, fewer than 2 seeds, a value that is not finite, or a level
            outside (0, 1).
    """
    check_level(level)
    one, two = _finite("first", first), _finite("second", second)
    if len(one) != len(two):
        raise InputError(
            f"first has {len(one)} values and second {len(two)}; expected one of each per seed"
        )
    n = len(one)
    if n < 2:
        raise InputError(f"there is {n} seed; a paired difference needs 2, better 5 or more")
    differences = one - two
    # 1. Differences that rounding alone makes are 0, or equal.
    rounding = _ROUNDING * float(np.abs([one, two]).max())
    differences[np.abs(differences) <= rounding] = 0
    if np.ptp(differences) <= rounding:
        differences[:] = differences[0]
    # 2. d̄, and s / √n.
    difference, error = float(differences.mean()), float(differences.std(ddof=1)) / n**0.5
    if (differences == differences[0]).all():
        difference, error = float(differences[0]), 0.0
        p = sign_test(n) if difference else 1.0
    else:
        p = 2 * float(stats.t.sf(abs(difference) / error, n - 1))  # t = d̄ / (s / √n)
    half = float(stats.t.ppf((1 + level) / 2, n - 1)) * error
    return PairedDifference(
        n=n,
        mean_first=float(one.mean()),
        mean_second=float(two.mean()),
        difference=difference,
        standard_error=error,
        ci_low=difference - half,
        ci_high=difference + half,
        p=p,
    )


def sign_test(n: int) -> float:
    """The two-sided sign test's p of n differences that have one sign: 2 / 2ⁿ."""
    return float(2.0 ** (1 - n))


def holm(p_values: Values) -> tuple[float, ...]:
    """Holm's (1979) step-down adjustment for as many tests as there are values, in their order.

    The k-th smallest of m values becomes (m − k + 1) p, at most 1 and no less than the one before
    it. Raises ``InputError`` for no values or one outside [0, 1].
    """
    p = _finite("p_values", p_values)
    if (p < 0).any() or (p > 1).any():
        raise InputError(f"p_values are {p.tolist()}; expected probabilities between 0 and 1")
    # 1. The k-th smallest p (k from 1), times m − k + 1. 2. None below the one before it.
    order = np.argsort(p, kind="stable")
    scaled = np.minimum(1, p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(scaled)  # back in the order given
    return tuple(adjusted.tolist())


def is_saturated(percentages: Sequence[float], threshold: float = SATURATED) -> bool:
    """Whether every version's ConsistSyn is above ``threshold`` per cent.

    Then the replaced set cannot distinguish the versions. NaN is not above anything. Raises
    ``InputError`` for no versions.
    """
    if not len(percentages):
        raise InputError("percentages are empty; expected the ConsistSyn of each version")
    return all(value > threshold for value in percentages)


def _performances(values: Values) -> npt.NDArray[np.float64]:
    numbers = _finite("values", values)
    if (numbers < 0).any():
        raise InputError(
            f"values hold {numbers.min()}; a coefficient of variation is of performances, which "
            "are 0 or more"
        )
    return numbers


def _finite(name: str, values: Values) -> npt.NDArray[np.float64]:
    numbers = np.array(values, float)
    if numbers.ndim != 1 or not numbers.size:
        raise InputError(f"{name} have the shape {numbers.shape}; expected one number per seed")
    wrong = np.flatnonzero(~np.isfinite(numbers))
    if wrong.size:
        raise InputError(
            f"{name}[{wrong[0]}] is {numbers[wrong[0]]}; expected finite numbers (leave out a seed "
            "that has none, in both versions)"
        )
    return numbers
