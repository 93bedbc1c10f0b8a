"""Sequences that are answered by sequences: pairs of token ids, their batches, the objective, and
exact match; for encoder–decoders, and for decoders that go on where the source ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from interp_compose.papers.shared.models.decoder import SmallDecoder
from interp_compose.training.objectives import Row
from interp_compose.training.order import token_batches

SCORED_TOKENS = 1 << 14
"""Tokens, padding included, that are scored at one time."""


@dataclass(frozen=True, eq=False)
class EncodedPair:
    """Token ids of a source and of the target that should be predicted, each with its EOS."""

    source: Int[np.ndarray, "source"]
    target: Int[np.ndarray, "pos"]

    def __len__(self) -> int:
        return len(self.source) + len(self.target)


@dataclass(frozen=True, eq=False)
class SequenceBatch:
    """Pairs side by side, padded on the right. ``given`` is the target shifted by one, BOS first;
    ``valid`` is where there is a token to predict."""

    source: Int[Tensor, "batch source"]
    source_mask: Int[Tensor, "batch source"]
    given: Int[Tensor, "batch pos"]
    target: Int[Tensor, "batch pos"]
    valid: Bool[Tensor, "batch pos"]

    @classmethod
    def of(cls, pairs: Sequence[EncodedPair], bos: int) -> SequenceBatch:
        """One batch of ``pairs``, on the CPU."""
        source = _padded([pair.source for pair in pairs])
        target = _padded([pair.target for pair in pairs])
        given = np.full_like(target, 0)
        given[:, 0], given[:, 1:] = bos, target[:, :-1]  # the target, one later
        # [batch pos]
        valid = np.arange(target.shape[1]) < np.array([[len(pair.target)] for pair in pairs])
        mask = np.arange(source.shape[1]) < np.array([[len(pair.source)] for pair in pairs])
        arrays = (source, mask.astype(np.int64), given, target, valid)
        return cls(*(torch.from_numpy(array) for array in arrays))

    def to(self, device: torch.device) -> SequenceBatch:
        tensors = (self.source, self.source_mask, self.given, self.target, self.valid)
        return SequenceBatch(*(tensor.to(device) for tensor in tensors))

    def hidden(self, model: Any) -> Float[Tensor, "token d_model"]:
        """The last hidden state wherever there is a token to predict."""
        mask = None if bool(self.source_mask.all()) else self.source_mask
        memory = model.encoded(self.source, mask)
        hidden: Tensor = model.decoded(self.given, memory, mask)
        return hidden[self.valid]  # [batch pos d_model] -> [token d_model]

    def logits(self, model: Any) -> Float[Tensor, "token d_vocab_out"]:
        """Logits wherever there is a token to predict, row by row."""
        logits: Tensor = model.logits(self.hidden(model))
        return logits


@dataclass(frozen=True, eq=False)
class ContinuedBatch:
    """Pairs as single sequences for a decoder: source, ``bos``, target; padded on the right.

    ``target`` is what follows each token, ``valid`` where that is a token of the target: the
    source is never predicted. Padding follows everything, so that no token attends to it.
    """

    tokens: Int[Tensor, "batch pos"]
    target: Int[Tensor, "batch pos"]
    valid: Bool[Tensor, "batch pos"]

    @classmethod
    def of(cls, pairs: Sequence[EncodedPair], bos: int) -> ContinuedBatch:
        """One batch of ``pairs``, on the CPU."""
        sequences = [np.concatenate([pair.source, [bos], pair.target]) for pair in pairs]
        rows = _padded(sequences)
        at = np.arange(rows.shape[1] - 1)  # [pos]
        # [batch 1]: where BOS is, which predicts target[0]
        first = np.array([[len(pair.source)] for pair in pairs])
        last = np.array([[len(row)] for row in sequences])  # [batch 1]
        valid = (at >= first) & (at < last - 1)  # [batch pos]
        arrays = (rows[:, :-1], rows[:, 1:], valid)  # what follows each token is the next column
        return cls(*(torch.from_numpy(np.ascontiguousarray(array)) for array in arrays))

    def to(self, device: torch.device) -> ContinuedBatch:
        return ContinuedBatch(*(t.to(device) for t in (self.tokens, self.target, self.valid)))

    def logits(self, model: SmallDecoder) -> Float[Tensor, "token d_vocab"]:
        """Logits wherever there is a token to predict, row by row, and no more than these need."""
        return model.logits_at(self.tokens, self.valid.flatten().nonzero()[:, 0])


PairBatch = SequenceBatch | ContinuedBatch


def _padded(rows: Sequence[Int[np.ndarray, "_"]]) -> Int[np.ndarray, "batch pos"]:
    padded = np.zeros((len(rows), max(len(row) for row in rows)), dtype=np.int64)
    for i, row in enumerate(rows):
        padded[i, : len(row)] = row
    return padded


class TokenLoss:
    """Cross-entropy (nats) of the tokens that a batch has to predict: the mean over all of them."""

    label_smoothing: float

    terms: ClassVar[Mapping[str, str]] = {"task_loss": "the task's loss"}
    sums: ClassVar[Sequence[str]] = ("task_loss",)

    def sizes(self, batch: PairBatch) -> tuple[int, ...]:
        return (int(batch.valid.sum()),)

    def loss(
        self, model: Any, batch: PairBatch, shares: Sequence[float], seed: int
    ) -> tuple[Tensor, Sequence[Tensor]]:
        batch = batch.to(model.b_U.device)
        logits = batch.logits(model).to(model.b_U.dtype)
        answers = batch.target[batch.valid]
        loss = cross_entropy(logits, answers, label_smoothing=self.label_smoothing) * shares[0]
        return loss, [loss.detach()]

    def row(self, sums: Mapping[str, float], n: int) -> Row:
        return {"task_loss": sums["task_loss"], "n": n}


@dataclass(frozen=True, eq=False)
class TargetSequence(TokenLoss):
    """Cross-entropy (nats) of each token of the target, given those before it, its EOS included.

    A batch's loss is the mean over the tokens of its targets. ``curve`` holds the pairs on which
    exact match is measured between steps, by split; ``batches`` are what the model reads:
    :class:`ContinuedBatch` for a decoder.
    """

    train: Sequence[EncodedPair]
    bos: int
    curve: Mapping[str, Sequence[EncodedPair]] = field(default_factory=dict)
    label_smoothing: float = 0.0
    batches: type[PairBatch] = SequenceBatch

    @property
    def lengths(self) -> list[int]:
        return [len(pair) for pair in self.train]

    def collate(self, indices: Int[np.ndarray, "example"]) -> PairBatch:
        return self.batches.of([self.train[i] for i in indices], self.bos)

    def evaluate(self, trainer: Any) -> Mapping[str, Sequence[Row]]:
        """The share of each split's pairs that is predicted exactly."""
        rows = []
        for split, pairs in self.curve.items():
            right = exact_match(trainer.model, pairs, self.bos)
            rows.append({"split": split, "accuracy": float(right.mean()), "n": len(pairs)})
        return {"curve": rows}


