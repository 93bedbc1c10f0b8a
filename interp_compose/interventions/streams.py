"""Streams: residuals that leave the clean run at several layers and run on as one batch.

:class:`StreamSweep` runs them from every start layer in a single pass. Done one by one, an
intervention at each of L layers in P ways costs P·L hooked forward passes. Here a clean pass keeps
the residual that enters each start layer; then the blocks are run once more: at each start layer
the edited residuals join those that joined below, and all of them run through the next blocks in
one call. Logits are computed at the positions that are read alone.

What lies before the first position that an intervention touches is the clean run's in every layer.
Where the model can go on from the clean run's keys and values, it is not run (:class:`Shared`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose.models import base
from interp_compose.models.lens_model import LensModel
from interp_compose.models.prefix import Kept, Prefix
from interp_compose.types import Read

Edit = Callable[[slice, Int[Tensor, "stream"]], AbstractContextManager[Any]]
"""``(chunk of the streams, row of each) -> a with block`` in which blocks are run on them."""

Finish = Callable[[base.Streams, int, Int[Tensor, "stream"]], Tensor]
"""``(streams, layer, row) -> [stream …]``: what is read from each chunk of streams that enter the
last start layer; ``row`` is each stream's place in its group."""


@dataclass(frozen=True)
class Shared:
    """What rows of streams have in common with the clean run: all before their first change.

    Attributes:
        kept: the clean run's keys and values.
        example: each row's row in the clean run.
        column: where each position of the clean run is in the row's streams, -1 for nowhere.
        first: the first position of each row's streams that differs from the clean run.
    """

    kept: Kept
    example: Int[Tensor, "row"]
    column: Int[Tensor, "row pos"]
    first: Int[Tensor, "row"]

    def parts(self, width: int) -> Iterator[tuple[Int[Tensor, "part"], int, Prefix | None]]:
        """Rows that run from one position on: those rows, the position, and what comes before.

        On a CPU rows whose first changes lie within the same quarter of the ``width`` go together,
        elsewhere all do: more and smaller calls, which a GPU does not like, for fewer positions.
        """
        n_parts = 4 if self.first.device.type == "cpu" else 1
        quarter = (self.first * n_parts).div(max(width, 1), rounding_mode="floor")  # [row]
        for part in quarter.unique().tolist():
            rows = (quarter == part).nonzero()[:, 0]
            begin = int(self.first[rows].min())
            columns = self.column[rows]
            in_prefix = (columns >= 0) & (columns < begin)  # [part pos]
            # [part pos-1]: tokens of one unit share a column
            alone = columns[:, 1:] != columns[:, :-1]
            assert bool((alone | ~in_prefix[:, 1:]).all()), "pooled before the first change"
            # Positions of the clean run that are in any row's prefix.
            places = in_prefix.any(0).nonzero()[:, 0].tolist()
            if not places:
                yield rows, 0, None
                continue
            mask = in_prefix[:, places[0] : places[-1] + 1].long()  # [part before]
            yield rows, begin, Prefix(self.kept, self.example[rows], places[0], mask)


