"""Every cell at every layer in one pass over the blocks.

Done one by one, C cells at L layers cost C·L hooked forward passes. Here the clean residuals of one
pass are the start: streams leave the clean run at the first layer that changes, join those that
left it earlier, and travel through the remaining blocks side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from interp_compose.interventions.mask_attention import Cut
from interp_compose.interventions.pooling_sweep import chunks
from interp_compose.tensors import positions_from_mask
from interp_compose.types import HookedModel


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


REACH = ("from", "at", "until")

Finish = Callable[[Float[Tensor, "stream 1 d_vocab"], Int[Tensor, "stream"]], Tensor]
"""``(logits at the last position, each stream's example in the batch) -> [stream …]``"""


def knock_sweep(
    model: HookedModel,
    resid: Callable[[int], Float[Tensor, "batch pos d_model"]],
    attention_mask: Int[Tensor, "batch pos"],
    knockout: Knockout,
    layers: Sequence[int],
    finish: Finish,
    *,
    reach: str,
    max_tokens: int = 4096,
) -> Float[Tensor, "layer cell *result"]:
    """Knock out each cell at each layer ℓ of ``layers``, run on, and read the last position.

    Args:
        model: must honour ``resume`` and what the knockout needs; :meth:`require` it before.
        resid: gives the clean residual that enters a layer; called for ascending layers, those of
            ``layers`` alone or, where ``reach="until"``, layer 0 alone.
        attention_mask: of the clean batch.
        knockout: see :mod:`.knockouts`.
        layers: ascending.
        finish: makes a row of results of each stream's logits.
        reach: the knockout acts in layers ℓ and above (``"from"``), in ℓ alone (``"at"``), or in
            0 … ℓ (``"until"``).
        max_tokens: streams × positions that one call may hold.
    """
    sweep = _Sweep(model, attention_mask, knockout, len(layers), max_tokens)
    last = model.n_layers - 1
    if reach == "until":
        sweep.join(resid(0))
    for layer in range(0 if reach == "until" else layers[0], last):
        if reach != "until" and layer in layers:
            sweep.join(resid(layer))
        sweep.step(layer, sweep.knocked_out(reach, layer, layers))
        if reach == "until" and layer in layers[:-1]:
            sweep.fork()
    if reach != "until" and last in layers:
        sweep.join(resid(last))
    results = sweep.read(last, sweep.knocked_out(reach, last, layers), finish)
    return results.reshape(len(layers), len(knockout.row), *results.shape[1:])


class _Sweep:
    """Streams in flight: a group of all cells for each layer at which they left the clean run."""

    def __init__(
        self,
        model: HookedModel,
        attention_mask: Int[Tensor, "batch pos"],
        knockout: Knockout,
        n_groups: int,
        max_tokens: int,
    ) -> None:
        self.model, self.knockout, self.max_tokens = model, knockout, max_tokens
        self.mask = attention_mask[knockout.row]
        self.positions = positions_from_mask(attention_mask)[knockout.row]
        self.n_cells = len(knockout.row)
        self.room = n_groups * self.n_cells
        self.stock: Tensor | None = None
        self.joined = 0

    def knocked_out(self, reach: str, layer: int, layers: Sequence[int]) -> Bool[Tensor, "stream"]:
        """The streams on which the knockout acts in ``layer``: all, or the group that came last.

        On the CPU, so that asking whether there are any does not wait for a GPU.
        """
        stream = torch.arange(self.joined * self.n_cells)
        if reach == "from":
            return stream >= 0
        acts_here = layer in layers if reach == "at" else layer <= layers[-1]
        return (stream >= (self.joined - 1) * self.n_cells) & acts_here

    def join(self, clean: Float[Tensor, "batch pos d_model"]) -> None:
        """All cells leave the clean run here."""
        self._add(clean[self.knockout.row])

    def fork(self) -> None:
        """The group that came last once more: the one before goes on without the knockout."""
        assert self.stock is not None
        end = self.joined * self.n_cells
        self._add(self.stock[end - self.n_cells : end])

    def _add(self, fresh: Float[Tensor, "cell pos d_model"]) -> None:
        if self.stock is None:
            self.stock = fresh.new_empty((self.room, *fresh.shape[1:]))
        begin = self.joined * self.n_cells
        self.stock[begin : begin + self.n_cells] = fresh
        self.joined += 1

    def step(self, layer: int, acts: Bool[Tensor, "stream"]) -> None:
        """All streams through one block, knocked out where ``acts``."""
        assert self.stock is not None
        for part in self._parts():
            cells = self._cells(part)
            with self._acting(layer, cells, acts[part]):
                self.stock[part] = self.model.run_blocks(
                    self.stock[part],
                    layer,
                    layer + 1,
                    attention_mask=self.mask[cells],
                    position_ids=self.positions[cells],
                )

    def read(self, last: int, acts: Bool[Tensor, "stream"], finish: Finish) -> Tensor:
        """All streams through the last block and what follows it."""
        assert self.stock is not None, "layers must not be empty"
        results = []
        for part in self._parts():
            cells = self._cells(part)
            with self._acting(last, cells, acts[part]):
                logits = self.model.resume(
                    self.stock[part],
                    last,
                    attention_mask=self.mask[cells],
                    position_ids=self.positions[cells],
                )
            results.append(finish(logits, self.knockout.row[cells]))
        return torch.cat(results)

    def _parts(self) -> list[slice]:
        return chunks(self.joined * self.n_cells, self.mask.shape[1], self.max_tokens)

    def _cells(self, part: slice) -> Int[Tensor, "stream"]:
        return torch.arange(part.start, part.stop, device=self.mask.device) % self.n_cells

    def _acting(
        self, layer: int, cells: Int[Tensor, "stream"], active: Bool[Tensor, "stream"]
    ) -> AbstractContextManager[Any]:
        if not bool(active.any()):
            return nullcontext()
        return self.knockout.acting(self.model, layer, cells, active.to(cells.device))
