"""Small encoder–decoders behind the one surface: made, saved and loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose._public import public
from interp_compose.errors import InputError
from interp_compose.models.attention import AttentionSite
from interp_compose.models.base import Streams
from interp_compose.models.encoder_decoder import EncoderDecoderModel
from interp_compose.models.lens_model import LensModel
from interp_compose.models.own_folder import OwnModel
from interp_compose.papers.lrf.models.init import init_xavier
from interp_compose.papers.lrf.models.seq2seq import (
    THIRD,
    RelativeAttention,
    Seq2SeqConfig,
    SmallSeq2Seq,
)
from interp_compose.papers.shared.text.vocabulary import BOS, Vocabulary
from interp_compose.types import Side


class SmallSeq2SeqModel(EncoderDecoderModel, OwnModel):
    """An :class:`.encoder_decoder.EncoderDecoderModel` on a :class:`.seq2seq.SmallSeq2Seq`.

    With fuse-attention, a residual between two blocks is one of all that later blocks read: those
    that entered block 0, 1, …, side by side along the last axis, that of the present block last. So
    what pools or replaces a word does it in each of them, and nothing of the word passes by.

    Attributes:
        source_words, target_words: the vocabularies, where the model has them; its tokenizer is
            theirs then, unless another one is given.
    """

    KIND: ClassVar = "small encoder–decoder"
    FORMAT: ClassVar = "interp_compose.seq2seq/1"
    CONFIG: ClassVar = "seq2seq.json"

    lens: SmallSeq2Seq

    def __init__(
        self,
        lens: SmallSeq2Seq,
        *,
        name: str,
        tokenizer: Any = None,
        source_words: Vocabulary | None = None,
        target_words: Vocabulary | None = None,
    ) -> None:
        cfg = lens.cfg
        if tokenizer is None and source_words is not None:
            from interp_compose.papers.shared.text.word_tokenizer import WordTokenizer

            tokenizer = WordTokenizer(source_words, target_words)
        super().__init__(
            lens,
            name=name,
            architecture=f"SmallSeq2Seq(fuse={cfg.fuse!r}, positions={cfg.positions!r})",
            tokenizer=tokenizer,
            d_vocab_source=cfg.d_vocab,
            d_vocab=cfg.d_vocab_out,
        )
        for side, words, size in (
            ("source", source_words, cfg.d_vocab),
            ("target", target_words, cfg.d_vocab_out),
        ):
            if words is not None and len(words) != size:
                raise InputError(
                    f"the {side} vocabulary has {len(words)} words, specials included; expected "
                    f"{size}, as the model's config has"
                )
        self.source_words, self.target_words = source_words, target_words
        self.start_ids = (BOS,)
        self.ends_in_norm = cfg.norm == "post"
        self._grows = {
            side: third == "fuse"
            for side, third in zip(("source", "target"), THIRD[cfg.fuse], strict=True)
        }

    def described(self) -> Mapping[str, Any]:
        """Its :class:`.seq2seq.Seq2SeqConfig`, and its vocabularies."""
        words = {"source": self.source_words, "target": self.target_words}
        named = {side: None if one is None else list(one.words) for side, one in words.items()}
        return {"config": asdict(self.lens.cfg), "words": named}

    @classmethod
    def of(cls, described: Mapping[str, Any], *, name: str, tokenizer: Any) -> SmallSeq2SeqModel:
        words = {
            f"{side}_words": None if one is None else Vocabulary(tuple(one))
            for side, one in described["words"].items()
        }
        lens = SmallSeq2Seq(Seq2SeqConfig(**described["config"]))
        return cls(lens, name=name, tokenizer=tokenizer, **words)

    def _widths(self, layer: int) -> tuple[int, int]:
        # One d_model for each block below that fuse-attention reads, and one for the present.
        below = layer - self.n_encoder_layers
        source, target = 1, 1
        if below < 0 and self._grows["source"]:
            source += layer
        if 0 <= below < self.n_decoder_layers and self._grows["target"]:
            target += below
        return source * self.d_model, target * self.d_model

    def _hook_entry(self, resids: Tensor, layer: int) -> Tensor:
        # [batch own (n - 1)·d_model], [batch own d_model]
        earlier, resid = resids[..., : -self.d_model], resids[..., -self.d_model :]
        return torch.cat([earlier, super()._hook_entry(resid.contiguous(), layer)], dim=2)

    def attention_sites(self, layer: int) -> Sequence[AttentionSite]:
        """Every encoder–decoder's and, with ``fuse="parameters"``, the second self-attention."""
        sites = super().attention_sites(layer)
        if self.lens.cfg.fuse != "parameters":
            return sites
        side = self.side_of(layer)
        return (*sites, AttentionSite(layer, "second_attn", side, side))

    def _embed(
        self, ids: Int[Tensor, "batch own"], mask: Int[Tensor, "batch own"], side: Side
    ) -> Float[Tensor, "batch own d_model"]:
        if side == "source":
            return self.lens.source_embedded(ids, mask)
        return self.lens.target_embedded(ids, mask)

    def _encode(self, source: Streams, start: int, stop: int) -> Float[Tensor, "stream own width"]:
        with self._at(source.positions, "source"):
            resids = self.lens.run_encoder(self._resids(source), start, stop, source.mask)
        if stop == self.n_encoder_layers:
            return self.lens.encoder_final(resids[-1])
        return self._side_by_side(resids, "source")

    def _decode(
        self, target: Streams, source: Streams, start: int, stop: int
    ) -> Float[Tensor, "stream own width"]:
        masks = source.mask, target.mask
        with self._at(target.positions, "target"):
            resids = self.lens.run_decoder(self._resids(target), start, stop, source.resid, *masks)
        last = stop == self.n_decoder_layers
        return resids[-1] if last else self._side_by_side(resids, "target")

    def _unembed(
        self, resid: Float[Tensor, "batch pos width"]
    ) -> Float[Tensor, "batch pos d_vocab"]:
        return self.lens.logits(self._final(resid))

    def _final(self, resid: Float[Tensor, "batch pos width"]) -> Float[Tensor, "batch pos d_model"]:
        return self.lens.decoder_final(resid)

    def _plain_sides(
        self, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target"]
    ) -> tuple[Tensor, Tensor, Tensor]:
        memory = self.lens.encoded(source)
        hidden = self.lens.decoded(target, memory)
        return memory, hidden, self.lens(source, target)

    def _resids(self, streams: Streams) -> Sequence[Float[Tensor, "stream own d_model"]]:
        resids: Sequence[Tensor] = streams.resid.split(self.d_model, dim=2)  # of blocks 0 … present
        return resids

    def _side_by_side(self, resids: Sequence[Tensor], side: str) -> Tensor:
        return torch.cat(list(resids), dim=2) if self._grows[side] else resids[-1]

    @contextmanager
    def _at(self, positions: Int[Tensor, "stream own"], side: Side) -> Iterator[None]:
        """Distances of relative attention are those of these positions, inside the block."""
        encoder = side == "source"
        blocks: Any = self.lens.encoder_blocks if encoder else self.lens.decoder_blocks
        attentions = [block.attn if encoder else block.self_attn for block in blocks]
        relative = [one for one in attentions if isinstance(one, RelativeAttention)]
        for attention in relative:
            attention.positions = positions
        try:
            yield
        finally:
            for attention in relative:
                attention.positions = None


@public
def small_seq2seq(
    config: Seq2SeqConfig,
    *,
    seed: int,
    source_words: Vocabulary | None = None,
    target_words: Vocabulary | None = None,
) -> LensModel:
    """An encoder–decoder with random weights (Glorot and Bengio 2010), to train from scratch.

    In float32, on the CPU, in evaluation mode; ``model.lens`` is the module to move, cast and
    train, ``model.lens(source, target)`` its logits. The model itself is called on both sequences
    as one, ``model(*model.join(source, target))``.

    Args:
        config: the shape.
        seed: equal seeds give models with and without fuse-attention equal weights where they have
            the same.
        source_words, target_words: vocabularies to keep with the model.

    Raises:
        OptionError: a seed below 0.
        InputError: a vocabulary of another size than the config's.
    """
    lens = SmallSeq2Seq(config)
    init_xavier(lens, seed=seed)
    return SmallSeq2SeqModel(
        lens.eval(), name="small-seq2seq", source_words=source_words, target_words=target_words
    )
