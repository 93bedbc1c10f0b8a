"""Correlations and ROC areas of many bootstrap samples at once.

A sample is never written out: it is how often each pair was drawn, and the formulas take these
counts as weights. ``counts`` is [sample, pair], every row summing to the number of pairs; all
ones are the data themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

Measure = Callable[[Int[np.ndarray, "sample pair"]], Float[np.ndarray, "sample cell"]]
"""How often each pair was drawn → every cell's value in every sample, NaN if there is none."""


def pearson(cells: Float[np.ndarray, "pair cell"], target: Float[np.ndarray, "pair"]) -> Measure:
    """Moments as matrix products of the counts with centred numbers and their squares.

    In a sample whose mean lies ten standard deviations from the mean of all pairs (its numbers
    are nearly constant, and an outlier was not drawn) the moments would cancel; such a sample is
    written out and centred on its own mean.
    """
    n = len(target)
    x, y = _centred(cells), _centred(target)

    def measure(counts: Int[np.ndarray, "sample pair"]) -> Float[np.ndarray, "sample cell"]:
        if n < 3:
            return np.full((len(counts), x.shape[1]), np.nan)
        weights = counts / n
        mean_x, mean_y = weights @ x, (weights @ y)[:, None]
        var_x = weights @ x**2 - mean_x**2
        var_y = (weights @ y**2)[:, None] - mean_y**2
        covariance = weights @ (x * y[:, None]) - mean_x * mean_y
        with np.errstate(invalid="ignore", divide="ignore"):
            value = covariance / np.sqrt(var_x * var_y)
        cancelled = (100 * var_x <= mean_x**2) | (100 * var_y <= mean_y**2)
        for sample, cell in np.argwhere(cancelled):
            times = counts[sample]
            value[sample, cell] = _correlation(cells[:, cell].repeat(times), target.repeat(times))
        clipped: Float[np.ndarray, "sample cell"] = value.clip(-1, 1)
        return clipped

    return measure


def _centred(x: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """Scaled into [−1, 1] by a power of two, which rounds nothing, and shifted to mean 0.

    Shifted twice, since the mean of numbers far from 0 is itself rounded.
    """
    x = np.ldexp(x, -np.frexp(np.abs(x).max(axis=0))[1])
    x = x - x.mean(axis=0)
    centred: Float[np.ndarray, "*shape"] = x - x.mean(axis=0)
    return centred


def _correlation(x: Float[np.ndarray, "draw"], y: Float[np.ndarray, "draw"]) -> float:
    if x.min() == x.max() or y.min() == y.max():
        return np.nan
    x, y = _centred(x), _centred(y)
    return float(x @ y / np.sqrt((x @ x) * (y @ y)))


def spearman(cells: Float[np.ndarray, "pair cell"], target: Float[np.ndarray, "pair"]) -> Measure:
    """Pearson's formula of the average ranks that the numbers have within each sample."""
    columns, own = [_ties(column) for column in cells.T], _ties(target)
    n = len(target)

    def measure(counts: Int[np.ndarray, "sample pair"]) -> Float[np.ndarray, "sample cell"]:
        value = np.full((len(counts), len(columns)), np.nan)
        if n < 3:
            return value
        weights = counts.astype(np.float64)
        y = _ranks(weights, own)
        y_drawn = weights * y
        var_y = _row_sums(y_drawn, y)
        for cell, ties in enumerate(columns):
            x = _ranks(weights, ties)
            with np.errstate(invalid="ignore"):  # 0/0, exactly, where x or y is constant
                value[:, cell] = _row_sums(x, y_drawn) / np.sqrt(_row_sums(weights * x, x) * var_y)
        return value.clip(-1, 1)

    return measure


def auc(cells: Float[np.ndarray, "pair cell"], target: Float[np.ndarray, "pair"]) -> Measure:
    """½ + Σ (r − (n + 1)/2) / (P N): ranks r over the P pairs labelled 1, N labelled 0."""
    columns = [_ties(column) for column in cells.T]
    n = len(target)

    def measure(counts: Int[np.ndarray, "sample pair"]) -> Float[np.ndarray, "sample cell"]:
        value = np.empty((len(counts), len(columns)))
        weights = counts.astype(np.float64)
        positive = weights * target
        ones = positive.sum(axis=1)
        for cell, ties in enumerate(columns):
            doubled = _row_sums(_ranks(weights, ties), positive)
            with np.errstate(invalid="ignore"):  # 0/0, exactly, where a class is missing
                value[:, cell] = 0.5 + doubled / (2 * ones * (n - ones))
        return value

    return measure


class _Ties(NamedTuple):
    """Where the groups of equal numbers end once sorted, and each pair's group."""

    order: Int[np.ndarray, "pair"]
    last: Int[np.ndarray, "group"]
    group: Int[np.ndarray, "pair"]


def _ties(x: Float[np.ndarray, "pair"]) -> _Ties:
    _, group, sizes = np.unique(x, return_inverse=True, return_counts=True)
    return _Ties(np.argsort(group, kind="stable"), sizes.cumsum() - 1, group)


def _ranks(
    weights: Float[np.ndarray, "sample pair"], ties: _Ties
) -> Float[np.ndarray, "sample pair"]:
    """Twice each pair's centred rank, 2r − (n + 1): whole numbers, with mean 0 in each sample.

    A group of weight w with b observations before it has the ranks b + 1 … b + w, whose mean is
    r = b + (w + 1)/2; hence 2r − (n + 1) = b + (b + w) − n.
    """
    through = weights.take(ties.order, axis=1).cumsum(axis=1).take(ties.last, axis=1)
    n = weights.shape[1]
    by_group: Float[np.ndarray, "sample group"] = through - n
    by_group[:, 1:] += through[:, :-1]
    return by_group.take(ties.group, axis=1)


def _row_sums(
    a: Float[np.ndarray, "sample pair"], b: Float[np.ndarray, "sample pair"]
) -> Float[np.ndarray, "sample"]:
    sums: Float[np.ndarray, "sample"] = np.einsum("sp,sp->s", a, b)
    return sums
