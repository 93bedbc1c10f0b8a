"""``fitting_speed``: a grid of runs, done where they are missing, and how fast each fitted."""

from __future__ import annotations

import base64
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from interp_compose.checks import check_unread, is_whole
from interp_compose.errors import OptionError
from interp_compose.papers.complexity.studies.anchors.grid import (
    anchor_grid,
    run_of,
    runs_of,
    with_task,
)
from interp_compose.papers.complexity.studies.anchors.run import PhaseRun, train_together
from interp_compose.papers.complexity.studies.fitting_speed.options import (
    SpeedCommand,
    SpeedOptions,
)
from interp_compose.papers.complexity.studies.fitting_speed.result import FittingSpeed
from interp_compose.papers.complexity.tasks.anchor_record import violating_groups
from interp_compose.papers.complexity.tasks.anchors import VIOLATIONS, AnchorTask
from interp_compose.papers.shared.training.parallel import ParallelTrainer
from interp_compose.runs.checkpoint import clear_together
from interp_compose.runs.files import atomic_write, json_bytes, read_json
from interp_compose.settings import identity_of
from interp_compose.stats.agreement import agreement
from interp_compose.studies.core.grid import Grid, checked, numbers
from interp_compose.studies.core.keywords import keywords
from interp_compose.studies.core.tables import Table

WORK: Final = "fitting_speed"
"""What a sweep calls these runs."""
MOST_LAYERS: Final = 1000
HISTORY: Final = "history.json"
FITS_LOSS: Final = 5e-2
"""Nats: the training loss at which the data are fitted, in section VIII's text."""
FITS_PAIR: Final = 0.6
"""Accuracy at which a pair counts as learned (Fig. 8B)."""
AXES: Final = {
    "init_rates": "init_rate",
    "depths": "n_layers",
    "violations": "violations",
    "seeds": "seed",
}
"""What the result calls the axes of its grid, and the fields of a run that they vary."""


@dataclass(frozen=True, kw_only=True)
class FittingSpeedOptions(SpeedOptions):
    """What :func:`fitting_speed` takes by name."""

    run: PhaseRun | None = None
    """Everything else. Its init rate, layers, violations and seed are the grid's; all pairs are
    trained on."""
    task: AnchorTask | None = None
    """Anchor functions of your own, in place of the paper's; ``unseen=()``, and as many of its
    violating groups, the first ones, as ``violations`` of the study says."""


@keywords(FittingSpeedOptions)
def fitting_speed(
    init_rates: Sequence[float],
    depths: Sequence[int],
    violations: Sequence[int],
    out: str | os.PathLike[str],
    options: FittingSpeedOptions,
) -> FittingSpeed:
    """Train a model for every init rate, depth, number of violating groups and seed, and count the
    epochs until its training data, all pairs of anchors, are fitted (complexity control, section
    VIII, Fig. 8).

    Each evaluation is on all training samples; the first is before the first step. A run ends once
    it has both numbers of epochs that are measured, or with its last step. Runs that ``out`` holds
    already, of this grid or another, are not done again; a call that is interrupted loses the runs
    in flight at most. With a GPU, runs of one depth are trained many at a time.

    Args:
        init_rates: γ; a larger one is a smaller initialisation.
        depths: numbers of layers.
        violations: groups of anchor pairs whose target breaks the rule, from 0 to 6, or to as many
            as a task of your own has.
        out: folder for the runs' histories.
        options: every option.

    Raises:
        OptionError: a grid that is empty or repeats; a shape, a rate or data that cannot be; a
            ``run`` that states what the grid or ``evaluate_every`` does.
        InputError: ``out`` holds another sweep.
        ModelError: runs failed; the others are kept. Names the first and its log.
    """
    return _grid(init_rates, depths, violations, options).train(out, options)


def run(command: SpeedCommand) -> FittingSpeed:
    """The command ``interp-compose speed``."""
    base = run_of(command.run, command.preset(), weight_decay=command.weight_decay)
    options = FittingSpeedOptions(**vars(command.grid), run=base)
    return _grid(
        numbers(command.gammas, "gammas"),
        whole_numbers(command.depths, "depths"),
        whole_numbers(command.violations, "violations"),
        options,
    ).command(command.output, options)


def _grid(
    init_rates: Sequence[float],
    depths: Sequence[int],
    violations: Sequence[int],
    options: FittingSpeedOptions,
) -> Grid[FittingSpeed]:
    base = options.run or PhaseRun()
    axes = {field: axis for axis, field in AXES.items()}
    axes |= {"seed": "first_seed", "evaluate_every": "evaluate_every", "own_task": "task"}
    check_unread("run", base, PhaseRun(), **axes)
    n_groups = len(VIOLATIONS)
    if options.task is not None:
        base, n_groups = with_task(base, options.task), len(violating_groups(options.task))
        if options.task.unseen:
            raise OptionError(
                f"task.unseen={options.task.unseen!r}: all chains are trained on here; pass "
                "AnchorTask(unseen=(), …)"
            )
    values: dict[str, Sequence[float]] = {
        "init_rate": checked(init_rates, "init_rates"),
        "n_layers": _whole_axis(depths, "depths", 1, MOST_LAYERS),
        "violations": _whole_axis(violations, "violations", 0, n_groups),
    }
    runs = runs_of(base_of(base, options.evaluate_every), values, options)
    return anchor_grid(FittingSpeed, "speed", WORK, runs, AXES, _tables, options)


