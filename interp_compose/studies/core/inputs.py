"""Examples, checked, tokenized and aligned; everything is refused here or never."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose.errors import InputError
from interp_compose.models.lens_model import LensModel
from interp_compose.models.ready import check_ids, check_model, check_prompts
from interp_compose.tasks.examples import read_example
from interp_compose.text.answers import answer_ids
from interp_compose.text.label_set import VOCABULARY, among, checked_labels, label_ids, predicted
from interp_compose.text.units import TokenizedPrompt, tokenize_prompts
from interp_compose.types import Example


def outcome_of(
    logits: Float[Tensor, "stream d_vocab"],
    answers: Int[Tensor, "stream"],
    candidates: Int[Tensor, "stream label"] | None = None,
) -> Float[Tensor, "stream 4"]:
    """Prediction, the answer's log-probability (nats) and rank, and whether all was finite.

    Rank 1 is the prediction: 1 + the number of tokens with a larger logit, or with the same one
    and a smaller id (in half precision ties are common, and argmax takes the smallest id).

    With ``candidates`` (token ids, ascending, the answer among them) the prediction, the rank and
    the log-probability are those among these alone, the probabilities of the others left out (eq.
    10); whether all was finite is asked of the whole vocabulary.
    """
    finite = logits.isfinite().all(dim=1)
    prediction = predicted(logits, candidates)
    place = answers
    if candidates is not None:
        place = (candidates == answers[:, None]).int().argmax(dim=1)
    logits = among(logits, candidates).float()
    target = logits.gather(1, place[:, None])
    logprob = target[:, 0] - logits.logsumexp(dim=1)
    before = torch.arange(logits.shape[1], device=logits.device) < place[:, None]
    rank = ((logits > target) | ((logits == target) & before)).sum(dim=1) + 1
    return torch.stack([prediction.float(), logprob, rank.float(), finite.float()], dim=1)


@dataclass(frozen=True)
class Prepared:
    """One example, ready to run: its place in the user's list, tokens, units, answer."""

    index: int
    example: Example
    prompt: TokenizedPrompt
    answer_id: int
    candidates: Int[np.ndarray, "label"] | None = None
    """The tokens that the answer is chosen among, ascending; None: the whole vocabulary."""

    @property
    def n_tokens(self) -> int:
        return len(self.prompt.ids)

    @property
    def n_pooled(self) -> int:
        return self.prompt.n_pooled

    @property
    def affected(self) -> bool:
        return self.prompt.affected


def prepare(
    model: LensModel,
    examples: Iterable[Example | Mapping[str, Any]],
    *,
    unit: str,
    labels: frozenset[str] | None,
    height: int | None,
    parser: str | None,
    collapse: str | None = None,
    answered: bool = True,
    answers: str | Sequence[str] = VOCABULARY,
) -> list[Prepared]:
    """Check, tokenize and align every example. The last token is a unit of its own.

    Without ``answered`` the answers are not looked at, and answer ids are 0. ``answers`` are what
    the prediction is chosen among: ``"vocabulary"``, or a list of labels.

    ``collapse`` is the remedy for prompts that a collapse would stretch beyond the window of local
    attention, or None where nothing is shortened.

    Raises:
        InputError: no example at all; see :func:`tokenize_prompts` and :func:`answer_ids` for
            what else is refused.
        PromptError: a prompt longer than the model's context, or, for a collapse, than the
            window of its local attention: a shorter sequence would let it look further back.
        TrainingModeError: the model is in training mode.
    """
    check_model(model)
    labels_of_answers = checked_labels(answers)
    checked = [read_example(row, f"example {i}") for i, row in enumerate(examples)]
    if not checked:
        raise InputError("no examples: expected at least one prompt with its answer.")
    prompts = tokenize_prompts(
        model.tokenizer, checked, unit=unit, labels=labels, height=height, parser=parser
    )
    check_prompts(
        model,
        prompts,
        lambda index: f"example {index}: its prompt",
        collapse=collapse,
    )
    highest = max(int(prompt.ids.max()) for prompt in prompts)
    found = [0] * len(prompts)
    if answered:
        found = answer_ids(model.tokenizer, checked, prompts).tolist()
    candidates = None
    if labels_of_answers is not None:
        candidates = label_ids(model.tokenizer, checked, prompts, labels_of_answers)
    check_ids(model, max(highest, *found, 0 if candidates is None else int(candidates.max())))
    return [
        Prepared(
            index,
            example,
            prompt.with_last_apart(),
            int(answer),
            None if candidates is None else candidates[index],
        )
        for index, (example, prompt, answer) in enumerate(zip(checked, prompts, found, strict=True))
    ]


def examples_digest(items: Sequence[Prepared]) -> str:
    """Of everything the run reads: texts, token ids, units, answers."""
    digest = hashlib.sha256()
    for item in items:
        row: list[Any] = [item.example.prompt, item.example.answer, item.answer_id]
        row += [] if item.candidates is None else [item.candidates.tolist()]
        row += [item.prompt.ids.tolist(), item.prompt.groups.tolist()]
        digest.update(json.dumps(row).encode())
    return digest.hexdigest()
