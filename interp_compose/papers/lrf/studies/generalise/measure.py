"""``generalise``: a grid of trainings, what came of them, and its finished runs, found again."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, get_args

from interp_compose._public import public
from interp_compose.checks import check_limit, drawn, sample_note
from interp_compose.errors import MissingDataError, OptionError
from interp_compose.models.load import load_model
from interp_compose.papers.lrf.grammar import marks_of
from interp_compose.papers.lrf.models.init import init_xavier
from interp_compose.papers.lrf.models.seq2seq import Seq2SeqConfig, SmallSeq2Seq
from interp_compose.papers.lrf.models.shape import Positions, Seq2SeqShape
from interp_compose.papers.lrf.models.small_seq2seq import SmallSeq2SeqModel
from interp_compose.papers.lrf.studies.generalise.options import (
    GeneraliseCommand,
    SeedOptions,
    SequenceTraining,
)
from interp_compose.papers.lrf.studies.generalise.reads import WatchedSequence
from interp_compose.papers.lrf.studies.generalise.result import Generalisation
from interp_compose.papers.lrf.tasks.exposures import with_exposures
from interp_compose.papers.shared.grid.finished import finished_of_seed
from interp_compose.papers.shared.grid.options import looking
from interp_compose.papers.shared.grid.sequence_data import (
    SequenceData,
    check_measured,
    keep,
    kept,
    plain,
)
from interp_compose.papers.shared.grid.sequence_run import MODEL, accuracy, keep_run, trained
from interp_compose.papers.shared.text.vocabulary import BOS
from interp_compose.papers.works import WORKS
from interp_compose.runs.checksums import digest_of
from interp_compose.runs.folder import SweepPlan
from interp_compose.studies.core.grid import Grid, seeds_of
from interp_compose.studies.core.keywords import keywords
from interp_compose.tasks.sequences import SequenceTask, load_sequences, report_of
from interp_compose.training.config import Optimisation, TrainConfig
from interp_compose.training.loop import trains

WORK: Final = "generalise"
TRAIN: Final = WORKS[WORK]
"""The function that trains a run."""
PLACE: Final = ("model", "seed")
"""What runs of a sweep differ in."""
VARIANTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "transformer": {"fuse": "none"},
    "lrf": {"fuse": "both"},
    "lrf-encoder": {"fuse": "encoder"},
    "lrf-decoder": {"fuse": "decoder"},
    "parameters": {"fuse": "parameters"},
    "previous": {"fuse": "previous"},
    "deeper": {"fuse": "none", "more_layers": 1},
}
"""What a model's name means. ``more_layers`` are of each stack."""


@dataclass(frozen=True, kw_only=True)
class GeneraliseOptions(SeedOptions):
    """What :func:`generalise` takes by name."""

    run: SequenceTraining | None = None
    """Shape and training of every run."""


@keywords(GeneraliseOptions)
def generalise(
    task: SequenceTask,
    models: Sequence[str],
    out: str | os.PathLike[str],
    options: GeneraliseOptions,
) -> Generalisation:
    """Train encoder–decoders on a compositional task, and compare what they get right.

    All models of a seed see the same batches and begin with the same weights where they have the
    same. Nothing is selected: the weights after the last step are measured, on every pair of every
    split but the training's. A sequence is right if all of it is, its end included.

    Runs that ``out`` holds already are not done again; a call that is interrupted goes on from
    their checkpoints.

    Args:
        task: from :func:`load_sequences`.
        models: "transformer", "lrf" (fuse-attention in both stacks; LRF), "lrf-encoder",
            "lrf-decoder", and as controls "parameters" (the same parameters in a second
            self-attention), "previous" (fuse-attention that sees the layer before alone) and
            "deeper" (a layer more in each stack); each also with its positions, such as
            "transformer-relative". Others are compared with the first.
        out: folder for the runs: data, histories and weights.
        options: every option.

    Raises:
        OptionError: no model, one that is unknown or named twice; a shape that cannot be;
            exposures of a task without such lines; workers or SLURM's options that do not go with
            ``where``.
        InputError: ``out`` holds another sweep.
        ModelError: runs failed; the others are kept. Names the first and its log.
    """
    return _grid(task, models, options).train(out, options)


