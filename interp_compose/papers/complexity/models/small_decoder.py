"""Small decoders as a :class:`.lens_model.LensModel`: initialised, saved and loaded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

from jaxtyping import Float, Int
from torch import Tensor

from interp_compose._public import public
from interp_compose.errors import InputError, OptionError
from interp_compose.models.base import Streams
from interp_compose.models.hooks import without_hooks
from interp_compose.models.lens_model import LensModel
from interp_compose.models.own_folder import OwnModel, save_model
from interp_compose.papers.complexity.models.init import FanIn, InitRates, init_weights
from interp_compose.papers.shared.models.decoder import DecoderConfig as DecoderConfig, SmallDecoder
from interp_compose.papers.shared.models.random_weights import Distribution
from interp_compose.papers.shared.text.vocabulary import Vocabulary


class SmallDecoderModel(OwnModel):
    """A :class:`.lens_model.LensModel` on a :class:`.decoder.SmallDecoder`.

    Attributes:
        words: its vocabulary, where it was trained on whole words; its tokenizer is theirs then,
            unless another one is given. Saved with it, as a tokenizer of byte pairs is.
    """

    KIND: ClassVar = "small decoder"
    FORMAT: ClassVar = "interp_compose.decoder/1"
    CONFIG: ClassVar = "decoder.json"

    lens: SmallDecoder

    def __init__(
        self,
        lens: SmallDecoder,
        *,
        name: str,
        tokenizer: Any = None,
        words: Vocabulary | None = None,
    ) -> None:
        architecture = f"SmallDecoder(norm={lens.cfg.norm!r})"
        if words is not None and len(words) != lens.cfg.d_vocab:
            raise InputError(
                f"the vocabulary has {len(words)} words, specials included; expected "
                f"{lens.cfg.d_vocab}, as the model's config has"
            )
        if tokenizer is None and words is not None:
            from interp_compose.papers.shared.text.word_tokenizer import WordTokenizer

            tokenizer = WordTokenizer(words, ends=False)
        self.words = words
        super().__init__(lens, name=name, architecture=architecture, tokenizer=tokenizer)
        self.window = None
        self.ends_in_norm = lens.cfg.norm == "post"

    @property
    def settings(self) -> dict[str, Any]:
        """How its weights are used, see :func:`.memory.weights_digest`."""
        return asdict(self.lens.cfg)

    def described(self) -> Mapping[str, Any]:
        """Its :class:`.decoder.DecoderConfig`, and its words or byte pairs where it has some."""
        from interp_compose.papers.complexity.text.bpe import BpeTokenizer

        described: dict[str, Any] = {"config": asdict(self.lens.cfg)}
        if self.words is not None:
            described["words"] = list(self.words.words)
        elif isinstance(self.tokenizer, BpeTokenizer):
            described["byte_pairs"] = self.tokenizer.saved()
        return described

    @classmethod
    def of(cls, described: Mapping[str, Any], *, name: str, tokenizer: Any) -> SmallDecoderModel:
        words = Vocabulary(tuple(described["words"])) if "words" in described else None
        if tokenizer is None and "byte_pairs" in described:
            from interp_compose.papers.complexity.text.bpe import BpeTokenizer

            tokenizer = BpeTokenizer(json.dumps(described["byte_pairs"]))
        lens = SmallDecoder(DecoderConfig(**described["config"]))
        return cls(lens, name=name, tokenizer=tokenizer, words=words)

    def _unembed(
        self, resid: Float[Tensor, "batch pos d_model"]
    ) -> Float[Tensor, "batch pos d_vocab"]:
        return self.lens.logits(resid)

    def _plain_hidden(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_model"]:
        return self.lens.final(self.lens.all_blocks(tokens))

    def _resid_pre(
        self,
        tokens: Int[Tensor, "batch pos"],
        layer: int,
        attention_mask: Int[Tensor, "batch pos"],
    ) -> Float[Tensor, "batch pos d_model"]:
        resid = self.lens.embedded(tokens, attention_mask)
        return self._apply_entry_hooks(self.lens.run(resid, 0, layer, attention_mask), layer)

    def _run_blocks(
        self, streams: Streams, start: int, stop: int
    ) -> Float[Tensor, "stream pos d_model"]:
        entry: Any = self.lens.blocks[start].hook_resid_pre  # its hooks have acted already
        with without_hooks([entry]):
            resid = self.lens.run(streams.resid, start, stop, streams.mask)
        return self._apply_entry_hooks(resid, stop)

    def _final(
        self, resid: Float[Tensor, "batch pos d_model"]
    ) -> Float[Tensor, "batch pos d_model"]:
        return self.lens.final(resid)


@public
def small_decoder(
    config: DecoderConfig | None = None,
    *,
    init_rate: float | InitRates,
    seed: int,
    distribution: Distribution = "normal",
    fan_in: FanIn = "own",
    scale_writers: bool = False,
    tokenizer: Any = None,
) -> LensModel:
    """A decoder with random weights at an init rate γ (complexity control, III-D and III-E).

    In float32, on the CPU, in evaluation mode (there is no dropout); ``model.lens`` is the module
    to move, cast and train.

    Args:
        config: the shape; by default :class:`.decoder.DecoderConfig`'s own.
        init_rate: γ of all matrices, or of each group; larger is smaller.
        seed: equal seeds give equal random numbers at every γ.
        distribution, fan_in, scale_writers: see :func:`.init.init_weights`.
        tokenizer: kept as ``model.tokenizer``; calls take token ids and need none.

    Raises:
        OptionError: see :func:`.init.init_weights`.
    """
    lens = SmallDecoder(DecoderConfig() if config is None else config)
    init_weights(
        lens,
        init_rate,
        seed=seed,
        distribution=distribution,
        fan_in=fan_in,
        scale_writers=scale_writers,
    )
    return SmallDecoderModel(lens.eval(), name="small-decoder", tokenizer=tokenizer)


@public
def save_decoder(model: LensModel, folder: str | Path) -> Path:
    """:func:`.own_folder.save_model` of a small decoder.

    Raises:
        OptionError: another kind of model; a folder that exists and is not empty.
        OutputError: the folder cannot be written.
    """
    if not isinstance(model, SmallDecoderModel):
        raise OptionError(
            f"the model is a {type(model).__name__}: expected one of small_decoder(…); of others, "
            "keep the weights with save_weights(model, path)."
        )
    return save_model(model, folder)
