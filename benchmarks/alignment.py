"""What grouping tokens into words costs over tokenizing alone.

The text is 20,000 WordNet definitions where ``NLTK_DATA`` (or ``INTERP_COMPOSE_TEST_DATA``) leads
to WordNet, else generated. For each kind of tokenizer two figures come from the same run, turn
about: the tokenizer called alone on the text for its ids, and :func:`tokenize_prompts` (the
tokenizer with offsets, spaCy's words, the alignment). *First* is with no word remembered, *again*
with the text's words known.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence
from statistics import median
from typing import Any

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from benchmarks.common import (
    Ratio,
    byte_level,
    load_texts,
    machine,
    middle_and_range,
    quotients,
    ranged,
    seconds,
    spread,
)
from interp_compose.text import spacy_words
from interp_compose.text.units import tokenize_prompts
from interp_compose.types import Example

PROMPTS = 20_000
REPEATS = 7
VOCABULARY = 8000


def benchmark() -> dict[str, Any]:
    """``alignment``."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # one core against one core
    source, texts = load_texts(PROMPTS)
    n_words = sum(len(text.split()) for text in texts)
    rows = [measure(name, build(texts), texts, n_words) for name, build in KINDS.items()]
    content = {"text": source, "prompts": len(texts), "words": n_words, "rows": rows, **machine()}
    return {"alignment": content}


def ratios(content: dict[str, Any]) -> list[Ratio]:
    rows = []
    for row in content["rows"]:
        what = f"first, {row['tokenizer']}"
        rows.append(Ratio(what, *ranged(row, "ratio_first"), peer="the tokenizer alone"))
        rows.append(Ratio(what, *ranged(row, "words_per_s_first"), "words/s"))
    return rows


def measure(name: str, tokenizer: Any, texts: Sequence[str], n_words: int) -> dict[str, Any]:
    """Medians over the repeats; the ratio is the median of the repeats' own ratios."""
    examples = [Example(text, " x") for text in texts]
    tokenizer(texts[:100])
    gc.collect()
    gc.freeze()  # WordNet's own objects are not to be gone through again and again
    alone, first, again = [], [], []
    for _ in range(REPEATS):
        alone.append(seconds(lambda: tokenizer(texts)))
        spacy_words.forget()
        first.append(seconds(lambda: tokenize_prompts(tokenizer, examples)))
        again.append(seconds(lambda: tokenize_prompts(tokenizer, examples)))
    return {
        "tokenizer": name,
        "repeats": REPEATS,
        "alone_s": median(alone),
        "first_s": median(first),
        "again_s": median(again),
        "words_per_s_first": n_words / median(first),
        "words_per_s_again": n_words / median(again),
        **middle_and_range("ratio_first", quotients(first, alone)),
        "words_per_s_first_range": spread([n_words / s for s in first]),
        "ratio_again": median(quotients(again, alone)),
    }


def unigram(texts: Sequence[str]) -> PreTrainedTokenizerFast:
    """SentencePiece's kind."""
    tok = Tokenizer(models.Unigram())
    tok.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=VOCABULARY, show_progress=False, special_tokens=["<unk>"], unk_token="<unk>"
    )
    tok.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tok, unk_token="<unk>")


def word_piece(texts: Sequence[str]) -> PreTrainedTokenizerFast:
    """BERT's kind."""
    tok = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tok.normalizer = normalizers.BertNormalizer(lowercase=True)
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=VOCABULARY, show_progress=False, special_tokens=["[UNK]"]
    )
    tok.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tok, unk_token="[UNK]")


KINDS = {
    "byte-level": lambda texts: byte_level(texts, VOCABULARY),
    "unigram": unigram,
    "wordpiece": word_piece,
}
