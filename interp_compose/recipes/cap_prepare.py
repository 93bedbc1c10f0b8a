"""From examples to batches of token ids, units and answers; everything is refused here or never."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from interp_compose._types import Example, HookedModel
from interp_compose.errors import InputError
from interp_compose.interventions.slots import Slots, shuffled_groups
from interp_compose.recipes.ready import check_ids, check_model, check_prompts
from interp_compose.tasks.user_data import read_example
from interp_compose.text.padding import pad_left
from interp_compose.text.words import TokenizedPrompt, answer_ids, tokenize_prompts


@dataclass(frozen=True)
class Prepared:
    """One example, ready to run: its place in the user's list, tokens, units, answer."""

    index: int
    example: Example
    prompt: TokenizedPrompt
    answer_id: int

    @property
    def n_tokens(self) -> int:
        return len(self.prompt.ids)

    @property
    def n_slots(self) -> int:
        return self.prompt.n_slots

    @property
    def affected(self) -> bool:
        return self.prompt.affected


@dataclass(frozen=True)
class Batch:
    """Examples side by side, padded on the left, so that all predict at position -1."""

    items: Sequence[Prepared]
    tokens: Int[Tensor, "batch pos"]
    mask: Int[Tensor, "batch pos"]
    units: Slots
    shuffled: Slots
    answers: Int[Tensor, "batch"]


def prepare(
    model: HookedModel,
    examples: Iterable[Example | Mapping[str, Any]],
    *,
    unit: str,
    labels: frozenset[str] | None,
    height: int | None,
    parser: str | None,
    mode: str,
) -> list[Prepared]:
    """Check, tokenize and align every example.

    Raises:
        InputError: no example at all; see :func:`tokenize_prompts` and :func:`answer_ids` for
            what else is refused.
        PromptError: a prompt longer than the model's context, or, for a collapse, than the
            window of its local attention: a shorter sequence would let it look further back.
        TrainingModeError: the model is in training mode.
    """
    check_model(model)
    if isinstance(examples, str | Mapping) or not isinstance(examples, Iterable):
        raise InputError(
            f"examples are a {type(examples).__name__}; expected a sequence, such as task.test, "
            "or a list of dictionaries with prompt and answer."
        )
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
        collapse="Use mode='broadcast', or shorter prompts." if mode == "collapse" else None,
    )
    answers = answer_ids(model.tokenizer, checked, prompts)
    highest = max(int(answers.max()), *(int(prompt.ids.max()) for prompt in prompts))
    check_ids(model, highest)
    return [
        Prepared(index, example, prompt.with_last_apart(), int(answer))
        for index, (example, prompt, answer) in enumerate(
            zip(checked, prompts, answers, strict=True)
        )
    ]


def into_batches(items: Sequence[Prepared], size: int) -> list[list[Prepared]]:
    """Examples of like length together, what pooling cannot change apart; always the same way."""
    ordered = sorted(items, key=lambda it: (it.affected, it.n_slots, it.n_tokens, it.index))
    n_plain = sum(not item.affected for item in ordered)
    parts = ordered[:n_plain], ordered[n_plain:]
    return [part[at : at + size] for part in parts for at in range(0, len(part), size)]


def as_batch(items: Sequence[Prepared], device: torch.device, *, seed: int) -> Batch:
    """Pad on the left and move to ``device``; one copy per tensor."""
    prompts = [item.prompt for item in items]
    tokens, mask, _ = pad_left(
        [prompt.ids for prompt in prompts], [prompt.groups < 0 for prompt in prompts]
    )
    groups, shuffled = np.full(tokens.shape, -1), np.full(tokens.shape, -1)
    for row, item in enumerate(items):
        own = item.prompt.groups
        groups[row, -len(own) :] = own
        shuffled[row, -len(own) :] = shuffled_groups(own.tolist(), seed=seed, example=item.index)
    return Batch(
        items,
        tokens.to(device),
        mask.to(device),
        Slots.from_groups(torch.from_numpy(groups), mask).to(device),
        Slots.from_groups(torch.from_numpy(shuffled), mask).to(device),
        torch.tensor([item.answer_id for item in items]).to(device),
    )
