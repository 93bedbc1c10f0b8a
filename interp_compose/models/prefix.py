"""A sequence that differs from another one from some position on: what comes before is not run.

Under causal attention nothing at a position depends on later ones. So a residual that was edited at
position 5 leaves positions 0 … 4 as they were, in every layer above: their keys and values are
those of the clean run, and the blocks have to run on the positions from 5 on alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor


@dataclass(frozen=True)
class Kept:
    """Keys and values of a call, by layer: ``[row head pos d_head]`` each."""

    keys: Sequence[Tensor]
    values: Sequence[Tensor]

    @classmethod
    def of(cls, cache: Any) -> Kept:
        """The keys and values that a call left in transformers' cache."""
        return cls([layer.keys for layer in cache.layers], [layer.values for layer in cache.layers])


@dataclass(frozen=True)
class Prefix:
    """The positions before the first one of each stream, as a clean run had them.

    Attributes:
        kept: of the clean run.
        row: each stream's row in ``kept``.
        start: position of the clean run at which ``mask`` begins.
        mask: 1 for the positions of the clean run, from ``start`` on, that come before a stream.
    """

    kept: Kept
    row: Int[Tensor, "stream"]
    start: int
    mask: Int[Tensor, "stream before"]

    def of(self, streams: Int[Tensor, "chosen"]) -> Prefix:
        """The prefixes of the streams at these indices."""
        return Prefix(self.kept, self.row[streams], self.start, self.mask[streams])

    def cache(self, layers: range) -> Any:
        """A cache of transformers' that holds them, for a call that runs ``layers`` alone: of
        other layers it has the length."""
        from transformers import DynamicCache

        cache, places = DynamicCache(), slice(self.start, self.start + self.mask.shape[1])
        for layer, (keys, values) in enumerate(zip(self.kept.keys, self.kept.values, strict=True)):
            if layer in layers:
                # [row head pos d_head] -> [stream head before d_head]
                row = self.row.to(keys.device)
                cache.update(keys[:, :, places][row], values[:, :, places][row], layer)
            else:
                # For the length alone: one number per position.
                cache.update(keys[:1, :1, places, :1], values[:1, :1, places, :1], layer)
        return cache

    def before(self, mask: Int[Tensor, "stream pos"]) -> Int[Tensor, "stream all_pos"]:
        """The attention mask over prefix and stream."""
        return torch.cat([self.mask.to(mask.dtype), mask], dim=1)
