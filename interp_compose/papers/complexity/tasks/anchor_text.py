"""Anchor sequences as text, for what reads prompts: CAP, word alignment, masking by words.

Every token is one word, and words have blanks between them: ``"23 a b 43 46"``, followed by
``" 29"``. A token id has one text: that of an anchor is the anchor's name. Where a small key's
target is an id of an anchor (20 - 8 - 8 = 4, which is ``d``), the answer reads ``" d"``: the model
predicts that token, whatever we call it.
"""

from __future__ import annotations

from typing import Any, Final

from interp_compose._public import public
from interp_compose.errors import AnswerError, InputError
from interp_compose.papers.complexity.tasks.anchors import AnchorData, AnchorTask, check_width
from interp_compose.types import Example

NO_WORD: Final = "<none>"
"""Token 0: padding, and every word that is neither an anchor nor a number of the task."""


@public
def anchor_tokenizer(task: AnchorTask) -> Any:
    """A fast tokenizer of Hugging Face's whose ids are the task's own; it adds no special token.

    Raises:
        InputError: an anchor's name that is not one word, or that a number has.
    """
    vocab = {word: i for i, word in enumerate(words_of(task))}
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.WordLevel(vocab=vocab, unk_token=NO_WORD))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=NO_WORD,
        unk_token=NO_WORD,
        clean_up_tokenization_spaces=False,
    )
    for i, name in enumerate(task.anchors, start=1):
        if tokenizer(f"5 {name} 5")["input_ids"][1:-1] != [i]:
            raise InputError(f"the anchor {name!r} is not one word to a tokenizer: rename it")
    return tokenizer


@public
def anchor_examples(task: AnchorTask, data: AnchorData) -> tuple[Example, ...]:
    """Each sequence as a prompt and the word that should follow; its chain of anchors is a span.

    All words are single tokens, so that pooling words changes nothing: what CAP can pool is the
    chain (``unit="span"``).

    Raises:
        InputError: an anchor's name that is not one word, or that a number has; sequences of
            another length, or with tokens that the task does not have.
        AnswerError: a target of 0, which is no word.
    """
    words = words_of(task)
    check_width(data.tokens, task.length)
    examples = []
    rows = zip(data.tokens.tolist(), data.targets.tolist(), data.positions.tolist(), strict=True)
    for i, (tokens, target, key) in enumerate(rows):
        if max(*tokens, target) >= len(words):
            raise InputError(
                f"sequence {i} has the token {max(*tokens, target)}: expected less than "
                f"{len(words)}; pass the task that it was sampled from"
            )
        if target == 0:
            raise AnswerError(
                f"the target of sequence {i} is 0, which stands for no word: leave it out, or "
                "raise the task's smallest number"
            )
        text = [words[token] for token in tokens]
        start = len(" ".join(text[: key + 1])) + 1
        chain = " ".join(text[key + 1 : key + 1 + task.n_anchors])
        span = (start, start + len(chain))
        examples.append(Example(" ".join(text), f" {words[target]}", spans=(span,)))
    return tuple(examples)


def default_tokenizer() -> Any:
    """The tokenizer of models of the task as it is by default."""
    return anchor_tokenizer(AnchorTask())


def words_of(task: AnchorTask) -> list[str]:
    """The text of each token id."""
    numbers = [str(i) for i in range(1 + len(task.anchors), task.vocabulary)]
    for name in task.anchors:
        if name.split() != [name] or name.isdecimal() or name == NO_WORD:
            raise InputError(
                f"the anchor {name!r} cannot be told from other words: give it a name without "
                f"blanks that is neither a number nor {NO_WORD!r}"
            )
    return [NO_WORD, *task.anchors, *numbers]
