"""Every start layer and every protocol in a single pass.

Done one by one, a curve over L layers and P protocols costs P·L hooked forward passes. Here a
clean pass keeps the residual that enters each start layer; then the blocks are run once more: at
each start layer the clean residual is pooled by every protocol, the new streams join those pooled
at earlier layers, and all of them run through the next blocks in one call. Logits are computed at
the last position alone.

The caller decides what is read out at the end: ``finish`` gets each chunk of streams at the last
start layer and returns one row per stream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose.interventions.pooling import How, PooledLayout, pool_groups, spread_groups
from interp_compose.interventions.streams import Streams
from interp_compose.models.lens_model import LensModel

Mode = Literal["collapse", "broadcast"]

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
"""``(residual, layer, attention_mask, position_ids, row) -> [stream …]``, ``row`` being each
stream's example in the batch."""


@dataclass(frozen=True)
class Protocol:
    """One way to pool: a name for the results, a pooling function, and the batch's layout."""

    name: str
    how: How
    layout: PooledLayout


def protocols_of(
    names: Sequence[str], units: PooledLayout, shuffled: PooledLayout
) -> list[Protocol]:
    """Poolings by their own names, over ``units``; ``"shuffled"`` is the mean over ``shuffled``."""
    return [
        Protocol(name, "mean", shuffled)
        if name == "shuffled"
        else Protocol(name, cast(How, name), units)
        for name in names
    ]


def sweep(
    model: LensModel,
    resid: Callable[[int], Float[Tensor, "batch pos _"]],
    attention_mask: Int[Tensor, "batch pos"],
    token_positions: Int[Tensor, "batch pos"],
    protocols: Sequence[Protocol],
    layers: Sequence[int],
    finish: Finish,
    *,
    mode: Mode = "collapse",
    renumber: bool = False,
    max_tokens: int = 4096,
) -> Float[Tensor, "layer protocol batch *result"]:
    """Pool at each of ``layers`` by each protocol, run on, and read out.

    Args:
        model: must honour ``run_blocks``; :meth:`require` it before.
        resid: gives the clean residual that enters a layer; called once per layer, in order.
        attention_mask, token_positions: of the clean batch (:meth:`LensModel.positions`).
        protocols: all with the same number of pooled positions.
        layers: ascending start layers.
        finish: reads the result from streams that enter ``layers[-1]``.
        mode: ``"collapse"`` shortens the sequence to its units, ``"broadcast"`` keeps its length
            and gives every token its unit's vector.
        renumber: rotary positions 0, 1, 2, … after a collapse, instead of the last tokens'.
        max_tokens: streams × positions that one call may hold; bounds the peak memory.

    Returns:
        What ``finish`` returned, by layer, protocol and example.
    """
    batch = attention_mask.shape[0]
    if mode == "collapse":
        mask = torch.cat([protocol.layout.mask for protocol in protocols])
        positions = torch.cat([p.layout.positions(token_positions) for p in protocols])
        if renumber:
            positions = model.renumbered(positions, mask)
    else:
        mask = attention_mask.repeat(len(protocols), 1)
        positions = token_positions.repeat(len(protocols), 1)
    example = torch.arange(batch, device=mask.device).repeat(len(protocols))
    streams = Streams(model, mask, positions, len(layers), max_tokens)
    for layer, above in zip(layers, [*layers[1:], None], strict=True):
        clean = resid(layer)
        streams.join(torch.cat([_pool(clean, protocol, mode) for protocol in protocols]))
        if above is not None:
            streams.run(layer, above)
    results = torch.cat(
        [
            finish(streams.resid[chunk], layers[-1], mask[rows], positions[rows], example[rows])
            for chunk, rows in streams.chunks()
        ]
    )
    return results.reshape(len(layers), len(protocols), batch, *results.shape[1:])


def _pool(
    clean: Float[Tensor, "batch pos d_model"], protocol: Protocol, mode: str
) -> Float[Tensor, "batch _ d_model"]:
    layout = protocol.layout
    pooled = pool_groups(clean, layout.of_token, protocol.how, n_groups=layout.n_positions)
    if mode == "collapse":
        return pooled
    return spread_groups(pooled, layout.of_token, clean)
