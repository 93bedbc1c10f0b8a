"""Agreement written out from its formulas: exact fractions, and loops over resampled lists."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from scipy.stats import norm, t

Numbers = Sequence[float] | np.ndarray
ALL = ("pearson", "spearman", "auc")


def slow_pearson(xs: Numbers, ys: Numbers) -> float:
    """Σ(x − x̄)(y − ȳ) / √(Σ(x − x̄)² Σ(y − ȳ)²), nothing rounded before the root."""
    n = len(xs)
    x, y = [Fraction(float(v)) for v in xs], [Fraction(float(v)) for v in ys]
    mean_x, mean_y = sum(x) / n, sum(y) / n
    xy = sum(((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)), Fraction(0))
    xx = sum(((a - mean_x) ** 2 for a in x), Fraction(0))
    yy = sum(((b - mean_y) ** 2 for b in y), Fraction(0))
    if n < 3 or xx == 0 or yy == 0:
        return math.nan
    return math.copysign(math.sqrt(xy * xy / (xx * yy)), xy)


def slow_ranks(xs: Numbers) -> list[float]:
    """1 + how many are smaller + half of how many others are equal."""
    return [1 + sum(b < a for b in xs) + (sum(b == a for b in xs) - 1) / 2 for a in xs]


def slow_spearman(xs: Numbers, ys: Numbers) -> float:
    return slow_pearson(slow_ranks(xs), slow_ranks(ys))


def slow_auc(xs: Numbers, ys: Numbers) -> float:
    wins = [
        1.0 if a > b else 0.5 if a == b else 0.0
        for a, one in zip(xs, ys, strict=True)
        for b, other in zip(xs, ys, strict=True)
        if one == 1 and other == 0
    ]
    return sum(wins) / len(wins) if wins else math.nan


SLOW: dict[str, Callable[[Numbers, Numbers], float]] = {
    "pearson": slow_pearson,
    "spearman": slow_spearman,
    "auc": slow_auc,
}


def slow_interval(values: Sequence[float], n: int, level: float) -> tuple[float, float]:
    """Quantiles at Φ(−√(n / (n − 1)) t) and one minus it, of samples of ``n`` pairs."""
    there = sorted(v for v in values if not math.isnan(v))
    if len(values) - len(there) > len(values) / 2:
        return math.nan, math.nan
    ends = []
    alpha = float(norm.cdf(-math.sqrt(n / (n - 1)) * t.ppf((1 + level) / 2, n - 1)))
    for q in (alpha, 1 - alpha):
        at = q * (len(there) - 1)
        below, above = there[math.floor(at)], there[math.ceil(at)]
        ends.append(below + (at - math.floor(at)) * (above - below))
    return ends[0], ends[1]


def slow_agreement(
    cosines: np.ndarray,
    target: np.ndarray,
    metric: str,
    reference: np.ndarray,
    *,
    level: float,
    samples: int,
    seed: int,
) -> np.ndarray:
    """The six fields, [field, cell], each sample being a list of drawn pairs."""
    measure, n = SLOW[metric], len(target)
    rng = np.random.default_rng(seed)
    draws = [rng.integers(0, n, n) for _ in range(samples)]
    fields = []
    for x in cosines.T:
        value, base = measure(x, target), measure(reference, target)
        values = [measure(x[drawn], target[drawn]) for drawn in draws]
        bases = [measure(reference[drawn], target[drawn]) for drawn in draws]
        paired = [v - b for v, b in zip(values, bases, strict=True)]
        ends, ends_apart = slow_interval(values, n, level), slow_interval(paired, n, level)
        fields.append([value, *ends, value - base, *ends_apart])
    return np.array(fields).T


def judged(n: int, cells: int, seed: int, *, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """Cosines around 0.7 that follow the target more and more from cell to cell."""
    rng = np.random.default_rng(seed)
    y = rng.random(n)
    x = 0.7 + 0.05 * rng.normal(size=(n, cells)) + 0.1 * y[:, None] * np.arange(cells)
    return x, (y > 0.4).astype(float) if metric == "auc" else y
