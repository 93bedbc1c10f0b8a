"""Fixtures of the library's tests of this kind."""

from tests.text.conftest import bpe as bpe, tokenizer as tokenizer, tokenizers as tokenizers