def run(command: GeneraliseCommand) -> Generalisation:
    """The command ``interp-compose generalise``."""
    source = command.source
    check_limit(source.limit)
    if source.limit is not None and command.seeds.exposures != 1:
        raise OptionError(
            f"--limit {source.limit} with --exposures {command.seeds.exposures}: a sample leaves "
            "out most of the lines that are to be shown more often; leave one of the two out"
        )
    task = limited(load_sequences(source.task, data_dir=source.data_dir), source.limit)
    options = GeneraliseOptions(**vars(command.seeds), run=command.run)
    return _grid(task, command.models.split(","), options).command(command.output, options)


def limited(task: SequenceTask, limit: int | None) -> SequenceTask:
    """The task with so many pairs of each split at most, always the same ones."""
    if limit is None:
        return task
    splits = {name: drawn(pairs, limit) for name, pairs in task.splits.items()}
    report = report_of(str(task.report["source"]), splits, overlap=True)
    return SequenceTask(f"{task.name}{sample_note(limit)}", splits, report)


def _grid(
    task: SequenceTask, models: Sequence[str], options: GeneraliseOptions
) -> Grid[Generalisation]:
    if not models:
        raise OptionError("models is empty: expected at least one, such as 'transformer'")
    for model in models:
        if models.count(model) > 1:
            raise OptionError(f"models name {model!r} more than once; each run is done once")
    training, more = options.run or SequenceTraining(), dict[str, int]()
    task, once = with_exposures(task, options.exposures, options.exposures_of), task
    if task is not once:
        if options.exposures_of == "others":
            tested = with_exposures(once, options.exposures, "tested")
            training = _as_long(training, task, tested)
        more["steps_per_epoch"] = _steps(training, task)[0]
    shape = {**asdict(training), "data": digest_of(plain(task.splits))}
    seeds = seeds_of(options)
    runs = [SequenceRun(**shape, model=model, seed=seed) for seed in seeds for model in models]
    check_measured(task)
    data = SequenceData.of(task.splits, one_vocabulary=runs[0].one_vocabulary)
    known: dict[Seq2SeqConfig, str] = {}
    for run in runs[: len(models)]:
        run.train_config([len(pair) for pair in data.splits["train"]])
        config = run.model_config(data)
        if config.fuse == "previous" and config.n_encoder_layers == config.n_decoder_layers == 1:
            config = replace(config, fuse="both")  # there is one layer before
        if config in known:
            raise OptionError(
                f"models name {known[config]!r} and {run.model!r}, which are the same model with "
                "these options; leave one of them out"
            )
        known[config] = run.model
    return Grid(
        result=Generalisation,
        plan=SweepPlan(WORK, [asdict(run) for run in runs], function=TRAIN),
        place=PLACE,
        config={
            "study": WORK,
            "task": task.name,
            "data_report": dict(task.report),
            **shape,
            **more,
            "models": list(models),
            "seeds": list(seeds),
        },
        axes=("models", "seeds"),
        keep=lambda out: keep(task.splits, out),
    )


def _steps(training: SequenceTraining, task: SequenceTask) -> tuple[int, int]:
    """Steps of an epoch, and of the whole run."""
    data = SequenceData.of({"train": task.splits["train"]})
    lengths = [sum(both) for both in data.splits["train"].token_counts()]
    run = SequenceRun(**asdict(training), data="", model="transformer")
    config = run.train_config(lengths)
    n = len(lengths)
    return config.steps_per_epoch(n, lengths), config.total_steps(n, lengths)


