"""Decoders on the same sequences as one program: they differ in their start and weight decay."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from interp_compose.errors import NonFiniteError
from interp_compose.papers.shared.models.decoder import SmallDecoder
from interp_compose.papers.shared.training.parallel import ParallelTrainer
from interp_compose.papers.shared.training.sequence_objective import ContinuedBatch
from interp_compose.runs.checkpoint import Checkpoint
from interp_compose.training.config import TrainConfig
from interp_compose.training.objectives import Row


@runtime_checkable
class OfDecoders(Protocol):
    """An objective of one decoder: of its tokens' cross-entropy, and of what it predicts."""

    @property
    def label_smoothing(self) -> float: ...
    @property
    def lengths(self) -> Sequence[int]: ...
    def collate(self, indices: Int[np.ndarray, "example"]) -> Any: ...
    def evaluate(self, trainer: Any) -> Mapping[str, Sequence[Row]]: ...


@dataclass(frozen=True, eq=False)
class SideBySide:
    """An objective of one decoder, for ``n`` of them on the same batches, those of ``seed``.

    Whatever the batch, the loss is that of each model alone: the mean over the tokens to predict.
    """

    of_one: OfDecoders
    n: int
    seed: int
    device: torch.device

    same_batches: ClassVar[bool] = True

    @property
    def seeds(self) -> tuple[int, ...]:
        return (self.seed,) * self.n

    @property
    def lengths(self) -> Sequence[int]:
        return self.of_one.lengths

    def collate(self, indices: Int[np.ndarray, "model batch"]) -> tuple[Tensor, ...]:
        """Tokens, the positions that predict one, counted row by row, and what they predict; of
        each model the same, without a copy."""
        batch: ContinuedBatch = self.of_one.collate(indices[0])
        at = batch.valid.flatten().nonzero()[:, 0]  # [token], row · pos + column
        shared = (batch.tokens, at, batch.target[batch.valid])  # [batch pos], [token], [token]
        # a view: stride 0 over models
        return tuple(t.to(self.device).expand(self.n, *t.shape) for t in shared)

    def loss(
        self,
        model: SmallDecoder,
        tokens: Int[Tensor, "batch pos"],
        at: Int[Tensor, "token"],
        answers: Int[Tensor, "token"],
    ) -> Float[Tensor, ""]:
        """Mean cross-entropy of one model over the tokens to predict."""
        # [token d_vocab]
        logits, smoothing = model.logits_at(tokens, at), self.of_one.label_smoothing
        losses = cross_entropy(logits, answers, reduction="none", label_smoothing=smoothing)
        return losses.mean(0)

    def measure(self, trainer: ParallelTrainer) -> list[Row]:
        """The tables of each model; none of one whose numbers are not finite."""
        trainer.copy_to_models()
        rows: list[Row] = []
        for model in trainer.models:
            try:
                rows.append(self.of_one.evaluate(SimpleNamespace(model=model)))
            except NonFiniteError:
                rows.append({})
        return rows


class SideBySideTrainer(ParallelTrainer):
    """A :class:`.ParallelTrainer` that keeps every step's losses, and says which models diverged;
    the others go on.

    Attributes:
        losses: of each step so far and each model, before the step; None after it diverged.
        seconds: of each step so far.
        diverged: what was not finite, and at which step, by model.
    """

    def __init__(
        self,
        models: Sequence[SmallDecoder],
        weight_decays: Sequence[float],
        objective: SideBySide,
        config: TrainConfig,
    ) -> None:
        super().__init__(models, weight_decays, objective, config)
        self.losses: list[list[float | None]] = []
        self.seconds: list[float] = []
        self.diverged: dict[int, str] = {}

    @property
    def stopped(self) -> bool:
        return len(self.diverged) == len(self)

    def train_step(self) -> Row:
        """The step, and how long it took."""
        started = time.perf_counter()
        super().train_step()
        losses, norms = self.last_losses.tolist(), self.last_norms.tolist()
        # The first thing that is not finite is kept; the losses of that model are then None.
        for i, numbers in enumerate(zip(losses, norms, strict=True)):
            for quantity, number in zip(("loss", "gradient"), numbers, strict=True):
                if not math.isfinite(number):
                    self.diverged.setdefault(i, f"step {self.step}: the {quantity} is {number}")
        finite_losses = [None if i in self.diverged else loss for i, loss in enumerate(losses)]
        self.losses.append(finite_losses)
        self.seconds.append(time.perf_counter() - started)
        return {}

    def note(self) -> dict[str, Any]:
        logs = {"step_losses": self.losses, "seconds": self.seconds}
        return {**super().note(), **logs, "diverged": {str(i): w for i, w in self.diverged.items()}}

    def restore(self, checkpoint: Checkpoint) -> None:
        super().restore(checkpoint)
        self.losses = [list(row) for row in checkpoint.note["step_losses"]]
        self.seconds = list(checkpoint.note["seconds"])
        self.diverged = {int(i): what for i, what in checkpoint.note["diverged"].items()}
