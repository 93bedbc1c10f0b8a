"""``task_phases``: a grid of trainings on a task of sequences, and what came of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from jaxtyping import Int

from interp_compose._public import public
from interp_compose.errors import OptionError
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.models.memory import weights_digest
from interp_compose.papers.complexity.grid.decoder_grid import (
    decoder_grid,
    of_all,
    places_of,
    sizes_of,
    trainers,
)
from interp_compose.papers.complexity.grid.decoder_run import DecoderRun, inside
from interp_compose.papers.complexity.grid.subsets import ceilings, single_exposures, subset
from interp_compose.papers.complexity.grid.together import step_bytes
from interp_compose.papers.complexity.models.from_gpt2 import decoder_from_gpt2
from interp_compose.papers.complexity.models.init import init_weights
from interp_compose.papers.complexity.models.small_decoder import SmallDecoderModel
from interp_compose.papers.complexity.studies.task_phases.options import (
    GAMMAS,
    TaskPhasesCommand,
    TaskTraining,
)
from interp_compose.papers.complexity.studies.task_phases.result import (
    CEILINGS,
    LOSSES,
    TaskPhases,
)
from interp_compose.papers.shared.grid.sequence_data import (
    SequenceData,
    check_measured,
    keep,
    kept,
    plain,
)
from interp_compose.papers.shared.grid.sequence_run import PreparedRun, accuracy, keep_run
from interp_compose.papers.shared.grid.start import check_shape_left_out, keep_start, kept_start
from interp_compose.papers.shared.models.decoder import DecoderConfig, SmallDecoder
from interp_compose.papers.shared.text.vocabulary import BOS
from interp_compose.papers.shared.training.sequence_objective import (
    ContinuedBatch,
    EncodedPair,
    TargetSequence,
)
from interp_compose.runs.checksums import digest_of
from interp_compose.runs.files import read_json
from interp_compose.settings import LATER
from interp_compose.studies.core.grid import RESULT, Grid, gathered, numbers
from interp_compose.studies.core.keywords import keywords
from interp_compose.studies.core.options import GridOptions
from interp_compose.studies.core.tables import Table
from interp_compose.tasks.sequences import SequencePair, SequenceTask, load_sequences

WORK: Final = "task_phases"


@dataclass(frozen=True, kw_only=True)
class TaskPhasesOptions(GridOptions):
    """What :func:`task_phases` takes by name."""

    sizes: Sequence[int] | None = None
    """Numbers of training sequences; None: all that the task has."""
    run: TaskTraining | None = None
    """Shape and training of every run."""
    model: LensModel | None = None
    """A GPT-2 of :func:`load_model` to fine-tune instead of training from scratch; its shape is the
    runs', and ``init_rates`` is then empty."""


@keywords(TaskPhasesOptions)
def task_phases(
    task: SequenceTask,
    init_rates: Sequence[float],
    weight_decays: Sequence[float],
    out: str | os.PathLike[str],
    options: TaskPhasesOptions,
) -> TaskPhases:
    """Train a decoder for every init rate, weight decay, size of the training set and seed, and
    measure what it gets right of each split (complexity control, section VII, Fig. 7).

    A sequence is the task's source, a separator and its target; the loss is that of the target's
    tokens, and an answer is right if every token of it is, its end included. Nothing is selected:
    the weights after the last step are measured, on every pair of every split but the training's.

    Runs that ``out`` holds already are not done again; a call that is interrupted goes on from
    their checkpoints.

    Args:
        task: from :func:`load_sequences`.
        init_rates: γ; a larger one is a smaller initialisation. Empty with ``model``.
        weight_decays: of AdamW, on every parameter.
        out: folder for the runs: data, histories and weights.
        options: every option.

    Raises:
        OptionError: a grid that is empty or repeats; a shape, a rate or a size that cannot be;
            init rates of a model that is given.
        CapabilityError: the model that is given is no GPT-2.
        InputError: ``out`` holds another sweep.
        ModelError: runs failed; the others are kept. Names the first and its log.
    """
    return _grid(task, init_rates, weight_decays, options).train(out, options)


