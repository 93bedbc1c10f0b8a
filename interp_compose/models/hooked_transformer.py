"""The adapter over ``HookedTransformer`` (transformer-lens 3.9); no other file names that class.

transformer-lens 4 removed the class. A user of 3.9 who brings one gets the same surface; with 4
installed, nothing is ever recognised as one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose.models.base import Streams
from interp_compose.models.hooks import without_hooks
from interp_compose.models.lens_model import LensModel
from interp_compose.tensors import positions_from_mask


def is_hooked_transformer(source: object) -> bool:
    """Whether ``source`` is a HookedTransformer of transformer-lens 3.9."""
    try:
        from transformer_lens import HookedTransformer
    except ImportError:
        return False
    return isinstance(source, HookedTransformer)


class HookedTransformerModel(LensModel):
    """A :class:`.lens_model.LensModel` on a ``HookedTransformer``.

    The object is taken as it comes: where it was loaded with folding (3.9's default), its
    residuals are the folded ones.
    """

    def __init__(self, lens: Any, *, name: str, tokenizer: Any) -> None:
        architecture = str(lens.cfg.original_architecture or "HookedTransformer")
        super().__init__(lens, name=name, architecture=architecture, tokenizer=tokenizer)
        self.window = lens.cfg.window_size if lens.cfg.use_local_attn else None

    def _unembed(
        self, resid: Float[Tensor, "batch pos d_model"]
    ) -> Float[Tensor, "batch pos d_vocab"]:
        logits: Tensor = self.lens(resid.contiguous(), start_at_layer=self.n_layers)
        return logits

    def _run_blocks(
        self, streams: Streams, start: int, stop: int
    ) -> Float[Tensor, "stream pos d_model"]:
        entry = self.lens.blocks[start].hook_resid_pre  # its hooks have acted already
        with self._rotary_positions(streams.positions, streams.mask), without_hooks([entry]):
            out: Tensor = self.lens(
                streams.resid.contiguous(),  # einsum inside 3.9 crashes on other layouts
                start_at_layer=start,
                stop_at_layer=stop,
                attention_mask=streams.mask,
            )
        return self._apply_entry_hooks(out, stop)

    def _resid_pre(
        self,
        tokens: Int[Tensor, "batch pos"],
        layer: int,
        attention_mask: Int[Tensor, "batch pos"],
    ) -> Float[Tensor, "batch pos d_model"]:
        resid: Tensor = self.lens(tokens, attention_mask=attention_mask, stop_at_layer=layer)
        return self._apply_entry_hooks(resid, layer)

    def _final(
        self, resid: Float[Tensor, "batch pos d_model"]
    ) -> Float[Tensor, "batch pos d_model"]:
        hidden: Tensor = self.lens.ln_final(resid) if hasattr(self.lens, "ln_final") else resid
        return hidden

    def _plain_hidden(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_model"]:
        return self._final(self.lens(tokens, stop_at_layer=self.n_layers))

    @contextmanager
    def _rotary_positions(
        self, position_ids: Int[Tensor, "stream pos"], mask: Int[Tensor, "stream pos"]
    ) -> Iterator[None]:
        """Rotary embeddings read ``position_ids`` for the length of a call.

        HookedTransformer derives positions from the mask and takes no others, so its attention
        computes the same rotation at the given positions instead. Other kinds of relative position
        are left alone, and refused by the probe that compares a gap in the sequence with a mask.
        """
        rotary = self.lens.cfg.positional_embedding_type == "rotary"
        if not rotary or torch.equal(position_ids, positions_from_mask(mask)):
            yield
            return
        attentions = [block.attn for block in self.lens.blocks]
        for attention in attentions:
            attention.apply_rotary = _rotation(attention, position_ids)
        try:
            yield
        finally:
            for attention in attentions:
                del attention.apply_rotary


def _rotation(attention: Any, position_ids: Int[Tensor, "stream pos"]) -> Any:
    """RoPE (Su et al. 2021, eq. 34) at given positions, from the attention's own tables."""

    def apply_rotary(
        x: Float[Tensor, "stream pos n_heads d_head"],
        past_kv_pos_offset: int = 0,
        attention_mask: Any = None,
    ) -> Float[Tensor, "stream pos n_heads d_head"]:
        rotary_dim = attention.cfg.rotary_dim
        longest = int(position_ids.max()) + 1
        if longest > attention.rotary_cos.shape[0]:
            attention._extend_rotary_embeddings(longest)
        first, rest = x[..., :rotary_dim], x[..., rotary_dim:]
        # [stream pos 1 rotary_dim]: the same for every head
        cos = attention.rotary_cos[position_ids, None, :].to(x.dtype)
        sin = attention.rotary_sin[position_ids, None, :].to(x.dtype)
        return torch.cat([first * cos + attention.rotate_every_two(first) * sin, rest], dim=-1)

    return apply_rotary
