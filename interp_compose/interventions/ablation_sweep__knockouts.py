"""What a sweep knocks out: attention to words, heads, or what blocks add to the residual.

A *cell* is one thing knocked out in one example. In a sweep many cells of many examples travel side
by side, each a stream of its own, and at a layer some of them are active and some are not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from interp_compose.types import HookedModel
from interp_compose.interventions.mask_attention__cutting import Cut


@runtime_checkable
class Knockout(Protocol):
    """Cells of a batch, and how a block runs with some of them knocked out."""

    @property
    def row(self) -> Int[Tensor, "cell"]:
        """Each cell's example in the batch."""
        ...

    def acting(
        self,
        model: HookedModel,
        layer: int,
        cells: Int[Tensor, "stream"],
        active: Bool[Tensor, "stream"],
    ) -> AbstractContextManager[Any]:
        """Block ``layer`` with the knockout in the streams that are active."""
        ...


@dataclass(frozen=True)
class WordsOut:
    """Later positions cannot attend to a word (complexity control, section V, Fig. 4).

    Attributes:
        keys: the word's tokens.
        queries: the positions that are cut from them.
        before_softmax: see :class:`.cutting.Cut`.
    """

    row: Int[Tensor, "cell"]
    keys: Bool[Tensor, "cell pos"]
    queries: Bool[Tensor, "cell pos"]
    before_softmax: bool

    def acting(
        self,
        model: HookedModel,
        layer: int,
        cells: Int[Tensor, "stream"],
        active: Bool[Tensor, "stream"],
    ) -> AbstractContextManager[Any]:
        queries = self.queries[cells] & active[:, None]
        pairs = queries[:, :, None] & self.keys[cells][:, None, :]

        def sinks_too(scores: Tensor) -> Tensor:  # a softmax may have a column that is no key
            return torch.nn.functional.pad(pairs, (0, scores.shape[3] - pairs.shape[2]))

        return model.editing_attention(
            {layer: Cut(sinks_too, heads=None, before_softmax=self.before_softmax)}
        )


@dataclass(frozen=True)
class HeadsOut:
    """A head's output at ``attn.hook_z`` replaced at every position.

    Attributes:
        head: each cell's.
        instead: by layer, ``[head d_head]`` for all positions or ``[batch pos head d_head]``; zero
            where there is none.
    """

    row: Int[Tensor, "cell"]
    head: Int[Tensor, "cell"]
    instead: Mapping[int, Tensor]

    def acting(
        self,
        model: HookedModel,
        layer: int,
        cells: Int[Tensor, "stream"],
        active: Bool[Tensor, "stream"],
    ) -> AbstractContextManager[Any]:
        def replace(z: Float[Tensor, "stream pos head d_head"], hook: Any) -> Tensor:
            heads = torch.arange(z.shape[2], device=z.device)
            out = (heads[None, :] == self.head[cells][:, None]) & active[:, None]
            instead = self.instead.get(layer)
            if instead is None:
                return z.masked_fill(out[:, None, :, None], 0.0)
            new = instead[self.row[cells]] if instead.ndim == 4 else instead
            return torch.where(out[:, None, :, None], new.to(z.dtype), z)

        return model.hooks([(f"blocks.{layer}.attn.hook_z", replace)])


@dataclass(frozen=True)
class PartsOut:
    """Blocks, or sublayers of them, that add nothing to the residual.

    ``parts`` are some of ``"attn"`` and ``"mlp"``.
    """

    row: Int[Tensor, "cell"]
    parts: Sequence[str]

    def acting(
        self,
        model: HookedModel,
        layer: int,
        cells: Int[Tensor, "stream"],
        active: Bool[Tensor, "stream"],
    ) -> AbstractContextManager[Any]:
        def silence(out: Float[Tensor, "stream pos d_model"], hook: Any) -> Tensor:
            return out.masked_fill(active[:, None, None], 0.0)

        return model.hooks([(f"blocks.{layer}.hook_{part}_out", silence) for part in self.parts])
