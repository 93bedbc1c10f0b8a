"""Byte-pair encoding trained on a text, as a fast tokenizer of Hugging Face's."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from jaxtyping import Integer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from interp_compose.errors import OptionError

END: Final = "<|endoftext|>"
"""The token before every text, and after the last one."""
LEAST: Final = 257
"""Entries of the smallest vocabulary: every byte, and :data:`END`, whose id is 0."""
MOST: Final = 2**20
"""Entries of the largest vocabulary."""


class BpeTokenizer(PreTrainedTokenizerFast):  # type: ignore[misc]
    """Byte-level BPE with GPT-2's pretokens, by which every text can be written and read back;
    :data:`END` precedes each text."""

    def __init__(self, backend: str) -> None:
        """``backend`` is what :meth:`saved` gave."""
        super().__init__(
            tokenizer_object=Tokenizer.from_str(backend),
            bos_token=END,
            eos_token=END,
            pad_token=END,
            clean_up_tokenization_spaces=False,
            split_special_tokens=True,  # as in :meth:`stream`
        )

    @classmethod
    def trained(cls, texts: Iterable[str], vocab_size: int) -> BpeTokenizer:
        """A tokenizer that merges the texts' most frequent pairs, until there are so many entries.

        Raises:
            OptionError: too few entries for every byte; more than there are pairs that occur at
                least twice.
        """
        if vocab_size < LEAST:
            raise OptionError(
                f"vocab_size={vocab_size}: expected {LEAST} or more, one for each byte and {END}"
            )
        if vocab_size > MOST:  # memory is taken for all of them at once
            raise OptionError(f"vocab_size={vocab_size}: expected at most {MOST:,}")
        backend = Tokenizer(models.BPE())
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size,
            min_frequency=2,
            special_tokens=[END],
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        )
        backend.train_from_iterator(texts, trainer)
        if backend.get_vocab_size() < vocab_size:
            raise OptionError(
                f"vocab_size={vocab_size}: the training part supports {backend.get_vocab_size()}, "
                "since no other pair of tokens occurs twice in it; take a smaller one, or more text"
            )
        backend.post_processor = processors.TemplateProcessing(
            single=f"{END} $A", pair=f"{END} $A {END} $B", special_tokens=[(END, 0)]
        )
        return cls(backend.to_str())

    def saved(self) -> dict[str, Any]:
        """Everything that makes it, in JSON's types."""
        kept: dict[str, Any] = json.loads(self.backend_tokenizer.to_str())
        return kept

    def stream(self, texts: Sequence[str]) -> Integer[np.ndarray, "token"]:
        """The texts' tokens one after another, :data:`END` before each and after the last.

        No text has END inside: where its characters occur, they are tokens of their own.
        """
        backend = Tokenizer.from_str(self.backend_tokenizer.to_str())
        backend.encode_special_tokens = True
        kind = np.uint16 if len(self) <= 1 << 16 else np.int32
        parts = [np.zeros(1, dtype=kind)]
        for i in range(0, len(texts), 1000):
            for one in backend.encode_batch(list(texts[i : i + 1000]), add_special_tokens=False):
                parts.append(np.array([*one.ids, 0], dtype=kind))
        return np.concatenate(parts)
