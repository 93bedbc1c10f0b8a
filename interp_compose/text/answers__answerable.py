"""Which answers are one token in their context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool

from interp_compose.types import Example
from interp_compose.errors import AnswerError
from interp_compose.text.encoding import encode


def keep_one_token(tokenizer: Any, examples: Sequence[Example]) -> tuple[Example, ...]:
    """The examples whose answer is one token for this tokenizer; ``AnswerError`` if none is."""
    fits = one_token(tokenizer, [(example.prompt, example.answer) for example in examples])
    if len(examples) and not fits.any():
        one = examples[0]
        raise AnswerError(
            f"not one of the {len(examples)} answers is a single token for this tokenizer "
            f"(the first is {one.answer!r} after {one.prompt!r}); use a tokenizer with whole "
            "words, or bring examples of your own"
        )
    return tuple(example for example, fit in zip(examples, fits, strict=True) if fit)


def require_one_token(tokenizer: Any, prompt: str, answers: Sequence[str]) -> None:
    """``AnswerError`` unless every answer is one token after ``prompt``."""
    fits = one_token(tokenizer, [(prompt, answer) for answer in answers])
    bad = [answer for answer, fit in zip(answers, fits, strict=True) if not fit]
    if bad:
        raise AnswerError(
            f"the answer {bad[0]!r} after {prompt!r} is not one token for this tokenizer, and this "
            f"task needs {', '.join(map(repr, answers))} to be; use another model, or bring "
            "examples of your own with answers that it has"
        )


def one_token(tokenizer: Any, texts: Sequence[tuple[str, str]]) -> Bool[np.ndarray, "text"]:
    """For each ``(prompt, answer)``: is the answer exactly one known token after the prompt?

    That is ``encode(prompt + answer) == encode(prompt) + [one id]``, the criterion by which
    :func:`interp_compose.text.answers.answer_id` raises; here it filters.
    """
    unknown = getattr(tokenizer, "unk_token_id", None)
    prompts = _rows(tokenizer, [prompt for prompt, _ in texts])
    whole = _rows(tokenizer, [prompt + answer for prompt, answer in texts])
    return np.array(
        [
            len(after) == len(before) + 1
            and bool(np.array_equal(after[:-1], before))
            and int(after[-1]) != unknown
            for before, after in zip(prompts, whole, strict=True)
        ],
        dtype=bool,
    )


def _rows(tokenizer: Any, texts: Sequence[str]) -> list[np.ndarray]:
    """Ids of every text; one call of the tokenizer for each distinct one."""
    distinct = list(dict.fromkeys(texts))
    if not distinct:
        return []
    encoded = encode(tokenizer, distinct, offsets=False)
    rows = np.split(encoded.ids, np.cumsum(encoded.counts)[:-1])
    row_of = dict(zip(distinct, rows, strict=True))
    return [row_of[text] for text in texts]
