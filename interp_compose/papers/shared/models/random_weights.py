"""Random numbers of a weight, which depend on a seed, its name and its shape alone."""

from __future__ import annotations

import hashlib
from typing import Literal

import numpy as np
import torch
from torch import Tensor

Distribution = Literal["normal", "uniform"]


def drawn(name: str, weight: Tensor, seed: int, distribution: Distribution) -> Tensor:
    """Random weights of deviation 1, or uniform between -1 and 1, in float64.

    By NumPy, whose generator takes 256 bits of seed (torch's on a CPU takes 32) and draws the same
    numbers on every machine.
    """
    digest = hashlib.sha256(f"{seed} {name}".encode()).digest()
    random = np.random.default_rng(list(digest))
    shape = tuple(weight.shape)
    if distribution == "normal":
        return torch.from_numpy(random.standard_normal(shape))
    return torch.from_numpy(random.uniform(-1.0, 1.0, shape))
