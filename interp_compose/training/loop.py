"""The one training loop: optimiser, schedule, accumulation, processes, checkpoints, progress.

What is minimised and measured is an :class:`~.objectives.Objective`. Two executors run a step of
it: :class:`Trainer`, of one model, and :class:`~.parallel.ParallelTrainer`, of many small ones as
one program.

Everything random is a function of the seed, the step and the part (order, dropout, drawn
negatives), so that a run resumes to the same weights from any checkpoint, and two runs of one seed
see the same batches under the same dropout masks whether CARMA is on or not.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from interp_compose.errors import InputError, NonFiniteError
from interp_compose.progress import progress_bar
from interp_compose.runs.checkpoint import Checkpoint, CheckpointFolder
from interp_compose.runs.workers import PROGRESS
from interp_compose.training.config import TrainConfig
from interp_compose.training.history import Recorder
from interp_compose.training.objectives import BatchT, Objective, Row
from interp_compose.training.order import BatchOrder, Order, into_parts
from interp_compose.training.processes import Processes

Function = TypeVar("Function", bound=Callable[..., Any])
MOMENTS: Final = ("step", "exp_avg", "exp_avg_sq")
SHOWN: Final = {"loss": "loss", "accuracy": "acc", "mi": "MI", "stability": "stab"}


def trains(function: Function) -> Function:
    """``function`` with gradients on, whatever its caller turned off (``torch.no_grad``,
    ``torch.inference_mode``)."""
    return torch.inference_mode(False)(torch.enable_grad()(function))


class Executor:
    """The weights that are trained, their AdamW, and the step they are at."""

    def __init__(
        self,
        parameters: Sequence[Tensor],
        config: TrainConfig,
        lengths: Sequence[int],
        *,
        weight_decay: float,
        fused: bool | None = None,
    ) -> None:
        self.parameters, self.config, self.step = list(parameters), config, 0
        self.steps_per_epoch = config.steps_per_epoch(len(lengths), lengths)
        self.total = config.total_steps(len(lengths), lengths)
        groups: list[dict[str, Any]] = [{"params": self.parameters}]
        if not config.decay_vectors:
            vectors = [weight for weight in self.parameters if weight.ndim <= 1]
            matrices = [weight for weight in self.parameters if weight.ndim > 1]
            groups = [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(
            groups,
            lr=config.lr,
            betas=(config.beta1, config.beta2),
            weight_decay=weight_decay,
            fused=fused,
        )

    @property
    def is_main(self) -> bool:
        """Whether this process writes checkpoints and shows the bar."""
        return True

    @property
    def is_finite(self) -> bool:
        """Whether every weight is a number."""
        return all(bool(weight.isfinite().all()) for weight in self.parameters)

    @property
    def stopped(self) -> bool:
        """Whether training ends before the last step."""
        return False

    def train_step(self) -> Row:
        """The step after :attr:`step`, and its row of the history.

        Raises:
            NonFiniteError: a loss or the gradient is not finite; no weight has moved.
        """
        raise NotImplementedError

    def evaluate(self) -> None:
        """Measure the present weights, into the history.

        Raises:
            NonFiniteError: what is measured is not finite.
        """
        raise NotImplementedError

    def wait(self) -> None:
        """Return when all processes are here; one process alone does not wait."""

    def finish(self) -> None:
        """The weights that are the result become the models'."""

    def set_lr(self, lr: float) -> None:
        """The learning rate of the step that comes."""
        for group in self.optimizer.param_groups:
            group["lr"] = lr

    def state_dict(self) -> dict[str, Tensor]:
        """A checkpoint's tensors: weights and AdamW's moments."""
        tensors = {}
        for i, weight in enumerate(self.parameters):
            tensors[f"weight.{i}"] = weight.detach().contiguous()
            for name in MOMENTS:
                moment = self.optimizer.state.get(weight, {}).get(name)
                if moment is not None:  # a weight that never had a gradient has none
                    tensors[f"{name}.{i}"] = moment.detach().contiguous()
        return tensors

    def note(self) -> dict[str, Any]:
        """What a checkpoint holds next to its tensors, in JSON's types."""
        raise NotImplementedError

    @torch.no_grad()
    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over what :meth:`state_dict` gave."""
        for i, weight in enumerate(self.parameters):
            weight.copy_(tensors[f"weight.{i}"])
            if f"exp_avg.{i}" in tensors:
                # AdamW has its moments where the weight is; its step on the CPU unless it is fused.
                fused = self.optimizer.defaults["fused"]
                self.optimizer.state[weight] = {
                    name: tensors[f"{name}.{i}"].to(
                        "cpu" if name == "step" and not fused else weight.device
                    )
                    for name in MOMENTS
                }

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint of the same run."""
        self.step = checkpoint.step
        self.load_state_dict(checkpoint.tensors)