def run(command: TaskPhasesCommand) -> TaskPhases:
    """The command ``interp-compose phases --task …``."""
    task = load_sequences(command.source.task, data_dir=command.source.data_dir)
    rates = [] if command.model is not None else numbers(GAMMAS, "gammas")
    if command.gammas is not None:
        rates = numbers(command.gammas, "gammas")
    options = TaskPhasesOptions(
        **vars(command.grid),
        sizes=sizes_of(command.sizes),
        run=command.run,
        model=None if command.model is None else load_model(command.model),
    )
    decays = numbers(command.weight_decays, "weight_decays")
    return _grid(task, rates, decays, options).command(command.output, options)


def _grid(
    task: SequenceTask,
    init_rates: Sequence[float],
    weight_decays: Sequence[float],
    options: TaskPhasesOptions,
) -> Grid[TaskPhases]:
    check_measured(task)
    start = _start(task, init_rates, options)
    places = places_of(
        None if start is not None else init_rates, weight_decays, options.sizes, options
    )
    shape: dict[str, Any] = {**asdict(options.run or TaskTraining())}
    shape["data"] = digest_of(plain(task.splits))
    if start is not None:
        shape |= {**_shape_of(start.lens.cfg), "start": weights_digest(start)}
    train = task.splits["train"]
    single = int(single_exposures(train).sum())
    runs = [
        TaskRun(**shape, **place, kept_lines=single if place["size"] < len(train) else 0)
        for place in of_all(places, len(train))
    ]
    data = SequenceData.of(task.splits, one_sequence=True)

    def keep_all(out: Path) -> None:
        keep(task.splits, out)
        if start is not None:
            keep_start(start, out)

    def bytes_of_each() -> int:
        of_run = runs[0].model_config(data)
        return step_bytes(of_run, runs[0].batch_tokens, of_run.n_ctx, runs[0].batch_tokens)

    return decoder_grid(
        TaskPhases,
        WORK,
        runs,
        options,
        task=task.name,
        report=task.report,
        check=lambda run: run.check(data),
        keep=keep_all,
        bytes_of_each=bytes_of_each,
        tables=_tables,
        frames={"ceilings": _ceilings(task, runs)},
        **({"kept_lines": single} if single else {}),
        **({} if start is None else {"model": start.name}),
    )


def _ceilings(task: SequenceTask, runs: Sequence[TaskRun]) -> pd.DataFrame:
    """Of each size, how much of the evaluation splits holds no token that its subset lacks."""
    by_size = {run.size: run for run in runs}
    return CEILINGS.of(
        {"size": size, **row}
        for size, run in by_size.items()
        for row in ceilings(task.splits, run.places(task.splits["train"]).tolist())
    )


def _tables(
    schema: Sequence[Table], places: Sequence[Mapping[str, Any]], folders: Sequence[Path]
) -> dict[str, pd.DataFrame]:
    """What each run recorded, and of its losses, one a step, the means of some at a time."""
    losses = [
        {**place, **row}
        for place, folder in zip(places, folders, strict=True)
        for row in by_window(read_json(folder / RESULT)["losses"])
    ]
    others = [table for table in schema if table not in (CEILINGS, LOSSES)]
    return {**gathered(others, places, folders), "losses": LOSSES.of(losses)}


def _start(
    task: SequenceTask, init_rates: Sequence[float], options: TaskPhasesOptions
) -> SmallDecoderModel | None:
    """The given model on the task's words."""
    if options.model is None:
        return None
    if init_rates:
        raise OptionError(
            f"init_rates={list(init_rates)!r} with the model {options.model.name!r}, which has its "
            "weights already: leave them out (init_rates=(); no --gammas)"
        )
    start = _start_of(options.model, SequenceData.of(task.splits, one_sequence=True))
    default = TaskTraining()
    check_shape_left_out(options.model, _shape_of(start.lens.cfg), options.run or default, default)
    return start


def _start_of(model: LensModel, data: SequenceData) -> SmallDecoderModel:
    """A given model as a decoder of a task's words; see :func:`.from_gpt2.decoder_from_gpt2`."""
    lens = decoder_from_gpt2(model, data.source, data.longest_pair + 1)
    return SmallDecoderModel(lens.eval(), name=model.name, words=data.source)


