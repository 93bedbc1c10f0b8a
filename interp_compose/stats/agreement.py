"""How well cosines follow human judgements: a correlation or an ROC area, with intervals.

Whole pairs are drawn, so that every cell (a layer and a pooling, say) sees the same samples and
differences between cells are paired. A value that does not exist is NaN: a correlation of fewer
than three pairs or with a side that is constant (all numbers exactly equal), an area with one
class only.
"""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral
from typing import Any, Final, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from interp_compose.stats.agreement__agreement_measures import auc, pearson, spearman
from interp_compose.errors import InputError, OptionError
from interp_compose.stats.intervals import _check_level

METRICS: Final = {"score": ("pearson", "spearman"), "label": ("auc",)}
"""The metrics of each kind of target: a graded score, or a label that is 0 or 1."""

_MEASURES: Final = {"pearson": pearson, "spearman": spearman, "auc": auc}
FEWEST: Final = 10
"""Pairs below which there is no interval: percentiles of so few are narrower than they say. For
``auc`` half as many of each label."""
_BLOCK: Final = 2**18
"""Numbers per temporary array (2 MiB): what stays in a core's cache."""


class Agreement(NamedTuple):
    """Each cell's agreement with the target, and how far it lies from the reference.

    ``low`` and ``high`` end the percentile bootstrap interval of ``value``. ``difference`` is
    value(cell) − value(reference), with its own interval from the same samples; without a
    reference these three are NaN.
    """

    value: Float[np.ndarray, "cell"]
    low: Float[np.ndarray, "cell"]
    high: Float[np.ndarray, "cell"]
    difference: Float[np.ndarray, "cell"]
    difference_low: Float[np.ndarray, "cell"]
    difference_high: Float[np.ndarray, "cell"]


def agreement(
    cosines: Float[np.ndarray, "pair cell"],
    target: Float[np.ndarray, "pair"],
    metric: str,
    *,
    reference: Float[np.ndarray, "pair"] | None = None,
    level: float = 0.95,
    samples: int = 1000,
    seed: int = 0,
) -> Agreement:
    """Agreement of each column of ``cosines`` with ``target``, in float64.

    ========== =====================================================================
    pearson    Σ (x − x̄)(y − ȳ) / √(Σ (x − x̄)² Σ (y − ȳ)²)
    spearman   the same of ranks; equal numbers share the mean of their ranks
    auc        P(cosine of a 1 > cosine of a 0) + ½ P(equal), which is the area under
               the ROC curve (Mann and Whitney 1947); ``target`` is 0 or 1
    ========== =====================================================================

    Intervals are percentiles of ``samples`` bootstrap samples (Efron 1979; see
    :func:`bootstrap_counts`); ranks are taken anew within each sample, where a pair drawn three
    times is three equal observations. A sample in which a value does not exist (the module says
    when) is left out of the percentiles; if it exists in fewer than half of them, the interval is
    NaN, and so it is with fewer than ten pairs (``auc``: five of either label), and where all
    samples give one value, such as a perfect 1. A cell equal to ``reference`` differs from it by
    exactly 0.

    Args:
        cosines: similarity of the two texts of a pair; any finite numbers.
        target: what people said of the pair: a score, or for ``auc`` a label.
        metric: one of :data:`METRICS`.
        reference: the cosines that every cell is compared with, as the clean model's.
        level: confidence of the intervals.
        samples: bootstrap samples.
        seed: of the bootstrap; the same seed draws the same pairs.

    Raises:
        OptionError: an unknown metric.
        InputError: no pairs, shapes that do not fit, a number that is not finite, a label other
            than 0 and 1, a level outside (0, 1), or ``samples`` or ``seed`` not a whole number.
    """
    _check_options(metric, level, samples, seed)
    target = _finite("target", target, (None,))
    n = len(target)
    cells = _finite("cosines", cosines, (n, None))
    if metric == "auc":
        _check_labels(target)
    if reference is not None:
        reference = _finite("reference", reference, (n,))
        cells = np.column_stack([cells, reference])

    measure = _MEASURES[metric](cells, target)
    everything = measure(np.ones((1, n), np.int64))
    drawn = bootstrap_counts(n, samples, seed)
    values = np.concatenate([everything, *map(measure, _blocks(drawn))])

    k = cells.shape[1] - (reference is not None)
    rarer = int(min(target.sum(), n - target.sum())) if metric == "auc" else n
    enough = n >= FEWEST and rarer >= FEWEST // 2
    low, high = _interval(values[1:, :k], level, enough=enough)
    perfect = low == high  # in every sample: no interval, however few the pairs
    low[perfect] = high[perfect] = np.nan
    apart = np.full((3, k), np.nan)
    if reference is not None:
        differences = values[:, :k] - values[:, k:]
        same = (cells[:, :k] == cells[:, k:]).all(axis=0)
        # to the last bit, whatever the matrix products rounded; NaN stays NaN
        differences[:, same] = 0 * values[:, k:]
        apart[0] = differences[0]
        apart[1:] = _interval(differences[1:], level, enough=enough)
    return Agreement(values[0, :k], low, high, *apart)


