"""Prompts as a training step sees them: token ids, whose word each token is, the answer's id."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

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
        """The same batch on another device."""
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
        words[row, -len(item.words) :] = item.words
    answers = torch.tensor([item.answer for item in items])
    candidates = stacked([item.candidates for item in items])
    return Batch(tokens, mask, torch.from_numpy(words), answers, candidates)


def batch_at(step: int, n_examples: int, batch_size: int, seed: int) -> list[int]:
    """Indices of the examples of optimiser step ``step``; each epoch is shuffled anew.

    A function of its arguments alone, so that a run resumes at any step without replaying.
    """
    epoch, start = epoch_of(step, n_examples, batch_size)
    order = epoch_order(n_examples, seed, epoch)
    return [int(i) for i in order[start : start + batch_size]]


def epoch_of(step: int, n_examples: int, batch_size: int) -> tuple[int, int]:
    """The epoch of optimiser step ``step``, and where in its order the batch begins; the last batch
    of an epoch may be smaller."""
    epoch, place = divmod(step, -(-n_examples // batch_size))
    return epoch, place * batch_size


def epoch_order(n_examples: int, seed: int, epoch: int) -> Int[np.ndarray, "example"]:
    """A shuffle of the examples' indices, by seed and epoch alone."""
    return np.random.default_rng([seed, epoch]).permutation(n_examples)


def into_parts(indices: Sequence[int], n_parts: int) -> list[list[int]]:
    """The batch in ``n_parts`` runs of neighbours whose sizes differ by at most one.

    A batch smaller than that (the last of an epoch) leaves parts empty.
    """
    bounds = [len(indices) * i // n_parts for i in range(n_parts + 1)]
    return [list(indices[low:high]) for low, high in pairwise(bounds)]


def in_order(items: Sequence[TrainingExample], size: int) -> Iterator[list[int]]:
    """Places of the examples, those of like length together, for evaluation."""
    ordered = sorted(range(len(items)), key=lambda i: len(items[i].ids))
    for at in range(0, len(ordered), size):
        yield ordered[at : at + size]
