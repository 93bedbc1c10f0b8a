"""The one training loop: plain fine-tuning, and fine-tuning with CARMA's two terms.

Everything random is a function of the seed, the step and the part (order, dropout, drawn
negatives), so that a run resumes to the same weights from any checkpoint, and two runs of one seed
see the same batches under the same dropout masks whether CARMA is on or not.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from tqdm.auto import tqdm

from interp_compose.errors import NonFiniteError
from interp_compose.models.lens_model import LensModel
from interp_compose.runs.checkpoint import Checkpoint, CheckpointFolder
from interp_compose.text.label_set import predicted
from interp_compose.training.carma import CarmaConfig, carma_terms, total_loss
from interp_compose.training.config import TrainConfig
from interp_compose.training.data import Batch, TrainingExample, batch_at, collate, into_parts
from interp_compose.training.evaluate import evaluate, representations
from interp_compose.training.history import Recorder
from interp_compose.training.losses import count_anchors
from interp_compose.training.processes import Processes

Function = TypeVar("Function", bound=Callable[..., Any])
MOMENTS = ("step", "exp_avg", "exp_avg_sq")


def trains(function: Function) -> Function:
    """``function`` with gradients on, whatever its caller turned off (``torch.no_grad``,
    ``torch.inference_mode``)."""
    return torch.inference_mode(False)(torch.enable_grad()(function))


class TrainingState:
    """Weights and optimiser of one run; what a checkpoint holds and what it restores."""

    def __init__(self, model: LensModel, config: TrainConfig) -> None:
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


@dataclass(frozen=True)
class Job:
    """What is to be trained on what; nothing in it is left to be refused."""

    model: LensModel
    train: Sequence[TrainingExample]
    validation: Sequence[TrainingExample]
    config: TrainConfig
    carma: CarmaConfig | None
    title: str = "fine-tuning"


def run_training(
    job: Job,
    *,
    recorder: Recorder,
    checkpoints: CheckpointFolder | None = None,
    processes: Processes,
    progress: bool = True,
) -> None:
    """Train ``job.model`` in place, and leave it in evaluation mode.

    Raises:
        NonFiniteError: a loss or the gradient is NaN or infinite; names step and term. The weights
            of the step before, if finite, are checkpointed where there is a folder.
    """
    config, model = job.config, job.model
    total = config.total_steps(len(job.train))
    evaluate_every = config.evaluate_every or config.steps_per_epoch(len(job.train))
    checkpoint_every = config.checkpoint_every or evaluate_every
    state = TrainingState(model, config)
    if checkpoints is not None:
        found = checkpoints.latest()
        if found is not None:
            recorder.restart(state.restore(found))
    if not recorder.rows:
        recorder.restart([])
        _evaluate(job, state, recorder, processes)
    bar = tqdm(
        total=total,
        initial=state.step,
        desc=job.title,
        unit="step",
        disable=not progress or not processes.is_main,
    )
    with bar, _private_randomness(model.device):
        while state.step < total and not state.stopped:
            try:
                row = optimiser_step(job, state, total, processes)
            except NonFiniteError:
                if checkpoints is not None and processes.is_main and state.is_finite:
                    checkpoints.save(state.step, *state.kept(recorder.rows))
                raise
            state.step += 1
            recorder.add("steps", row)
            _show(bar, row)
            if state.step % evaluate_every == 0 or state.step == total:
                _evaluate(job, state, recorder, processes)
            ended = state.step == total or state.stopped
            if checkpoints is not None and (state.step % checkpoint_every == 0 or ended):
                if processes.is_main:
                    checkpoints.save(state.step, *state.kept(recorder.rows))
                processes.wait()
    state.finish()
    model.train(False)


def optimiser_step(
    job: Job, state: TrainingState, total: int, processes: Processes
) -> dict[str, float | int | None]:
    """One optimiser step; the row that the history keeps of it."""
    started = time.perf_counter()
    config, model = job.config, job.model
    step = state.step
    indices = batch_at(step, len(job.train), config.batch_size, config.seed)
    parts = into_parts(indices, config.accumulate * processes.count)
    batches = {
        number: collate([job.train[i] for i in part]) for number, part in enumerate(parts) if part
    }
    shares = _shares(list(batches.values()), words=job.carma is not None)
    model.train(True)
    state.optimizer.zero_grad(set_to_none=True)
    sums = torch.zeros(5, device=model.device, dtype=model.dtype)
    for (number, batch), share in zip(batches.items(), shares, strict=True):
        if number % processes.count != processes.index:
            continue
        with _seeded(config.seed, step, number) as seed:
            loss, terms = _part(job, batch.to(model.device), share, seed)
        loss.backward()
        sums += torch.stack([loss.detach(), *terms])
    processes.sum_gradients_(state.parameters, sums)
    norm = float(nn.utils.clip_grad_norm_(state.parameters, config.clip or math.inf))
    loss_value, task, mi, stability, right = sums.tolist()
    _check_finite(step, task, mi, stability, norm)  # after the exchange: all processes stop alike
    lr = config.lr_at(step, total)
    for group in state.optimizer.param_groups:
        group["lr"] = lr
    state.optimizer.step()
    with_carma = job.carma is not None
    return {
        "step": step + 1,
        "epoch": step // config.steps_per_epoch(len(job.train)),
        "lr": lr,
        "loss": loss_value,
        "task_loss": task,
        "mi": mi if with_carma else None,
        "stability": stability if with_carma else None,
        "accuracy": right / len(indices),
        "grad_norm": norm,
        "seconds": time.perf_counter() - started,
    }


def _part(
    job: Job, batch: Batch, shares: tuple[float, float, float], seed: int
) -> tuple[Tensor, list[Tensor]]:
    """A part's contribution to the loss, and task loss, MI, stability (by their shares) and hits.

    One forward pass: the residual streams are captured while the task's logits are computed.
    """
    config, carma, model = job.config, job.carma, job.model
    of_examples, of_anchors, of_tokens = shares
    names: dict[int, str] = {}
    if carma is not None:
        layers = carma.captured_layers(model.n_layers)
        names = dict(zip(layers, carma.hook_names(model.n_layers), strict=True))
    half = config.precision == "bfloat16"
    precision = torch.autocast(model.device.type, torch.bfloat16) if half else nullcontext()
    memory = model.activation_checkpointing() if config.activation_checkpointing else nullcontext()
    with precision, memory:
        logits, kept = model.capture(
            batch.tokens, list(names.values()), attention_mask=batch.mask, grad=True, read="last"
        )
    last = logits[:, -1].to(model.dtype)  # float32 again where autocast was on
    task = cross_entropy(last, batch.answers) * of_examples
    right = (predicted(last.detach(), batch.candidates) == batch.answers).sum()
    nothing = torch.zeros((), device=model.device)
    if carma is None:
        return task, [task.detach(), nothing, nothing, right]
    # With λ = 0 the terms are recorded and stay out of the loss: bit-identical to plain training.
    with torch.set_grad_enabled(carma.weight > 0):
        resid = {layer: kept[name] for layer, name in names.items()}
        mi, stability = carma_terms(resid, batch.word_ids, carma, seed=seed)
        mi, stability = mi * of_anchors, stability * of_tokens
    loss = total_loss(task, mi, stability, carma) if carma.weight > 0 else task
    return loss, [task.detach(), mi.detach(), stability.detach(), right]


def _shares(batches: Sequence[Batch], *, words: bool) -> list[tuple[float, float, float]]:
    """What share of the whole batch each part holds: of examples, anchors and tokens.

    So weighted, the parts' means add up to those of the whole batch, for the task's loss and MI.
    Eq. 6 is a ratio of expectations; it is taken within a part.
    """
    if len(batches) == 1:
        return [(1.0, 1.0, 1.0)]
    counts = [
        (
            len(batch.answers),
            int(count_anchors(batch.word_ids)) if words else 0,
            int((batch.word_ids >= 0).sum()),
        )
        for batch in batches
    ]
    examples, anchors, tokens = (max(sum(column), 1) for column in zip(*counts, strict=True))
    return [(n / examples, own / anchors, seen / tokens) for n, own, seen in counts]


def _evaluate(job: Job, state: TrainingState, recorder: Recorder, processes: Processes) -> None:
    """Validation accuracy and representations, into the history; may stop the run early."""
    job.model.train(False)
    try:
        rows = representations(job.model, job.validation or job.train)
    except NonFiniteError as broken:
        raise NonFiniteError(
            f"after step {state.step}: the residual streams are no longer finite ({broken}). The "
            "last checkpoint, if there is one, is from before; lower the learning rate."
        ) from broken
    for row in rows:
        recorder.add("representations", {"step": state.step, **row})
    if not job.validation:
        return
    scores = evaluate(job.model, job.validation, processes)
    if not math.isfinite(scores["loss"]):
        raise NonFiniteError(
            f"after step {state.step}: the loss on the validation split is {scores['loss']}. The "
            "last checkpoint, if there is one, is from before; lower the learning rate."
        )
    recorder.add("evaluations", {"step": state.step, **scores})
    state.note_accuracy(float(scores["accuracy"]))


def _check_finite(step: int, task: float, mi: float, stability: float, norm: float) -> None:
    terms = {"the task's loss": task, "MI": mi, "stability": stability, "the gradient": norm}
    for name, value in terms.items():
        if not math.isfinite(value):
            raise NonFiniteError(
                f"step {step + 1}: {name} is {value}; the weights are still those after step "
                f"{step}. Lower the learning rate, or train in float32."
            )


@contextmanager
def _private_randomness(device: torch.device) -> Iterator[None]:
    """The user's random state is as it was after the ``with`` block."""
    devices = [device.index or 0] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        yield


@contextmanager
def _seeded(seed: int, step: int, part: int) -> Iterator[int]:
    """Dropout and drawn negatives of a part depend on these three numbers alone."""
    mixed = int(np.random.SeedSequence([seed, step, part]).generate_state(1, np.uint32)[0])
    torch.manual_seed(mixed)
    yield mixed


def _show(bar: Any, row: dict[str, float | int | None]) -> None:
    shown = {"loss": row["loss"], "acc": row["accuracy"], "MI": row["mi"], "stab": row["stability"]}
    bar.set_postfix(
        {name: f"{value:.3f}" for name, value in shown.items() if value is not None}, refresh=False
    )
    bar.update()