def run_training(
    executor: Executor,
    *,
    checkpoints: CheckpointFolder | None = None,
    progress: bool = True,
    title: str = "training",
) -> None:
    """Train to the end, from the last checkpoint where there is one.

    The weights are evaluated before the first step, every ``evaluate_every`` steps and after the
    last.

    Raises:
        NonFiniteError: a loss or the gradient is NaN or infinite; names step and term. The weights
            of the step before, if finite, are checkpointed where there is a folder.
    """
    config, total = executor.config, executor.total
    evaluate_every = config.evaluate_every or executor.steps_per_epoch
    checkpoint_every = config.checkpoint_every or evaluate_every
    # 1. From the last checkpoint, or from the weights as they are, which are measured first.
    checkpoint = None if checkpoints is None else checkpoints.latest()
    if checkpoint is None:
        executor.evaluate()
    else:
        executor.restore(checkpoint)

    def save() -> None:
        if checkpoints is not None and executor.is_main:
            checkpoints.save(executor.step, executor.state_dict(), executor.note())

    bar = progress_bar(
        total=total,
        initial=executor.step,
        desc=title,
        unit="step",
        disable=not progress or not executor.is_main,
    )
    # 2. Steps; what is due after one of them in this order: the evaluation, the checkpoint.
    with bar, _random_state_kept(executor.parameters[0].device):
        while executor.step < total and not executor.stopped:
            try:
                row = executor.train_step()
            except NonFiniteError:
                if executor.is_finite:
                    save()
                raise
            _show(bar, row)
            PROGRESS.get()(executor.step / total)
            if executor.step % evaluate_every == 0 or executor.step == total:
                executor.evaluate()
            ended = executor.step == total or executor.stopped
            if checkpoints is not None and (executor.step % checkpoint_every == 0 or ended):
                save()
                executor.wait()
    executor.finish()


