"""Answers chosen among a set of labels instead of the whole vocabulary (CARMA, eq. 10), or between
each example's answer and its foil.

For sentiment the paper prints argmax over the labels, for the inverse dictionary argmax over the
vocabulary (CARMA, eq. 9). A fine-tuned model hardly ever leaves the labels; an untuned one mostly
does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose.errors import AnswerError, OptionError
from interp_compose.text.answers import answer_ids
from interp_compose.text.units import TokenizedPrompt
from interp_compose.types import Example

VOCABULARY: Final = "vocabulary"
FOIL: Final = "foil"
EXPECTED: Final = (
    "expected 'vocabulary', 'foil' (each example's answer or its foil), or the labels to choose "
    "among, a list of two or more, each once, with the space that precedes them in the answers, "
    "such as task.labels or [' negative', ' positive']"
)


def checked_answers(answers: Any) -> str | tuple[str, ...]:
    """``"vocabulary"``, ``"foil"``, or the labels that ``answers`` lists.

    Raises:
        OptionError: anything else; fewer than two labels, or one that is listed twice.
    """
    if isinstance(answers, str):
        if answers in (VOCABULARY, FOIL):
            return answers
        raise OptionError(f"answers={answers[:80]!r}: {EXPECTED}")
    listed = tuple(answers) if isinstance(answers, list | tuple) else ()
    texts = all(isinstance(label, str) and label for label in listed)
    if not texts or len(set(listed)) < max(2, len(listed)):
        raise OptionError(f"answers={str(answers)[:80]}: {EXPECTED}")
    return listed


def candidate_ids(
    tokenizer: Any,
    examples: Sequence[Example],
    tokenized: Sequence[TokenizedPrompt],
    answers: str | tuple[str, ...],
) -> Int[np.ndarray, "example choice"] | None:
    """The tokens that each example's prediction is chosen among, ascending by id, of what
    :func:`checked_answers` gives; None for the whole vocabulary.

    Raises:
        OptionError, AnswerError: see :func:`foil_ids` and :func:`label_ids`.
    """
    if answers == VOCABULARY:
        return None
    if isinstance(answers, str):
        return foil_ids(tokenizer, examples, tokenized)
    return label_ids(tokenizer, examples, tokenized, answers)


def foil_ids(
    tokenizer: Any, examples: Sequence[Example], tokenized: Sequence[TokenizedPrompt]
) -> Int[np.ndarray, "example choice"]:
    """The tokens of each example's answer and of its foil, ascending by id.

    Raises:
        AnswerError: an example has no foil, or one that is its answer or the same token; or one
            of the two is not exactly one known token after the prompt.
    """
    for number, one in enumerate(examples):
        if not one.foil:
            raise AnswerError(
                f"example {number}, with the answer {one.answer[:80]!r}, has no foil, which "
                "answers='foil' needs: give a wrong alternative (foil=), choose "
                "answers='vocabulary', or leave the example out"
            )
        if one.foil == one.answer:
            raise AnswerError(
                f"example {number}: the foil {one.foil[:80]!r} is its answer; give a wrong one"
            )
    because = ", with answers='foil'"
    foils = [replace(one, answer=one.foil) for one in examples]
    right = answer_ids(tokenizer, examples, tokenized, because=because)
    wrong = answer_ids(tokenizer, foils, tokenized, because=because, what="foil")
    same = np.flatnonzero(right == wrong)
    if same.size:
        one = examples[same[0]]
        raise AnswerError(
            f"example {same[0]}: the foil {one.foil[:80]!r} is the same token as the answer "
            f"{one.answer[:80]!r} for this tokenizer; give another foil"
        )
    return np.sort(np.stack([right, wrong], axis=1), axis=1)  # [example 2]


def label_ids(
    tokenizer: Any,
    examples: Sequence[Example],
    tokenized: Sequence[TokenizedPrompt],
    labels: Sequence[str],
) -> Int[np.ndarray, "example label"]:
    """The token that each label is after each prompt, ascending by id.

    Raises:
        OptionError: a label is not one token after a prompt.
        AnswerError: two labels are the same token, or an example's answer is none of the labels.
    """
    columns = []
    for label in labels:
        of_label = [Example(one.prompt, label) for one in examples]
        try:
            columns.append(answer_ids(tokenizer, of_label, tokenized, what="label"))
        except AnswerError as misfit:
            problem = str(misfit).partition("; ")[0]
            raise OptionError(
                f"{problem}; choose labels (answers=) of one token, with their leading space"
            ) from misfit
    # [example label], ascending, so that argmax of equal logits takes the smallest id
    ids = np.sort(np.stack(columns, axis=1), axis=1)
    same = np.flatnonzero((np.diff(ids, axis=1) == 0).any(axis=1))
    if same.size:
        raise AnswerError(
            f"example {same[0]}: two of the labels {list(labels)} are the same token after its "
            "prompt; choose labels that differ"
        )
    known = set(labels)
    for number, one in enumerate(examples):
        if one.answer not in known:
            raise AnswerError(
                f"example {number} has the answer {one.answer[:80]!r}, which is none of the labels "
                f"{list(labels)}; list every answer of the data, with its leading space, if any"
            )
    return ids


def among(
    logits: Float[Tensor, "row d_vocab"], candidates: Int[Tensor, "row label"] | None
) -> Float[Tensor, "row choice"]:
    """The logits of the tokens that may be chosen: all, or each row's candidates."""
    return logits if candidates is None else logits.gather(1, candidates)


def predicted(
    logits: Float[Tensor, "row d_vocab"], candidates: Int[Tensor, "row label"] | None = None
) -> Int[Tensor, "row"]:
    """Eq. 9's argmax over the vocabulary, or eq. 10's over each row's candidates, as token ids.

    Of equal logits the smallest id counts; ``candidates`` ascend.
    """
    best = among(logits, candidates).argmax(dim=1)
    return best if candidates is None else candidates.gather(1, best[:, None])[:, 0]


def stacked(rows: Sequence[Int[np.ndarray, "label"] | None]) -> Int[Tensor, "row label"] | None:
    """The candidates of a batch; None where its examples choose among the whole vocabulary."""
    listed = [row for row in rows if row is not None]
    return torch.from_numpy(np.stack(listed)) if listed else None
