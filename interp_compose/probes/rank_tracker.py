"""The stable rank of one matrix while it is trained, for a few products per evaluation."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from interp_compose.errors import InputError, OptionError
from interp_compose.probes.lanczos import TopPair, top_pair
from interp_compose.probes.matrices import check_matrices, wide_enough
from interp_compose.probes.rank import check_tolerance, frobenius, scaled
from interp_compose.tensors import full_precision


class StableRankTracker:
    """Follows the stable rank of one matrix, each evaluation starting from the last one's vector.

    For a matrix that has changed little it takes two products with A and with Aᵀ where a random
    start takes tens. Its residual is checked against ``tolerance`` as there, and it goes on for as
    long as that needs. A residual cannot show that another direction has overtaken the one
    followed: so the first evaluation and then every ``check_every``-th starts at random as well and
    the larger singular value counts. ``overtaken`` counts the checks that found one larger by more
    than the tolerance; where it grows, check more often.

    Raises:
        OptionError: a tolerance out of range, or ``check_every`` below 1.
    """

    def __init__(self, *, tolerance: float = 1e-4, check_every: int = 10) -> None:
        check_tolerance(tolerance, torch.float32)
        if check_every < 1:
            raise OptionError(
                f"check_every={check_every!r}: expected a whole number of evaluations, 1 or "
                "more (1 starts at random every time)"
            )
        self.tolerance = tolerance
        self.check_every = check_every
        self.evaluations = 0
        self.overtaken = 0
        self._shape: tuple[int, ...] | None = None
        self._last: TopPair | None = None
        self._transposed = False

    @torch.no_grad()
    def update(self, A: Float[Tensor, "row col"]) -> float:
        """The stable rank now; 0 for a zero matrix.

        Raises:
            InputError: as :func:`~interp_compose.probes.rank.stable_rank`, and another shape than
                before.
            NonFiniteError: NaN or infinite entries.
        """
        check_matrices(A, axes="row, col")
        shape = tuple(A.shape)
        if self._shape not in (None, shape):
            raise InputError(
                f"A has the shape {shape} and had {self._shape}: a tracker follows one matrix; "
                "make one for each"
            )
        self._shape = shape
        with full_precision(A):
            matrix, scale = scaled(A.to(wide_enough(A.dtype)))
            if scale == 0:
                return 0.0
            value = self._top_value(matrix, transposed=A.stride(0) < A.stride(1))
            return float((frobenius(matrix) / value).square())

    def _top_value(self, matrix: Float[Tensor, "_ _"], *, transposed: bool) -> float:
        """The largest singular value of the matrix (or of its transpose, which has the same)."""
        last, self.evaluations = self._last, self.evaluations + 1
        if last is None:
            top = top_pair(matrix, self.tolerance)
        else:
            # 1. On from the last evaluation: of its two vectors the one along today's columns.
            start = last.right if transposed == self._transposed else last.left
            top = top_pair(matrix, self.tolerance, start=start.to(matrix))
            # 2. Now and then a random start, in case another direction has become the largest.
            if (self.evaluations - 1) % self.check_every == 0:
                fresh = top_pair(matrix, self.tolerance)
                self.overtaken += fresh.value**2 > top.value**2 * (1 + self.tolerance)
                top = max(top, fresh, key=lambda pair: pair.value)
        self._last, self._transposed = top, transposed
        return top.value
