"""Every ablation target at every layer in one pass over the blocks.

Done one by one, T targets at L layers cost T·L hooked forward passes. Here the clean residuals of
one pass are the start: streams leave the clean run at the first layer that changes, join those that
left it earlier, and run through the remaining blocks as one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from interp_compose.interventions.mask_attention import EdgeKnockout
from interp_compose.interventions.pooling_sweep import chunks
from interp_compose.models.lens_model import LensModel
from interp_compose.tensors import positions_from_mask


@runtime_checkable
class Ablation(Protocol):
    """The targets of a batch, and how a block runs with some of them ablated or knocked out."""

    @property
    def row(self) -> Int[Tensor, "target"]:
        """Each target's example in the batch."""
        ...

    def in_block(
        self,
        model: LensModel,
        layer: int,
        targets: Int[Tensor, "stream"],
        active: Bool[Tensor, "stream"],
    ) -> AbstractContextManager[Any]:
        """Block ``layer`` with each stream's target ablated where ``active``."""
        ...


@dataclass(frozen=True)
class AttentionKnockout:
    """Later positions cannot attend to a word (complexity control, section V, Fig. 4).

    Attributes:
        keys: the word's tokens.
        queries: the positions whose attention to ``keys`` is knocked out.
        before_softmax: see :class:`.mask_attention.EdgeKnockout`.
    """

    row: Int[Tensor, "target"]
    keys: Bool[Tensor, "target pos"]
    queries: Bool[Tensor, "target pos"]
    before_softmax: bool

    def in_block(
        self,
        model: LensModel,
        layer: int,
        targets: Int[Tensor, "stream"],
        active: Bool[Tensor, "stream"],
    ) -> AbstractContextManager[Any]:
        queries = self.queries[targets] & active[:, None]
        pairs = queries[:, :, None] & self.keys[targets][:, None, :]

        def with_sinks(scores: Tensor) -> Tensor:  # a softmax may have a column that is no key
            return torch.nn.functional.pad(pairs, (0, scores.shape[3] - pairs.shape[2]))

        edit = EdgeKnockout(with_sinks, heads=None, before_softmax=self.before_softmax)
        return model.editing_attention({layer: edit})


@dataclass(frozen=True)
class HeadAblation:
    """A head's output at ``attn.hook_z`` replaced at every position.

    Attributes:
        head: each target's.
        replacement: by layer, ``[head d_head]`` for all positions or ``[batch pos head d_head]``;
            zero where there is none.
    """

    row: Int[Tensor, "target"]
    head: Int[Tensor, "target"]
    replacement: Mapping[int, Tensor]

    def in_block(
        self,
        model: LensModel,
        layer: int,
        targets: Int[Tensor, "stream"],
        active: Bool[Tensor, "stream"],
    ) -> AbstractContextManager[Any]:
        def replace(z: Float[Tensor, "stream pos head d_head"], hook: Any) -> Tensor:
            heads = torch.arange(z.shape[2], device=z.device)
            ablated = (heads[None, :] == self.head[targets][:, None]) & active[:, None]
            new = self.replacement.get(layer)
            if new is None:
                return z.masked_fill(ablated[:, None, :, None], 0.0)
            new = new[self.row[targets]] if new.ndim == 4 else new
            return torch.where(ablated[:, None, :, None], new.to(z.dtype), z)

        return model.hooks([(f"blocks.{layer}.attn.hook_z", replace)])


@dataclass(frozen=True)
class SublayerAblation:
    """Blocks, or sublayers of them, that add nothing to the residual.

    ``parts`` are some of ``"attn"`` and ``"mlp"``.
    """

    row: Int[Tensor, "target"]
    parts: Sequence[str]

    def in_block(
        self,
        model: LensModel,
        layer: int,
        targets: Int[Tensor, "stream"],
        active: Bool[Tensor, "stream"],
    ) -> AbstractContextManager[Any]:
        def ablate(out: Float[Tensor, "stream pos d_model"], hook: Any) -> Tensor:
            return out.masked_fill(active[:, None, None], 0.0)

        return model.hooks([(f"blocks.{layer}.hook_{part}_out", ablate) for part in self.parts])


REACH = ("from", "at", "until")

Finish = Callable[[Float[Tensor, "stream 1 d_vocab"], Int[Tensor, "stream"]], Tensor]
"""``(logits at the last position, each stream's example in the batch) -> [stream …]``"""