def bootstrap_counts(n: int, samples: int, seed: int) -> Int[np.ndarray, "sample pair"]:
    """How often each of ``n`` pairs is drawn in each sample of ``n`` draws with replacement.

    For a given ``n`` and ``seed`` these are the samples that
    :func:`interp_compose.stats.intervals.bootstrap_interval` takes; fewer are the first of more.
    """
    rng = np.random.default_rng(seed)
    counts = np.empty((samples, n), np.int32)
    for row in counts:
        row[:] = np.bincount(rng.integers(0, n, n), minlength=n)
    return counts


def _blocks(
    counts: Int[np.ndarray, "sample pair"],
) -> Iterator[Int[np.ndarray, "some pair"]]:
    rows = max(1, _BLOCK // counts.shape[1])
    for start in range(0, len(counts), rows):
        yield counts[start : start + rows]


def _interval(
    values: Float[np.ndarray, "sample cell"], level: float, *, enough: bool
) -> Float[np.ndarray, "2 cell"]:
    """Percentiles of each cell over the samples in which it exists: NaN if these are too few, or
    the pairs are."""
    ends = np.full((2, values.shape[1]), np.nan)
    if not enough:
        return ends
    for cell, column in enumerate(values.T):
        there = column[~np.isnan(column)]
        if 2 * len(there) >= len(column):
            ends[:, cell] = np.quantile(there, [(1 - level) / 2, (1 + level) / 2])
    return ends


def _check_options(metric: Any, level: float, samples: Any, seed: Any) -> None:
    if metric not in tuple(_MEASURES):
        raise OptionError(f"unknown metric {metric!r}: expected one of {', '.join(_MEASURES)}")
    _check_level(level)
    if not isinstance(samples, Integral) or samples < 1:
        raise InputError(f"samples={samples!r}: expected an integer, 1 or more, e.g. 1000")
    if not isinstance(seed, Integral) or seed < 0:
        raise InputError(f"seed={seed!r}: expected an integer, 0 or more")


def _finite(name: str, values: Any, shape: tuple[int | None, ...]) -> Float[np.ndarray, "..."]:
    """``values`` in float64, or an error; ``None`` in ``shape`` is any length."""
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} is no array of numbers ({error}); expected floats") from None
    fits = array.ndim == len(shape) and all(
        wanted in (None, length) for wanted, length in zip(shape, array.shape, strict=True)
    )
    if not fits or not len(array):
        pairs = "pairs" if shape[0] is None else str(shape[0])
        wanted = f"[{pairs}, cells]" if len(shape) == 2 else f"[{pairs}]"
        raise InputError(
            f"{name} has the shape {list(array.shape)}; expected {wanted}, one row per pair, and "
            "at least one pair"
        )
    wrong = np.argwhere(~np.isfinite(array))
    if len(wrong):
        raise InputError(
            f"{name} has {array[tuple(wrong[0])]} for pair {wrong[0][0]}; expected finite numbers: "
            "leave out the pairs that have none"
        )
    return array


def _check_labels(target: Float[np.ndarray, "pair"]) -> None:
    wrong = np.flatnonzero((target != 0) & (target != 1))
    if len(wrong):
        raise InputError(
            f"target is {target[wrong[0]]:g} for pair {wrong[0]}; auc expects labels 0 or 1: for "
            "graded scores choose pearson or spearman"
        )
