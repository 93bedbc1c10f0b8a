"""Training of small models on tensors of sequences, one or many at a time.

The order of the samples depends on a run's seed and the epoch alone, so that a run is the same
alone, beside others, and resumed from a checkpoint.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from tqdm.auto import tqdm

from interp_compose.errors import InputError
from interp_compose.runs.checkpoint import CheckpointFolder
from interp_compose.training.config import TrainConfig
from interp_compose.training.data import epoch_of, epoch_order

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


Evaluate = Callable[[Learners], Sequence[dict[str, float]]]
"""What is measured of each model, now."""
Until = Callable[[Sequence[Sequence[dict[str, Any]]]], bool]
"""Whether the rows of all runs, as they are now, are enough."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Training data of each run: ``tokens`` with the ``targets`` that follow; ``seeds`` order
    them."""

    tokens: Int[Tensor, "run sample pos"]
    targets: Int[Tensor, "run sample"]
    seeds: tuple[int, ...]


def fit(
    learners: Learners,
    samples: Samples,
    evaluate: Evaluate,
    *,
    until: Until | None = None,
    checkpoints: CheckpointFolder | None = None,
    progress: bool = True,
    title: str = "training",
) -> list[list[dict[str, Any]]]:
    """Train to the end of ``learners.config``; rows of what was measured, for each run.

    Measured before the first step, every ``evaluate_every`` steps and after the last. A row has
    ``step``, ``train_loss`` (nats, mean over the steps since the last row), ``finite`` (whether
    the weights still are numbers) and what ``evaluate`` returns. A run that has diverged is
    measured on like the others, and says so; it disturbs none beside it.

    Training ends earlier with the look after which ``until`` holds; the schedule is that of the
    whole run all the same.
    """
    config = learners.config
    n = samples.targets.shape[1]
    total = config.total_steps(n)
    every = config.evaluate_every or config.steps_per_epoch(n)
    step = 0
    rows: list[list[dict[str, Any]]] = [[] for _ in range(len(learners))]
    found = None if checkpoints is None else checkpoints.latest()
    if found is not None:
        learners.restore(dict(found.tensors))
        step, rows = found.step, [list(row) for row in found.note["rows"]]
    else:
        _look(learners, evaluate, rows, 0, torch.full((len(learners),), math.nan))
    summed, steps_summed = torch.zeros(len(learners), device=samples.targets.device), 0
    order = _Order(samples, config.batch_size)
    with tqdm(total=total, initial=step, desc=title, unit="step", disable=not progress) as bar:
        while step < total and not (until is not None and until(rows)):
            which = order.at(step)
            tokens = samples.tokens.gather(
                1, which[..., None].expand(-1, -1, samples.tokens.shape[2])
            )
            losses = learners.step(
                tokens, samples.targets.gather(1, which), config.lr_at(step, total)
            )
            step += 1
            summed += losses
            steps_summed += 1
            bar.update()
            if step % every == 0 or step == total:
                _look(learners, evaluate, rows, step, summed / steps_summed)
                summed, steps_summed = torch.zeros_like(summed), 0
                due = config.checkpoint_every and step % config.checkpoint_every < every
                if checkpoints is not None and (due or step == total):
                    checkpoints.save(step, learners.kept(), {"rows": rows})
    learners.write_back()
    return rows


def _look(
    learners: Learners,
    evaluate: Evaluate,
    rows: list[list[dict[str, Any]]],
    step: int,
    losses: Tensor,
) -> None:
    finite = learners.finite().tolist()
    measured = evaluate(learners)
    for own, loss, alive, found in zip(rows, losses.tolist(), finite, measured, strict=True):
        own.append(
            {
                "step": step,
                "train_loss": loss if math.isfinite(loss) else None,
                "finite": alive,
                **found,
            }
        )


class _Order:
    """Which samples each run sees at a step."""

    def __init__(self, samples: Samples, batch_size: int) -> None:
        self.samples, self.batch_size = samples, batch_size
        self.epoch, self.order = -1, samples.targets

    def at(self, step: int) -> Int[Tensor, "run batch"]:
        n = self.samples.targets.shape[1]
        epoch, start = epoch_of(step, n, self.batch_size)
        if epoch != self.epoch:
            orders = [torch.from_numpy(epoch_order(n, s, epoch)) for s in self.samples.seeds]
            self.epoch = epoch
            self.order = torch.stack(orders).to(self.samples.targets.device)
        return self.order[:, start : start + self.batch_size]
