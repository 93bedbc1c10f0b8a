"""Answers that are spans of words: the head, its loss, and the best span."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from interp_compose.papers.cat.training.classifier import Batch, ClassifierHead, Inputs
from interp_compose.training.objectives import Row

LONGEST: Final = 30
"""Words of the longest span, as BERT has it of tokens (Devlin et al. 2019, run_squad.py)."""
NO_ANSWER: Final = 0
"""The position, and the number, of [CLS], where windows without the answer begin and end."""


class SpanHead(nn.Module):
    """Where an answer begins and where it ends, each as a distribution over [CLS] and the words of
    the context: an MLP of a word's vector, as of classifiers, with two outputs."""

    def __init__(self, d_in: int, *, seed: int) -> None:
        super().__init__()
        self.mlp = ClassifierHead(d_in, 2, seed=seed)

    def forward(
        self, vectors: Float[Tensor, "batch pos d_in"], words: Int[Tensor, "batch pos"]
    ) -> Float[Tensor, "batch pos 2"]:
        """Log-probabilities (nats) of begin and end; -inf where ``words`` is -1. ``words`` numbers
        the words of the context from 1, each at one position, and is 0 at [CLS]."""
        logits: Tensor = self.mlp(vectors)
        # A distribution over the positions of each window, one for begin and one for end.
        return logits.masked_fill((words < 0)[..., None], -math.inf).log_softmax(dim=1)


@dataclass(frozen=True, eq=False)
class SpanTraining:
    """Cross-entropy (nats), the mean of that of the begin and of the end, of a model that is called
    with what its inputs give, and whose outputs are those of :class:`SpanHead`."""

    inputs: Inputs
    ends: Int[np.ndarray, "window 2"]
    """The positions of the answer's first and last word; those of [CLS] where it is not there."""

    terms: ClassVar[Mapping[str, str]] = {"task_loss": "the loss of begins and ends"}
    sums: ClassVar[Sequence[str]] = ("task_loss",)

    @property
    def lengths(self) -> Sequence[int]:
        return self.inputs.lengths

    def collate(self, indices: Int[np.ndarray, "example"]) -> Batch:
        return self.inputs.batch(indices), torch.from_numpy(self.ends[indices])

    def sizes(self, batch: Batch) -> tuple[int, ...]:
        return (len(batch[1]),)

    def loss(
        self, model: nn.Module, batch: Batch, shares: Sequence[float], seed: int
    ) -> tuple[Tensor, Sequence[Tensor]]:
        inputs, ends = batch
        device = next(model.parameters()).device
        outputs = model(*(one.to(device) for one in inputs))
        chosen = outputs.gather(1, ends.to(device)[:, None])  # [batch 1 2]
        task = -chosen.mean() * shares[0]
        return task, [task.detach()]

    def row(self, sums: Mapping[str, float], n: int) -> Row:
        return {"task_loss": sums["task_loss"]}

    def evaluate(self, trainer: Any) -> Mapping[str, Sequence[Row]]:
        """Nothing: no split chooses among epochs."""
        return {}


def best_spans(
    outputs: Float[Tensor, "batch pos 2"], words: Int[Tensor, "batch pos"], longest: int = LONGEST
) -> tuple[Float[Tensor, "batch"], Int[Tensor, "batch 2"]]:
    """For each window the most probable span of 1 to ``longest`` words of the context: its
    log-probability, the sum of those of begin and end, and the numbers of its first and last word.
    The first of equals; -inf and 0, 0 where there is no word."""
    begin, end = words[:, :, None], words[:, None, :]  # [batch pos 1], [batch 1 pos]
    allowed = (begin > NO_ANSWER) & (end >= begin) & (end - begin < longest)  # [batch begin end]
    # log P(begin) + log P(end): [batch begin end]
    scores = (outputs[..., 0, None] + outputs[:, None, :, 1]).masked_fill(~allowed, -math.inf)
    best, places = scores.flatten(start_dim=1).max(dim=1)
    n = words.shape[1]
    # place = begin · n + end; the words at these positions: [2 batch]
    spans = torch.stack([words.gather(1, one[:, None])[:, 0] for one in (places // n, places % n)])
    return best, torch.where(best.isfinite(), spans, 0).mT