@torch.no_grad()
def exact_match(model: Any, pairs: Sequence[EncodedPair], bos: int) -> Bool[np.ndarray, "example"]:
    """Whether greedy decoding gives the target, EOS included: by one forward pass.

    At each position the token before is the target's own. The first wrong prediction is one that
    greedy decoding makes too, since it was given the same tokens until there; without one both give
    the target.
    """
    right = np.zeros(len(pairs), dtype=bool)
    kind: type[PairBatch] = ContinuedBatch if isinstance(model, SmallDecoder) else SequenceBatch
    reader: Any = model
    for places in by_length(pairs):
        batch = kind.of([pairs[i] for i in places], bos).to(model.b_U.device)
        predicted = torch.zeros_like(batch.target)
        predicted[batch.valid] = batch.logits(reader).argmax(dim=-1)  # [token] back to [batch pos]
        same = (predicted == batch.target) | ~batch.valid
        right[places] = same.all(dim=1).cpu().numpy()
    return right


def in_batches(
    pairs: Sequence[EncodedPair], bos: int, device: torch.device
) -> Iterator[tuple[list[int], SequenceBatch]]:
    """Places of pairs of about one length, and these pairs as a batch on ``device``."""
    for places in by_length(pairs):
        yield places, SequenceBatch.of([pairs[i] for i in places], bos).to(device)


def by_length(pairs: Sequence[EncodedPair]) -> Iterator[list[int]]:
    """Places of pairs of about one length, few enough to be scored at one time."""
    order = sorted(range(len(pairs)), key=lambda i: (len(pairs[i]), i))
    for low, high in pairwise(token_batches([len(pairs[i]) for i in order], SCORED_TOKENS)):
        if order[low:high]:  # not where there are no pairs at all
            yield order[low:high]