def _shape_of(config: DecoderConfig) -> dict[str, object]:
    """What :class:`.options.TaskTraining` says of a model's shape."""
    names = ("n_layers", "d_model", "n_heads", "d_mlp", "norm")
    return {name: getattr(config, name) for name in names}


@public
@dataclass(frozen=True, kw_only=True)
class TaskRun(DecoderRun, TaskTraining):
    """The configuration of a run: its hash names the run's folder."""

    start: str = ""
    """Digest of the model that is fine-tuned, kept beside the runs; empty: from scratch."""
    kept_lines: int = field(default=0, metadata=LATER)
    """In a subset of the training split, how many lines come first since each holds a token that no
    other line does; 0 where there are none, of all data, and in subsets of earlier releases, which
    were drawn without regard to them."""

    def model_config(self, data: SequenceData) -> DecoderConfig:
        """The model's shape; its context holds the longest source, the separator and target."""
        return self.shape(d_vocab=len(data.source), n_ctx=data.longest_pair + 1)

    def training(self, data: SequenceData) -> list[EncodedPair]:
        """The training sequences of this run; those of a larger size hold those of a smaller."""
        pairs = data.splits["train"]
        return [pairs[i] for i in self.places(pairs.pairs)]

    def places(self, train: Sequence[SequencePair]) -> Int[np.ndarray, "_"]:
        """Where these are in the training split.

        Raises:
            OptionError: it has fewer, or more lines that every subset holds.
        """
        if self.size > len(train):
            raise OptionError(
                f"size={self.size}: expected at most {len(train)}, the training sequences that the "
                "task has"
            )
        if 0 < self.size < self.kept_lines:
            raise OptionError(
                f"size={self.size}: expected at least {self.kept_lines}, the training sequences "
                "with a token that no other has, which every subset holds"
            )
        return subset(train, self.size, kept=self.kept_lines)

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
    shown: Sequence[EncodedPair] = pairs
    if run.kept_lines:  # these come first; all others are in random order
        shown = [pairs[i] for i in np.random.default_rng(0).permutation(len(pairs))]
    curve = {**data.sample(run.n_curve), "train": shown[: run.n_curve]}
    objective = TargetSequence(pairs, BOS, curve=curve, batches=ContinuedBatch)
    schedule = run.train_config(objective.lengths)

    def keep(recorded: dict[str, Any], folder: Path) -> None:
        steps_per_epoch = schedule.steps_per_epoch(len(pairs), objective.lengths)
        metadata = {
            "run": asdict(run),
            **recorded,
            "epochs": by_epoch(recorded["losses"], steps_per_epoch),
            "accuracy": accuracy(model, data),
            "inside": inside(model),
        }
        name = "fine-tuned" if run.init_rate is None else f"γ = {run.init_rate:g}"
        decoder = SmallDecoderModel(model.cpu().eval(), name=name, words=data.source)
        keep_run(folder, metadata, decoder)

    return PreparedRun(model, objective, schedule, keep)


train, train_many = trainers(TaskRun, prepared)


WINDOW: Final = 10
"""Steps of which ``losses`` has the mean."""


def by_window(losses: Sequence[float]) -> list[dict[str, Any]]:
    """The mean loss of each :data:`WINDOW` steps, and the last of them, the first being 1; the last
    window may be cut short."""
    windows = [losses[first : first + WINDOW] for first in range(0, len(losses), WINDOW)]
    ends = np.cumsum([len(window) for window in windows]).tolist()
    return [
        {"step": end, "loss": float(np.mean(window))}
        for end, window in zip(ends, windows, strict=True)
    ]


def by_epoch(losses: Sequence[float], steps_per_epoch: int) -> list[dict[str, Any]]:
    """The last step of each epoch, the first being 1, and the mean loss of its steps (nats a
    token); the last epoch may be cut short."""
    rows = []
    for epoch, first in enumerate(range(0, len(losses), steps_per_epoch), start=1):
        of_epoch = losses[first : first + steps_per_epoch]
        rows.append(
            {"epoch": epoch, "step": first + len(of_epoch), "loss": float(np.mean(of_epoch))}
        )
    return rows
