"""Every ablation target at every layer in one pass over the blocks.

Done one by one, T targets at L layers cost T·L hooked forward passes. Here the clean residuals of
one pass are the start: streams leave the clean run at the first layer that changes, join those that
left it earlier, and run through the remaining blocks as one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from interp_compose.interventions.mask_attention import EdgeKnockout
from interp_compose.interventions.streams import Edit, JoinedStreams, resumed
from interp_compose.models.attention import AttentionSite
from interp_compose.models.lens_model import LensModel
from interp_compose.types import HookFn, Read, Side


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
        queries = self.queries[targets] & active[:, None]  # [stream pos]
        pairs = queries[:, :, None] & self.keys[targets][:, None, :]  # [stream pos pos]
        edits = {
            site: EdgeKnockout(
                partial(_at_site, model, site, pairs),
                heads=None,
                before_softmax=self.before_softmax,
            )
            for site in model.attention_sites(layer)
        }
        return model.editing_attention(edits)


def _at_site(
    model: LensModel,
    site: AttentionSite,
    pairs: Bool[Tensor, "stream pos pos"],
    scores: Float[Tensor, "stream head query key"],
) -> Bool[Tensor, "stream query key"]:
    """The pairs of one attention, from those of the whole sequence."""
    at_site = model.at_side(pairs, site.queries)  # [stream query pos]
    # at_side reads positions along axis 1, so the keys' axis goes there and back.
    at_site = model.at_side(at_site.mT.contiguous(), site.keys).mT  # [stream query key]
    at_site = at_site.to(scores.device)
    sinks = scores.shape[3] - at_site.shape[2]  # a softmax may have a column that is no key
    return torch.nn.functional.pad(at_site, (0, sinks))


@dataclass(frozen=True)
class HeadAblation:
    """A head's output at ``attn.hook_z`` replaced at every position.

    Attributes:
        head: each target's.
        replacement: by hook point, ``[head d_head]`` for all positions or ``[batch pos head
            d_head]``; zero where there is none.
    """

    row: Int[Tensor, "target"]
    head: Int[Tensor, "target"]
    replacement: Mapping[str, Tensor]

    def in_block(
        self,
        model: LensModel,
        layer: int,
        targets: Int[Tensor, "stream"],
        active: Bool[Tensor, "stream"],
    ) -> AbstractContextManager[Any]:
        def replacing(name: str, side: Side) -> HookFn:
            def replace(z: Float[Tensor, "stream pos head d_head"], hook: Any) -> Tensor:
                heads = torch.arange(z.shape[2], device=targets.device)
                # [stream head], broadcast over pos and d_head below
                ablated = (heads[None, :] == self.head[targets][:, None]) & active[:, None]
                ablated = ablated.to(z.device)
                new = self.replacement.get(name)
                if new is None:
                    return z.masked_fill(ablated[:, None, :, None], 0.0)
                if new.ndim == 4:
                    # [batch pos head d_head] -> [stream pos head d_head]
                    new = model.at_side(new[self.row[targets].to(new.device)], side)
                return torch.where(ablated[:, None, :, None], new.to(z.dtype), z)

            return replace

        prefix = model.prefix(layer)
        hooks = []
        for site in model.attention_sites(layer):
            name = f"{prefix}.{site.name}.hook_z"
            hooks.append((name, replacing(name, site.queries)))
        return model.hooks(hooks)


@dataclass(frozen=True)
class SublayerAblation:
    """Blocks, or sublayers of them, that add nothing to the residual.

    ``parts`` are some of ``"attn"``, ``"cross_attn"`` and ``"mlp"``; those that a layer does not
    have are skipped.
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
            return out.masked_fill(active.to(out.device)[:, None, None], 0.0)

        sublayers = model.sublayers(layer)
        return model.hooks([(sublayers[part], ablate) for part in self.parts if part in sublayers])


REACH = ("from", "at", "until")

