"""The largest singular value of a large matrix, by Lanczos' iteration with a stated tolerance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch
from jaxtyping import Float
from scipy.linalg import eigh_tridiagonal
from torch import Tensor

from interp_compose.errors import NonFiniteError

CHECK_EVERY: Final = 2
"""Steps between two checks of the convergence (each waits for a GPU)."""
ERROR_MARGIN: Final = 4
"""How many times smaller than the tolerance the estimated error has to be."""
RESIDUAL_BOUND: Final = 5
"""Largest residual, in tolerances: how far two nearly equal singular values may be mixed."""
ROUNDING: Final = 8
"""A vector shorter than so many roundings of ‖AᵀA‖ consists of rounding errors alone."""
MISS_FACTOR: Final = 100
MISS_CHANCE: Final = 3e-4
"""A square more than MISS_FACTOR tolerances above the result is missed with at most this chance."""
ROWS_CHUNK: Final = 1 << 18
"""Entries of a block of rows that a CPU's cache keeps between its two products."""


@dataclass(frozen=True)
class TopPair:
    """The largest singular value of a matrix, its two unit vectors, and the steps that it took."""

    value: float
    left: Float[Tensor, "row"]
    right: Float[Tensor, "col"]
    steps: int


def top_pair(
    A: Float[Tensor, "row col"],
    tolerance: float,
    *,
    start: Float[Tensor, "col"] | None = None,
) -> TopPair:
    """σ₁ with u, v: A v = σ₁ u, by Lanczos' iteration on Aᵀ A, every vector kept orthogonal.

    ``A`` is float32 or float64, its rows in one piece, not zero, and so scaled that its entries'
    squares neither overflow nor vanish. The start is random, from its own generator, the same on
    every device; or ``start``, the vector of a matrix that was nearly this one.

    It stops at a value θ for σ₁², never above it, once

    - its error, estimated from the residual ρ = ‖Aᵀ A v − θ v‖ and the distance to the next
      eigenvalue (ρ² over the distance, or ρ if that is less), is at most a quarter of
      ``tolerance`` · θ, and ρ at most five times ``tolerance`` · θ: squares of singular values
      nearer to each other than ρ may still be mixed, and then the error is of the order of ρ;
    - and a square beyond (1 + 100 ``tolerance``) θ would have been found, but for 3 starts in 10⁴.
      After k steps the Lanczos vector is p_k(Aᵀ A) times the start, of unit length, so that
      ``|p_k(λ)| ≤ 1 / |c|`` for an eigenvalue λ in whose direction the start has the component c;
      p_k grows fast above θ, and a random start rarely has a tiny component (Hochstenbach 2013,
      "Probabilistic upper bounds for the matrix two-norm"). With a given ``start`` this
      does not hold: a direction that it does not contain can be missed.

    It always ends: after as many steps as the smaller side has, the iteration is exact. The value
    returned is ‖A v‖, which no rounding can lift above σ₁.

    Raises:
        NonFiniteError: ‖A v‖² and θ disagree by more than the tolerance.
    """
    rows, cols = A.shape
    last = min(rows, cols) + 1
    growth_needed, largest = -math.inf, 0.0
    if start is None:
        generator = torch.Generator().manual_seed(0)
        start = torch.randn(cols, generator=generator).to(device=A.device, dtype=A.dtype)
        # P(|c| < ε) ≈ ε √(2 cols / π) for a random unit start. At the chance allowed: log 1/ε.
        growth_needed = math.log(math.sqrt(2 * cols / math.pi) / MISS_CHANCE)
    basis = A.new_empty(min(last, 64) + 1, cols)  # [step col], Lanczos vectors
    basis[0] = start / start.norm()
    coefficients = A.new_zeros(2, last)  # diagonal and off-diagonal of the tridiagonal matrix
    for k in range(1, last + 1):
        if k == len(basis):
            basis = torch.cat([basis, torch.empty_like(basis)])  # room for twice as many
        vectors = basis[:k]
        # 1. w = Aᵀ A v_k, less its part along v_k: α_k v_k.
        w = _normal_product(A, vectors[-1])
        alpha = vectors[-1] @ w
        w -= alpha * vectors[-1]
        # 2. Less its parts along all vectors so far. In exact arithmetic only the previous one's is
        # left. Twice, since little may be left of w where singular values are nearly equal, and
        # then rounding is much of it.
        w -= vectors.mT @ (vectors @ w)
        w -= vectors.mT @ (vectors @ w)
        # 3. β_k = ‖w‖, v_{k+1} = w / β_k: one more row of the tridiagonal matrix VᵀAᵀA V.
        beta = w.norm()
        largest = max(largest, float(alpha))
        if float(beta) <= ROUNDING * torch.finfo(A.dtype).eps * largest:
            beta = torch.zeros_like(beta)  # w is rounding alone: the subspace is complete
        coefficients[0, k - 1] = alpha
        coefficients[1, k - 1] = beta
        basis[k] = w / beta.clamp_min(torch.finfo(A.dtype).tiny)
        if k % CHECK_EVERY and k != last and beta != 0:
            continue
        # 4. On the CPU: that matrix's largest eigenvalue θ, its error, and p_k beyond it.
        diagonal, off = coefficients[:, :k].tolist()
        theta, vector, error = _top_of(diagonal, off, RESIDUAL_BOUND * tolerance)
        beyond = theta * (1 + MISS_FACTOR * tolerance)
        converged = (
            ERROR_MARGIN * error <= tolerance * theta
            and _log_growth(diagonal, off, beyond) >= growth_needed
        )
        if converged or beta == 0:
            break
    # 5. Back from the Lanczos vectors: v = V s, u = A v / ‖A v‖.
    right = vectors.mT @ torch.tensor(vector, dtype=A.dtype, device=A.device)
    right /= right.norm()
    left = torch.mv(A, right)
    value = float(left.norm())  # never above σ₁, whatever rounding did to θ
    if abs(value**2 - theta) > tolerance * theta:
        raise NonFiniteError(
            f"the iteration found {theta:.6g} for the largest squared singular value of a "
            f"{rows} × {cols} matrix, and its vector gives {value**2:.6g}: rounding spoilt it. "
            "Pass the matrix in float64."
        )
    return TopPair(value, left / value, right, k)