class JoinedStreams:
    """Residuals between two blocks: a group of equal size for each layer at which they joined.

    Args:
        model: must honour ``run_blocks``; :meth:`require` it before.
        mask, positions: of the rows of each group, ``[row pos]``.
        n_groups: how many will join.
        max_tokens: streams × positions that one call may hold; bounds the peak memory.
        prefix: of the rows of each group, where they begin in the middle of a sequence.

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
        prefix: Prefix | None = None,
    ) -> None:
        self.model, self.mask, self.positions, self.prefix = model, mask, positions, prefix
        self.n_groups, self.max_tokens = n_groups, max_tokens
        self.n_streams = 0

    def join(self, resid: Float[Tensor, "row pos width"]) -> None:
        # Room for all groups at once, so that no group is copied again when another joins.
        if self.n_streams == 0:
            self.resid = resid.new_empty((self.n_groups * len(resid), *resid.shape[1:]))
        self.resid[self.n_streams : self.n_streams + len(resid)] = resid
        self.n_streams += len(resid)

    def chunks(self) -> Iterator[tuple[slice, Int[Tensor, "stream"]]]:
        """Near-equal chunks of at most ``max_tokens`` tokens (but never less than one stream), and
        each stream's row in its group."""
        n_rows, length = self.mask.shape
        # ⌈tokens of all streams / tokens of a chunk⌉, a chunk of one stream at least.
        n_chunks = -(-self.n_streams * length // max(self.max_tokens, length))
        bounds = [round(chunk * self.n_streams / n_chunks) for chunk in range(n_chunks + 1)]
        for start, stop in pairwise(bounds):
            if stop > start:
                yield (
                    slice(start, stop),
                    # Group by group: a stream's row is its number modulo the rows of a group.
                    torch.arange(start, stop, device=self.mask.device) % n_rows,
                )

    def at(self, chunk: slice, rows: Int[Tensor, "stream"]) -> base.Streams:
        """The chunk's residuals, with the mask, positions and prefix of each stream's row."""
        prefix = None if self.prefix is None else self.prefix.of(rows)
        return base.Streams(self.resid[chunk], self.mask[rows], self.positions[rows], prefix)

    def run(self, start: int, stop: int, edit: Edit | None = None) -> None:
        """All streams through blocks ``start … stop-1``, each chunk inside ``edit``."""
        resid = self.resid
        for chunk, rows in self.chunks():
            with nullcontext() if edit is None else edit(chunk, rows):
                streams = self.at(chunk, rows)
                out = self.model.run_blocks(
                    streams.resid,
                    start,
                    stop,
                    attention_mask=streams.mask,
                    position_ids=streams.positions,
                    prefix=streams.prefix,
                )
            # The residual's width depends on the layer, and so may its device.
            if (out.shape[2], out.device) != (resid.shape[2], resid.device):
                resid = out.new_empty((*resid.shape[:2], out.shape[2]))
            resid[chunk] = out  # in place: a chunk has been read before it is written
        self.resid = resid


def capture_kept(
    model: LensModel,
    tokens: Int[Tensor, "batch pos"],
    names: Sequence[str],
    mask: Int[Tensor, "batch pos"],
    *,
    read: Read = "last",
) -> tuple[Float[Tensor, "batch _ width"], dict[str, Tensor], Kept | None]:
    """A clean run: what ``read`` names, the activations named, and keys and values where streams
    can go on from them."""
    if not model.continues:
        return *model.capture(tokens, names, attention_mask=mask, read=read), None
    with model.keeping() as kept:
        logits, store = model.capture(tokens, names, attention_mask=mask, read=read)
    return logits, store, kept()


def resumed(
    model: LensModel, streams: base.Streams, layer: int, *, read: Read = "last"
) -> Float[Tensor, "stream _ width"]:
    """The output that ``read`` names, of streams that enter block ``layer``."""
    places: Any = {"attention_mask": streams.mask, "position_ids": streams.positions}
    return model.resume(streams.resid, layer, **places, prefix=streams.prefix, read=read)


class StreamSweep:
    """Residuals that enter at one start layer after the other, run on together, and are read.

    Args:
        model: must honour ``run_blocks``; :meth:`require` it before.
        mask, positions: of the residuals that enter, the same at every start layer.
        layers: ascending start layers.
        max_tokens: streams × positions that one call may hold; bounds the peak memory.
        shared: what the rows have in common with the clean run, which is not run again; None: all
            is run. The model must honour ``prefix``, and nothing may act on it.
    """

    def __init__(
        self,
        model: LensModel,
        mask: Int[Tensor, "row pos"],
        positions: Int[Tensor, "row pos"],
        layers: Sequence[int],
        *,
        max_tokens: int,
        shared: Shared | None = None,
    ) -> None:
        self._n_rows, width = mask.shape
        self._layers = layers
        self._next = dict(pairwise(layers))
        # Rows that begin at one position are a part: the same blocks, run as one batch.
        everything = [(torch.arange(self._n_rows, device=mask.device), 0, None)]
        counts = (len(layers), max_tokens)
        self._parts = [
            (
                rows,
                begin,
                JoinedStreams(model, mask[rows, begin:], positions[rows, begin:], *counts, prefix),
            )
            for rows, begin, prefix in (everything if shared is None else shared.parts(width))
        ]

    def enter(self, layer: int, resid: Float[Tensor, "row pos _"]) -> None:
        """Residuals enter at a start layer, the next one in order; all that entered so far run on
        to the one after it."""
        for rows, begin, streams in self._parts:
            streams.join(resid[rows.to(resid.device), begin:])
            if layer in self._next:
                streams.run(layer, self._next[layer])

    def read(self, finish: Finish) -> Float[Tensor, "layer row *result"]:
        """What ``finish`` returns of the streams that enter the last start layer, by the layer at
        which they entered and by row."""
        results: Tensor | None = None
        # Part by part, and in each group by group: one for each start layer.
        for rows, _, streams in self._parts:
            read = [
                finish(streams.at(chunk, of_part), self._layers[-1], rows[of_part])
                for chunk, of_part in streams.chunks()
            ]
            # [layer part *result]
            of_rows = torch.cat(read).reshape(len(self._layers), len(rows), *read[0].shape[1:])
            if results is None:
                results = of_rows.new_empty((len(self._layers), self._n_rows, *of_rows.shape[2:]))
            results[:, rows] = of_rows
        assert results is not None, "there is at least one row"
        return results