def ablation_sweep(
    model: LensModel,
    resid: Callable[[int], Float[Tensor, "batch pos d_model"]],
    attention_mask: Int[Tensor, "batch pos"],
    ablation: Ablation,
    layers: Sequence[int],
    finish: Finish,
    *,
    reach: str,
    max_tokens: int = 4096,
) -> Float[Tensor, "layer target *result"]:
    """Ablate each target at each layer ℓ of ``layers``, run on, and read the last position.

    Args:
        model: must honour ``resume`` and what the ablation needs; :meth:`require` it before.
        resid: gives the clean residual that enters a layer; called for ascending layers, those of
            ``layers`` alone or, where ``reach="until"``, layer 0 alone.
        attention_mask: of the clean batch.
        ablation: the batch's targets.
        layers: ascending.
        finish: makes a row of results of each stream's logits.
        reach: the window of layers that are ablated: ℓ and above (``"from"``), ℓ alone (``"at"``),
            or 0 … ℓ (``"until"``; these streams share no clean layers, and each ℓ is a pass of its
            own through all blocks).
        max_tokens: streams × positions that one call may hold.
    """
    sweep = _Sweep(model, attention_mask, ablation, max_tokens)
    last = model.n_layers - 1
    if reach == "until":
        sweep.join(resid(0), 1)
        active = torch.ones(sweep.n_targets, dtype=torch.bool)
        results = torch.cat([sweep.read(0, range(layer + 1), active, finish) for layer in layers])
    else:
        for layer in range(layers[0], last):
            if layer in layers:
                sweep.join(resid(layer), len(layers))
            sweep.step(layer, sweep.active(reach, layer in layers))
        if last in layers:
            sweep.join(resid(last), len(layers))
        results = sweep.read(last, [last], sweep.active(reach, last in layers), finish)
    return results.reshape(len(layers), len(ablation.row), *results.shape[1:])


class _Sweep:
    """Streams between two blocks: all targets, once for each layer at which they left the clean
    run."""

    def __init__(
        self,
        model: LensModel,
        attention_mask: Int[Tensor, "batch pos"],
        ablation: Ablation,
        max_tokens: int,
    ) -> None:
        self.model, self.ablation, self.max_tokens = model, ablation, max_tokens
        self.mask = attention_mask[ablation.row]
        self.positions = positions_from_mask(attention_mask)[ablation.row]
        self.n_targets = len(ablation.row)
        self.resid: Tensor | None = None
        self.n_streams = 0

    def join(self, clean: Float[Tensor, "batch pos d_model"], n_layers: int) -> None:
        """All targets leave the clean run here, as they do at ``n_layers`` layers in all."""
        if self.resid is None:
            self.resid = clean.new_empty((n_layers * self.n_targets, *clean.shape[1:]))
        self.resid[self.n_streams : self.n_streams + self.n_targets] = clean[self.ablation.row]
        self.n_streams += self.n_targets

    def active(self, reach: str, in_layers: bool) -> Bool[Tensor, "stream"]:
        """The streams that a block ablates: all, or those that joined last, if they joined here.

        On the CPU, so that asking whether there are any does not wait for a GPU.
        """
        stream = torch.arange(self.n_streams)
        return (stream >= self.n_streams - self.n_targets) & in_layers | (reach == "from")

    def step(self, layer: int, active: Bool[Tensor, "stream"]) -> None:
        """All streams through one block, ablated where ``active``."""
        assert self.resid is not None
        for part in self._parts():
            targets = self._targets(part)
            with self._ablated([layer], targets, active[part]):
                self.resid[part] = self.model.run_blocks(
                    self.resid[part],
                    layer,
                    layer + 1,
                    attention_mask=self.mask[targets],
                    position_ids=self.positions[targets],
                )

    def read(
        self,
        start: int,
        ablated: Iterable[int],
        active: Bool[Tensor, "stream"],
        finish: Finish,
    ) -> Tensor:
        """All streams through the blocks from ``start`` on, some of them ablated, and the rest."""
        assert self.resid is not None, "layers must not be empty"
        results = []
        for part in self._parts():
            targets = self._targets(part)
            with self._ablated(ablated, targets, active[part]):
                logits = self.model.resume(
                    self.resid[part],
                    start,
                    attention_mask=self.mask[targets],
                    position_ids=self.positions[targets],
                )
            results.append(finish(logits, self.ablation.row[targets]))
        return torch.cat(results)

    def _parts(self) -> list[slice]:
        return chunks(self.n_streams, self.mask.shape[1], self.max_tokens)

    def _targets(self, part: slice) -> Int[Tensor, "stream"]:
        return torch.arange(part.start, part.stop, device=self.mask.device) % self.n_targets

    def _ablated(
        self,
        layers: Iterable[int],
        targets: Int[Tensor, "stream"],
        active: Bool[Tensor, "stream"],
    ) -> ExitStack:
        with ExitStack() as blocks:
            for layer in layers if bool(active.any()) else ():
                here = active.to(targets.device)
                blocks.enter_context(self.ablation.in_block(self.model, layer, targets, here))
            return blocks.pop_all()