def _normal_product(A: Float[Tensor, "row col"], v: Float[Tensor, "col"]) -> Float[Tensor, "col"]:
    """Aᵀ (A v); on a CPU a block of rows at a time, so that memory is read once, not twice."""
    if A.device.type != "cpu" or A.numel() <= 4 * ROWS_CHUNK:
        return torch.mv(A.mT, torch.mv(A, v))
    total = torch.zeros_like(v)
    for block in A.split(max(1, ROWS_CHUNK // A.shape[1])):
        total.addmv_(block.mT, torch.mv(block, v))
    return total


def _top_of(
    diagonal: Sequence[float], off: Sequence[float], bound: float
) -> tuple[float, list[float], float]:
    """Largest eigenvalue of the tridiagonal matrix, its eigenvector, its error by the residuals.

    The error is infinite while the residual is above ``bound`` times the eigenvalue.
    """
    k = len(diagonal)
    values, vectors = eigh_tridiagonal(
        diagonal, off[:-1], select="i", select_range=(max(k - 2, 0), k - 1)
    )
    # ‖Aᵀ A V s − θ V s‖ = β_k |last component of s|, without a product with A.
    residuals = off[-1] * abs(vectors[-1])
    theta, residual = float(values[-1]), float(residuals[-1])
    if residual > bound * theta:
        return theta, vectors[:, -1].tolist(), math.inf
    distance = theta - float(values[0]) if k > 1 else 0.0
    error = residual if distance <= residual else residual**2 / distance
    return theta, vectors[:, -1].tolist(), error


def _log_growth(diagonal: Sequence[float], off: Sequence[float], x: float) -> float:
    """log p_k(x) of the iteration's polynomial, by the ratios of its three-term recurrence."""
    ratio, total = math.inf, 0.0
    before = 0.0
    for a, b in zip(diagonal, off, strict=True):
        if b == 0:
            return math.inf  # the start is in an invariant subspace, which is complete
        # r_k = p_k(x) / p_{k-1}(x) = (x − α_k − β_{k-1} / r_{k-1}) / β_k; at first β_0 / r_0 = 0
        ratio = (x - a - before / ratio) / b
        if ratio <= 0:  # a change of sign: x is not above all roots of p_k
            return -math.inf
        total += math.log(ratio)
        before = b
    return total
