"""One run of the study of fitting speed: which training samples a model predicts right, and when.

A run is a :class:`~.complexity_run.PhaseRun`; nothing of it is kept but its history. A row of the
history holds ``accuracy`` and ``loss`` (nats, mean) over all training samples, in evaluation, and
``right``: which of them are predicted right, one bit each (:func:`packed`). Everything else follows
from these and from the data, which the run's seed gives again.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from interp_compose.runs.files import atomic_write, json_bytes
from interp_compose.studies.anchors.run import PhaseRun
from interp_compose.runs.checkpoint import checkpoints_together, clear_together
from interp_compose.training.parallel import Samples, fit
from interp_compose.training.parallel__learners import Learners
from interp_compose.training.loop__state import trains

HISTORY: Final = "history.json"
FITS_LOSS: Final = 5e-2
"""Nats: the training loss at which the data are fitted, in section VIII's text."""


def train(configs: Sequence[Mapping[str, Any]], folders: Sequence[Path]) -> None:
    """The history of each run into its folder; runs of one shape as one program, on the GPU where
    there is one. Resumes from a checkpoint there.

    A run ends with the look at which it is :func:`fitted`, or with its last step.
    """
    kinds: dict[PhaseRun, list[tuple[PhaseRun, Path]]] = {}
    for config, folder in zip(configs, folders, strict=True):
        run = PhaseRun(**config)
        kinds.setdefault(run.kind, []).append((run, folder))
    for alike in kinds.values():
        _train([run for run, _ in alike], [folder for _, folder in alike])


def fitted(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the data have been fitted by both measures: at some look every training sample was
    predicted right, and at some look the loss was at most :data:`FITS_LOSS`."""
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
    def __call__(self, learners: Learners) -> list[dict[str, Any]]:
        losses, right = [], []
        for tokens, targets in zip(
            self.tokens.split(learners.chunk, dim=1),
            self.targets.split(learners.chunk, dim=1),
            strict=True,
        ):
            logits = learners.logits(tokens)
            each = cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
            losses.append(each.unflatten(0, targets.shape))
            right.append((logits.argmax(-1) == targets) & losses[-1].isfinite())
        mean = torch.cat(losses, dim=1).double().mean(dim=1)
        bits = torch.cat(right, dim=1).cpu().numpy()
        return [
            {"accuracy": float(own.mean()), "loss": _number(loss), "right": packed(own)}
            for own, loss in zip(bits, mean, strict=True)
        ]


@trains
def _train(runs: Sequence[PhaseRun], folders: Sequence[Path]) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    data = [run.task.sample("train", run.samples, seed=run.stream("train")) for run in runs]
    tokens = torch.stack([own.tokens for own in data]).to(device)
    targets = torch.stack([own.targets for own in data]).to(device)
    models = [run.model(run.task).to(device) for run in runs]
    learners = Learners(models, [run.weight_decay for run in runs], runs[0].train_config())
    checkpoints = checkpoints_together(folders) if runs[0].checkpoint_every else None
    found = fit(
        learners,
        Samples(tokens, targets, seeds=tuple(run.stream("order") for run in runs)),
        Fits(tokens, targets),
        until=lambda rows: all(map(fitted, rows)),
        checkpoints=checkpoints,
        progress=False,
    )
    for run, folder, rows in zip(runs, folders, found, strict=True):
        history = {"run": asdict(run), "rows": _to_fitted(rows)}
        atomic_write(folder / HISTORY, json_bytes(history))
    clear_together(folders)


def _to_fitted(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Up to the look at which the run is fitted, whatever was trained beside it."""
    ends = (end for end in range(1, len(rows) + 1) if fitted(rows[:end]))
    return list(rows[: next(ends, len(rows))])


def _number(loss: Tensor) -> float | None:
    return float(loss) if bool(loss.isfinite()) else None
