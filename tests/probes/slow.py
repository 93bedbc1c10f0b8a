"""References of the probes, by all singular values in float64."""

from __future__ import annotations

import numpy as np
from torch import Tensor


def slow_values(A: Tensor) -> np.ndarray:
    values: np.ndarray = np.linalg.svd(A.detach().double().numpy(), compute_uv=False)
    return values


def slow_rank(A: Tensor) -> float:
    values = slow_values(A)
    return float((values**2).sum() / values.max() ** 2)
