"""The edit behind every attention mask: pairs of a query and a key, cut before or after softmax."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

HIDDEN = torch.finfo(torch.float16).min / 2
"""Scores below are masked by the model. Masks are minus infinity or the lowest number of a dtype,
which may be narrower than the scores' own: a GPT-J in float16 has scores in float32 and -65504 for
its padding."""

Pairs = Callable[[Float[Tensor, "batch head query key"]], Bool[Tensor, "batch query key"]]


class Cut:
    """One layer's :class:`~interp_compose.types.AttentionEdit`.

    Args:
        pairs: given the scores, which pairs to cut.
        heads: those to cut them in; None for all.
        before_softmax: scores to the lowest number before the softmax, or the pattern to zero
            after it.

    Attributes:
        n_cut, n_emptied: of all calls, entries cut that the model would have used, and queries
            (per head) that lost their last key; tensors, so that nothing waits for a GPU.
    """

    def __init__(self, pairs: Pairs, *, heads: Sequence[int] | None, before_softmax: bool) -> None:
        self._pairs = pairs
        self._heads = heads
        self._before = before_softmax
        self._to_zero: Tensor | None = None
        self.n_cut: Tensor | int = 0
        self.n_emptied: Tensor | int = 0

    def scores(
        self, scores: Float[Tensor, "batch head query key"]
    ) -> Float[Tensor, "batch head query key"]:
        """The scores, those of cut pairs so low that the softmax gives them exactly nothing."""
        visible = scores > HIDDEN
        cut = self._in_heads(self._pairs(scores)[:, None], scores.shape[1])
        removed = visible & cut
        emptied = removed.any(-1, keepdim=True) & ~(visible & ~cut).any(-1, keepdim=True)
        self.n_cut = self.n_cut + removed.sum()
        self.n_emptied = self.n_emptied + emptied.sum()
        if not self._before:
            self._to_zero = cut
            return scores
        # A row of lowest numbers alone would come out of the softmax as an even spread, over the
        # future and the padding as well.
        self._to_zero = emptied
        return scores.masked_fill(cut, torch.finfo(scores.dtype).min)

    def pattern(
        self, pattern: Float[Tensor, "batch head query key"]
    ) -> Float[Tensor, "batch head query key"]:
        """The pattern, zero where it was cut after the softmax and where no key is left."""
        to_zero, self._to_zero = self._to_zero, None
        assert to_zero is not None, "a pattern belongs to the scores before it"
        return pattern.masked_fill(to_zero, 0.0)

    def _in_heads(
        self, cut: Bool[Tensor, "batch one query key"], n_heads: int
    ) -> Bool[Tensor, "batch _ query key"]:
        if self._heads is None:
            return cut
        chosen = torch.zeros(n_heads, dtype=torch.bool, device=cut.device)
        chosen[list(self._heads)] = True
        return cut & chosen[None, :, None, None]
