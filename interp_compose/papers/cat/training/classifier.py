"""A classifier, or a regression, of vectors or of what an encoder makes of texts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from interp_compose.errors import NonFiniteError
from interp_compose.papers.cat.stats.classified import classified
from interp_compose.training.objectives import Row

EVALUATED: Final = 256
"""Examples of a batch of predictions."""
Batch = tuple[tuple[Tensor, ...], Tensor]
"""What the model is called with, and the targets."""


@runtime_checkable
class Inputs(Protocol):
    """Examples as a model takes them."""

    @property
    def lengths(self) -> Sequence[int]:
        """Tokens of each example."""
        ...

    def batch(self, indices: Int[np.ndarray, "example"]) -> tuple[Tensor, ...]:
        """What the model is called with for these examples."""
        ...


class ClassifierHead(nn.Module):
    """An MLP of one hidden layer, as wide as the vector (CAT, section 5.1: "an additional MLP
    layer"); its initialisation depends on the seed alone."""

    def __init__(self, d_in: int, d_out: int, *, seed: int) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.hidden, self.out = nn.Linear(d_in, d_in), nn.Linear(d_in, d_out)

    def forward(self, vectors: Float[Tensor, "*batch d_in"]) -> Float[Tensor, "*batch d_out"]:
        out: Tensor = self.out(self.hidden(vectors).relu())
        return out


@dataclass(frozen=True)
class Targets:
    """The classes that are told apart or, with none, scores: these are learned less their mean and
    over their standard deviation, both of the training examples."""

    n_classes: int
    mean: float = 0.0
    scale: float = 1.0

    @classmethod
    def of(cls, n_classes: int, target: Float[np.ndarray, "example"]) -> Targets:
        """Classes as they are; scores with the training examples' mean and deviation."""
        if n_classes:
            return cls(n_classes)
        return cls(0, float(target.mean()), float(target.std()) or 1.0)

    @property
    def width(self) -> int:
        """Outputs of the head."""
        return self.n_classes or 1

    def encoded(self, target: Float[np.ndarray, "example"]) -> Tensor:
        """What the loss compares outputs with."""
        if self.n_classes:
            return torch.from_numpy(target.astype(np.int64))
        return torch.from_numpy(((target - self.mean) / self.scale).astype(np.float32))

    def loss(self, outputs: Float[Tensor, "batch out"], encoded: Tensor) -> Tensor:
        """Cross-entropy (nats) of classes, the mean squared error of scores."""
        if self.n_classes:
            return cross_entropy(outputs, encoded)
        return mse_loss(outputs[:, 0], encoded)

    def decoded(self, outputs: Float[Tensor, "batch out"]) -> Float[np.ndarray, "batch"]:
        """The class, or the score, that is predicted."""
        predicted = outputs.argmax(dim=1) if self.n_classes else outputs[:, 0]
        values: Float[np.ndarray, "batch"] = predicted.double().cpu().numpy()
        # back to the scores' own scale
        return values if self.n_classes else values * self.scale + self.mean


@dataclass(frozen=True, eq=False)
class Classification:
    """Cross-entropy of classes or the squared error of scores, of a model that is called with what
    its inputs give; with validation examples, ``metric`` on them is the history's "accuracy"."""

    inputs: Inputs
    target: Float[np.ndarray, "example"]
    targets: Targets
    metric: str = "accuracy"
    validation: tuple[Inputs, Float[np.ndarray, "other"]] | None = None
    encoded: Tensor = field(init=False)

    terms: ClassVar[Mapping[str, str]] = {"task_loss": "the classifier's loss"}
    sums: ClassVar[Sequence[str]] = ("task_loss",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "encoded", self.targets.encoded(self.target))

    @property
    def lengths(self) -> Sequence[int]:
        return self.inputs.lengths

    def collate(self, indices: Int[np.ndarray, "example"]) -> Batch:
        return self.inputs.batch(indices), self.encoded[torch.from_numpy(indices)]

    def sizes(self, batch: Batch) -> tuple[int, ...]:
        return (len(batch[1]),)

    def loss(
        self, model: nn.Module, batch: Batch, shares: Sequence[float], seed: int
    ) -> tuple[Tensor, Sequence[Tensor]]:
        inputs, encoded = batch
        device = next(model.parameters()).device
        outputs = model(*(one.to(device) for one in inputs))
        task = self.targets.loss(outputs, encoded.to(device)) * shares[0]
        return task, [task.detach()]

    def row(self, sums: Mapping[str, float], n: int) -> Row:
        return {"task_loss": sums["task_loss"]}

    def evaluate(self, trainer: Any) -> Mapping[str, Sequence[Row]]:
        """The metric on the validation examples, where there are any; one that does not exist, as
        all predictions are one, counts as -1."""
        if self.validation is None:
            return {}
        inputs, target = self.validation
        predicted = predictions(trainer.model, inputs, self.targets)
        value = classified(self.metric, predicted, target)
        value = value if math.isfinite(value) else -1.0
        return {"evaluations": [{"accuracy": value, "n": len(target)}]}


def predictions(model: nn.Module, inputs: Inputs, targets: Targets) -> Float[np.ndarray, "example"]:
    """The class, or the score, that a model predicts of each example.

    Raises:
        NonFiniteError: an output is NaN or infinite.
    """
    return targets.decoded(outputs_of(model, inputs, targets.width))


@torch.no_grad()
def outputs_of(model: nn.Module, inputs: Inputs, width: int) -> Float[Tensor, "example out"]:
    """What a model gives of each example: the logits of ``width`` classes, or a score.

    Raises:
        NonFiniteError: an output is NaN or infinite.
    """
    device = next(model.parameters()).device
    order = np.argsort(inputs.lengths, kind="stable")
    values = torch.zeros(len(order), width)
    for first in range(0, len(order), EVALUATED):
        indices = order[first : first + EVALUATED]
        outputs = model(*(one.to(device) for one in inputs.batch(indices)))
        if not bool(outputs.isfinite().all()):
            raise NonFiniteError(
                "outputs of the classifier are NaN or infinite; lower the learning rate"
            )
        values[torch.from_numpy(indices)] = outputs.float().cpu()
    return values