def base_of(run: PhaseRun, evaluate_every: int | None) -> PhaseRun:
    """The run on all pairs of anchors, evaluated every so many steps, or each epoch.

    Raises:
        OptionError: sizes that are not whole.
    """
    for name, size in (
        ("samples", run.samples),
        ("batch_size", run.batch_size),
        ("evaluate_every", 1 if evaluate_every is None else evaluate_every),
    ):
        if not is_whole(size) or size < 1:
            raise OptionError(f"{name}={size!r}: expected a whole number, 1 or more")
    epoch = -(-run.samples // run.batch_size)
    return replace(run, hold_out=False, evaluate_every=int(evaluate_every or epoch))


def whole_numbers(text: str, name: str) -> list[int]:
    """Whole numbers as :func:`~.grid.numbers` reads them.

    Raises:
        OptionError: as there; a number that is not whole.
    """
    values = numbers(text, name)
    for value in values:
        if not value.is_integer():
            raise OptionError(f"{name}={text!r} holds {value:g}: expected whole numbers")
    return [int(value) for value in values]


def _whole_axis(values: Any, name: str, least: int, most: int) -> list[int]:
    axis = checked(values, name)
    for value in axis:
        if not value.is_integer() or not least <= value <= most:
            raise OptionError(
                f"{name} holds {value:g}: expected whole numbers from {least} to {most}"
            )
    return [int(value) for value in axis]


def _tables(
    schema: Sequence[Table], places: Sequence[Mapping[str, Any]], folders: Sequence[Path]
) -> dict[str, pd.DataFrame]:
    """Of each run what :func:`tables_of` says of its history."""
    of_runs, of_pairs, of_samples = [], [], []
    for folder in folders:
        history = read_json(folder / HISTORY)
        row, pairs, samples = tables_of(PhaseRun(**history["run"]), history["rows"])
        of_runs.append(row)
        of_pairs += pairs
        of_samples.append(samples)
    rows: dict[str, Any] = {
        "runs": of_runs,
        "pairs": of_pairs,
        "samples": pd.concat(of_samples),
    }
    return {table.name: table.of(rows[table.name]) for table in schema}


def train(configs: Sequence[Mapping[str, Any]], folders: Sequence[Path]) -> None:
    """The history of each run into its folder; runs of one shape as one program, on the GPU where
    there is one. Resumes from a checkpoint there.

    A run ends with the evaluation at which it is :func:`fitted`, or with its last step.
    """
    kinds: dict[PhaseRun, list[tuple[PhaseRun, Path]]] = {}
    for config, folder in zip(configs, folders, strict=True):
        run = PhaseRun(**config)
        kinds.setdefault(run.kind, []).append((run, folder))
    for members in kinds.values():
        _train([run for run, _ in members], [folder for _, folder in members])


def fitted(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the data have been fitted by both measures: at one evaluation every training sample
    was predicted right, and at one the loss was at most :data:`FITS_LOSS`."""
    losses = [row["loss"] for row in rows if row["loss"] is not None]
    return any(row["accuracy"] == 1 for row in rows) and min(losses, default=1.0) <= FITS_LOSS


def packed(right: Bool[np.ndarray, "sample"]) -> str:
    """One bit each, as base64; see :func:`unpacked`."""
    return base64.b64encode(np.packbits(right).tobytes()).decode("ascii")


def unpacked(text: str, n: int) -> Bool[np.ndarray, "sample"]:
    """The first ``n`` of what :func:`packed` was given."""
    bits = np.frombuffer(base64.b64decode(text), np.uint8)
    return np.unpackbits(bits, count=n).astype(bool)


class Fits:
    """Accuracy and loss of every model on its training data, and which samples it has right."""

    def __init__(
        self, tokens: Int[Tensor, "run sample pos"], targets: Int[Tensor, "run sample"]
    ) -> None:
        self.tokens, self.targets = tokens, targets

    @torch.no_grad()
    def __call__(self, trainer: ParallelTrainer) -> list[dict[str, Any]]:
        losses, right = [], []
        for tokens, targets in zip(
            self.tokens.split(trainer.chunk, dim=1),
            self.targets.split(trainer.chunk, dim=1),
            strict=True,
        ):
            logits = trainer.logits(tokens)
            each = cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
            losses.append(each.unflatten(0, targets.shape))
            right.append((logits.argmax(-1) == targets) & losses[-1].isfinite())
        mean = torch.cat(losses, dim=1).double().mean(dim=1)
        bits = torch.cat(right, dim=1).cpu().numpy()
        return [
            {
                "accuracy": float(is_right.mean()),
                "loss": float(loss) if bool(loss.isfinite()) else None,
                "right": packed(is_right),
            }
            for is_right, loss in zip(bits, mean, strict=True)
        ]


def _train(runs: Sequence[PhaseRun], folders: Sequence[Path]) -> None:
    trainer = train_together(
        runs,
        folders,
        [
            {"train": run.task.sample("train", run.samples, seed=run.stream("train"))}
            for run in runs
        ],
        lambda sets: Fits(*sets["train"]),
        until=lambda rows: all(map(fitted, rows)),
    )
    for run, folder, rows in zip(runs, folders, trainer.rows, strict=True):
        history = {"run": identity_of(run), "rows": _to_fitted(rows)}
        atomic_write(folder / HISTORY, json_bytes(history))
    clear_together(folders)


def _to_fitted(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Up to the evaluation at which the run is fitted, whatever was trained beside it."""
    ends = (end for end in range(1, len(rows) + 1) if fitted(rows[:end]))
    return list(rows[: next(ends, len(rows))])


def tables_of(
    run: PhaseRun, rows: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, Any], list[dict[str, Any]], pd.DataFrame]:
    """A run's row of ``runs``, its rows of ``pairs``, and those of ``samples``, from its history.

    ``samples`` is empty where no pair violates the rule. The columns are described at
    :class:`~.result.FittingSpeed`.
    """
    task = run.task
    chains = task.sample("train", run.samples, seed=run.stream("train")).chains.numpy()
    right = np.stack([unpacked(row["right"], run.samples) for row in rows])
    epochs = np.array([row["step"] for row in rows]) / -(-run.samples // run.batch_size)
    place = {name: getattr(run, name) for name in AXES.values()}
    late = lateness(right)
    violating = np.array([chain in task.violations for chain in task.chains])[chains]
    last = rows[-1]
    losses = np.array([math.inf if row["loss"] is None else row["loss"] for row in rows])
    of_run = {
        **place,
        "finite": last["finite"],
        "epochs": float(epochs[-1]),
        "accuracy": last["accuracy"],
        "loss": math.nan if last["loss"] is None else last["loss"],
        "accuracy_epochs": first_epoch(epochs, np.asarray(right.all(axis=1))),
        "loss_epochs": first_epoch(epochs, losses <= FITS_LOSS),
        "auc": auc_of(late, violating) if last["finite"] else math.nan,
    }
    touched = touched_pairs(task)
    of_pairs = [
        {
            **place,
            "pair": " ".join(chain),
            "violates": chain in task.violations,
            "touched": chain in touched,
            "epochs": first_epoch(epochs, _share(right[:, chains == i]) >= FITS_PAIR),
        }
        for i, chain in enumerate(task.chains)
    ]
    names = np.array([" ".join(chain) for chain in task.chains], dtype=object)
    kept = np.arange(run.samples if task.violations else 0)
    of_samples = pd.DataFrame(
        {
            **{name: np.full(len(kept), value) for name, value in place.items()},
            "sample": kept,
            "pair": names[chains[kept]],
            "violates": violating[kept],
            "lateness": late[kept],
        }
    )
    return of_run, of_pairs, of_samples


def first_epoch(
    epochs: Float[np.ndarray, "evaluation"], holds: Bool[np.ndarray, "evaluation"]
) -> float:
    """The epoch of the first evaluation at which something held; NaN where it never did."""
    return float(epochs[holds][0]) if holds.any() else math.nan


def lateness(right: Bool[np.ndarray, "evaluation sample"]) -> Float[np.ndarray, "sample"]:
    """The share of evaluations before the one from which each sample stayed right: 0 for a sample
    that was right at each, 1 for one that was wrong at the last.

    It is when a sample has converged, of which section VIII speaks. A sample that is right early
    and wrong again afterwards has not: at small initialisations this happens to those that break
    the rule while the others are learned. Hence not the share of wrong ones, nor the first right
    one.
    """
    n = len(right)
    last_wrong = np.where(right, -1, np.arange(n)[:, None]).max(axis=0)
    late: Float[np.ndarray, "sample"] = (last_wrong + 1) / n
    return late


def auc_of(late: Float[np.ndarray, "sample"], violating: Bool[np.ndarray, "sample"]) -> float:
    """P(a violating sample is later than another) + ½ P(as late): the area under the ROC curve.

    NaN where no sample violates the rule, or all of them do.
    """
    if violating.all() or not violating.any():
        return math.nan
    area = agreement(late[:, None], violating.astype(float), "auc", samples=1)
    return float(area.value[0])


def touched_pairs(task: AnchorTask) -> set[tuple[str, ...]]:
    """Pairs made of the anchors of one violating pair alone: for (a, b) these are (a, b), (b, a),
    (a, a) and (b, b), which Fig. 8B highlights."""
    return {chain for chain in task.chains for other in task.violations if set(chain) <= set(other)}


def _share(right: Bool[np.ndarray, "evaluation some"]) -> Float[np.ndarray, "evaluation"]:
    """Accuracy at each evaluation; 0 of no sample."""
    share: Float[np.ndarray, "evaluation"] = right.sum(axis=1) / max(right.shape[1], 1)
    return share
