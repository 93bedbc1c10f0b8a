"""Where a run stands: weights, the optimiser's moments, the step, and the best weights so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from interp_compose.types import HookedModel
from interp_compose.runs.checkpoint import Checkpoint
from interp_compose.training.config import TrainConfig

Function = TypeVar("Function", bound=Callable[..., Any])
MOMENTS = ("step", "exp_avg", "exp_avg_sq")


def trains(function: Function) -> Function:
    """``function`` with gradients on, whatever its caller turned off (``torch.no_grad``,
    ``torch.inference_mode``)."""
    return torch.inference_mode(False)(torch.enable_grad()(function))


class TrainingState:
    """Weights and optimiser of one run; what a checkpoint holds and what it restores."""

    def __init__(self, model: HookedModel, config: TrainConfig) -> None:
        self.parameters = [weight for weight in model.parameters() if weight.requires_grad]
        self.optimizer = torch.optim.AdamW(
            self.parameters, lr=config.lr, weight_decay=config.weight_decay
        )
        self.step = 0
        self.patience = config.patience
        self.best_accuracy = -1.0
        self.best_step = 0
        self.without_gain = 0
        self._best: list[Tensor] = []

    @property
    def stopped(self) -> bool:
        """Whether validation accuracy has not risen for as long as patience allows."""
        return self.patience is not None and self.without_gain >= self.patience

    @property
    def is_finite(self) -> bool:
        """Whether every weight is a number."""
        return all(bool(weight.isfinite().all()) for weight in self.parameters)

    def note_accuracy(self, accuracy: float) -> None:
        """A validation accuracy at the present step; the first of equal ones is the best."""
        if self.patience is None:
            return
        if accuracy > self.best_accuracy:
            self.best_accuracy, self.best_step, self.without_gain = accuracy, self.step, 0
            self._best = [weight.detach().clone() for weight in self.parameters]
        else:
            self.without_gain += 1

    @torch.no_grad()
    def finish(self) -> None:
        """With patience, the best weights become the model's."""
        for weight, best in zip(self.parameters, self._best, strict=False):
            weight.copy_(best)

    def kept(self, rows: Sequence[dict[str, Any]]) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """A checkpoint's tensors and its note, the history so far among it."""
        tensors = {}
        for i, weight in enumerate(self.parameters):
            tensors[f"weight.{i}"] = weight.detach().contiguous()
            for name in MOMENTS:
                moment = self.optimizer.state.get(weight, {}).get(name)
                if moment is not None:  # a weight that never had a gradient has none
                    tensors[f"{name}.{i}"] = moment.detach().contiguous()
        for i, best in enumerate(self._best):
            tensors[f"best.{i}"] = best.contiguous()
        note = {
            "best_accuracy": self.best_accuracy,
            "best_step": self.best_step,
            "without_gain": self.without_gain,
            "history": list(rows),
        }
        return tensors, note

    @torch.no_grad()
    def restore(self, checkpoint: Checkpoint) -> list[dict[str, Any]]:
        """Go on from a checkpoint of the same run; returns the rows of its history."""
        tensors, note = checkpoint.tensors, checkpoint.note
        self.step = checkpoint.step
        for i, weight in enumerate(self.parameters):
            weight.copy_(tensors[f"weight.{i}"])
            if f"exp_avg.{i}" in tensors:
                self.optimizer.state[weight] = {
                    name: _moment(tensors[f"{name}.{i}"], name, weight) for name in MOMENTS
                }
        if "best.0" in tensors:
            self._best = [
                tensors[f"best.{i}"].to(weight.device) for i, weight in enumerate(self.parameters)
            ]
        self.best_accuracy = float(note["best_accuracy"])
        self.best_step, self.without_gain = int(note["best_step"]), int(note["without_gain"])
        rows: list[dict[str, Any]] = note["history"]
        return rows


def _moment(stored: Tensor, name: str, weight: Tensor) -> Tensor:
    """AdamW keeps its step on the CPU and its moments beside the weight."""
    return stored if name == "step" else stored.to(weight.device)
