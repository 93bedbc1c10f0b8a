"""Small tokenizers of every kind, trained here on a few sentences."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
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

CORPUS = [
    "the quick brown fox jumps over the lazy dogs' tails, don't you think?",
    "a young dog is called a puppy; an unhappy kitten isn't a happy one.",
    'she said: "stop." and (then) they stopped, unhappily, at 12:30.',
] * 8


def byte_level(*, trim: bool = False) -> PreTrainedTokenizerFast:
    """GPT-2's kind; with ``trim`` the offsets leave leading spaces out, without there is a BOS."""
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=360,
        show_progress=False,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tok.train_from_iterator(CORPUS, trainer)
    tok.post_processor = (
        processors.ByteLevel(trim_offsets=True)
        if trim
        else processors.TemplateProcessing(
            single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 0)]
        )
    )
    return PreTrainedTokenizerFast(tokenizer_object=tok, bos_token="<|endoftext|>")


def unigram(*, llama: bool = False) -> PreTrainedTokenizerFast:
    """Unigram with ``▁`` and byte fallback; as Llama does it: no pre-tokenizer, and here NFKC."""
    seed = Tokenizer(models.Unigram())
    seed.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=90, show_progress=False, special_tokens=["<unk>"], unk_token="<unk>"
    )
    seed.train_from_iterator(CORPUS, trainer)
    learnt = [(piece, p) for piece, p in json.loads(seed.to_str())["model"]["vocab"][1:]]
    fallback = [(f"<0x{byte:02X}>", -20.0) for byte in range(256)]
    vocab = [("<unk>", 0.0), ("<s>", 0.0), *fallback, *learnt]
    tok = Tokenizer(models.Unigram(vocab, 0, byte_fallback=True))
    if llama:
        tok.normalizer = normalizers.Sequence(
            [normalizers.NFKC(), normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
        )
    else:
        tok.pre_tokenizer = pre_tokenizers.Metaspace()
    tok.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=tok, bos_token="<s>", unk_token="<unk>")


def word_piece() -> PreTrainedTokenizerFast:
    """BERT's kind: lower-casing, accents stripped, [CLS] and [SEP]."""
    tok = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tok.normalizer = normalizers.BertNormalizer(lowercase=True)
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tok.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=120, show_progress=False, special_tokens=["[UNK]", "[CLS]", "[SEP]"]
    )
    tok.train_from_iterator(CORPUS, trainer)
    tok.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tok, unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )


BUILDERS: dict[str, Callable[[], Any]] = {
    "bpe": byte_level,
    "bpe-trimmed": lambda: byte_level(trim=True),
    "unigram": unigram,
    "llama": lambda: unigram(llama=True),
    "wordpiece": word_piece,
}


@pytest.fixture(scope="session")
def tokenizers() -> dict[str, Any]:
    return {name: build() for name, build in BUILDERS.items()}


@pytest.fixture(params=BUILDERS)
def tokenizer(request: pytest.FixtureRequest, tokenizers: dict[str, Any]) -> Any:
    """Each kind in turn."""
    return tokenizers[request.param]


@pytest.fixture
def bpe(tokenizers: dict[str, Any]) -> Any:
    return tokenizers["bpe"]
