"""Streams: residuals that leave the clean run at several layers and run on as one batch.

:func:`sweep_streams` runs them from every start layer in a single pass. Done one by one, an
intervention at each of L layers in P ways costs P·L hooked forward passes. Here a clean pass keeps
the residual that enters each start layer; then the blocks are run once more: at each start layer
the edited residuals join those that joined below, and all of them run through the next blocks in
one call. Logits are computed at the last position alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose.models.lens_model import LensModel

Edit = Callable[[slice, Int[Tensor, "stream"]], AbstractContextManager[Any]]
"""``(chunk of the streams, row of each) -> a with block`` in which blocks are run on them."""

Finish = Callable[
    [
        Float[Tensor, "stream pos d_model"],
        int,
        Int[Tensor, "stream pos"],
        Int[Tensor, "stream pos"],
        Int[Tensor, "stream"],
    ],
    Tensor,
]
"""``(residual, layer, attention_mask, position_ids, row) -> [stream …]``: what is read from each
chunk of streams at the last start layer; ``row`` is each stream's place in its group."""


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


def sweep_streams(
    model: LensModel,
    enter: Callable[[int], Float[Tensor, "row pos _"]],
    mask: Int[Tensor, "row pos"],
    positions: Int[Tensor, "row pos"],
    layers: Sequence[int],
    finish: Finish,
    *,
    max_tokens: int,
) -> Float[Tensor, "layer row *result"]:
    """Residuals enter at each of ``layers``, run on together, and are read out.

    Args:
        model: must honour ``run_blocks``; :meth:`require` it before.
        enter: gives the residuals that enter a layer; called once per layer, in order.
        mask, positions: of these residuals, at every layer.
        layers: ascending start layers.
        finish: reads the result from streams that enter ``layers[-1]``.
        max_tokens: streams × positions that one call may hold; bounds the peak memory.

    Returns:
        What ``finish`` returned, by layer and row.
    """
    streams = Streams(model, mask, positions, len(layers), max_tokens)
    for layer, above in zip(layers, [*layers[1:], None], strict=True):
        streams.join(enter(layer))
        if above is not None:
            streams.run(layer, above)
    results = torch.cat(
        [
            finish(streams.resid[chunk], layers[-1], mask[rows], positions[rows], rows)
            for chunk, rows in streams.chunks()
        ]
    )
    return results.reshape(len(layers), len(mask), *results.shape[1:])
