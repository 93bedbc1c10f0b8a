"""The tokens of an answer after its prompt: one, unless several are allowed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from interp_compose.errors import AnswerError
from interp_compose.text.encoding import encode
from interp_compose.text.units import TokenizedPrompt
from interp_compose.types import Example


def keep_fitting(
    tokenizer: Any, examples: Sequence[Example], *, of_target: bool = False, several: bool = False
) -> tuple[Example, ...]:
    """The examples whose answer is one token for this tokenizer, or ``several``, after the prompt
    or as the first ``of_target``; ``AnswerError`` if none is."""
    texts = [("" if of_target else each.prompt, each.answer) for each in examples]
    fits = fitting(tokenizer, texts, several=several)
    if len(examples) and not fits.any():
        one = examples[0]
        raise AnswerError(
            f"not one of the {len(examples)} answers is {some_tokens(several)} for this tokenizer "
            f"(the first is {one.answer!r} after {one.prompt!r}); use a tokenizer with whole "
            "words, or your own examples"
        )
    return tuple(example for example, fit in zip(examples, fits, strict=True) if fit)


def some_tokens(several: bool) -> str:
    return "one or more known tokens" if several else "a single token"


def require_fitting(
    tokenizer: Any, prompt: str, answers: Sequence[str], *, several: bool = False
) -> None:
    """``AnswerError`` unless every answer is one token after ``prompt``, or ``several``."""
    fits = fitting(tokenizer, [(prompt, answer) for answer in answers], several=several)
    bad = [answer for answer, fit in zip(answers, fits, strict=True) if not fit]
    if bad:
        raise AnswerError(
            f"the answer {bad[0]!r} after {prompt!r} is not {some_tokens(several)} for this "
            f"tokenizer, and this task needs {', '.join(map(repr, answers))} to be; use another "
            "model, or your own examples with answers that it has"
        )


def fitting(
    tokenizer: Any, texts: Sequence[tuple[str, str]], *, several: bool = False
) -> Bool[np.ndarray, "text"]:
    """For each ``(prompt, answer)``: is the answer exactly one known token after the prompt, or
    ``several``?

    That is ``encode(prompt + answer) == encode(prompt) + [one id]``, or more of them, the criterion
    by which :func:`answer_tokens` raises; here it filters.
    """
    unknown = getattr(tokenizer, "unk_token_id", None)
    prompts = _rows(tokenizer, [prompt for prompt, _ in texts])
    whole = _rows(tokenizer, [prompt + answer for prompt, answer in texts])
    return np.array(
        [
            len(before) < len(after) <= (len(after) if several else len(before) + 1)
            and bool(np.array_equal(after[: len(before)], before))
            and unknown not in after[len(before) :].tolist()
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


def answer_ids(
    tokenizer: Any,
    examples: Sequence[Example],
    tokenized: Sequence[TokenizedPrompt],
    *,
    because: str = "",
    what: str = "answer",
) -> Int[np.ndarray, "example"]:
    """The id of the one token that each answer is after its prompt; ``AnswerError`` as
    :func:`answer_tokens`."""
    tokens = answer_tokens(tokenizer, examples, tokenized, because=because, what=what)
    return np.array([token for (token,) in tokens], dtype=np.int64)


def answer_tokens(
    tokenizer: Any,
    examples: Sequence[Example],
    tokenized: Sequence[TokenizedPrompt],
    *,
    several: bool | None = None,
    because: str = "",
    what: str = "answer",
) -> list[tuple[int, ...]]:
    """The ids of the tokens that each answer is after its prompt.

    Prompt and answer encoded together must give the prompt's ids and exactly one more or, with
    ``several``, one or more. Raises ``AnswerError`` otherwise, if one of these tokens is the
    unknown one, or if the tokenizer ends every text with a special token (no answer can follow
    EOS). ``several`` is None where it is not available, ``because`` of what; where it is False,
    the message names the option. ``what`` the examples' answers are called in messages.
    """
    for i, example in enumerate(examples):
        answer = example.answer
        if not answer:
            raise AnswerError(
                f"example {i}: the {what} is empty; give the text that is to follow the prompt, "
                "its leading space included"
            )
        if any("\ud800" <= character <= "\udfff" for character in answer):
            raise AnswerError(
                f"example {i}: the {what} {answer!r} holds half of a surrogate pair; decode "
                "the file it came from as UTF-8"
            )
    texts = [example.prompt + example.answer for example in examples]
    encoded = encode(tokenizer, texts, offsets=False)
    ends = np.cumsum(encoded.counts)
    out = []
    for i, (prompt, end) in enumerate(zip(tokenized, ends.tolist(), strict=True)):
        ids = prompt.ids
        full = encoded.ids[end - encoded.counts[i] : end]
        if encoded.special[end - 1]:
            raise AnswerError(
                f"example {i}: this tokenizer ends every text with "
                f"{_pieces(tokenizer, full[-1:])[0]!r}, so nothing can follow the prompt; "
                "turn that off (add_eos_token=False), or use the tokenizer of a causal model"
            )
        same = min(len(ids), len(full))
        agree = next(iter(np.flatnonzero(ids[:same] != full[:same]).tolist()), same)
        rest = _pieces(tokenizer, full[agree:])
        subject = f"example {i}: the {what} {examples[i].answer!r} after {prompt.text!r}"
        if agree < len(ids):
            raise AnswerError(
                f"{subject} changes the prompt's tokens "
                f"{_pieces(tokenizer, ids[agree:])} into {rest}; move a leading space from the "
                f"end of the prompt to the {what}, or end the prompt differently"
            )
        if not rest or (len(rest) > 1 and not several):
            option = ", or pass multi_token_answers=True (--multi-token-answers)"
            raise AnswerError(
                f"{subject} is {len(rest)} tokens, {rest}, and has to be one"
                f"{' or more' if several else because}; choose another {what} (mind the leading "
                f"space), or leave the example out{option if rest and several is False else ''}"
            )
        unknown = np.flatnonzero(full[agree:] == getattr(tokenizer, "unk_token_id", None))
        if unknown.size:
            raise AnswerError(
                f"{subject} is unknown to this tokenizer ({rest[unknown[0]]!r}); choose another "
                f"{what}, or leave the example out"
            )
        out.append(tuple(full[agree:].tolist()))
    return out


def _pieces(tokenizer: Any, ids: Int[np.ndarray, "_"]) -> list[str]:
    """Tokens as text: " p" in the place of "Ġp"; a part of a character as the tokenizer has it."""
    pieces = []
    for token, piece in zip(
        ids.tolist(), tokenizer.convert_ids_to_tokens(ids.tolist()), strict=True
    ):
        text = tokenizer.decode([token])
        if piece.startswith(("Ġ", "▁")) and not text.startswith(" "):
            text = f" {text}"
        pieces.append(piece if not text or "\N{REPLACEMENT CHARACTER}" in text else text)
    return pieces
