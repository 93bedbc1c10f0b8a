"""Stable rank: how many directions a matrix really uses."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from interp_compose._word_pairs import full_precision
from interp_compose.errors import InputError, NonFiniteError


def stable_rank(A: Float[Tensor, "*batch row col"]) -> Float[Tensor, "*batch"]:
    """‖A‖_F² / ‖A‖₂² of each matrix: between 1 and its rank, and 0 for a zero matrix.

    In float32 at least (float64 stays), by the eigenvalues of the smaller of A Aᵀ and Aᵀ A: their
    sum over the largest. Each matrix is first divided by its largest entry, which changes nothing
    and keeps the squares in range.

    Raises:
        InputError: fewer than two dimensions, or a matrix without entries.
        NonFiniteError: NaN or infinite entries.
    """
    if A.ndim < 2 or 0 in A.shape[-2:]:
        raise InputError(
            f"A has the shape {tuple(A.shape)}; expected matrices [..., row, col] with entries"
        )
    if not bool(A.isfinite().all()):
        raise NonFiniteError(
            f"A has {int((~A.isfinite()).sum())} NaN or infinite entries of {A.numel()}; "
            "a stable rank needs finite ones: look for the step at which they appeared"
        )
    A = A.to(torch.float64 if A.dtype == torch.float64 else torch.float32)
    largest = A.abs().amax(dim=(-2, -1), keepdim=True)
    scaled = A / largest.masked_fill(largest == 0, 1)
    if A.shape[-2] > A.shape[-1]:
        scaled = scaled.mT
    with full_precision(A):
        gram = scaled @ scaled.mT
    top = torch.linalg.eigvalsh(gram)[..., -1]
    total = gram.diagonal(dim1=-2, dim2=-1).sum(-1)
    rank: Tensor = total / top.masked_fill(largest[..., 0, 0] == 0, 1)
    return rank
