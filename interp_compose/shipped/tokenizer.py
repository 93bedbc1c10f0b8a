"""The shipped tokenizer: byte-level BPE with few merges, so that most words are several tokens.

Words of the world are counted once each, however often they occur, and words of grammar many
times: these stay whole while the words that carry meaning are cut into two or three pieces. Each
answer is in the vocabulary as a whole, and ``ignore_merges`` takes it where it stands without a
blank before it (after the opened quotation of a prompt); inside a definition, after a blank, the
same word is cut like any other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

BOS = "<|endoftext|>"
N_PIECES = 640
"""Entries before the answers are added: 1 special token, 256 bytes, the rest merges."""
_GRAMMAR_WEIGHT = 40


def train_tokenizer(
    words: Sequence[str], grammar: Sequence[str], answers: Iterable[str], n_ctx: int
) -> Any:
    """A fast tokenizer that puts BOS before every text.

    ``words`` are the world's, ``grammar`` the words to keep whole (each with its leading blank
    where it has one), ``answers`` become one token each where no blank precedes them.
    """
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=N_PIECES,
        special_tokens=[BOS],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    text = [f" {word}" for word in words] + list(grammar) * _GRAMMAR_WEIGHT
    trained.train_from_iterator(text, trainer)
    model = json.loads(trained.to_str())["model"]
    vocab = dict(model["vocab"])
    for answer in sorted(set(answers) - set(vocab)):
        vocab[answer] = len(vocab)
    merges = [tuple(pair) for pair in model["merges"]]
    backend = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=True))
    backend.pre_tokenizer = trained.pre_tokenizer
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([BOS])
    backend.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A",
        pair=f"{BOS} $A {BOS} $B",
        special_tokens=[(BOS, backend.token_to_id(BOS))],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token=BOS,
        eos_token=BOS,
        pad_token=BOS,
        model_max_length=n_ctx,
        clean_up_tokenization_spaces=False,
    )
