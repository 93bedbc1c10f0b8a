"""Positions of tokens among padding."""

from __future__ import annotations

from jaxtyping import Int
from torch import Tensor


def positions_from_mask(mask: Int[Tensor, "batch pos"]) -> Int[Tensor, "batch pos"]:
    """Positions that count real tokens only, so that padding on either side changes nothing."""
    return (mask.cumsum(dim=1) - 1).clamp(min=0)
