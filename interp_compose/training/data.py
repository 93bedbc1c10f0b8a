"""Prompts as a training step sees them: token ids, whose word each token is, the answer's id."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from interp_compose.tensors import pad_left
from interp_compose.text.label_set import stacked


@dataclass(frozen=True, eq=False)
class TrainingExample:
    """``ids`` are the prompt's tokens, specials included; ``words`` says which word's each is, -1
    for specials; ``answer`` is the one token that should follow, chosen among ``candidates``
    (ascending ids) or, where that is None, among the whole vocabulary."""

    ids: Int[np.ndarray, "pos"]
    words: Int[np.ndarray, "pos"]
    answer: int
    candidates: Int[np.ndarray, "label"] | None = None


@dataclass(frozen=True)
class Batch:
    """Examples side by side, padded on the left, so that all predict at position -1.

    ``word_ids`` is -1 for specials and padding: they belong to no word.
    """

    tokens: Int[Tensor, "batch pos"]
    mask: Int[Tensor, "batch pos"]
    word_ids: Int[Tensor, "batch pos"]
    answers: Int[Tensor, "batch"]
    candidates: Int[Tensor, "batch label"] | None = None

    def to(self, device: torch.device) -> Batch:
        return Batch(
            self.tokens.to(device),
            self.mask.to(device),
            self.word_ids.to(device),
            self.answers.to(device),
            None if self.candidates is None else self.candidates.to(device),
        )


def collate(items: Sequence[TrainingExample]) -> Batch:
    """Examples in one batch, padded on the left; on the CPU, where they can be counted."""
    tokens, mask, _ = pad_left([item.ids for item in items], [item.words < 0 for item in items])
    words = np.full(tokens.shape, -1, dtype=np.int64)
    for row, item in enumerate(items):
        words[row, -len(item.words) :] = item.words  # right-aligned, as the tokens
    answers = torch.tensor([item.answer for item in items])
    candidates = stacked([item.candidates for item in items])
    return Batch(tokens, mask, torch.from_numpy(words), answers, candidates)


def in_order(items: Sequence[TrainingExample], size: int) -> Iterator[list[int]]:
    """Places of the examples, those of like length together, for evaluation."""
    ordered = sorted(range(len(items)), key=lambda i: len(items[i].ids))
    for start in range(0, len(ordered), size):
        yield ordered[start : start + size]
