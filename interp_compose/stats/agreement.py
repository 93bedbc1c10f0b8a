"""How well cosines follow human judgements: a correlation or an ROC area, with intervals.

Whole pairs are drawn, so that every cell (such as a layer and a pooling) has the same samples and
differences between cells are paired. A value that does not exist is NaN: a correlation of fewer
than three pairs or with a side that is constant (all numbers exactly equal), an area with one
class only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from interp_compose.errors import InputError, OptionError
from interp_compose.stats.intervals import check_level, expanded_percentiles

Measure = Callable[[Int[np.ndarray, "sample pair"]], Float[np.ndarray, "sample cell"]]
"""How often each pair was drawn → every cell's value in every sample, NaN if there is none."""


def pearson(cells: Float[np.ndarray, "pair cell"], target: Float[np.ndarray, "pair"]) -> Measure:
    """Moments as matrix products of the counts with centred numbers and their squares.

    In a sample whose mean is ten standard deviations from the mean of all pairs (its numbers
    are nearly constant, and an outlier was not drawn) the moments would cancel; such a sample is
    written out and centred on its own mean.
    """
    n = len(target)
    x, y = _centred(cells), _centred(target)

    def measure(counts: Int[np.ndarray, "sample pair"]) -> Float[np.ndarray, "sample cell"]:
        if n < 3:
            return np.full((len(counts), x.shape[1]), np.nan)
        weights = counts / n  # [sample pair]
        mean_x, mean_y = weights @ x, (weights @ y)[:, None]  # [sample cell], [sample 1]
        var_x = weights @ x**2 - mean_x**2  # E x² − (E x)²
        var_y = (weights @ y**2)[:, None] - mean_y**2
        covariance = weights @ (x * y[:, None]) - mean_x * mean_y  # [sample cell]
        with np.errstate(invalid="ignore", divide="ignore"):
            value = covariance / np.sqrt(var_x * var_y)
        cancelled = (100 * var_x <= mean_x**2) | (100 * var_y <= mean_y**2)  # [sample cell]
        for sample, cell in np.argwhere(cancelled):
            times = counts[sample]  # [pair]: each written out as often as it was drawn
            value[sample, cell] = _correlation(cells[:, cell].repeat(times), target.repeat(times))
        clipped: Float[np.ndarray, "sample cell"] = value.clip(-1, 1)
        return clipped

    return measure


