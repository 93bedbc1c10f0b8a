"""A small random model with a tokenizer that splits words, for whole studies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.types import Example
from tests import architectures

TEXTS = [
    "the shore of a sea is called a",
    "someone who bakes bread",
    "a small wooden house in the mountains",
    "not alive",
    "the mother of a father is called a",
]


@contextmanager
def few_outputs() -> Iterator[None]:
    """Runs of anchor tasks are opened at few outputs, and put into a plane in few steps: for tests
    of other things than these numbers, which test_mechanism.py looks at."""
    masked = "interp_compose.papers.complexity.studies.anchors.masked_outputs"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{masked}.PER_PAIR", 4)
        patch.setattr(f"{masked}.VALUES", 5)
        patch.setattr(
            "interp_compose.papers.complexity.studies.mechanism.views.TSNE_STEPS", 250
        )  # the least
        yield


def splitting_tokenizer(vocab_size: int = 97) -> Any:
    """Byte-level BPE over a lower-case alphabet: most words are several tokens, BOS in front."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=["<s>", "<unk>"], show_progress=False
    )
    tokenizer.train_from_iterator([*TEXTS[1:], 'x "', "abcdefghijklmnopqrstuvwxyz"] * 3, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", unk_token="<unk>")


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    return splitting_tokenizer()


@pytest.fixture(scope="session")
def model(tokenizer: Any) -> LensModel:
    return load_model(architectures.build("Llama"), tokenizer=tokenizer)


@pytest.fixture(scope="session")
def examples() -> list[Example]:
    answers = "abcde"
    return [Example(f'{text} "', answer) for text, answer in zip(TEXTS, answers, strict=True)] + [
        Example('x "', "f"),
        Example('a a "', "g"),
    ]
