"""WordPiece trained on a text, as a fast tokenizer of Hugging Face's."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from jaxtyping import Bool, Integer
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import PreTrainedTokenizerFast

from interp_compose.errors import OptionError

PAD, UNK, CLS, SEP, MASK = range(5)
SPECIALS: Final = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""The first entries of every vocabulary, with these ids."""
CONTINUES: Final = "##"
"""What an entry begins with that goes on with a word."""
MOST: Final = 2**20
"""Entries of the largest vocabulary."""


class WordPieceTokenizer(PreTrainedTokenizerFast):  # type: ignore[misc]
    """BERT's: lower case without accents, words and punctuation apart, pieces of words; ``[CLS]``
    before a text, ``[SEP]`` after it and after a second one."""

    def __init__(self, backend: str) -> None:
        """``backend`` is what :meth:`saved` gave."""
        super().__init__(
            tokenizer_object=Tokenizer.from_str(backend),
            pad_token=SPECIALS[PAD],
            unk_token=SPECIALS[UNK],
            cls_token=SPECIALS[CLS],
            sep_token=SPECIALS[SEP],
            mask_token=SPECIALS[MASK],
            clean_up_tokenization_spaces=False,
        )

    @classmethod
    def trained(cls, texts: Iterable[str], vocab_size: int) -> WordPieceTokenizer:
        """A tokenizer with the pieces that training merges, until there are so many entries; the
        same for equal texts. ``texts`` is read twice (no iterator, then), and need not be in
        memory.

        Raises:
            OptionError: more entries than the text supports, or than it has characters.
        """
        if not len(SPECIALS) < vocab_size <= MOST:
            raise OptionError(
                f"vocab_size={vocab_size}: expected {len(SPECIALS) + 1} to {MOST:,} entries"
            )
        backend = _backend(models.WordPiece(unk_token=SPECIALS[UNK]))
        # The trainer numbers such entries as it meets them, by a hash that differs from process to
        # process, and breaks ties by these numbers: so they are given.
        first = [*SPECIALS, *(CONTINUES + one for one in _inside_words(backend, texts))]
        trainer = trainers.WordPieceTrainer(
            vocab_size=max(vocab_size, len(first)),
            min_frequency=2,
            special_tokens=first,
            continuing_subword_prefix=CONTINUES,
            show_progress=False,
        )
        backend.train_from_iterator(iter(texts), trainer)
        vocab: dict[str, int] = backend.get_vocab()
        if len(vocab) != vocab_size:
            raise OptionError(
                f"vocab_size={vocab_size}: the text supports {len(vocab)} entries (its characters, "
                f"and pieces that occur twice); give vocab_size={len(vocab)}, or another text"
            )
        tokenizer = _backend(models.WordPiece(vocab=vocab, unk_token=SPECIALS[UNK]))
        tokenizer.add_special_tokens(list(SPECIALS))
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{SPECIALS[CLS]} $A {SPECIALS[SEP]}",
            pair=f"{SPECIALS[CLS]} $A {SPECIALS[SEP]} $B:1 {SPECIALS[SEP]}:1",
            special_tokens=[(SPECIALS[CLS], CLS), (SPECIALS[SEP], SEP)],
        )
        return cls(tokenizer.to_str())

    @classmethod
    def of(cls, tokenizer: Any) -> WordPieceTokenizer:
        """A BERT's tokenizer as one of these: the same pieces; nothing is cut or padded.

        Raises:
            OptionError: another kind of tokenizer, or one with other special tokens.
        """
        if isinstance(tokenizer, cls):
            return tokenizer
        continuing(tokenizer)
        missing = set(SPECIALS) - set(tokenizer.get_vocab())
        if missing:
            raise OptionError(
                f"the tokenizer has no {', '.join(sorted(missing))}: expected BERT's special "
                f"tokens, {', '.join(SPECIALS)}"
            )
        backend = json.loads(tokenizer.backend_tokenizer.to_str())
        return cls(json.dumps(backend | {"truncation": None, "padding": None}))

    def pieces(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each text, without special ones: where their characters occur in a text,
        such as "[SEP]", they are read as any others."""
        return [ids for ids, _ in self.located(texts)]

    def located(self, texts: Sequence[str]) -> list[tuple[list[int], list[tuple[int, int]]]]:
        """The ids of :meth:`pieces`, and the characters of the text, begin and end, that each token
        covers."""
        backend = Tokenizer.from_str(self.backend_tokenizer.to_str())
        backend.encode_special_tokens = True
        encodings = backend.encode_batch(list(texts), add_special_tokens=False)
        return [(one.ids, one.offsets) for one in encodings]

    def saved(self) -> dict[str, Any]:
        """Everything that makes it, in JSON's types."""
        value: dict[str, Any] = json.loads(self.backend_tokenizer.to_str())
        return value


def _backend(model: models.WordPiece) -> Tokenizer:
    """BERT's words in front of a model."""
    backend = Tokenizer(model)
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix=CONTINUES)
    return backend


def _inside_words(backend: Tokenizer, texts: Iterable[str]) -> list[str]:
    """Characters of the texts that can go on with a word, in their order."""
    raw: set[str] = set()
    for text in texts:
        raw.update(text)
    plain = {one for character in raw for one in backend.normalizer.normalize_str(character)}

    def is_inside(character: str) -> bool:
        after = backend.normalizer.normalize_str(f"a{character}")
        return len(after) > 1 and len(backend.pre_tokenizer.pre_tokenize_str(after)) == 1

    return [one for one in sorted(plain) if not one.isspace() and is_inside(one)]


@dataclass(frozen=True, eq=False)
class WordPieces:
    """What a batch needs to know of a WordPiece vocabulary.

    ``continues`` says of each entry whether it goes on with a word; ``plain`` are the entries that
    are no special tokens.
    """

    continues: Bool[np.ndarray, "token"]
    plain: Integer[np.ndarray, "entry"]
    pad: int
    cls: int
    sep: int
    mask: int

    @classmethod
    def of(cls, tokenizer: WordPieceTokenizer) -> WordPieces:
        continues = continuing(tokenizer)
        return cls(
            continues,
            np.setdiff1d(np.arange(len(continues)), tokenizer.all_special_ids),
            pad=tokenizer.pad_token_id,
            cls=tokenizer.cls_token_id,
            sep=tokenizer.sep_token_id,
            mask=tokenizer.mask_token_id,
        )


def continuing(tokenizer: Any) -> Bool[np.ndarray, "token"]:
    """Whether each entry of a WordPiece vocabulary goes on with a word.

    Raises:
        OptionError: another kind of tokenizer.
    """
    model = getattr(getattr(tokenizer, "backend_tokenizer", None), "model", None)
    prefix = getattr(model, "continuing_subword_prefix", None)
    if not prefix:
        raise OptionError(
            f"the tokenizer is a {type(tokenizer).__name__}: expected one of WordPiece, as BERT "
            "has, whose entries say which of them go on with a word"
        )
    surfaces = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    return np.array([str(surface).startswith(prefix) for surface in surfaces])
