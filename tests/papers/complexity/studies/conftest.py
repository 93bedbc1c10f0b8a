"""Fixtures of the library's tests of this kind."""

from tests.studies.conftest import examples as examples, model as model, tokenizer as tokenizer
