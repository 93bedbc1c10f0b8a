"""Models of one shape that learn side by side, each from its own batches.

One model is trained as it stands. Several are one batched program: their weights are stacked along
a first axis and run through ``torch.func``, which on a GPU costs little more than one of them. On
CPU it does not pay (79 ms a step for four default models, against 60 one after another).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from interp_compose.errors import InputError
from interp_compose.training.config import TrainConfig

CHUNK: Final = 1 << 16
"""Sequences, of all models, that are predicted at one time at most."""
SMALL: Final = 1 << 13
"""Sequences of one model that are predicted at one time, unless a training batch is larger."""
MOMENTS: Final = ("step", "exp_avg", "exp_avg_sq")


class LastToken(Protocol):
    """A module that predicts from the last position."""

    def last_logits(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch d_vocab"]: ...


class _Call(nn.Module):
    """``last_logits`` as a module's call, which is what ``functional_call`` runs."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.model.last_logits(tokens)
        return logits


class Learners:
    """Weights and AdamW of one model or of several.

    Args:
        models: of one shape, on one device; trained in place once :meth:`write_back` is called.
        weight_decays: decoupled, on every parameter, one for each model.
        config: its ``weight_decay`` is not read.

    Raises:
        InputError: no model, another number of weight decays, or models of different shapes.
    """

    def __init__(
        self, models: Sequence[nn.Module], weight_decays: Sequence[float], config: TrainConfig
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
        self.models = list(models)
        self.config = config
        self.names = list(shapes[0])
        self.call = _Call(models[0])
        self.parameters = self._gathered()
        first = self.parameters[0]
        fused = first.device.type in ("cpu", "cuda") and first.dtype == torch.float32
        self.optimizer = torch.optim.AdamW(
            self.parameters,
            lr=config.lr,
            weight_decay=weight_decays[0] if self.alone else 0.0,
            fused=fused,
        )
        exact = torch.promote_types(first.dtype, torch.float32)
        self.weight_decay = torch.tensor(weight_decays, device=first.device, dtype=exact)

    @property
    def alone(self) -> bool:
        """Whether there is one model, which is trained in place."""
        return len(self.models) == 1

    def __len__(self) -> int:
        return len(self.models)

    def _gathered(self) -> list[Tensor]:
        by_model = [[w for _, w in model.named_parameters()] for model in self.models]
        if self.alone:
            return list(by_model[0])
        return [
            torch.stack([w.detach() for w in each]).requires_grad_()
            for each in zip(*by_model, strict=True)
        ]

    @property
    def chunk(self) -> int:
        """Sequences of each model that are predicted at one time: what has the room to learn has
        the room for them."""
        return max(1, min(CHUNK // len(self), max(SMALL, self.config.batch_size)))

    def logits(self, tokens: Int[Tensor, "run batch pos"]) -> Float[Tensor, "run batch d_vocab"]:
        """What each model makes of its own sequences, at the last position."""
        if self.alone:
            alone: Tensor = self.call(tokens[0])
            return alone[None]
        named = dict(zip([f"model.{name}" for name in self.names], self.parameters, strict=True))

        def one(weights: dict[str, Tensor], own: Tensor) -> Tensor:
            out: Tensor = torch.func.functional_call(self.call, weights, (own,))
            return out

        found: Tensor = torch.vmap(one)(named, tokens)
        return found

    def step(
        self, tokens: Int[Tensor, "run batch pos"], targets: Int[Tensor, "run batch"], lr: float
    ) -> Float[Tensor, "run"]:
        """One optimiser step of each model; the losses before it, in nats."""
        logits = self.logits(tokens)
        losses: Tensor = cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
        losses = losses.unflatten(0, targets.shape).mean(dim=1)
        self.optimizer.zero_grad(set_to_none=True)
        losses.sum().backward()
        self._clip()
        self.optimizer.param_groups[0]["lr"] = lr
        if not self.alone:
            self._decay(lr)
        self.optimizer.step()
        return losses.detach()

    @torch.no_grad()
    def predict(self, tokens: Int[Tensor, "run sample pos"]) -> Int[Tensor, "run sample"]:
        """The most likely token of each sequence."""
        parts = tokens.split(self.chunk, dim=1)
        found: Tensor = torch.cat([self.logits(part).argmax(-1) for part in parts], dim=1)
        return found

    @torch.no_grad()
    def finite(self) -> Bool[Tensor, "run"]:
        """Whether every weight of a model is a number."""
        if self.alone:
            return torch.stack([w.isfinite().all() for w in self.parameters]).all().reshape(1)
        each = torch.stack([w.isfinite().flatten(1).all(1) for w in self.parameters])
        return each.all(dim=0)

    @torch.no_grad()
    def write_back(self) -> None:
        """Stacked weights become the models' own."""
        if self.alone:
            return
        for index, model in enumerate(self.models):
            for (_, weight), stacked in zip(model.named_parameters(), self.parameters, strict=True):
                weight.copy_(stacked[index])

    def kept(self) -> dict[str, Tensor]:
        """What a checkpoint holds: weights and the optimiser's moments."""
        tensors = {}
        for name, weight in zip(self.names, self.parameters, strict=True):
            tensors[f"weight.{name}"] = weight.detach().contiguous()
            for moment, value in self.optimizer.state.get(weight, {}).items():
                tensors[f"{moment}.{name}"] = value.detach().contiguous()
        return tensors

    @torch.no_grad()
    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Go on from :meth:`kept`."""
        for name, weight in zip(self.names, self.parameters, strict=True):
            weight.copy_(tensors[f"weight.{name}"])
            if f"exp_avg.{name}" in tensors:
                self.optimizer.state[weight] = {
                    moment: tensors[f"{moment}.{name}"].to(weight.device) for moment in MOMENTS
                }

    # ---- details -------------------------------------------------------------------------

    def _clip(self) -> None:
        """Each model's gradient to its own norm, at most."""
        if self.config.clip is None:
            return
        gradients = [w.grad for w in self.parameters if w.grad is not None]
        if self.alone:
            nn.utils.clip_grad_norm_(self.parameters, self.config.clip)
            return
        squares = torch.stack([grad.flatten(1).square().sum(1) for grad in gradients])
        factor = (self.config.clip / (squares.sum(0).sqrt() + 1e-6)).clamp(max=1)
        for grad in gradients:
            grad.mul_(_each(factor, grad))

    @torch.no_grad()
    def _decay(self, lr: float) -> None:
        shrink = 1 - lr * self.weight_decay
        for weight in self.parameters:
            weight.mul_(_each(shrink, weight))


def _each(factor: Float[Tensor, "run"], stacked: Tensor) -> Tensor:
    return factor.reshape(-1, *[1] * (stacked.ndim - 1))
