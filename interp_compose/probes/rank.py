"""Effective numbers of directions of a matrix: stable rank, spectral norm, spectral entropy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from interp_compose._public import public
from interp_compose.errors import InputError, OptionError
from interp_compose.probes.lanczos import top_pair
from interp_compose.probes.matrices import check_matrices, largest_entry, row_major, wide_enough
from interp_compose.tensors import full_precision

SMALL_SIDE: Final = 512
"""Up to this smaller side all eigenvalues of the Gram matrix are faster than an iteration."""
SPECTRUM_LIMIT: Final = 8192
"""Largest smaller side of which all singular values are computed."""
CHUNK: Final = 1 << 24
"""Entries of a batch that are in single or double precision at one time."""
ENTROPY_ERROR_LIMIT: Final = 1e-2
"""Estimate of a rounding error, in nats, from which float64 takes over. It adds up worst cases:
measured errors were 20 to 1000 times smaller."""
MIN_TOLERANCE: Final = {torch.float32: 1e-6, torch.float64: 1e-12}


@public
def stable_rank(
    A: Float[Tensor, "*batch row col"], *, tolerance: float = 1e-4
) -> Float[Tensor, "*batch"]:
    """‖A‖_F² / ‖A‖₂² of each matrix: between 1 and its rank, and 0 for a zero matrix.

    The measure of complexity control's section VI-C. In float32 at least (float64 stays). Where
    the smaller side has at most 512 entries it is exact, by the eigenvalues of the smaller of A Aᵀ
    and Aᵀ A. A larger matrix is iterated (:func:`.lanczos.top_pair`) until the
    estimated relative error of the result is below a quarter of ``tolerance``: it never returns
    before, and ends in any case, since the iteration is exact after as many steps as the smaller
    side has entries. Where the largest singular values are nearly equal, the error may exceed the
    estimate, and ``tolerance`` with it.
    Deterministic; differentiable (2 A / σ² − 2 ‖A‖_F² u vᵀ / σ³, whose error is that of the
    vectors: about √tolerance where the largest singular value is well apart).

    Raises:
        InputError: fewer than two dimensions, a matrix without entries, a sparse layout, a
            quantised dtype.
        NonFiniteError: NaN or infinite entries.
        OptionError: a tolerance that is not between 10⁻⁶ (float64: 10⁻¹²) and 0.1.
    """
    return _by_size(
        A,
        tolerance,
        _small_stable_ranks,
        lambda matrix, norm, _: (frobenius(matrix) / norm).square(),
    )


def spectral_norm(
    A: Float[Tensor, "*batch row col"], *, tolerance: float = 1e-4
) -> Float[Tensor, "*batch"]:
    """‖A‖₂, the largest singular value of each matrix, as in :func:`stable_rank`; 0 for zero.

    ``tolerance`` is of its square. Differentiable: u vᵀ.

    Raises:
        InputError, NonFiniteError, OptionError: as :func:`stable_rank`.
    """
    return _by_size(A, tolerance, _small_norms, lambda _, norm, scale: norm * scale)


def _by_size(
    A: Float[Tensor, "*batch row col"],
    tolerance: float,
    small: Callable[[Tensor], Tensor],
    large: Callable[[Tensor, Tensor, float], Tensor],
) -> Float[Tensor, "*batch"]:
    """``small`` of several matrices at once, or ``large(scaled matrix, its norm, scale)`` of each;
    0 for zero."""
    check_matrices(A)
    check_tolerance(tolerance, A.dtype)
    if min(A.shape[-2:]) <= SMALL_SIDE:
        return _each(A, small, CHUNK)

    def one(a: Float[Tensor, "1 row col"]) -> Float[Tensor, "1"]:
        matrix, scale = scaled(a[0])
        if scale == 0:
            return a.sum((-2, -1)) * 0  # [1]: 0, with a gradient of zeros
        return large(matrix, _Norm.apply(matrix, tolerance), scale).unsqueeze(0)

    return _each(A, one, 1)


@public
def spectral_entropy(A: Float[Tensor, "*batch row col"]) -> Float[Tensor, "*batch"]:
    """−Σ p log p of the singular values' shares p = σ / Σ σ, in nats; 0 for a zero matrix.

    Between 0 (one direction) and the log of the smaller side (all equal). By the eigenvalues of
    the smaller Gram matrix, in float32 where an estimate of the rounding allows it and otherwise in
    float64, which loses no singular value above about 10⁻⁸ of the largest: the error is below
    10⁻³ nats even where all but one vanish. Without a gradient.

    Raises:
        InputError: as :func:`stable_rank`, and a smaller side above 8192.
        NonFiniteError: NaN or infinite entries.
    """
    return spectrum(A)[1]


@torch.no_grad()
def spectrum(
    A: Float[Tensor, "*batch row col"],
) -> tuple[Float[Tensor, "*batch"], Float[Tensor, "*batch"]]:
    """:func:`stable_rank` and :func:`spectral_entropy` from one set of singular values.

    Raises:
        InputError, NonFiniteError: as :func:`spectral_entropy`, whose size limit it has.
    """
    check_matrices(A)
    if min(A.shape[-2:]) > SPECTRUM_LIMIT:
        raise InputError(
            f"A has the shape {tuple(A.shape)}; all singular values are computed up to a smaller "
            f"side of {SPECTRUM_LIMIT}: use stable_rank, which has no such limit, or a part of A"
        )
    both = _each(A, _of_spectrum, CHUNK)
    return both[..., 0], both[..., 1]


@public
def effective_rank(A: Float[Tensor, "*batch row col"]) -> Float[Tensor, "*batch"]:
    """exp of the spectral entropy: between 1 and the rank, and 0 for a zero matrix.

    Roy and Vetterli 2007, "The effective rank". Errors as :func:`spectral_entropy`.
    """
    entropy = spectral_entropy(A)
    zero = ~A.detach().flatten(-2).any(-1)
    return entropy.exp().masked_fill(zero, 0)


def check_tolerance(tolerance: float, dtype: torch.dtype) -> None:
    smallest = MIN_TOLERANCE[wide_enough(dtype)]
    if not smallest <= tolerance <= 0.1:
        raise OptionError(
            f"tolerance={tolerance!r}: expected a number between {smallest:g} (what {dtype} can "
            "resolve; float64 resolves 1e-12) and 0.1"
        )


def _each(
    A: Float[Tensor, "*batch row col"], work: Callable[[Tensor], Tensor], entries: int
) -> Float[Tensor, "..."]:
    """``work`` on chunks of matrices that have ``entries`` in all (at least one matrix), upcast."""
    dtype = wide_enough(A.dtype)
    batch, matrix = A.shape[:-2], A.shape[-2:]
    flat = A.reshape(math.prod(batch), *matrix)  # [n row col]
    at_least_one = flat if len(flat) else flat.new_ones(1, *matrix)  # for the shape of the result
    with full_precision(A):
        parts = at_least_one.split(max(1, entries // matrix.numel()))
        values = torch.cat([work(part.to(dtype)) for part in parts])[: len(flat)]
    return values.reshape((*batch, *values.shape[1:]))  # [*batch ...]


def scaled(matrix: Float[Tensor, "row col"]) -> tuple[Float[Tensor, "_ _"], float]:
    """The matrix or its transpose, rows in one piece, over the number given with it; 0 for zero.

    That is 1 (and the matrix is no copy) unless squares would leave the range of float32.
    """
    matrix = row_major(matrix)
    largest = float(largest_entry(matrix))
    usual = 1e-12 < largest < 1e12
    if not usual and largest:
        matrix = matrix / largest
    if matrix.stride(-1) != 1:
        matrix = matrix.contiguous()
    return matrix, 1.0 if usual else largest


def frobenius(matrix: Float[Tensor, "row col"]) -> Float[Tensor, ""]:
    """Row by row: torch's float32 sum over a large matrix in one go is wrong by 10⁻³."""
    norm: Tensor = torch.linalg.vector_norm(torch.linalg.vector_norm(matrix, dim=-1), dim=-1)
    return norm


