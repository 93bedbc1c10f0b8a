"""Streams: residuals that leave the clean run at several layers and run on as one batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose.models.lens_model import LensModel

Edit = Callable[[slice, Int[Tensor, "stream"]], AbstractContextManager[Any]]
"""``(chunk of the streams, row of each) -> a with block`` in which blocks are run on them."""


class Streams:
    """Residuals between two blocks: a group of equal size for each layer at which they joined.

    Args:
        model: must honour ``run_blocks``; :meth:`require` it before.
        mask, positions: of the rows of each group, ``[row pos]``.
        n_groups: how many will join.
        max_tokens: streams × positions that one call may hold; bounds the peak memory.

    Attributes:
        resid: ``[stream pos width]``, those that joined first first.
        n_streams: those that joined so far.
    """

    resid: Float[Tensor, "stream pos width"]

    def __init__(
        self,
        model: LensModel,
        mask: Int[Tensor, "row pos"],
        positions: Int[Tensor, "row pos"],
        n_groups: int,
        max_tokens: int,
    ) -> None:
        self.model, self.mask, self.positions = model, mask, positions
        self.n_groups, self.max_tokens = n_groups, max_tokens
        self.n_streams = 0

    def join(self, resid: Float[Tensor, "row pos width"]) -> None:
        """One more group."""
        if self.n_streams == 0:
            self.resid = resid.new_empty((self.n_groups * len(resid), *resid.shape[1:]))
        self.resid[self.n_streams : self.n_streams + len(resid)] = resid
        self.n_streams += len(resid)

    def chunks(self) -> Iterator[tuple[slice, Int[Tensor, "stream"]]]:
        """Near-equal chunks of at most ``max_tokens`` tokens (but never less than one stream), and
        each stream's row in its group."""
        n_rows, length = self.mask.shape
        n_chunks = -(-self.n_streams * length // max(self.max_tokens, length))
        bounds = [round(chunk * self.n_streams / n_chunks) for chunk in range(n_chunks + 1)]
        for start, stop in pairwise(bounds):
            if stop > start:
                yield (
                    slice(start, stop),
                    torch.arange(start, stop, device=self.mask.device) % n_rows,
                )

    def run(self, start: int, stop: int, edit: Edit | None = None) -> None:
        """All streams through blocks ``start … stop-1``, each chunk inside ``edit``."""
        left = self.resid
        for chunk, rows in self.chunks():
            with nullcontext() if edit is None else edit(chunk, rows):
                out = self.model.run_blocks(
                    self.resid[chunk],
                    start,
                    stop,
                    attention_mask=self.mask[rows],
                    position_ids=self.positions[rows],
                )
            if out.shape[2] != left.shape[2]:  # the residual's width depends on the layer
                left = out.new_empty((*left.shape[:2], out.shape[2]))
            left[chunk] = out
        self.resid = left
