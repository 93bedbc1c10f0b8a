"""Tokenizers made in the test: a byte-level one with every needed word whole, and a crude one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast


def byte_tokenizer(whole: list[str]) -> Any:
    """Single bytes, and ``whole`` words that stand alone between blanks and punctuation."""
    vocab = {piece: i for i, piece in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    for word in whole:
        vocab.setdefault(word.replace(" ", "Ġ"), len(vocab))
    backend = Tokenizer(models.BPE(vocab=vocab, merges=[], ignore_merges=True))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return PreTrainedTokenizerFast(tokenizer_object=backend)


@pytest.fixture(scope="session")
def crude() -> Any:
    """No word is one token."""
    return byte_tokenizer([])


@pytest.fixture(scope="session")
def data_dir() -> Path:
    root = os.environ.get("INTERP_COMPOSE_TEST_DATA")
    if not root:
        pytest.skip("INTERP_COMPOSE_TEST_DATA names no folder with public data")
    return Path(root)
