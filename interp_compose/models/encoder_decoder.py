"""Encoder–decoders behind the one surface: two sequences and two stacks as one of each.

**One joint sequence.** A row of ``tokens [batch pos]`` holds its source tokens and then its target
tokens. Ids of target tokens are moved up by the size of the source vocabulary, so that each id says
which side its token is on, wherever padding is; :meth:`EncoderDecoderModel.join` makes such rows.
Positions of target tokens are moved up likewise, so that ``position_ids`` say it for residuals.

**Layers are numbered through**: 0 … n_encoder_layers-1 are the encoder's, the decoder's follow.

**The joint residual** that enters an encoder layer holds, at source positions, the encoder's
residual and, at target positions, what will enter the decoder's first block. The one that enters a
decoder layer holds, at source positions, the encoder's output, after its final norm, which
cross-attention reads from this layer on, and, at target positions, the decoder's residual. It has
the hook points ``blocks.{layer}.hook_resid_pre`` and ``blocks.{layer}.hook_resid_post``.

Inside, each side runs by itself, left-aligned and without the padding of the other: hook points of
a stack's own blocks show that stack's sequence.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformer_lens.hook_points import HookPoint

from interp_compose.errors import InputError, PositionError, PromptError
from interp_compose.models.attention import AttentionSite
from interp_compose.models.base import Streams
from interp_compose.models.hooks import check_call, without_hooks
from interp_compose.models.lens_model import LensModel
from interp_compose.tensors import positions_from_mask
from interp_compose.types import Read, Side, last_positions

FIRST_TARGET_POSITION: Final = 2**20
"""The position of a row's first target token; those of source tokens are below it."""


@dataclass(frozen=True)
class SideLayout:
    """Where the tokens of one side are in the joint sequence.

    Attributes:
        index: joint position of each of the side's own, left-aligned; 0 where there is none.
        mask: 1 where there is one.
    """

    index: Int[Tensor, "batch own"]
    mask: Int[Tensor, "batch own"]

    @classmethod
    def of(cls, chosen: Bool[Tensor, "batch pos"]) -> SideLayout:
        """The layout of a side whose real tokens are the ``chosen`` joint positions."""
        counts = chosen.sum(dim=1)
        slots = torch.arange(int(counts.max()), device=chosen.device)
        mask = (slots < counts[:, None]).long()
        # [batch own]: a stable sort brings the chosen positions to the front, in order
        order = torch.sort((~chosen).int(), dim=1, stable=True).indices[:, : len(slots)]
        return cls(order * mask, mask)

    def take(self, joint: Tensor) -> Tensor:
        """``[batch pos ...]`` at the side's own positions; 0 where there is none."""
        rows = torch.arange(len(joint), device=joint.device)[:, None]
        # [batch own 1 …]
        empty = self.mask.view(*self.mask.shape, *[1] * (joint.ndim - 2)) == 0
        return joint[rows, self.index].masked_fill(empty, 0)

    def put(
        self,
        vectors: Float[Tensor, "batch own width"],
        joint: Float[Tensor, "batch pos joint_width"],
    ) -> Float[Tensor, "batch pos joint_width"]:
        """``joint``, written to in place: the side's own vectors at its positions, narrower ones
        filled up with zeros."""
        vectors = torch.nn.functional.pad(vectors, (0, joint.shape[2] - vectors.shape[2]))
        # [token] each: the row, and the place in the side's own sequence
        row, slot = self.mask.nonzero(as_tuple=True)
        joint[row, self.index[row, slot]] = vectors[row, slot]
        return joint


