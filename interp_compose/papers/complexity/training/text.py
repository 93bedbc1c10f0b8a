"""Language modelling: windows of a stream of tokens, the objective, and the loss of every token."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np
import torch
from jaxtyping import Int, Integer
from torch.nn.functional import cross_entropy

from interp_compose.errors import NonFiniteError
from interp_compose.papers.shared.models.decoder import SmallDecoder
from interp_compose.papers.shared.training.sequence_objective import ContinuedBatch, TokenLoss
from interp_compose.training.objectives import Row
from interp_compose.training.order import token_batches

SCORED_LOGITS: Final = 1 << 26
"""Logits that are held at one time when losses are measured."""


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows of a stream: of each, every token but the first is predicted, once, from those before
    it in the window.

    ``bounds`` are the places of each one's first token and of the first past it.
    """

    stream: Integer[np.ndarray, "token"]
    bounds: Int[np.ndarray, "window 2"]

    @classmethod
    def of(cls, stream: Integer[np.ndarray, "token"], n_ctx: int) -> Windows:
        """The whole stream, cut after every ``n_ctx`` predicted tokens: a window's first token is
        the last of the one before."""
        return cls(stream, _cut(0, len(stream), n_ctx))

    @classmethod
    def by_document(cls, stream: Integer[np.ndarray, "token"], n_ctx: int, end: int) -> Windows:
        """Each document alone, cut in the same way; ``end`` is before each one, begins its
        first window, and is not predicted."""
        ends = [*np.flatnonzero(stream == end).tolist(), len(stream)]
        cuts = [_cut(low, high, n_ctx) for low, high in pairwise(ends)]
        return cls(stream, np.concatenate([np.zeros((0, 2), dtype=np.int64), *cuts]))

    def __len__(self) -> int:
        return len(self.bounds)

    @property
    def lengths(self) -> list[int]:
        """Predicted tokens of each window."""
        return [int(n) for n in self.bounds[:, 1] - self.bounds[:, 0] - 1]

    def first(self, n: int) -> Windows:
        """``n`` windows at most."""
        return Windows(self.stream, self.bounds[:n])

    def batch(self, indices: Int[np.ndarray, "_"]) -> ContinuedBatch:
        """These windows as a batch, padded on the right; on the CPU."""
        bounds = self.bounds[indices]
        lengths = bounds[:, 1] - bounds[:, 0] - 1
        offsets = np.arange(lengths.max())
        valid = offsets < lengths[:, None]
        places = np.where(valid, bounds[:, :1] + offsets, 0)
        tokens, target = (self.stream[places + one].astype(np.int64) for one in (0, 1))
        return ContinuedBatch(*map(torch.from_numpy, (tokens, target, valid)))


def _cut(low: int, high: int, n_ctx: int) -> Int[np.ndarray, "window 2"]:
    starts = np.arange(low, high - 1, n_ctx)
    return np.stack([starts, np.minimum(starts + n_ctx + 1, high)], axis=1)


@dataclass(frozen=True, eq=False)
class NextToken(TokenLoss):
    """Cross-entropy (nats) of every token of a window, given those before it there; a batch's loss
    is the mean over its tokens.

    ``curve`` holds the windows on which it is measured between steps, by split.
    """

    train: Windows
    curve: Mapping[str, Windows] = field(default_factory=dict)
    label_smoothing: float = 0.0

    @property
    def lengths(self) -> list[int]:
        return self.train.lengths

    def collate(self, indices: Int[np.ndarray, "example"]) -> ContinuedBatch:
        return self.train.batch(indices)

    def evaluate(self, trainer: Any) -> Mapping[str, Sequence[Row]]:
        """The mean loss on each split's windows."""
        rows = []
        for split, windows in self.curve.items():
            n = sum(windows.lengths)
            loss = total_loss(trainer.model, windows) / n
            if not math.isfinite(loss):
                raise NonFiniteError(f"the loss on the split {split!r} is {loss}")
            rows.append({"split": split, "loss": loss, "n": n})
        return {"curve": rows}


@torch.no_grad()
def total_loss(model: SmallDecoder, windows: Windows) -> float:
    """The loss (nats) of all tokens of some windows together; computed in float32, summed in
    float64."""
    lengths = windows.lengths
    order = np.argsort(lengths, kind="stable")
    total = 0.0
    budget = SCORED_LOGITS // model.cfg.d_vocab
    for low, high in pairwise(token_batches([lengths[i] for i in order], budget)):
        batch = windows.batch(order[low:high]).to(model.b_U.device)
        losses = cross_entropy(batch.logits(model), batch.target[batch.valid], reduction="none")
        total += float(losses.double().sum())
    return total
