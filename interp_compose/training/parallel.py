"""Training of small models on tensors of sequences, one or many at a time.

The order of the samples depends on a run's seed and the epoch alone, so that a run is the same
alone, beside others, and resumed from a checkpoint.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor
from tqdm.auto import tqdm

from interp_compose.runs.checkpoint import CheckpointFolder
from interp_compose.training.data import epoch_of, epoch_order
from interp_compose.training.parallel__learners import Learners

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