class EncoderDecoderModel(LensModel):
    """A :class:`.lens_model.LensModel` of two stacks, ``lens.encoder_blocks`` and
    ``lens.decoder_blocks``; an implementation provides how each runs on its own sequence.

    Attributes:
        n_encoder_layers, n_decoder_layers: of each stack; ``n_layers`` is their sum.
        start_ids: target ids with which every target begins, as the model was trained; ()
            where they are not known.
    """

    start_ids: tuple[int, ...] = ()
    has_own_points = True

    def __init__(
        self,
        lens: Any,
        *,
        name: str,
        architecture: str,
        tokenizer: Any,
        d_vocab_source: int,
        d_vocab: int,
    ) -> None:
        super().__init__(lens, name=name, architecture=architecture, tokenizer=tokenizer)
        self.window = None
        self.n_encoder_layers = len(lens.encoder_blocks)
        self.n_decoder_layers = len(lens.decoder_blocks)
        self.n_layers = self.n_encoder_layers + self.n_decoder_layers
        self.d_vocab, self._d_vocab_source = d_vocab, d_vocab_source
        self._joint_points: dict[str, Any] = {}
        for layer in range(self.n_layers):
            for place in ("pre", "post"):
                point = HookPoint()
                point.name = f"blocks.{layer}.hook_resid_{place}"
                self._joint_points[point.name] = point
        self._sides: tuple[SideLayout, SideLayout] | None = None

    # ---- what an implementation provides -------------------------------------------------

    @abstractmethod
    def _embed(
        self, ids: Int[Tensor, "batch own"], mask: Int[Tensor, "batch own"], side: Side
    ) -> Float[Tensor, "batch own width"]:
        """What enters the first block of a side's stack; padding is on the right."""

    @abstractmethod
    def _encode(self, source: Streams, start: int, stop: int) -> Float[Tensor, "stream own width"]:
        """Encoder blocks ``start … stop-1``: what enters the next one or, after the last, the
        encoder's output, which cross-attention reads."""

    @abstractmethod
    def _decode(
        self, target: Streams, source: Streams, start: int, stop: int
    ) -> Float[Tensor, "stream own width"]:
        """Decoder blocks ``start … stop-1``; ``source.resid`` is the encoder's output."""

    @abstractmethod
    def _unembed(
        self, resid: Float[Tensor, "batch pos width"]
    ) -> Float[Tensor, "batch pos d_vocab"]:
        """Logits, from what leaves the last decoder block."""

    @abstractmethod
    def _final(self, resid: Float[Tensor, "batch pos width"]) -> Float[Tensor, "batch pos d_model"]:
        """The decoder's last hidden state, from what leaves its last block."""

    @abstractmethod
    def _plain_sides(
        self, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target"]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The wrapped object called with ids of both sides and nothing else: the encoder's output,
        the decoder's last hidden state, logits."""

    def _widths(self, layer: int) -> tuple[int, int]:
        """The widths of the source's and the target's residual that enter block ``layer``."""
        return self.d_model, self.d_model

    # ---- tokens --------------------------------------------------------------------------

    def join(
        self,
        source: Int[Tensor, "batch source"],
        target: Int[Tensor, "batch target"],
        source_mask: Int[Tensor, "batch source"] | None = None,
        target_mask: Int[Tensor, "batch target"] | None = None,
    ) -> tuple[Int[Tensor, "batch pos"], Int[Tensor, "batch pos"]]:
        """``tokens`` and ``attention_mask`` of a call.

        Args:
            source: what the encoder reads.
            target: what the decoder reads, its start token included.
            source_mask, target_mask: 1 for real tokens and 0 for padding, wherever it is; by
                default all are real.

        Raises:
            InputError: ids outside their vocabulary; a mask that does not fit; a row of which one
                side is empty.
        """
        for what, ids, size in (
            ("source", source, self.d_vocab_source),
            ("target", target, self.d_vocab),
        ):
            check_call(ids, None)
            lowest, highest = int(ids.min()), int(ids.max())
            if lowest < 0 or highest >= size:
                raise InputError(
                    f"{what} ids from {lowest} to {highest}: expected 0 to {size - 1}; these are "
                    f"not ids of this model's {what} vocabulary"
                )
        tokens = torch.cat([source, target + self.d_vocab_source], dim=1)
        given = ((source, source_mask), (target, target_mask))
        masks = [torch.ones_like(ids) if mask is None else mask for ids, mask in given]
        mask = torch.cat(masks, dim=1)
        check_call(tokens, mask)
        self._sides_of(tokens >= self.d_vocab_source, mask)
        return tokens, mask

    def positions(
        self, tokens: Int[Tensor, "batch pos"], attention_mask: Int[Tensor, "batch pos"]
    ) -> Int[Tensor, "batch pos"]:
        """Positions count the real tokens of each side; the target's begin at 2²⁰."""
        return _counted(tokens >= self.d_vocab_source, attention_mask)

    def renumbered(
        self, position_ids: Int[Tensor, "batch pos"], attention_mask: Int[Tensor, "batch pos"]
    ) -> Int[Tensor, "batch pos"]:
        """Positions 0, 1, 2, … on each side, in the place of others."""
        return _counted(position_ids >= FIRST_TARGET_POSITION, attention_mask)

    @property
    def target_start(self) -> Sequence[int]:
        """The ids with which every target begins, as a call has them.

        Raises:
            InputError: they are not known.
        """
        if not self.start_ids:
            raise InputError(
                f"the config of {self.name!r} has no decoder_start_token_id, with which targets "
                "begin; set model.start_ids to the ids of the tokens before the first word, such "
                "as a start token and the token of a language."
            )
        return [token + self.d_vocab_source for token in self.start_ids]

    def predicts(self, tokens: Int[Tensor, "batch pos"]) -> Bool[Tensor, "batch pos"]:
        """Target positions have logits; at source positions and padding logits are NaN."""
        return tokens >= self.d_vocab_source

    def random_tokens(
        self, batch: int, length: int, generator: torch.Generator
    ) -> Int[Tensor, "batch pos"]:
        """About as many source as target tokens, at least one of each."""
        sizes = max(1, (length + 1) // 2), max(1, length // 2)
        source = torch.randint(0, self.d_vocab_source, (batch, sizes[0]), generator=generator)
        target = torch.randint(0, self.d_vocab, (batch, sizes[1]), generator=generator)
        return torch.cat([source, target + self.d_vocab_source], dim=1)

    def shifted(
        self, tokens: Int[Tensor, "batch pos"], shift: Int[Tensor, "batch pos"] | int
    ) -> Int[Tensor, "batch pos"]:
        first = self.d_vocab_source
        moved = (tokens - first + shift) % self.d_vocab + first
        return torch.where(tokens >= first, moved, (tokens + shift) % first)

    # ---- layers --------------------------------------------------------------------------

    @property
    def hook_dict(self) -> Mapping[str, Any]:
        """Every hook point by each of its names; those of the joint residual are the model's own,
        and no calls of :attr:`lens` reach them."""
        return {**self.lens.hook_dict, **self._joint_points}

    @property
    def blocks(self) -> Sequence[Any]:
        """The modules of all layers, the encoder's first."""
        return [*self.lens.encoder_blocks, *self.lens.decoder_blocks]

    @property
    def stacks(self) -> Sequence[range]:
        """The encoder's layers, and the decoder's."""
        return range(self.n_encoder_layers), range(self.n_encoder_layers, self.n_layers)

    def side_of(self, layer: int) -> Side:
        """``"source"`` for the encoder's layers, ``"target"`` for the decoder's."""
        return "source" if layer < self.n_encoder_layers else "target"

    def prefix(self, layer: int) -> str:
        """``encoder_blocks.{i}`` or ``decoder_blocks.{i}``."""
        if self.side_of(layer) == "source":
            return f"encoder_blocks.{layer}"
        return f"decoder_blocks.{layer - self.n_encoder_layers}"

    def attention_sites(self, layer: int) -> Sequence[AttentionSite]:
        """Self-attention and, in the decoder, cross-attention."""
        if self.side_of(layer) == "source":
            return (AttentionSite(layer, "attn", "source", "source"),)
        return (
            AttentionSite(layer, "self_attn", "target", "target"),
            AttentionSite(layer, "cross_attn", "target", "source"),
        )

    def sublayers(self, layer: int) -> Mapping[str, str]:
        """A decoder's sublayers and, in the decoder's layers, ``"cross_attn"``."""
        names = super().sublayers(layer)
        if self.side_of(layer) == "source":
            return names
        cross = f"{self.prefix(layer)}.hook_cross_attn_out"
        if cross not in self.lens.hook_dict:
            cross = f"{self.prefix(layer)}.cross_attn.hook_out"
        return {"attn": names["attn"], "cross_attn": cross, "mlp": names["mlp"]}

    def at_side(self, values: Tensor, side: Side) -> Tensor:
        if side is None or self._sides is None:
            return values
        return self._sides[side == "target"].take(values)

    def own_mask(
        self, tokens: Int[Tensor, "batch pos"], attention_mask: Int[Tensor, "batch pos"], side: Side
    ) -> Bool[Tensor, "batch own"]:
        sides = self._sides_of(tokens >= self.d_vocab_source, attention_mask)
        return sides[side == "target"].mask.bool()

    @property
    def d_vocab_source(self) -> int:
        """Ids of source tokens are below it, those of target tokens begin at it."""
        return self._d_vocab_source

    @property
    def n_ids(self) -> int:
        """Ids of both sides are below it."""
        return self._d_vocab_source + self.d_vocab

    @property
    def max_length(self) -> int:
        """Positions that a call may have, those of both sides together."""
        return 2 * self.n_ctx

    # ---- running -------------------------------------------------------------------------

    def _forward(
        self,
        tokens: Int[Tensor, "batch pos"],
        attention_mask: Int[Tensor, "batch pos"],
        *,
        read: Read,
    ) -> Float[Tensor, "batch _ width"]:
        with self._on(tokens >= self.d_vocab_source, attention_mask):
            streams = self._embedded(tokens, attention_mask)
            return self._read(self._through(streams, 0, self.n_layers), read)

    def _resid_pre(
        self,
        tokens: Int[Tensor, "batch pos"],
        layer: int,
        attention_mask: Int[Tensor, "batch pos"],
    ) -> Float[Tensor, "batch pos width"]:
        with self._on(tokens >= self.d_vocab_source, attention_mask):
            streams = self._embedded(tokens, attention_mask)
            if layer == 0:
                return streams.resid
            return self._apply_entry_hooks(self._through(streams, 0, layer), layer)

    def _run_blocks(
        self, streams: Streams, start: int, stop: int
    ) -> Float[Tensor, "stream pos width"]:
        with self._on(streams.positions >= FIRST_TARGET_POSITION, streams.mask):
            return self._apply_entry_hooks(self._through(streams, start, stop), stop)

    def _resume(
        self, streams: Streams, start: int, *, read: Read
    ) -> Float[Tensor, "stream _ width"]:
        with self._on(streams.positions >= FIRST_TARGET_POSITION, streams.mask):
            return self._read(self._through(streams, start, self.n_layers), read)

    def _embedded(
        self, tokens: Int[Tensor, "batch pos"], mask: Int[Tensor, "batch pos"]
    ) -> Streams:
        """What enters layer 0."""
        sides: tuple[Side, Side] = ("source", "target")
        ids = (tokens, tokens - self.d_vocab_source)
        embedded = [
            self._embed(layout.take(of_side), layout.mask, side)
            for layout, of_side, side in zip(self._layouts, ids, sides, strict=True)
        ]
        resid = self._joined(embedded[0], embedded[1], 0, tokens.shape[1])
        positions = self.positions(tokens, mask)
        return Streams(self._apply_entry_hooks(resid, 0), mask, positions)

    def _through(self, streams: Streams, start: int, stop: int) -> Tensor:
        """Blocks ``start … stop-1``, whose entry has been hooked already; joint residuals are made
        where they have hooks."""
        below = start
        while below < stop:
            hooked = (layer for layer in range(below + 1, stop) if self._has_joint_hooks(layer))
            above = next(hooked, stop)
            resid = self._joint_points[f"blocks.{above - 1}.hook_resid_post"](
                self._segment(streams, below, above)
            )
            if above < stop:
                resid = self._apply_entry_hooks(resid, above)
            streams, below = replace(streams, resid=resid), above
        return streams.resid

    def _segment(self, streams: Streams, start: int, stop: int) -> Tensor:
        """Blocks ``start … stop-1`` of each stack on its own sequence."""
        source, target = self._split(streams, start)
        first_decoder = self.n_encoder_layers
        with without_hooks([self._entry(start)]):  # they have acted already
            if start < first_decoder:
                resid = self._encode(source, start, min(stop, first_decoder))
                source = replace(source, resid=resid)
            if stop > first_decoder:
                below = max(start - first_decoder, 0)
                resid = self._decode(target, source, below, stop - first_decoder)
                target = replace(target, resid=resid)
        return self._joined(source.resid, target.resid, stop, streams.mask.shape[1])

    def _apply_entry_hooks(self, resid: Tensor, layer: int) -> Tensor:
        """The residual after the block's own hooks, on its side, and then the joint residual's."""
        if layer == self.n_layers:
            return resid
        if self._entry(layer)._forward_hooks:
            layout = self._layouts[self.side_of(layer) == "target"]
            width = self._widths(layer)[self.side_of(layer) == "target"]
            hooked = self._hook_entry(layout.take(resid)[..., :width].contiguous(), layer)
            resid = layout.put(hooked, resid.clone())
        joint: Tensor = self._joint_points[f"blocks.{layer}.hook_resid_pre"](resid)
        return joint

    def _hook_entry(self, resid: Tensor, layer: int) -> Tensor:
        """One side's residual after the hooks at the entry of block ``layer``."""
        hooked: Tensor = self._entry(layer)(resid)
        return hooked

    def _has_joint_hooks(self, layer: int) -> bool:
        """Whether the residual that leaves the block below, or enters ``layer``, is hooked."""
        names = (f"blocks.{layer - 1}.hook_resid_post", f"blocks.{layer}.hook_resid_pre")
        return any(self._joint_points[name]._forward_hooks for name in names)

    def _read(self, resid: Float[Tensor, "batch pos _"], read: Read) -> Tensor:
        """The output that ``read`` names; logits are NaN where there is no target token."""
        source, target = self._layouts
        length = resid.shape[1]
        target_resid = target.take(resid)[..., : self._widths(self.n_layers)[1]]
        if read == "hidden":
            width = self._widths(self.n_layers)[0]
            hidden = (source.take(resid)[..., :width], self._final(target_resid))
            return self._joined(*hidden, self.n_layers, length)
        n_last = last_positions(read, length)
        if n_last < length:
            places = torch.arange(length - n_last, length, device=resid.device)
            # [batch own n_last]: is this target token at one of the last joint positions?
            at_place = (target.index[:, :, None] == places) & (target.mask == 1)[:, :, None]
            logits = self._unembed(resid[:, -n_last:])
            return logits.masked_fill(~at_place.any(dim=1)[:, :, None], torch.nan)
        logits = self._unembed(target_resid)
        nowhere = logits.new_full((len(resid), length, logits.shape[2]), torch.nan)
        return target.put(logits, nowhere)

    def _plain(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_vocab"]:
        return self._each_row_plain(tokens, "logits")

    def _plain_hidden(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_model"]:
        return self._each_row_plain(tokens, "hidden")

    def _each_row_plain(self, tokens: Int[Tensor, "batch pos"], read: Read) -> Tensor:
        """Rows one by one: without a mask, sources of several lengths make no batch."""
        outputs = []
        for row in tokens:
            is_target = row >= self.d_vocab_source
            self._sides_of(is_target[None], torch.ones_like(row)[None])
            source, target = row[~is_target], row[is_target] - self.d_vocab_source
            memory, hidden, logits = self._plain_sides(source[None], target[None])
            nowhere = logits.new_full((1, len(source), logits.shape[2]), torch.nan)
            pair = [nowhere, logits] if read == "logits" else [memory, hidden]
            outputs.append(torch.cat(pair, dim=1))
        return torch.cat(outputs)

    # ---- details -------------------------------------------------------------------------

    @property
    def _layouts(self) -> tuple[SideLayout, SideLayout]:
        assert self._sides is not None, "there is a layout while a call runs"
        return self._sides

    @contextmanager
    def _on(
        self, is_target: Bool[Tensor, "batch pos"], mask: Int[Tensor, "batch pos"]
    ) -> Iterator[None]:
        """Both sides have this layout for the length of a ``with`` block."""
        outer, self._sides = self._sides, self._sides_of(is_target, mask)
        try:
            yield
        finally:
            self._sides = outer

    def _sides_of(
        self, is_target: Bool[Tensor, "batch pos"], mask: Int[Tensor, "batch pos"]
    ) -> tuple[SideLayout, SideLayout]:
        """Where source and target are.

        Raises:
            InputError: a row without one of them, or a source token after a target token.
            PromptError: a side longer than the model's context.
        """
        chosen = {"source": mask.bool() & ~is_target, "target": mask.bool() & is_target}
        for side, flags in chosen.items():
            empty = ~flags.any(dim=1)
            if bool(empty.any()):
                raise InputError(
                    f"row {int(empty.nonzero()[0])} has no {side} token, and {self.name!r} reads a "
                    "source and a target; make calls with model.join(source, target)."
                )
        mixed = (chosen["source"] & (chosen["target"].cumsum(dim=1) > 0)).any(dim=1)
        if bool(mixed.any()):
            raise InputError(
                f"row {int(mixed.nonzero()[0])} has a source token after a target token; make "
                "calls with model.join(source, target)."
            )
        layouts = SideLayout.of(chosen["source"]), SideLayout.of(chosen["target"])
        for side, layout in zip(chosen, layouts, strict=True):
            if layout.mask.shape[1] > self.n_ctx:
                raise PromptError(
                    f"{layout.mask.shape[1]} {side} tokens, and {self.name!r} reads {self.n_ctx}; "
                    "shorten them"
                )
        return layouts

    def _split(self, streams: Streams, layer: int) -> tuple[Streams, Streams]:
        """A joint residual that enters ``layer``, as the residuals of both sides."""
        first = (0, FIRST_TARGET_POSITION)
        sides = zip(self._layouts, self._widths(layer), first, strict=True)
        source, target = (
            Streams(
                layout.take(streams.resid)[..., :width].contiguous(),
                layout.mask,
                layout.take(streams.positions - zero) * layout.mask,
            )
            for layout, width, zero in sides
        )
        return source, target

    def _joined(self, source: Tensor, target: Tensor, layer: int, length: int) -> Tensor:
        """Residuals of both sides that enter ``layer``, as a joint one ``length`` long."""
        width = max(source.shape[2], target.shape[2])
        joint = source.new_zeros((len(source), length, width))
        layouts = self._layouts
        return layouts[1].put(target, layouts[0].put(source, joint))

    def _width(self, layer: int) -> int:
        return max(self._widths(layer))

    @contextmanager
    def _placed_by_name(self, position_ids: Tensor) -> Iterator[None]:
        positions = torch.where(
            position_ids >= FIRST_TARGET_POSITION,
            position_ids - FIRST_TARGET_POSITION,
            position_ids,
        )
        beyond = positions[(positions < 0) | (positions >= self.n_ctx)]
        if len(beyond):
            raise PositionError(
                f"position_ids hold {int(beyond[0])}: expected 0 to {self.n_ctx - 1} for source "
                f"tokens and {FIRST_TARGET_POSITION} more for target tokens (model.positions)"
            )
        yield


def _counted(
    is_target: Bool[Tensor, "batch pos"], mask: Int[Tensor, "batch pos"]
) -> Int[Tensor, "batch pos"]:
    source = positions_from_mask(mask * ~is_target)
    target = positions_from_mask(mask * is_target) + FIRST_TARGET_POSITION
    return torch.where(is_target, target, source)
