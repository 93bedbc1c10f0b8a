"""From prepared examples to batches of token ids, units and answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from interp_compose.interventions.pooling__slots import Slots, shuffled_groups
from interp_compose.studies.core.inputs import Prepared
from interp_compose.text.label_set import stacked
from interp_compose.tensors__padding import pad_left


@dataclass(frozen=True)
class Batch:
    """Examples side by side, padded on the left, so that all predict at position -1."""

    items: Sequence[Prepared]
    tokens: Int[Tensor, "batch pos"]
    mask: Int[Tensor, "batch pos"]
    units: Slots
    shuffled: Slots
    answers: Int[Tensor, "batch"]
    candidates: Int[Tensor, "batch label"] | None


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
    candidates = stacked([item.candidates for item in items])
    return Batch(
        items,
        tokens.to(device),
        mask.to(device),
        Slots.from_groups(torch.from_numpy(groups), mask).to(device),
        Slots.from_groups(torch.from_numpy(shuffled), mask).to(device),
        torch.tensor([item.answer_id for item in items]).to(device),
        None if candidates is None else candidates.to(device),
    )
