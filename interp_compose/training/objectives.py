"""What a training run minimises: the protocol of an objective, the answer's token, and CARMA."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from interp_compose.errors import NonFiniteError
from interp_compose.models.lens_model import LensModel
from interp_compose.text.label_set import predicted
from interp_compose.training.carma import CarmaConfig, carma_terms, total_loss
from interp_compose.training.data import Batch, TrainingExample, collate
from interp_compose.training.evaluate import evaluate, representations
from interp_compose.training.losses import count_anchors

BatchT = TypeVar("BatchT")
Row = Mapping[str, Any]


@runtime_checkable
class Objective(Protocol[BatchT]):
    """Examples to train on, the loss on a batch of them, and what is measured between steps.

    Attributes:
        terms: what the loss is made of, by name, and as a message calls it.
        sums: names of what :meth:`loss` returns with the loss; the terms are among them.
    """

    @property
    def terms(self) -> Mapping[str, str]: ...

    @property
    def sums(self) -> Sequence[str]: ...

    @property
    def lengths(self) -> Sequence[int]:
        """Tokens of each training example."""
        ...

    def collate(self, indices: Int[np.ndarray, "..."]) -> BatchT: ...

    def sizes(self, batch: BatchT) -> Sequence[int]:
        """How many numbers of the batch each term is the mean of."""
        ...

    def loss(
        self, model: Any, batch: BatchT, shares: Sequence[float], seed: int
    ) -> tuple[Tensor, Sequence[Tensor]]:
        """For one part of a batch, its contribution to the batch's loss, and to each of ``sums``.

        ``shares`` says of each term how much of the whole batch the part holds (by
        :meth:`sizes`): so weighted, the parts' means add up to those of the batch. ``seed`` is for
        whatever is drawn.
        """
        ...

    def row(self, sums: Mapping[str, float], n: int) -> Row:
        """What the history keeps of a step: from the sums over all parts of its ``n`` examples."""
        ...

    def evaluate(self, trainer: Any) -> Mapping[str, Sequence[Row]]:
        """Rows of the history's tables, of the trainer's model as it is now.

        Raises:
            NonFiniteError: what is measured is NaN or infinite.
        """
        ...


@dataclass(frozen=True, eq=False)
class AnswerToken:
    """Cross-entropy (nats) of the token that follows each prompt, among the whole vocabulary."""

    train: Sequence[TrainingExample]
    validation: Sequence[TrainingExample]
    label_smoothing: float = 0.0

    terms: ClassVar[Mapping[str, str]] = {"task_loss": "the task's loss"}
    sums: ClassVar[Sequence[str]] = ("task_loss", "right")

    @property
    def lengths(self) -> list[int]:
        return [len(item.ids) for item in self.train]

    def collate(self, indices: Int[np.ndarray, "example"]) -> Batch:
        return collate([self.train[i] for i in indices])

    def sizes(self, batch: Batch) -> tuple[int, ...]:
        return (len(batch.answers),)

    def loss(
        self, model: LensModel, batch: Batch, shares: Sequence[float], seed: int
    ) -> tuple[Tensor, Sequence[Tensor]]:
        task, right, _ = self._task_loss(model, batch.to(model.device), shares[0], [])
        return task, [task.detach(), right]

    def _task_loss(
        self, model: LensModel, batch: Batch, share: float, names: Sequence[str]
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """The task's loss, the number of right answers, and the activations called ``names`` of
        the same forward pass."""
        # [batch 1 d_vocab]: logits at the last position alone
        logits, captured = model.capture(
            batch.tokens, names, attention_mask=batch.mask, grad=True, read="last"
        )
        last = logits[:, -1].to(model.dtype)  # float32 again where autocast was on
        task = cross_entropy(last, batch.answers, label_smoothing=self.label_smoothing) * share
        right = (predicted(last.detach(), batch.candidates) == batch.answers).sum()
        return task, right, captured

    def row(self, sums: Mapping[str, float], n: int) -> Row:
        return {
            "task_loss": sums["task_loss"],
            "mi": sums.get("mi"),
            "stability": sums.get("stability"),
            "accuracy": sums["right"] / n,
        }

    def evaluate(self, trainer: Any) -> Mapping[str, Sequence[Row]]:
        """Representations, and accuracy and loss on the validation split, where there is one."""
        try:
            rows = representations(trainer.model, self.validation or self.train)
        except NonFiniteError as broken:
            raise NonFiniteError(
                f"the residual streams are no longer finite ({broken})"
            ) from broken
        if not self.validation:
            return {"representations": rows}
        scores = evaluate(trainer.model, self.validation, trainer.processes)
        if not math.isfinite(scores["loss"]):
            raise NonFiniteError(f"the loss on the validation split is {scores['loss']}")
        return {"representations": rows, "evaluations": [scores]}


@dataclass(frozen=True, eq=False, kw_only=True)
class Carma(AnswerToken):
    """(1 − λ) · task + λ · (γ · MI + η · stability) (CARMA, eqs 6–8), on residual streams that are
    captured while the task's logits are computed.

    With λ = 0 the terms are recorded and stay out of the loss: bit-identical to plain training.
    Eq. 6 is a ratio of expectations; it is taken within a part of a batch.
    """

    config: CarmaConfig
    n_layers: int

    terms: ClassVar[Mapping[str, str]] = {
        **AnswerToken.terms,
        "mi": "MI",
        "stability": "stability",
    }
    sums: ClassVar[Sequence[str]] = ("task_loss", "mi", "stability", "right")

    def sizes(self, batch: Batch) -> tuple[int, ...]:
        anchors, tokens = count_anchors(batch.word_ids), (batch.word_ids >= 0).sum()
        return (len(batch.answers), int(anchors), int(tokens))

    def loss(
        self, model: LensModel, batch: Batch, shares: Sequence[float], seed: int
    ) -> tuple[Tensor, Sequence[Tensor]]:
        of_examples, of_anchors, of_tokens = shares
        batch = batch.to(model.device)
        names = self.config.hook_names(self.n_layers)
        # 1. The task, and the residuals that both terms read, from one forward pass.
        task, right, captured = self._task_loss(model, batch, of_examples, names)
        # 2. Eqs 16 and 6. With λ = 0 without a graph, so that they cannot touch the gradient.
        with torch.set_grad_enabled(self.config.weight > 0):
            layers = self.config.captured_layers(self.n_layers)
            resid = {layer: captured[name] for layer, name in zip(layers, names, strict=True)}
            mi, stability = carma_terms(resid, batch.word_ids, self.config, seed=seed)
            mi, stability = mi * of_anchors, stability * of_tokens
        # 3. Eqs 7 and 8.
        loss = total_loss(task, mi, stability, self.config) if self.config.weight > 0 else task
        return loss, [task.detach(), mi.detach(), stability.detach(), right]
