"""Pooling at every start layer in every way, in one pass (:class:`.streams.StreamSweep`).

The caller decides what is read out at the end: ``finish`` gets each chunk of streams at the last
start layer and returns one row per stream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose.interventions.pooling import (
    HOW,
    How,
    OwnPooling,
    PooledLayout,
    pool_groups,
    spread_groups,
)
from interp_compose.interventions.streams import Finish, Shared, StreamSweep
from interp_compose.models.lens_model import LensModel
from interp_compose.models.prefix import Kept

Mode = Literal["collapse", "broadcast"]


@dataclass(frozen=True)
class SweptPooling:
    """One way to pool: a name for the results, a pooling function, and the batch's layout."""

    name: str
    how: How | OwnPooling
    layout: PooledLayout


def with_controls(
    poolings: Mapping[str, How | OwnPooling], controls: Sequence[str]
) -> dict[str, How | OwnPooling]:
    """Poolings by name, and after them the controls: one of :data:`.pooling.HOW`, or the name of
    other spans, over which the mean is taken."""
    how = {name: cast(How, name) if name in HOW else "mean" for name in controls}
    return {**poolings, **how}


def with_layouts(
    poolings: Mapping[str, How | OwnPooling],
    units: PooledLayout,
    spans: Mapping[str, PooledLayout],
) -> list[SweptPooling]:
    """Poolings over ``units``; those that are in ``spans`` over these."""
    return [SweptPooling(name, how, spans.get(name, units)) for name, how in poolings.items()]


def sweep(
    model: LensModel,
    resid: Callable[[int], Float[Tensor, "batch pos _"]],
    attention_mask: Int[Tensor, "batch pos"],
    token_positions: Int[Tensor, "batch pos"],
    poolings: Sequence[SweptPooling],
    layers: Sequence[int],
    finish: Finish,
    *,
    mode: Mode = "collapse",
    renumber: bool = False,
    max_tokens: int = 4096,
    kept: Kept | None = None,
    n_read: int = 1,
) -> Float[Tensor, "layer pooling batch *result"]:
    """Pool at each of ``layers`` by each pooling, run on, and read out.

    Args:
        model: must honour ``run_blocks``; :meth:`require` it before.
        resid: gives the clean residual that enters a layer; called once per layer, in order.
        attention_mask, token_positions: of the clean batch (:meth:`LensModel.positions`).
        poolings: all with the same number of pooled positions.
        layers: ascending start layers.
        finish: reads the result from streams that enter ``layers[-1]``; ``row`` is each stream's
            example in the batch.
        mode: ``"collapse"`` shortens the sequence to its units, ``"broadcast"`` keeps its length
            and gives every token its unit's vector.
        renumber: rotary positions 0, 1, 2, … after a collapse, instead of the last tokens'.
        max_tokens: streams × positions that one call may hold; bounds the peak memory.
        kept: the clean run's keys and values, where the model can go on from them: what lies
            before the first unit of several tokens is then not run.
        n_read: last positions that ``finish`` reads, which are run in any case.

    Returns:
        What ``finish`` returned, by layer, pooling and example.
    """
    # 1. The streams' layout, the same at every start layer; row = pooling · batch + example.
    batch = attention_mask.shape[0]
    if mode == "collapse":
        mask = torch.cat([pooling.layout.mask for pooling in poolings])  # [row group]
        # [row group]
        positions = torch.cat([pooling.layout.positions(token_positions) for pooling in poolings])
        if renumber:
            positions = model.renumbered(positions, mask)
    else:
        mask = attention_mask.repeat(len(poolings), 1)  # [row pos]
        positions = token_positions.repeat(len(poolings), 1)  # [row pos]

    shared = None if kept is None else _shared(kept, attention_mask, poolings, mode, n_read)
    options: Any = {"max_tokens": max_tokens, "shared": shared}
    streams = StreamSweep(model, mask, positions, layers, **options)

    # 2. At each start layer the clean residual is pooled in every way, and joins.
    for layer in layers:
        clean, entering = resid(layer), []
        for pooling in poolings:
            layout = pooling.layout
            # [batch group d_model]
            pooled = pool_groups(clean, layout.of_token, pooling.how, n_groups=layout.n_positions)
            if mode == "broadcast":
                pooled = spread_groups(pooled, layout.of_token, clean)  # [batch pos d_model]
            entering.append(pooled)
        streams.enter(layer, torch.cat(entering))

    # 3. At the last start layer the caller reads each stream, by its example.
    results = streams.read(lambda chunk, layer, row: finish(chunk, layer, row % batch))
    # [layer row *result] -> [layer pooling batch *result]
    return results.reshape(len(layers), len(poolings), batch, *results.shape[2:])


def _shared(
    kept: Kept,
    attention_mask: Int[Tensor, "batch pos"],
    poolings: Sequence[SweptPooling],
    mode: Mode,
    n_read: int,
) -> Shared:
    """What comes before the first unit of several tokens, by pooling and example."""
    batch, length = attention_mask.shape
    places = torch.arange(length, device=attention_mask.device)
    columns, firsts = [], []
    for layout in (pooling.layout for pooling in poolings):
        several = layout.sizes > 1  # [batch group]
        if mode == "broadcast":
            # From units to their tokens: [batch group] -> [batch pos].
            several = several.gather(1, layout.of_token.clamp(min=0)) & (layout.of_token >= 0)
        column = layout.of_token if mode == "collapse" else places.expand(batch, -1)  # [batch pos]
        columns.append(column.masked_fill(attention_mask == 0, -1))
        last = several.shape[1] - n_read
        # [batch]: argmax gives the first of equal maxima. What is read is run in any case.
        firsts.append(several.long().argmax(1).masked_fill(~several.any(1), last).clamp(max=last))
    example = torch.arange(batch, device=attention_mask.device).repeat(len(poolings))
    return Shared(kept, example, torch.cat(columns), torch.cat(firsts))  # [row], [row pos], [row]