class Trainer(Executor, Generic[BatchT]):
    """One model, trained in place; its batches in parts, shared among processes.

    With patience, training stops when validation accuracy has not risen for so many evaluations,
    and the best weights are the result.
    """

    def __init__(
        self,
        model: Any,
        objective: Objective[BatchT],
        config: TrainConfig,
        *,
        recorder: Recorder | None = None,
        processes: Processes | None = None,
        order: Order | None = None,
    ) -> None:
        super().__init__(
            [weight for weight in model.parameters() if weight.requires_grad],
            config,
            objective.lengths,
            weight_decay=config.weight_decay,
        )
        self.model, self.objective = model, objective
        self.recorder = recorder or Recorder()
        self.processes = processes or Processes(self.parameters[0].device)
        self.order: Order = order or BatchOrder(objective.lengths, config)
        self.best_accuracy, self.best_step, self.without_gain = -1.0, 0, 0
        self._best: list[Tensor] = []

    @property
    def is_main(self) -> bool:
        return self.processes.is_main

    @property
    def stopped(self) -> bool:
        return self.config.patience is not None and self.without_gain >= self.config.patience

    def wait(self) -> None:
        self.processes.wait()

    def train_step(self) -> Row:
        started = time.perf_counter()
        config, objective, processes, step = self.config, self.objective, self.processes, self.step
        # 1. The step's examples in parts; every process knows all of them, to count its shares.
        indices = self.order.at(step)
        parts = into_parts(indices, config.accumulate * processes.count)
        batches = {
            number: objective.collate(part) for number, part in enumerate(parts) if len(part)
        }
        shares = self._shares(list(batches.values()))
        if not self.model.training:
            self.model.train(True)
        # 2. Gradients of this process' parts, summed; each part's means are weighted by its share.
        self.optimizer.zero_grad(set_to_none=True)
        first = self.parameters[0]
        sums = torch.zeros(1 + len(objective.sums), device=first.device, dtype=first.dtype)
        for (number, batch), share in zip(batches.items(), shares, strict=True):
            if number % processes.count != processes.index:
                continue
            seed = _seeded(config.seed, step, number)  # by the part's number, whoever runs it
            with self._precision():
                loss, terms = objective.loss(self.model, batch, share, seed)
            if not loss.requires_grad:
                raise InputError(
                    f"nothing that {self.model.name!r} computes with can be trained: its weights "
                    "are frozen, or its adapters merged; set requires_grad, or unmerge them, first"
                )
            loss.backward()
            sums += torch.stack([loss.detach(), *terms])
        # 3. The sum over processes: gradient, loss and terms of the whole batch.
        processes.sum_gradients_(self.parameters, sums)
        # 4. Clipping (an infinite limit only measures), then the checks, then the weights move.
        norm = float(nn.utils.clip_grad_norm_(self.parameters, config.clip or math.inf))
        summed = dict(zip(("loss", *objective.sums), sums.tolist(), strict=True))
        # after the exchange: all processes stop alike
        _check_finite(step, {what: summed[name] for name, what in objective.terms.items()}, norm)
        lr = config.lr_at(step, self.total)
        self.set_lr(lr)
        self.optimizer.step()
        self.step += 1
        row = {
            "step": self.step,
            "epoch": step // self.steps_per_epoch,
            "lr": lr,
            "loss": summed["loss"],
            **objective.row(summed, len(indices)),
            "grad_norm": norm,
            "seconds": time.perf_counter() - started,
        }
        self.recorder.add("steps", row)
        return row

    def _shares(self, batches: Sequence[BatchT]) -> list[list[float]]:
        """``[part][term]``: the share that a part holds of what the term is the mean of."""
        if len(batches) == 1:
            return [[1.0] * len(self.objective.terms)]
        sizes = [self.objective.sizes(batch) for batch in batches]
        # of each term, over the parts
        totals = [max(sum(column), 1) for column in zip(*sizes, strict=True)]
        return [[n / total for n, total in zip(of_part, totals, strict=True)] for of_part in sizes]

    @contextmanager
    def _precision(self) -> Iterator[None]:
        with ExitStack() as during:
            if self.config.precision == "bfloat16":
                kind = self.parameters[0].device.type
                during.enter_context(torch.autocast(kind, torch.bfloat16))
            if self.config.activation_checkpointing:
                during.enter_context(self.model.activation_checkpointing())
            yield

    def evaluate(self) -> None:
        """Record what the objective measures; a validation accuracy may end training early."""
        self.model.train(False)
        if self.step == 0:
            self.recorder.restart([])
        try:
            tables = self.objective.evaluate(self)
        except NonFiniteError as broken:
            raise NonFiniteError(
                f"after step {self.step}: {broken}. The last checkpoint, if there is one, is from "
                "before; lower the learning rate."
            ) from broken
        for table, rows in tables.items():
            for row in rows:
                self.recorder.add(table, {"step": self.step, **row})
        for row in tables.get("evaluations", ()):
            self.note_accuracy(float(row["accuracy"]))

    def note_accuracy(self, accuracy: float) -> None:
        """A validation accuracy at the present step; the first of equal ones is the best."""
        if self.config.patience is None:
            return
        if accuracy > self.best_accuracy:
            self.best_accuracy, self.best_step, self.without_gain = accuracy, self.step, 0
            self._best = [weight.detach().clone() for weight in self.parameters]
        else:
            self.without_gain += 1

    @torch.no_grad()
    def finish(self) -> None:
        """The model in evaluation mode, with patience at its best weights."""
        for weight, best in zip(self.parameters, self._best, strict=False):
            weight.copy_(best)
        self.model.train(False)

    def state_dict(self) -> dict[str, Tensor]:
        best = {f"best.{i}": weight.contiguous() for i, weight in enumerate(self._best)}
        return super().state_dict() | best

    def note(self) -> dict[str, Any]:
        return {
            "best_accuracy": self.best_accuracy,
            "best_step": self.best_step,
            "without_gain": self.without_gain,
            "history": list(self.recorder.rows),
        }

    def restore(self, checkpoint: Checkpoint) -> None:
        super().restore(checkpoint)
        tensors, note = checkpoint.tensors, checkpoint.note
        if "best.0" in tensors:
            self._best = [
                tensors[f"best.{i}"].to(weight.device) for i, weight in enumerate(self.parameters)
            ]
        self.best_accuracy = float(note["best_accuracy"])
        self.best_step, self.without_gain = int(note["best_step"]), int(note["without_gain"])
        self.recorder.restart(note["history"])


def _check_finite(step: int, terms: Mapping[str, float], norm: float) -> None:
    for name, value in {**terms, "the gradient": norm}.items():
        if not math.isfinite(value):
            raise NonFiniteError(
                f"step {step + 1}: {name} is {value}; the weights are still those after step "
                f"{step}. Lower the learning rate, or train in float32."
            )


@contextmanager
def _random_state_kept(device: torch.device) -> Iterator[None]:
    """The user's random state is as it was after the ``with`` block."""
    devices = [device.index or 0] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        yield


def _seeded(seed: int, step: int, part: int) -> int:
    """Dropout and drawn negatives of a part depend on these three numbers alone."""
    mixed = int(np.random.SeedSequence([seed, step, part]).generate_state(1, np.uint32)[0])
    torch.manual_seed(mixed)
    return mixed


def _show(bar: Any, row: Row) -> None:
    shown = {label: row[name] for name, label in SHOWN.items() if row.get(name) is not None}
    bar.set_postfix({label: f"{value:.3f}" for label, value in shown.items()}, refresh=False)
    bar.update()
