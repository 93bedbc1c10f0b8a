"""Small encoders as a :class:`.lens_model.LensModel`: initialised, saved and loaded."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, ClassVar, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose._public import public
from interp_compose.errors import InputError, OptionError
from interp_compose.models.attention import AttentionSite
from interp_compose.models.base import Streams
from interp_compose.models.hooks import without_hooks
from interp_compose.models.lens_model import LensModel
from interp_compose.models.own_folder import OwnModel
from interp_compose.papers.cat.models.bert import EncoderConfig, Output, SmallEncoder
from interp_compose.papers.cat.models.init import init_bert
from interp_compose.papers.cat.text.wordpiece import WordPieceTokenizer, continuing
from interp_compose.types import Side


class SmallEncoderModel(OwnModel):
    """A :class:`.lens_model.LensModel` on a :class:`.bert.SmallEncoder`.

    Its last hidden state is one of the last block's representations: ``output``. Positions, as
    blocks read them, are numbers of words: token positions are in the embeddings, and what a block
    composes are words.
    """

    KIND: ClassVar = "small encoder"
    FORMAT: ClassVar = "interp_compose.encoder/1"
    CONFIG: ClassVar = "encoder.json"

    lens: SmallEncoder
    bidirectional = True
    ends_in_norm = True
    has_head = True

    def __init__(
        self, lens: SmallEncoder, *, name: str, tokenizer: Any = None, output: Output = "cont"
    ) -> None:
        super().__init__(
            lens,
            name=name,
            architecture=f"SmallEncoder(composition={lens.cfg.composition!r})",
            tokenizer=tokenizer,
        )
        if tokenizer is not None and len(tokenizer) > lens.cfg.d_vocab:
            raise InputError(
                f"the tokenizer has {len(tokenizer)} entries; expected at most "
                f"{lens.cfg.d_vocab}, as the model's config has"
            )
        self.window = None
        self.output: Output = output
        composed = lens.cfg.composes(self.n_layers - 1)
        self.ends_in_composition = composed and output != lens.outputs[-1]

    @classmethod
    def with_tokenizer(cls, lens: SmallEncoder, tokenizer: Any, *, name: str) -> SmallEncoderModel:
        """A new module learns which entries of its tokenizer go on with a word.

        Raises:
            OptionError: another kind of tokenizer than WordPiece.
            InputError: one with more entries than the config.
        """
        marks = None if tokenizer is None else torch.from_numpy(continuing(tokenizer))
        model = cls(lens, name=name, tokenizer=tokenizer)
        if marks is not None:
            lens.continues[: len(marks)] = marks
        return model

    def with_output(self, output: Output) -> SmallEncoderModel:
        """The same weights, read at another of the last block's representations: ``"cont"``, what
        BERT gives; ``"comp"``, composed of codes; ``"mix"``, of both (CAT, section 3).

        Raises:
            OptionError: nothing is composed in this model.
        """
        if output not in self.lens.outputs:
            raise OptionError(
                f"output={output!r}: expected one of {', '.join(self.lens.outputs)}, which "
                f"{self.name!r} has"
            )
        base = self.name.removesuffix(f" ({self.output})")
        encoder = type(self)(
            self.lens, name=f"{base} ({output})", tokenizer=self.tokenizer, output=output
        )
        return encoder

    def described(self) -> Mapping[str, Any]:
        """Its :class:`.bert.EncoderConfig`, its output, and a tokenizer that was made here."""
        described: dict[str, Any] = {"config": asdict(self.lens.cfg), "output": self.output}
        if isinstance(self.tokenizer, WordPieceTokenizer):
            described["word_pieces"] = self.tokenizer.saved()
        return described

    @classmethod
    def of(cls, described: Mapping[str, Any], *, name: str, tokenizer: Any) -> SmallEncoderModel:
        if tokenizer is None and "word_pieces" in described:
            tokenizer = WordPieceTokenizer(json.dumps(described["word_pieces"]))
        if described["output"] not in get_args(Output):
            raise InputError(f"output={described['output']!r}: expected cont, comp or mix")
        lens = SmallEncoder(EncoderConfig(**described["config"]))
        return cls(lens, name=name, tokenizer=tokenizer, output=described["output"])

    # ---- positions -----------------------------------------------------------------------

    def positions(
        self, tokens: Int[Tensor, "batch pos"], attention_mask: Int[Tensor, "batch pos"]
    ) -> Int[Tensor, "batch pos"]:
        """The number of each token's word, which is what blocks read of positions."""
        return self.lens.words_of(tokens, attention_mask).clamp(min=0)

    def random_tokens(
        self, batch: int, length: int, generator: torch.Generator
    ) -> Int[Tensor, "batch pos"]:
        """Whole words of one token each, so that what happens to one is not in another's mean."""
        word_ids = (~self.lens.continues).nonzero().flatten().cpu()  # ids that go on with none
        return word_ids[torch.randint(0, len(word_ids), (batch, length), generator=generator)]

    def shifted(
        self, tokens: Int[Tensor, "batch pos"], shift: Int[Tensor, "batch pos"] | int
    ) -> Int[Tensor, "batch pos"]:
        """Ids moved on among the entries of their kind: begins of words, or what follows one."""
        out = torch.empty_like(tokens)
        kinds = self.lens.continues[tokens]
        for kind in (False, True):
            ids = (self.lens.continues == kind).nonzero().flatten()
            chosen = kinds == kind
            steps = shift if isinstance(shift, int) else shift[chosen]
            # Each one's place among the ids of its kind, which ascend, moved on.
            out[chosen] = ids[(torch.searchsorted(ids, tokens[chosen]) + steps) % len(ids)]
        return out

    def attention_sites(self, layer: int) -> Sequence[AttentionSite]:
        """Self-attention and, where a block composes, that of representation enhancement, which has
        every position twice: composed and contextual."""
        if not self.lens.cfg.composes(layer):
            return (AttentionSite(layer),)
        return (AttentionSite(layer), AttentionSite(layer, "mix_attn", "twice", "twice"))

    def at_side(self, values: Tensor, side: Side) -> Tensor:
        """``[batch pos ...]``, twice where an attention has every position twice."""
        return torch.cat([values, values], dim=1) if side == "twice" else values

    def own_mask(
        self, tokens: Int[Tensor, "batch pos"], attention_mask: Int[Tensor, "batch pos"], side: Side
    ) -> Tensor:
        """Real tokens, in the positions of ``side``."""
        return self.at_side(attention_mask.bool(), side)

    # ---- running -------------------------------------------------------------------------

    def _unembed(
        self, resid: Float[Tensor, "batch pos d_model"]
    ) -> Float[Tensor, "batch pos d_vocab"]:
        return self.lens.logits(resid)

    def _plain(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_vocab"]:
        return self.lens.logits(self._plain_hidden(tokens))

    def _plain_hidden(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_model"]:
        hidden: Tensor = self.lens(tokens)[-1].of(self.output)
        return hidden

    def _resid_pre(
        self,
        tokens: Int[Tensor, "batch pos"],
        layer: int,
        attention_mask: Int[Tensor, "batch pos"],
    ) -> Float[Tensor, "batch pos d_model"]:
        resid = self.lens.embedded(tokens, attention_mask)
        words = self.lens.words_of(tokens, attention_mask)
        return self._through(resid, 0, layer, attention_mask, words)

    def _run_blocks(
        self, streams: Streams, start: int, stop: int
    ) -> Float[Tensor, "stream pos d_model"]:
        entry: Any = self.lens.blocks[start].hook_resid_pre  # its hooks have acted already
        words = streams.positions.masked_fill(streams.mask == 0, -1)
        with without_hooks([entry]):
            return self._through(streams.resid, start, stop, streams.mask, words)

    def _through(
        self, resid: Tensor, start: int, stop: int, mask: Tensor, words: Tensor
    ) -> Float[Tensor, "stream pos d_model"]:
        """What enters block ``stop``; after the last, the output."""
        outputs = self.lens.run(resid, start, stop, mask, words)
        if stop == self.n_layers and outputs:
            return outputs[-1].of(self.output)
        return self._apply_entry_hooks(outputs[-1].mix if outputs else resid, stop)


@public
def small_encoder(config: EncoderConfig, *, seed: int, tokenizer: Any = None) -> LensModel:
    """A BERT, or a CAT, with random weights (as BERT's), to pre-train.

    In float32, on the CPU, in evaluation mode; ``model.lens`` is the module to move, cast and
    train. :meth:`SmallEncoderModel.with_output` chooses what its last hidden state is.

    Args:
        config: the shape.
        seed: equal seeds give models with and without composition equal weights where they have the
            same.
        tokenizer: of WordPiece, whose entries say which go on with a word; without one every token
            is a word.

    Raises:
        OptionError: a seed below 0; another kind of tokenizer.
        InputError: a tokenizer with more entries than the config.
    """
    lens = SmallEncoder(config)
    init_bert(lens, seed=seed)
    return SmallEncoderModel.with_tokenizer(lens.eval(), tokenizer, name="small-encoder")
