"""A run that trains a model on pairs of sequences: training, accuracy by kind, what is kept."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from interp_compose.errors import ModelError, NonFiniteError
from interp_compose.models.lens_model import LensModel
from interp_compose.models.own_folder import save_model
from interp_compose.papers.shared.grid.sequence_data import SequenceData
from interp_compose.papers.shared.models.decoder import SmallDecoder
from interp_compose.papers.shared.text.vocabulary import BOS
from interp_compose.papers.shared.training.sequence_objective import exact_match
from interp_compose.papers.shared.training.side_by_side import SideBySide, SideBySideTrainer
from interp_compose.runs.checkpoint import checkpoints_together, clear_together
from interp_compose.runs.files import atomic_write, json_bytes, remove
from interp_compose.runs.workers import SomeFailed
from interp_compose.studies.core.grid import RESULT
from interp_compose.training.config import TrainConfig
from interp_compose.training.history import Recorder
from interp_compose.training.loop import Trainer, run_training
from interp_compose.training.objectives import Objective

MODEL: Final = "model"
Outcome = dict[str, Any] | NonFiniteError
"""What a run recorded, or what was not finite."""


@dataclass(frozen=True, eq=False)
class PreparedRun:
    """A run that trains a decoder, before its first step.

    ``keep`` writes what was found into the run's folder.
    """

    model: SmallDecoder
    objective: Any
    config: TrainConfig
    keep: Callable[[dict[str, Any], Path], None]


def train_alone(prepared: PreparedRun, folder: Path) -> None:
    """Train one decoder, on the CPU or on the GPU where there is one."""
    record = trained(prepared.model, prepared.objective, prepared.config, folder)
    prepared.keep(record, folder)


def train_together(
    prepared: Sequence[PreparedRun], groups: Sequence[Hashable], folders: Sequence[Path]
) -> None:
    """Train decoders of one shape, those of a group, which see the same batches, as one program.

    Raises:
        SomeFailed: of some a loss or a gradient was not finite; the others are kept.
    """
    failures: dict[int, Exception] = {}
    for group in dict.fromkeys(groups):
        places = [i for i, each in enumerate(groups) if each == group]
        outcomes = side_by_side([prepared[i] for i in places], [folders[i] for i in places])
        for i, outcome in zip(places, outcomes, strict=True):
            if isinstance(outcome, NonFiniteError):
                failures[i] = outcome
            else:
                prepared[i].keep(outcome, folders[i])
    if failures:
        raise SomeFailed(failures)


def side_by_side(
    prepared: Sequence[PreparedRun], folders: Sequence[Path]
) -> list[dict[str, Any] | NonFiniteError]:
    """As :func:`trained`, of each of several decoders; the seconds are a step's by their number.
    Of one that diverged, what was not finite."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    first = prepared[0]
    objective = SideBySide(first.objective, len(prepared), first.config.seed, device)
    models = [each.model.to(device) for each in prepared]
    decays = [each.config.weight_decay for each in prepared]
    trainer = SideBySideTrainer(models, decays, objective, first.config)
    run_training(trainer, checkpoints=checkpoints_together(folders), progress=False)
    outcomes: list[Outcome] = []
    for i, model in enumerate(models):
        if i in trainer.diverged:
            outcomes.append(NonFiniteError(f"{trainer.diverged[i]}. Lower the learning rate"))
            continue
        tables: dict[str, list[Any]] = defaultdict(list)
        for row in trainer.rows[i]:
            for table in sorted(set(row) - {"step", "train_loss", "finite"}):
                tables[table] += [{"step": row["step"], **each} for each in row[table]]
        record = {
            "n_parameters": sum(weight.numel() for weight in model.parameters()),
            "step_seconds": float(np.median(trainer.seconds)) / len(models),
            "losses": [losses[i] for losses in trainer.losses],
        }
        outcomes.append(record | tables)
    return outcomes


def trained(
    model: Any,
    objective: Objective[Any],
    config: TrainConfig,
    folder: Path,
    kind: type[Trainer[Any]] = Trainer,
) -> dict[str, Any]:
    """Train a module, from its checkpoint where there is one; what was recorded.

    Parameters, seconds a step (median), the loss of each step, and the tables of the objective's
    evaluations.

    Raises:
        ModelError: every matrix is 0, as that of a model whose weights were not drawn.
    """
    if not any(bool(weight.any()) for weight in model.parameters() if weight.ndim > 1):
        raise ModelError(
            f"every matrix of the {type(model).__name__} is 0, from which none of them can be "
            "learned; draw its weights first, as with init_weights(model, rate, seed=seed)"
        )
    model.to("cuda" if torch.cuda.is_available() else "cpu")
    recorder = Recorder()
    trainer = kind(model, objective, config, recorder=recorder)
    run_training(trainer, checkpoints=checkpoints_together([folder]), progress=False)
    tables: dict[str, list[Any]] = defaultdict(list)
    for row in recorder.rows:
        tables[row["table"]].append({name: one for name, one in row.items() if name != "table"})
    steps = tables.pop("steps")
    return {
        "n_parameters": sum(weight.numel() for weight in model.parameters()),
        "step_seconds": float(np.median([row["seconds"] for row in steps])),
        "losses": [row["loss"] for row in steps],
        "terms": _terms(steps, objective.terms, config.evaluate_every or max(len(steps), 1)),
        **tables,
    }


def _terms(
    steps: Sequence[Mapping[str, Any]], terms: Mapping[str, str], every: int
) -> list[dict[str, Any]]:
    """The mean of each of several terms of the loss over the steps from one evaluation to the
    next, at the last of them."""
    rows = []
    for start in range(0, len(steps) if len(terms) > 1 else 0, every):
        window = steps[start : start + every]
        for term in terms:
            value = float(np.mean([row[term] for row in window]))
            rows.append({"step": window[-1]["step"], "term": term, "value": value})
    return rows


def accuracy(model: Any, data: SequenceData) -> list[dict[str, Any]]:
    """A row for each split but training's, and each kind of its pairs: how many are right."""
    rows = []
    for split, pairs in data.splits.items():
        if split == "train":
            continue
        counted: dict[str, list[bool]] = defaultdict(list)
        right = exact_match(model, pairs, BOS)
        for kind, one in zip(data.kinds[split], right, strict=True):
            counted[kind].append(bool(one))
        rows += [
            {"split": split, "kind": kind, "n_right": sum(each), "n": len(each)}
            for kind, each in sorted(counted.items())
        ]
    return rows


def keep_run(folder: Path, record: Mapping[str, Any], model: LensModel) -> None:
    """Write what a run found, and its model; the checkpoints go."""
    remove(folder / MODEL)  # of an attempt that was killed
    save_model(model, folder / MODEL)
    atomic_write(folder / RESULT, json_bytes(record))
    clear_together([folder])