Finish = Callable[[Float[Tensor, "stream _ width"], Int[Tensor, "stream"]], Tensor]
"""``(what is read, each stream's example in the batch) -> [stream …]``"""


def ablation_sweep(
    model: LensModel,
    resid: Callable[[int], Float[Tensor, "batch pos _"]],
    attention_mask: Int[Tensor, "batch pos"],
    token_positions: Int[Tensor, "batch pos"],
    ablation: Ablation,
    layers: Sequence[int],
    finish: Finish,
    *,
    reach: str,
    max_tokens: int = 4096,
    read: Read = "last",
) -> Float[Tensor, "layer target *result"]:
    """Ablate each target at each layer ℓ of ``layers``, run on, and read out.

    Args:
        model: must honour ``resume`` and what the ablation needs; :meth:`require` it before.
        resid: gives the clean residual that enters a layer; called for ascending layers, those of
            ``layers`` alone or, where ``reach="until"``, layer 0 alone.
        attention_mask, token_positions: of the clean batch (:meth:`LensModel.positions`).
        ablation: the batch's targets.
        layers: ascending.
        finish: makes a row of results of what ``read`` names, of each stream.
        reach: the window of layers that are ablated: ℓ and above (``"from"``), ℓ alone (``"at"``),
            or 0 … ℓ (``"until"``; these streams share no clean layers, and each ℓ is a pass of its
            own through all blocks).
        max_tokens: streams × positions that one call may hold.
        read: what is read, by default logits at the last position.
    """
    mask = attention_mask[ablation.row]  # [target pos]
    positions = token_positions[ablation.row]  # [target pos]
    n_targets, last = len(ablation.row), model.n_layers - 1
    n_groups = 1 if reach == "until" else len(layers)
    streams = JoinedStreams(model, mask, positions, n_groups, max_tokens)

    def leaving(layer: int) -> Float[Tensor, "target pos _"]:
        clean = resid(layer)
        return clean[ablation.row.to(clean.device)]

    def ablating(blocks: Sequence[int]) -> Edit:
        """Blocks with all streams ablated or, for reach ``"at"``, those that joined at the last."""
        stream = torch.arange(streams.n_streams)  # on the CPU: any() must not wait for a GPU
        # Streams join n_targets at a time; the newest joined here, if this is a start layer.
        newest = streams.n_streams - n_targets * (blocks[-1] in layers)
        active = stream >= (newest if reach == "at" else 0)

        def edit(chunk: slice, targets: Int[Tensor, "stream"]) -> ExitStack:
            # A chunk in which no stream is active runs without any hook.
            with ExitStack() as edits:
                for layer in blocks if bool(active[chunk].any()) else ():
                    here = active[chunk].to(targets.device)
                    edits.enter_context(ablation.in_block(model, layer, targets, here))
                return edits.pop_all()

        return edit

    def results_of(start: int, blocks: Sequence[int]) -> Tensor:
        """All streams from block ``start`` on, ablated in ``blocks``, to their results."""
        results, edit = [], ablating(blocks)
        for chunk, targets in streams.chunks():
            with edit(chunk, targets):
                outputs = resumed(model, streams.at(chunk, targets), start, read=read)
            results.append(finish(outputs, ablation.row[targets]))
        return torch.cat(results)

    # Ablated in 0 … ℓ: one group leaves at layer 0, and each ℓ is a pass of its own.
    if reach == "until":
        streams.join(leaving(0))
        results = torch.cat([results_of(0, range(layer + 1)) for layer in layers])
    else:
        # 1. Upwards from the first ℓ, block by block: targets leave the clean run at their ℓ.
        for layer in range(layers[0], model.n_layers):
            if layer in layers:
                streams.join(leaving(layer))
            if layer < last:
                streams.run(layer, layer + 1, ablating([layer]))
        # 2. The last block, and what is read after it.
        results = results_of(last, [last])
    # Groups in the order in which they joined: [layer target *result].
    return results.reshape(len(layers), n_targets, *results.shape[1:])
