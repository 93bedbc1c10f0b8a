"""Texts of several lengths side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor


def pad_left(
    ids: Sequence[Int[np.ndarray, "_"]], special: Sequence[Any]
) -> tuple[Int[Tensor, "batch pos"], Int[Tensor, "batch pos"], Int[Tensor, "batch pos"]]:
    """Token ids, mask and special-token marks of several texts, padded on the left with 0."""
    width = max(map(len, ids))
    tokens = np.zeros((len(ids), width), dtype=np.int64)
    mask, marks = np.zeros_like(tokens), np.zeros_like(tokens)
    for row, (own, mark) in enumerate(zip(ids, special, strict=True)):
        at = slice(width - len(own), width)
        tokens[row, at], mask[row, at], marks[row, at] = own, 1, mark
    return torch.from_numpy(tokens), torch.from_numpy(mask), torch.from_numpy(marks)
