"""How right a classifier is, by the usual definitions (scikit-learn's, scipy's)."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float
from scipy import stats

from interp_compose.checks import check_package
from interp_compose.errors import OptionError

CLASSES = ("accuracy", "matthews", "f1")
SCORES = ("pearson", "spearman")


def classified(
    metric: str, predicted: Float[np.ndarray, "text"], target: Float[np.ndarray, "text"]
) -> float:
    """For predicted classes the share that is right (``"accuracy"``), Matthews' correlation
    (``"matthews"``, CoLA; 0 where one class alone is predicted) and the F1 of class 1 (``"f1"``,
    MRPC and QQP; 0 where it is never predicted). For predicted scores Pearson's and Spearman's
    correlation (STS-B), NaN where a side is constant or fewer than two texts are there.

    Raises:
        OptionError: another metric.
        MissingPackageError: scikit-learn is not installed.
    """
    check_package("sklearn", "papers")
    from sklearn import metrics

    if metric == "accuracy":
        return float((predicted == target).mean())
    if metric == "matthews":
        return float(metrics.matthews_corrcoef(target, predicted))
    if metric == "f1":
        return float(metrics.f1_score(target, predicted, pos_label=1, zero_division=0))
    if metric not in SCORES:
        expected = ", ".join((*CLASSES, *SCORES))
        raise OptionError(f"metric={metric!r}: expected one of {expected}")
    if len(target) < 2 or np.ptp(predicted) == 0 or np.ptp(target) == 0:
        return math.nan
    correlation = stats.pearsonr if metric == "pearson" else stats.spearmanr
    return float(correlation(predicted, target).statistic)