class _Norm(torch.autograd.Function):
    """The largest singular value by iteration; its gradient is u vᵀ."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, tolerance: float) -> Tensor:
        top = top_pair(matrix, tolerance)
        ctx.save_for_backward(top.left, top.right)
        return matrix.new_tensor(top.value)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        left, right = ctx.saved_tensors
        return torch.outer(grad * left, right), None  # [row col]; grad is a number


def _gram(A: Float[Tensor, "n row col"]) -> tuple[Float[Tensor, "n side side"], Float[Tensor, "n"]]:
    """The smaller Gram matrix of each matrix over its largest entry, and that entry."""
    largest = A.detach().abs().amax(dim=(-2, -1))  # [n]; it cancels, and so would its gradient
    scaled = A / largest.masked_fill(largest == 0, 1)[:, None, None]
    if A.shape[-2] > A.shape[-1]:
        scaled = scaled.mT
    return scaled @ scaled.mT, largest


def _small_stable_ranks(A: Float[Tensor, "n row col"]) -> Float[Tensor, "n"]:
    gram, largest = _gram(A)
    top = torch.linalg.eigvalsh(gram)[..., -1]  # [n]: ‖A‖₂² / largest²
    total = gram.diagonal(dim1=-2, dim2=-1).sum(-1)  # the trace: ‖A‖_F² / largest²
    rank: Tensor = total / top.masked_fill(largest == 0, 1)  # 0 / 1 for a zero matrix
    return rank


def _small_norms(A: Float[Tensor, "n row col"]) -> Float[Tensor, "n"]:
    gram, largest = _gram(A)
    top = torch.linalg.eigvalsh(gram)[..., -1]  # [n]
    norm: Tensor = top.masked_fill(largest == 0, 1).sqrt() * largest
    return norm


def _of_spectrum(A: Float[Tensor, "n row col"]) -> Float[Tensor, "n 2"]:
    """Stable rank and entropy. Large matrices in float32 first, twice as fast, and in float64 where
    rounding may have changed the entropy too much."""
    precise = torch.get_float32_matmul_precision() == "highest"  # no TF32 or bfloat16 products
    if min(A.shape[-2:]) <= SMALL_SIDE or not precise:
        return _of_spectrum_and_error(A.double())[0].to(A.dtype)
    both, error = _of_spectrum_and_error(A)
    inexact = error > ENTROPY_ERROR_LIMIT
    if bool(inexact.any()):
        # Only the matrices whose estimate is too large.
        both[inexact] = _of_spectrum_and_error(A[inexact].double())[0].to(A.dtype)
    return both


def _of_spectrum_and_error(
    A: Float[Tensor, "n row col"],
) -> tuple[Float[Tensor, "n 2"], Float[Tensor, "n"]]:
    """Stable rank and entropy, and what an error of four roundings of the largest eigenvalue does
    to the entropy.

    An eigenvalue λ of the Gram matrix that is off by δ is a singular value that is off by δ / 2σ,
    or √δ at most; that moves the entropy by (|log p| + H) / Σ σ times as much.
    """
    gram, largest = _gram(A)
    # 1. σ² / largest², ascending; rounding may have made small ones negative.
    squares = torch.linalg.eigvalsh(gram).clamp_min(0)  # [n side]
    top = squares[..., -1].masked_fill(largest == 0, 1)
    # 2. ‖A‖_F² / ‖A‖₂², in which `largest` cancels.
    stable = gram.diagonal(dim1=-2, dim2=-1).sum(-1) / top
    # 3. H = −Σ p log p of p = σ / Σ σ; entr(0) is 0.
    values = squares.sqrt()
    total = values.sum(-1, keepdim=True)  # [n 1]
    total = total.masked_fill(total == 0, 1)
    shares = values / total
    entropy = torch.special.entr(shares).sum(-1).clamp(0, math.log(values.shape[-1]))
    # 4. δ of each λ, moved to σ: δ / 2σ, at most √δ; then to H.
    delta = 4 * torch.finfo(A.dtype).eps * squares[..., -1:]  # [n 1]
    off = torch.minimum(delta.sqrt(), delta / (2 * values))
    off = torch.where(values == 0, delta.sqrt(), off)
    logs = -shares.clamp_min(torch.finfo(A.dtype).eps).log()
    error = (off * (logs + entropy.unsqueeze(-1)) / total).sum(-1)  # ≥ Σ |dH/dσ| off
    return torch.stack([stable, entropy], dim=-1), error