def _as_long(
    training: SequenceTraining, task: SequenceTask, other: SequenceTask
) -> SequenceTraining:
    """The training by which a run on ``task`` takes as many steps as one on ``other``."""
    of_epoch, _ = _steps(training, task)
    _, total = _steps(training, other)
    return replace(training, epochs=-(-total // of_epoch), max_steps=total)


@public
@dataclass(frozen=True, kw_only=True)
class SequenceRun(SequenceTraining):
    """The configuration of a run: its hash names the run's folder."""

    data: str
    """Digest of the data, which :func:`.sequence_data.keep` wrote beside the runs."""
    model: str
    """One of :data:`VARIANTS`, or that with its positions: "lrf-relative"."""
    seed: int = 0

    def kept(self, folder: Path) -> SequenceData:
        """The data, which lie beside the run's folder."""
        return kept(folder.parents[1], self.data, one_vocabulary=self.one_vocabulary)

    def model_config(self, data: SequenceData) -> Seq2SeqConfig:
        """The model's shape.

        Raises:
            OptionError: no such model, or a shape that cannot be.
        """
        shape = {**self.values_of(Seq2SeqShape), "act": self.act, **_changes(self.model)}
        n_more = shape.pop("more_layers", 0)
        for stack in ("n_encoder_layers", "n_decoder_layers"):
            shape[stack] += n_more
        return Seq2SeqConfig(len(data.source), len(data.target), data.longest, **shape)

    def train_config(self, lengths: Sequence[int]) -> TrainConfig:
        """AdamW with β₂ = 0.98 (Vaswani et al. 2017, section 5.3).

        Raises:
            OptionError: a number that cannot be.
        """
        for name in ("n_looks", "n_curve"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name}={getattr(self, name)!r}: expected 1 or more")
        config = TrainConfig(
            **self.values_of(Optimisation),
            batch_tokens=self.batch_tokens,
            weight_decay=self.weight_decay,
            label_smoothing=self.label_smoothing,
            seed=self.seed,
            beta2=0.98,
        )
        total = config.total_steps(len(lengths), lengths)
        return looking(config, total, self.n_looks)


def _changes(model: str) -> dict[str, Any]:
    """What a model's name says of its shape."""
    variant, _, positions = model.rpartition("-")
    if positions in get_args(Positions):
        name, change = variant, {"positions": positions}
    else:
        name, change = model, {}
    if name not in VARIANTS:
        raise OptionError(
            f"model {model!r}: expected one of {', '.join(VARIANTS)}, or one of them with its "
            "positions, as in lrf-relative"
        )
    return {**VARIANTS[name], **change}


@trains
def train(config: Mapping[str, Any], folder: Path) -> None:
    """History, accuracy and weights of a run into its folder."""
    run = SequenceRun(**config)
    data = run.kept(folder)
    model = SmallSeq2Seq(run.model_config(data))
    init_xavier(model, seed=run.seed)
    curve = data.sample(run.n_curve)
    objective = WatchedSequence(
        data.splits["train"],
        BOS,
        curve=curve,
        label_smoothing=run.label_smoothing,
        marks={split: marks_of(data, pairs) for split, pairs in curve.items()},
    )
    history = trained(model, objective, run.train_config(objective.lengths), folder)
    record = {"run": asdict(run), **history, "accuracy": accuracy(model, data)}
    words = {"source_words": data.source, "target_words": data.target}
    keep_run(folder, record, SmallSeq2SeqModel(model.cpu().eval(), name=run.model, **words))


@dataclass(frozen=True)
class FinishedSequenceRun:
    """A run that is done: what it was, and where it lies."""

    run: SequenceRun
    folder: Path

    @property
    def data(self) -> SequenceData:
        """What it was trained and measured on."""
        return self.run.kept(self.folder)

    def model(self) -> SmallSeq2SeqModel:
        """The model as it was at the end.

        Raises:
            MissingDataError: the run was made by a release that did not keep models.
        """
        if not (self.folder / MODEL).is_dir():
            raise MissingDataError(
                f"{self.folder} holds no model: the release that trained it did not keep it; train "
                "it again, in another folder"
            )
        model = load_model(str(self.folder / MODEL))
        assert isinstance(model, SmallSeq2SeqModel)
        return model


def finished_runs(
    runs: str | os.PathLike[str], models: Sequence[str] | None, seed: int | None
) -> list[FinishedSequenceRun]:
    """The finished runs of one seed in the folder of a comparison.

    Args:
        runs: what was ``out`` of :func:`.generalise`.
        models: in this order; None: all that are finished, as they were asked for.
        seed: of the runs; None: the smallest there is.

    Raises:
        OptionError: no model, or one that is named twice.
        MissingDataError: the folder holds no runs, none of this seed is done, or none of a model;
            names those that are.
        InputError: it holds another sweep, runs of another version, or runs of several settings.
        CorruptFileError: a run's files were altered after it was done.
    """
    if models is not None and len({*models}) != (len(models) or 1):
        raise OptionError(
            f"models={models!r}: expected a list of names of trained models, each once, or None "
            "for all"
        )
    finished = {
        run.model: FinishedSequenceRun(run, folder)
        for run, folder in finished_of_seed(
            runs,
            SequenceRun,
            work=WORK,
            command="interp-compose generalise",
            varies=PLACE,
            seed=seed,
        )
    }
    for model in models or ():
        if model not in finished:
            chosen_seed = next(iter(finished.values())).run.seed
            raise MissingDataError(
                f"no finished run of {model!r} of seed {chosen_seed} in {runs}; finished are "
                f"{', '.join(finished)}"
            )
    return [finished[model] for model in models or finished]
