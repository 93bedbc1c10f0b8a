"""How the shipped models learn: next tokens of lines of text, batched by length."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from interp_compose.training.config import TrainConfig
from interp_compose.training.loop import Trainer, run_training, trains
from interp_compose.training.objectives import Row as HistoryRow

IGNORED = -100

Row = list[int]
"""Token ids of one line; every token but the first, BOS, is predicted."""
Batch = tuple[Int[Tensor, "batch pos"], Int[Tensor, "batch pos"]]
"""Tokens, and what is to be predicted from the position before."""


@dataclass(frozen=True, eq=False)
class NextTokenOfLines:
    """Mean cross-entropy (nats) of every token of a batch but the first of each line."""

    rows: Sequence[Row]
    label_smoothing: float = 0.0

    terms: ClassVar[Mapping[str, str]] = {"loss": "the loss"}
    sums: ClassVar[Sequence[str]] = ()

    @property
    def lengths(self) -> list[int]:
        return [len(row) for row in self.rows]

    def collate(self, indices: Int[np.ndarray, "example"]) -> Batch:
        """Padded on the right. That needs no mask: attention is causal, and the targets there are
        ignored."""
        chosen = [self.rows[i] for i in indices]
        tokens = torch.zeros(len(chosen), max(map(len, chosen)), dtype=torch.long)
        targets = torch.full_like(tokens, IGNORED)
        for line, ids in enumerate(chosen):
            tokens[line, : len(ids)] = torch.tensor(ids)
            targets[line, 1 : len(ids)] = torch.tensor(ids[1:])
        return tokens, targets

    def sizes(self, batch: Batch) -> tuple[int, ...]:
        return (int((batch[1] != IGNORED).sum()),)

    def loss(
        self, model: Any, batch: Batch, shares: Sequence[float], seed: int
    ) -> tuple[Tensor, Sequence[Tensor]]:
        tokens, targets = batch
        hidden = model.transformer(tokens).last_hidden_state[:, :-1]
        expected = targets[:, 1:]
        chosen = expected != IGNORED
        logits = model.lm_head(hidden[chosen])
        smoothing = self.label_smoothing
        return cross_entropy(logits, expected[chosen], label_smoothing=smoothing) * shares[0], []

    def row(self, sums: Mapping[str, float], n: int) -> HistoryRow:
        return {}

    def evaluate(self, trainer: Any) -> Mapping[str, Sequence[HistoryRow]]:
        """Nothing: accuracy on held-out prompts is measured at the end, see :func:`accuracy`."""
        return {}


@dataclass(frozen=True)
class ShippedConfig(TrainConfig):
    """Half a cosine over the whole run, below a warm-up of a twentieth of it."""

    beta2: float = 0.98
    weight_decay: float = 0.1
    decay_vectors: bool = False

    def lr_at(self, step: int, total: int) -> float:
        cosine = 0.5 * (1 + math.cos(math.pi * step / total))
        return self.lr * min((step + 1) / max(1, total // 20), cosine)


class PooledOrder:
    """Every row once an epoch, in batches of about equal length, cut from pools of 16 batches: half
    of the padding is saved. All epochs are drawn from one generator."""

    def __init__(self, rows: Sequence[Row], steps: int, batch_size: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self._batches: list[list[int]] = []
        while len(self._batches) < steps:
            self._batches += _epoch(rows, batch_size, generator)[::-1]

    def at(self, step: int) -> Int[np.ndarray, "example"]:
        return np.array(self._batches[step])


@trains
def train(
    model: Any,
    rows: Sequence[Row],
    *,
    steps: int,
    batch_size: int,
    lr: float,
    seed: int,
    label: str,
    quiet: bool = False,
) -> float:
    """``steps`` steps of :class:`ShippedConfig` with the peak ``lr``; the mean loss of the last
    50."""
    config = ShippedConfig(lr=lr, batch_size=batch_size, epochs=steps, max_steps=steps, seed=seed)
    order = PooledOrder(rows, steps, batch_size, seed)
    trainer = Trainer(model, NextTokenOfLines(rows), config, order=order)
    run_training(trainer, progress=not quiet, title=label)
    last: list[float] = [row["loss"] for row in trainer.recorder.rows[-50:]]
    return sum(last) / len(last)


def _epoch(rows: Sequence[Row], batch_size: int, generator: torch.Generator) -> list[list[int]]:
    order = torch.randperm(len(rows), generator=generator).tolist()
    pool = 16 * batch_size
    pools = [
        sorted(order[i : i + pool], key=lambda row: len(rows[row]))
        for i in range(0, len(order), pool)
    ]
    cut = [one[i : i + batch_size] for one in pools for i in range(0, len(one), batch_size)]
    return [cut[i] for i in torch.randperm(len(cut), generator=generator).tolist()]


@torch.no_grad()
def accuracy(model: Any, rows: Sequence[Row], batch_size: int = 256) -> float:
    """Share of rows whose last token is the model's first choice, over the whole vocabulary."""
    model.eval()
    right = 0
    for start in range(0, len(rows), batch_size):
        chosen = rows[start : start + batch_size]
        width = max(map(len, chosen))
        tokens = torch.tensor([ids + [0] * (width - len(ids)) for ids in chosen])
        last = torch.tensor([len(ids) - 2 for ids in chosen])
        hidden = model.transformer(tokens).last_hidden_state[torch.arange(len(chosen)), last]
        expected = torch.tensor([ids[-1] for ids in chosen])
        right += int((model.lm_head(hidden).argmax(-1) == expected).sum())
    return right / len(rows)