def _centred(x: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """Scaled into [−1, 1] by a power of two, which rounds nothing, and shifted to mean 0.

    Shifted twice, since the mean of numbers far from 0 is itself rounded.
    """
    # frexp: |x| = m · 2^e with ½ ≤ m < 1, e of the largest in each column.
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
    columns, target_ties = [_ties(column) for column in cells.T], _ties(target)
    n = len(target)

    def measure(counts: Int[np.ndarray, "sample pair"]) -> Float[np.ndarray, "sample cell"]:
        value = np.full((len(counts), len(columns)), np.nan)
        if n < 3:
            return value
        weights = counts.astype(np.float64)
        y = _ranks(weights, target_ties)  # [sample pair], doubled and centred
        y_drawn = weights * y
        var_y = _row_sums(y_drawn, y)
        for cell, ties in enumerate(columns):
            x = _ranks(weights, ties)  # [sample pair]
            with np.errstate(invalid="ignore"):  # 0/0, exactly, where x or y is constant
                # Σ w x y / √(Σ w x² Σ w y²): the means are 0, and the factors 2 cancel.
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
        ones = positive.sum(axis=1)  # [sample]: P; N = n − P
        for cell, ties in enumerate(columns):
            # Σ 2r − (n + 1), over those labelled 1
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
    # return_inverse numbers the groups in ascending order of their value.
    return _Ties(np.argsort(group, kind="stable"), sizes.cumsum() - 1, group)


def _ranks(
    weights: Float[np.ndarray, "sample pair"], ties: _Ties
) -> Float[np.ndarray, "sample pair"]:
    """Twice each pair's centred rank, 2r − (n + 1): whole numbers, with mean 0 in each sample.

    A group of weight w with b observations before it has the ranks b + 1 … b + w, whose mean is
    r = b + (w + 1)/2; hence 2r − (n + 1) = b + (b + w) − n.
    """
    # [sample group]: b + w, observations up to the end of each group
    through = weights.take(ties.order, axis=1).cumsum(axis=1).take(ties.last, axis=1)
    n = weights.shape[1]
    by_group: Float[np.ndarray, "sample group"] = through - n
    by_group[:, 1:] += through[:, :-1]  # + b, which is 0 of the first group
    return by_group.take(ties.group, axis=1)


def _row_sums(
    a: Float[np.ndarray, "sample pair"], b: Float[np.ndarray, "sample pair"]
) -> Float[np.ndarray, "sample"]:
    sums: Float[np.ndarray, "sample"] = np.einsum("sp,sp->s", a, b)
    return sums


METRICS: Final = {"score": ("pearson", "spearman"), "label": ("auc",)}
"""The metrics of each kind of target: a graded score, or a label that is 0 or 1."""

_MEASURES: Final = {"pearson": pearson, "spearman": spearman, "auc": auc}
MIN_PAIRS: Final = 10
"""Pairs below which there is no interval: percentiles of so few are too narrow. For ``auc`` half as
many of each label."""
_BLOCK: Final = 2**18
"""Numbers per temporary array (2 MiB), which a core's cache can hold."""


class Agreement(NamedTuple):
    """Each cell's agreement with the target, and its difference from the reference.

    ``low`` and ``high`` end the bootstrap interval of ``value``. ``difference`` is
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

    Intervals are :func:`.expanded_percentiles` of ``samples`` bootstrap samples (Efron 1979; see
    :func:`bootstrap_counts`); ranks are computed within each sample, where a pair drawn three
    times is three equal observations. A sample in which a value does not exist (see the
    module) is left out of the percentiles; if it exists in fewer than half of them, the interval is
    NaN, and so it is with fewer than ten pairs (``auc``: five of either label), and where all
    samples give one value, such as a perfect 1. A cell equal to ``reference`` differs from it by
    exactly 0.

    Args:
        cosines: similarity of the two texts of a pair; any finite numbers.
        target: people's judgement of the pair: a score, or for ``auc`` a label.
        metric: one of :data:`METRICS`.
        reference: the cosines that every cell is compared with, such as the clean model's.
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

    # 1. Every cell of all pairs, and of each bootstrap sample: [1 + sample, cell (+ reference)].
    measure = _MEASURES[metric](cells, target)
    all_pairs = measure(np.ones((1, n), np.int64))
    counts = bootstrap_counts(n, samples, seed)
    values = np.concatenate([all_pairs, *map(measure, _blocks(counts))])

    # 2. Percentiles of each cell, where there are pairs enough.
    k = cells.shape[1] - (reference is not None)
    rarer = int(min(target.sum(), n - target.sum())) if metric == "auc" else n
    enough = n >= MIN_PAIRS and rarer >= MIN_PAIRS // 2
    low, high = _interval(values[1:, :k], n, level, enough=enough)
    constant = low == high  # one value in every sample gives no interval
    low[constant] = high[constant] = np.nan
    # 3. Differences from the reference within each sample, which keeps them paired.
    difference = np.full((3, k), np.nan)  # value, low, high
    if reference is not None:
        differences = values[:, :k] - values[:, k:]
        same = (cells[:, :k] == cells[:, k:]).all(axis=0)
        # to the last bit, whatever the matrix products rounded; NaN stays NaN
        differences[:, same] = 0 * values[:, k:]
        difference[0] = differences[0]
        difference[1:] = _interval(differences[1:], n, level, enough=enough)
    return Agreement(values[0, :k], low, high, *difference)


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
    values: Float[np.ndarray, "sample cell"], n: int, level: float, *, enough: bool
) -> Float[np.ndarray, "2 cell"]:
    """Percentiles of each cell over the samples, of ``n`` pairs, in which it exists: NaN if these
    are too few, or the pairs are."""
    ends = np.full((2, values.shape[1]), np.nan)
    if not enough:
        return ends
    for cell, column in enumerate(values.T):
        existing = column[~np.isnan(column)]
        if 2 * len(existing) >= len(column):
            ends[:, cell] = expanded_percentiles(existing, n, level)
    return ends


def _check_options(metric: str, level: float, samples: int, seed: int) -> None:
    if metric not in tuple(_MEASURES):
        raise OptionError(f"unknown metric {metric!r}: expected one of {', '.join(_MEASURES)}")
    check_level(level)
    if samples < 1:
        raise InputError(f"samples={samples!r}: expected an integer, 1 or more, e.g. 1000")
    if seed < 0:
        raise InputError(f"seed={seed!r}: expected an integer, 0 or more")


def _finite(name: str, values: Any, shape: tuple[int | None, ...]) -> Float[np.ndarray, "..."]:
    """``values`` in float64, or an error; ``None`` in ``shape`` is any length."""
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} is no array of numbers ({error}); expected floats") from None
    fits = array.ndim == len(shape) and all(
        size in (None, length) for size, length in zip(shape, array.shape, strict=True)
    )
    if not fits or not len(array):
        pairs = "pairs" if shape[0] is None else str(shape[0])
        expected = f"[{pairs}, cells]" if len(shape) == 2 else f"[{pairs}]"
        raise InputError(
            f"{name} has the shape {list(array.shape)}; expected {expected}, one row per pair, and "
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


# ---- what rounding cannot tell apart ----


def rounding(dtype: str) -> float:
    """The step below which cosines are not told apart, because rounding makes it.

    Two vectors that differ by a few units in the last place have a cosine of 1 - 16 ε² or more;
    batches of other sizes moved float32 cosines by up to 5e-7. Finer differences would be ranked
    and correlated as if the model had made them.
    """
    eps = {"bfloat16": 2.0**-7, "float16": 2.0**-10}.get(dtype, 2.0**-23)
    return max(1e-6, 16 * eps**2)


def told_apart(
    cosines: Float[np.ndarray, "pair cell"], step: float, metric: str
) -> Float[np.ndarray, "pair cell"]:
    """Cosines that differ by more than rounding, or not at all.

    Where all of a cell lie within a step, they are one number, which correlates with nothing.
    Metrics of ranks see whole steps, so that what differs by rounding alone is a tie; Pearson's r,
    which weighs differences by their size, sees the cosines as they are.
    """
    values = cosines if metric == "pearson" else np.round(cosines / step) * step
    return np.where(np.ptp(cosines, axis=0) > step, values, 1.0)
