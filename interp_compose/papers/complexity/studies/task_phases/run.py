"""One training run: a decoder at an init rate and a weight decay, on sequences of a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from interp_compose._public import public
from interp_compose.errors import OptionError
from interp_compose.papers.complexity.grid.decoder_run import DecoderRun, inside
from interp_compose.papers.complexity.models.init import init_weights
from interp_compose.papers.complexity.models.small_decoder import SmallDecoderModel
from interp_compose.papers.complexity.studies.task_phases.options import TaskTraining
from interp_compose.papers.shared.grid.sequence_data import SequenceData, kept
from interp_compose.papers.shared.grid.sequence_run import (
    PreparedRun,
    accuracy,
    keep_run,
    train_alone,
    train_together,
)
from interp_compose.papers.shared.grid.start import kept_start
from interp_compose.papers.shared.models.decoder import DecoderConfig, SmallDecoder
from interp_compose.papers.shared.text.vocabulary import BOS
from interp_compose.papers.shared.training.sequence_objective import (
    ContinuedBatch,
    EncodedPair,
    TargetSequence,
)
from interp_compose.training.loop import trains

WORK: Final = "task_phases"
"""What a sweep calls these runs."""


@public
@dataclass(frozen=True, kw_only=True)
class TaskRun(DecoderRun, TaskTraining):
    """Everything that decides a run."""

    start: str = ""
    """Digest of the model that is fine-tuned, kept beside the runs; empty: from scratch."""

    def model_config(self, data: SequenceData) -> DecoderConfig:
        """The model's shape; its context holds the longest source, the separator and target."""
        return self.shape(d_vocab=len(data.source), n_ctx=data.longest_pair + 1)

    def training(self, data: SequenceData) -> list[EncodedPair]:
        """The training sequences of this run; those of a larger size hold those of a smaller."""
        pairs = data.splits["train"]
        if self.size > len(pairs):
            raise OptionError(
                f"size={self.size}: expected at most {len(pairs)}, the training sequences that the "
                "task has"
            )
        order = np.random.default_rng(0).permutation(len(pairs))[: self.size]
        return [pairs[i] for i in order]

    def check(self, data: SequenceData) -> None:
        """Refuse what cannot be trained, before anything is."""
        self.check_shape(self.model_config(data))
        self.train_config([len(pair) for pair in self.training(data)])


def prepared(run: TaskRun, out: Path) -> PreparedRun:
    """A run of the sweep in ``out``, before its first step."""
    data = kept(out, run.data, one_sequence=True)
    if run.init_rate is None:
        model = kept_start(out, run.start, SmallDecoderModel).lens.train()
    else:
        model = SmallDecoder(run.model_config(data))
        init_weights(model, run.init_rate, seed=run.seed)
    pairs = run.training(data)
    curve = {**data.sample(run.n_curve), "train": pairs[: run.n_curve]}
    objective = TargetSequence(pairs, BOS, curve=curve, batches=ContinuedBatch)
    schedule = run.train_config(objective.lengths)

    def keep(history: dict[str, Any], folder: Path) -> None:
        steps_per_epoch = schedule.steps_per_epoch(len(pairs), objective.lengths)
        record = {
            "run": asdict(run),
            **history,
            "epochs": by_epoch(history["losses"], steps_per_epoch),
            "accuracy": accuracy(model, data),
            "inside": inside(model),
        }
        name = "fine-tuned" if run.init_rate is None else f"γ = {run.init_rate:g}"
        decoder = SmallDecoderModel(model.cpu().eval(), name=name, words=data.source)
        keep_run(folder, record, decoder)

    return PreparedRun(model, objective, schedule, keep)


@trains
def train(config: Mapping[str, Any], folder: Path) -> None:
    """History, accuracy and weights of a run into its folder."""
    train_alone(prepared(TaskRun(**config), folder.parents[1]), folder)


@trains
def train_many(configs: Sequence[Mapping[str, Any]], folders: Sequence[Path]) -> None:
    """:func:`train` of several; those of one seed and size as one program."""
    runs = [TaskRun(**config) for config in configs]
    starts = [prepared(run, folders[0].parents[1]) for run in runs]
    train_together(starts, [(run.seed, run.size) for run in runs], folders)


def by_epoch(losses: Sequence[float], steps_per_epoch: int) -> list[dict[str, Any]]:
    """The last step of each epoch, the first being 1, and the mean loss of its steps (nats a
    token); the last epoch may be cut short."""
    rows = []
    for epoch, first in enumerate(range(0, len(losses), steps_per_epoch), start=1):
        part = losses[first : first + steps_per_epoch]
        rows.append({"epoch": epoch, "step": first + len(part), "loss": float(np.mean(part))})
    return rows
