"""Two shares of the same examples, each right or wrong: how they differ.

Intervals of the shares themselves do not tell: the examples are the same, so that the shares vary
together, and often differ where their intervals overlap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import binomtest

from interp_compose.errors import InputError
from interp_compose.stats.intervals import (
    agree,
    bootstrap_interval,
    check_level,
    share_interval,
    wilson_interval,
)


@dataclass(frozen=True)
class PairedShares:
    """The difference first − second of two shares of the same ``n`` examples.

    ``only_first`` and ``only_second`` count the examples that one of them gets right alone;
    ``ci_low`` and ``ci_high`` end the interval, ``p`` is of the two-sided exact test.
    """

    n: int
    difference: float
    ci_low: float
    ci_high: float
    only_first: int
    only_second: int
    p: float


def paired_shares(
    first: npt.NDArray[np.bool_], second: npt.NDArray[np.bool_], level: float = 0.95
) -> PairedShares:
    """The difference of two shares, paired: ``first[i]`` and ``second[i]`` are of one example.

    p is McNemar's (1947), exact: as likely a split of the examples that only one gets right, or a
    less likely one, by tosses of a fair coin; 1 where there is no such example. The interval is
    Newcombe's (1998, method 10), of the shares' Wilson intervals [l₁, u₁], [l₂, u₂] and the
    correlation φ of right and wrong: the ends are d − √(a² − 2φab + b²) with a = p₁ − l₁ and
    b = u₂ − p₂, and d + √(a² − 2φab + b²) with a = u₁ − p₁ and b = p₂ − l₂. A φ above 0 is computed
    with a continuity correction, n/2 off its numerator's n₁₁n₀₀ − n₁₀n₀₁, but not below 0.

    Raises:
        InputError: not two vectors of one length, no examples, or a level outside (0, 1).
    """
    check_level(level)
    one, two = np.asarray(first, bool), np.asarray(second, bool)
    if one.shape != two.shape or one.ndim != 1:
        raise InputError(
            f"first has the shape {one.shape} and second {two.shape}; expected one of each per "
            "example"
        )
    n = len(one)
    if not n:
        raise InputError("there is no example; expected one at least")
    both, only_first = int((one & two).sum()), int((one & ~two).sum())  # n₁₁, n₁₀
    only_second, neither = int((~one & two).sum()), int((~one & ~two).sum())  # n₀₁, n₀₀
    p_one, p_two = (both + only_first) / n, (both + only_second) / n
    low_one, high_one = map(float, wilson_interval(both + only_first, n, level))
    low_two, high_two = map(float, wilson_interval(both + only_second, n, level))
    phi = _phi(both, only_first, only_second, neither)

    def reach(a: float, b: float) -> float:
        return float(max(0.0, a * a - 2 * phi * a * b + b * b) ** 0.5)  # √(a² − 2φab + b²)

    discordant = only_first + only_second
    return PairedShares(
        n=n,
        difference=p_one - p_two,
        ci_low=p_one - p_two - reach(p_one - low_one, high_two - p_two),
        ci_high=p_one - p_two + reach(high_one - p_one, p_two - low_two),
        only_first=only_first,
        only_second=only_second,
        # McNemar's, exact: a toss of a fair coin for each discordant example.
        p=float(binomtest(only_first, discordant).pvalue) if discordant else 1.0,
    )


def paired_interval(
    first: npt.NDArray[Any], second: npt.NDArray[Any], level: float = 0.95
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Interval of the mean difference first − second over axis 0, column by column; both are shares
    of each example in [0, 1], [examples, columns], paired by row.

    Where all of a column are 0 or 1, :func:`paired_shares`; else :func:`.bootstrap_interval` of the
    differences, over whole examples. Where these are all equal, which leaves it without a width,
    the ends are those of :func:`.share_interval` of the first, less the second's mean.
    """
    one, two = np.asarray(first, float), np.asarray(second, float)
    apart = one - two
    is_right = (np.isin(one, (0, 1)) & np.isin(two, (0, 1))).all(axis=0)
    alike = ~is_right & agree(apart)
    ends = np.empty((2, apart.shape[1]))
    for k in np.flatnonzero(is_right):
        found = paired_shares(one[:, k] == 1, two[:, k] == 1, level)
        ends[:, k] = found.ci_low, found.ci_high
    if alike.any():
        own = share_interval(one[:, alike], level=level)
        ends[:, alike] = np.array(own) - two[:, alike].mean(axis=0)
    if (drawn := ~is_right & ~alike).any():
        ends[:, drawn] = bootstrap_interval(apart[:, drawn], level=level)
    return ends[0], ends[1]


def _phi(both: int, only_first: int, only_second: int, neither: int) -> float:
    """The correlation of right and wrong; 0 where one share is 0 or 1."""
    scale = float(both + only_first) * (only_second + neither)  # of the first: right, wrong
    scale *= float(both + only_second) * (only_first + neither)  # of the second
    if not scale:
        return 0.0
    n = both + only_first + only_second + neither
    top = both * neither - only_first * only_second
    # φ, corrected where positive
    return float((max(top - n / 2, 0) if top > 0 else top) / scale**0.5)
