"""Many small models trained as one program, on tensors of sequences.

The order of a model's samples depends on its seed and the epoch alone, so that it is trained the
same alone, with others, and resumed from a checkpoint.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from interp_compose.errors import InputError, OptionError
from interp_compose.papers.shared.models.decoder import SmallDecoder
from interp_compose.runs.checkpoint import Checkpoint
from interp_compose.training.config import TrainConfig
from interp_compose.training.loop import Executor
from interp_compose.training.objectives import Row
from interp_compose.training.order import BatchOrder

CHUNK: Final = 1 << 16
"""Sequences, of all models, that are predicted at one time at most."""
SMALL: Final = 1 << 13
"""Sequences of one model that are predicted at one time, unless a training batch is larger."""
ONE_MODEL_ONLY: Final = {
    "batch_tokens": None,
    "accumulate": 1,
    "decay_vectors": True,
    "patience": None,
    "precision": "float32",
    "activation_checkpointing": False,
}
"""Settings that many models as one program are trained with, and no others."""

Sequences = tuple[Int[Tensor, "... pos"], Int[Tensor, "..."]]
"""Tokens, and the token that follows each sequence."""


Measure = Callable[["ParallelTrainer"], Sequence[Row]]
"""A row of what is measured of each model, now."""


@runtime_checkable
class Together(Protocol):
    """What many models are trained for.

    Attributes:
        seeds: order the training data of each model.
        lengths: tokens of each training example, of which every model has as many.
        same_batches: whether one order, and so one batch of any kind, is that of all.
        measure: gives a row of each model.
    """

    @property
    def seeds(self) -> Sequence[int]: ...
    @property
    def lengths(self) -> Sequence[int]: ...
    @property
    def same_batches(self) -> bool: ...
    @property
    def measure(self) -> Measure: ...
    @property
    def loss(self) -> Callable[..., Tensor]:
        """``(model, its part of each tensor of a batch) -> []``, one model's loss."""
        ...

    def collate(self, indices: Int[np.ndarray, "model batch"]) -> tuple[Tensor, ...]:
        """The tensors of a batch, with a dimension of models first."""
        ...


@dataclass(frozen=True, eq=False)
class NextOfSequence:
    """Cross-entropy (nats) of the token that follows each sequence, as on anchor functions.

    ``tokens`` and ``targets`` are the training data of each model, ``seeds`` order them, and
    ``measure`` gives a row of what is measured of each model, now.
    """

    tokens: Int[Tensor, "model sample pos"]
    targets: Int[Tensor, "model sample"]
    seeds: tuple[int, ...]
    measure: Measure = lambda trainer: [{}] * len(trainer)
    label_smoothing: float = 0.0

    same_batches: ClassVar[bool] = False

    @property
    def lengths(self) -> list[int]:
        return [self.tokens.shape[2]] * self.tokens.shape[1]

    def collate(self, indices: Int[np.ndarray, "model batch"]) -> Sequences:
        """Each model's own samples."""
        which = torch.from_numpy(indices).to(self.tokens.device)  # [model batch]
        wide = which[..., None].expand(-1, -1, self.tokens.shape[2])  # [model batch pos]
        return self.tokens.gather(1, wide), self.targets.gather(1, which)

    def loss(
        self,
        model: SmallDecoder,
        tokens: Int[Tensor, "batch pos"],
        targets: Int[Tensor, "batch"],
    ) -> Float[Tensor, ""]:
        """Mean cross-entropy of one model on its own part of the batch."""
        logits = model.last_logits(tokens)  # [batch d_vocab]
        losses = cross_entropy(
            logits, targets, reduction="none", label_smoothing=self.label_smoothing
        )
        return losses.mean(0)


class _Call(nn.Module):
    """A function of a model as a module's call, which is what ``functional_call`` runs."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
        return function(self.model, *tensors)


class ParallelTrainer(Executor):
    """Models of one shape, whose weights are stacked and stepped together.

    A model that has diverged is measured on like the others, and disturbs none of them.

    Args:
        models: on one device; trained in place once :meth:`copy_to_models` is called.
        weight_decays: decoupled, on every parameter, one for each model.
        config: its ``weight_decay`` and ``seed`` are not read.
        until: of the rows of all models so far, whether they are enough; the schedule is that of
            the whole run all the same.

    Attributes:
        rows: of each model, a row for each evaluation: ``step``, ``train_loss`` (nats, mean over
            the steps since the last row), ``finite`` (whether the weights are numbers) and what
            the objective measures.
        last_losses, last_norms: of each model, at the last step: the loss, and the norm of the
            gradient before it was clipped (0 where nothing is).

    Raises:
        InputError: no model, another number of weight decays, or models of different shapes.
        OptionError: a setting that is for one model only.
    """

    def __init__(
        self,
        models: Sequence[nn.Module],
        weight_decays: Sequence[float],
        objective: Together,
        config: TrainConfig,
        *,
        until: Callable[[Sequence[Sequence[Row]]], bool] | None = None,
    ) -> None:
        if not models or len(models) != len(weight_decays):
            raise InputError(
                f"{len(models)} models and {len(weight_decays)} weight decays: expected as many, "
                "at least one"
            )
        shapes = [{name: w.shape for name, w in model.named_parameters()} for model in models]
        if any(shape != shapes[0] for shape in shapes):
            raise InputError(
                "the models differ in shape; train those of one shape together and the others in "
                "a run of their own"
            )
        for name, value in ONE_MODEL_ONLY.items():
            if name == "batch_tokens" and objective.same_batches:
                continue
            if getattr(config, name) != value:
                raise OptionError(
                    f"{name}={getattr(config, name)!r}: expected {value!r} where models are "
                    "trained as one program"
                )
        self.models, self.names, self.objective = list(models), list(shapes[0]), objective
        self._call, self._until = _Call(models[0]), until
        parameters = self._stacked()
        first = parameters[0]
        super().__init__(
            parameters,
            config,
            objective.lengths,
            weight_decay=weight_decays[0] if self.alone else 0.0,
            fused=first.device.type in ("cpu", "cuda") and first.dtype == torch.float32,
        )
        exact = torch.promote_types(first.dtype, torch.float32)
        self.weight_decay = torch.tensor(weight_decays, device=first.device, dtype=exact)
        self.orders = [
            BatchOrder(objective.lengths, replace(config, seed=seed)) for seed in objective.seeds
        ]
        self.rows: list[list[dict[str, Any]]] = [[] for _ in models]
        self._losses = torch.zeros(len(models), device=first.device)
        self.last_losses = self.last_norms = torch.zeros_like(self._losses)
        self._losses_of = 0

    @property
    def alone(self) -> bool:
        """Whether there is one model, which is trained in place."""
        return len(self.models) == 1

    def __len__(self) -> int:
        return len(self.models)

    @property
    def stopped(self) -> bool:
        return self._until is not None and self._until(self.rows)

    def _stacked(self) -> list[Tensor]:
        by_model = [[w for _, w in model.named_parameters()] for model in self.models]
        if self.alone:
            return list(by_model[0])
        return [
            # [model ...], a leaf of its own
            torch.stack([w.detach() for w in each]).requires_grad_()
            for each in zip(*by_model, strict=True)
        ]

    def of_each(
        self, function: Callable[..., Tensor], *tensors: Tensor
    ) -> Float[Tensor, "model ..."]:
        """``function(model, …)`` of each model and its own part of the tensors, as one program."""
        if self.alone:
            return function(self.models[0], *[tensor[0] for tensor in tensors])[None]  # [1 ...]
        named = dict(zip([f"model.{name}" for name in self.names], self.parameters, strict=True))

        def of_one(weights: dict[str, Tensor], *inputs: Tensor) -> Tensor:
            result: Tensor = torch.func.functional_call(self._call, weights, (function, *inputs))
            return result

        # mapped over axis 0 of weights and tensors
        results: Tensor = torch.vmap(of_one)(named, *tensors)
        return results

    @property
    def chunk(self) -> int:
        """Sequences of each model that are predicted at one time: memory that suffices for a
        training step suffices for them."""
        return max(1, min(CHUNK // len(self), max(SMALL, self.config.batch_size)))

    def logits(
        self, tokens: Int[Tensor, "model batch pos"]
    ) -> Float[Tensor, "model batch d_vocab"]:
        """What each model makes of its own sequences, at the last position."""
        return self.of_each(lambda model, sequences: model.last_logits(sequences), tokens)

    @torch.no_grad()
    def predict(self, tokens: Int[Tensor, "model sample pos"]) -> Int[Tensor, "model sample"]:
        """The most likely token of each sequence."""
        parts = tokens.split(self.chunk, dim=1)  # [model chunk pos] each
        return torch.cat([self.logits(part).argmax(-1) for part in parts], dim=1)

    def train_step(self) -> Row:
        indices = np.stack([order.at(self.step) for order in self.orders])  # [model batch]
        lr = self.config.lr_at(self.step, self.total)
        self.last_losses = self.update(*self.objective.collate(indices), lr=lr)
        self._losses += self.last_losses
        self._losses_of += 1
        self.step += 1
        return {}

    def update(self, *batch: Int[Tensor, "model ..."], lr: float) -> Float[Tensor, "model"]:
        """One optimiser step of each model; the losses before it, in nats."""
        losses = self.of_each(self.objective.loss, *batch)  # 1. all models: [model]
        self.optimizer.zero_grad(set_to_none=True)
        # 2. No weight is shared, so that the sum's gradient holds each model's own.
        losses.sum().backward()
        # 3. Each model's norm clipped alone, and its weights shrunk as AdamW does before its step.
        self._clip()
        self.set_lr(lr)
        if not self.alone:
            with torch.no_grad():
                shrink = 1 - lr * self.weight_decay  # decoupled: AdamW's own decay, which is 0 here
                for weight in self.parameters:
                    weight.mul_(_per_model(shrink, weight))
        self.optimizer.step()  # 4. elementwise, so as if each were alone
        return losses.detach()

    def evaluate(self) -> None:
        """Record a row of each model: the mean loss since the last row, and what is measured."""
        mean = (
            (self._losses / self._losses_of).tolist() if self._losses_of else [math.nan] * len(self)
        )
        finite = self.finite().tolist()
        measured = self.objective.measure(self)
        for rows, loss, is_finite, values in zip(self.rows, mean, finite, measured, strict=True):
            train_loss = loss if math.isfinite(loss) else None
            rows.append(
                {"step": self.step, "train_loss": train_loss, "finite": is_finite, **values}
            )
        self._losses, self._losses_of = torch.zeros_like(self._losses), 0

    @torch.no_grad()
    def finite(self) -> Bool[Tensor, "model"]:
        """Whether every weight of a model is a number."""
        if self.alone:
            return torch.stack([w.isfinite().all() for w in self.parameters]).all().reshape(1)
        # [weight model]
        each = torch.stack([w.isfinite().flatten(1).all(1) for w in self.parameters])
        return each.all(dim=0)

    @torch.no_grad()
    def copy_to_models(self) -> None:
        """Stacked weights become the models' own."""
        if self.alone:
            return
        for index, model in enumerate(self.models):
            for (_, weight), stacked in zip(model.named_parameters(), self.parameters, strict=True):
                weight.copy_(stacked[index])

    def finish(self) -> None:
        self.copy_to_models()

    def state_dict(self) -> dict[str, Tensor]:
        return {**super().state_dict(), "losses": self._losses}

    def note(self) -> dict[str, Any]:
        return {"rows": self.rows, "losses_of": self._losses_of}

    def restore(self, checkpoint: Checkpoint) -> None:
        super().restore(checkpoint)
        self._losses = checkpoint.tensors["losses"].to(self._losses.device)
        self._losses_of = int(checkpoint.note["losses_of"])
        self.rows = [list(rows) for rows in checkpoint.note["rows"]]

    def _clip(self) -> None:
        """Scale each model's gradient down to the norm ``clip``, and keep the norms."""
        if self.config.clip is None:
            return
        gradients = [w.grad for w in self.parameters if w.grad is not None]
        if self.alone:
            norm = nn.utils.clip_grad_norm_(self.parameters, self.config.clip)
            self.last_norms = norm.detach().reshape(1)
            return
        # [weight model]
        squares = torch.stack([grad.flatten(1).square().sum(1) for grad in gradients])
        self.last_norms = squares.sum(0).sqrt()  # [model]
        factor = (self.config.clip / (self.last_norms + 1e-6)).clamp(max=1)  # as clip_grad_norm_
        for grad in gradients:
            grad.mul_(_per_model(factor, grad))


def _per_model(factor: Float[Tensor, "model"], stacked: Tensor) -> Tensor:
    return factor.reshape(-1, *[1] * (stacked.ndim - 1))  # [model 1 …]
