"""``encoders``: encoders that another command pre-trained, judged on texts and pairs of texts."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, Final, cast

from interp_compose.checks import check_names, check_package, drawn, is_whole, sample_note
from interp_compose.errors import InputError, OptionError
from interp_compose.models.load import load_model
from interp_compose.models.own_folder import WEIGHTS
from interp_compose.papers.cat.models.bert import Output
from interp_compose.papers.cat.models.small_encoder import SmallEncoderModel
from interp_compose.papers.cat.studies.encoders.cosines import FEWEST, Row, are_apart, cosine_rows
from interp_compose.papers.cat.studies.encoders.data import (
    DATA,
    classes_of,
    keep,
    kept_labelled,
    kept_pairs,
    kept_spans,
    labelled_value,
    pairs_value,
    spans_value,
)
from interp_compose.papers.cat.studies.encoders.options import EncodersCommand, EncodersOptions
from interp_compose.papers.cat.studies.encoders.result import (
    EMBEDDINGS,
    NOTHING,
    OUTPUTS,
    TUNED,
    WORDS,
    EncoderScores,
)
from interp_compose.papers.cat.studies.encoders.spans import span_rows
from interp_compose.papers.cat.studies.encoders.tuned import Tuning, frozen_rows, nested, tuned_rows
from interp_compose.papers.cat.studies.pretrain.finished import FinishedEncoder, finished_encoders
from interp_compose.papers.cat.studies.pretrain.measure import PLACE, PretrainingRun
from interp_compose.papers.cat.tasks.labelled import LabelledTask, check_told_apart
from interp_compose.papers.cat.tasks.load_labelled import load_labelled
from interp_compose.papers.cat.tasks.squad import SpanTask, load_squad
from interp_compose.papers.shared.grid.finished import left_out
from interp_compose.papers.shared.grid.sequence_run import MODEL
from interp_compose.papers.works import WORKS
from interp_compose.runs.checkpoint import clear_together
from interp_compose.runs.checksums import digest_of, read_signed, write_signed
from interp_compose.runs.files import atomic_write, json_bytes, read_json
from interp_compose.runs.folder import DONE, DONE_KEYS, SweepPlan, versions_of
from interp_compose.runs.sweep import check_options
from interp_compose.studies.core.grid import RESULT, Grid
from interp_compose.studies.core.keywords import keywords
from interp_compose.tasks.load import load_pairs
from interp_compose.tasks.pairs import PairTask
from interp_compose.tasks.table import names_of
from interp_compose.training.loop import trains

WORK: Final = "encoders"
"""What a sweep calls these runs."""
SOURCE: Final = Path(DATA) / "encoders.json"
"""Where the encoders are that runs open: of a folder that has moved, the next call says so."""
DEFAULTS: Final = {"frozen": (20, 1e-3), "end-to-end": (4, 1e-4)}
"""Epochs and peak learning rate."""
Tasks = Mapping[str, PairTask | LabelledTask | SpanTask]
SQUAD: Final = "squad"
Opened = Sequence[FinishedEncoder]


@keywords(EncodersOptions)
def encoders(
    runs: str | os.PathLike[str],
    tasks: Mapping[str, PairTask | LabelledTask | SpanTask],
    out: str | os.PathLike[str],
    options: EncodersOptions,
) -> EncoderScores:
    """Judge encoders that :func:`pretrain` trained, all seeds of them, on texts and pairs of texts.

    Of pairs with scores, such as BiRD's phrases: Pearson's and Spearman's correlation of the scores
    with the cosines of the two texts' vectors, over all pairs, those of each subset, and those that
    mirror each other ("water body", "body water"). Of pairs with labels, such as PAWS': the area
    under the ROC curve of these cosines.

    Of labelled texts with a training split, the metrics of a classifier of the vector of a text, or
    of a pair, whose texts are read at once: an MLP of one hidden layer, as wide as the vector, on
    the frozen encoder (CAT, section 5.1), or trained with it end to end (CAT, appendix C.3). A
    validation split chooses among epochs; without one, the weights after the last are measured.
    Encoders that are tuned end to end are judged again on pairs without a training split.

    Of questions whose answers are spans of a text, SQuAD's, exact match and F1 by SQuAD's own
    evaluation: an MLP of each word's vector says where the answer begins and ends. Those with
    adversarial sentences are measured by each question's worst variant.

    Runs that ``out`` holds already are not done again; a call that is interrupted goes on from
    their checkpoints.

    Args:
        runs: the folder that they were trained in.
        tasks: from :func:`load_pairs`, :func:`load_labelled` and :func:`load_squad`, by name.
        out: folder for the runs: tasks, and what each measured.
        options: every option.

    Raises:
        OptionError: no task; a model, an output, an embedding or a way of tuning that is unknown or
            named twice; a share outside (0, 1] or named twice; a number that cannot be.
        MissingDataError: no finished runs there, or none of a model or of one of its seeds.
        InputError: a folder holds something else; pairs that are fewer than three, or all judged
            alike; training texts, or a share of them, of one class.
        CorruptFileError: a run was altered after it was done.
        ModelError: runs failed; the others are kept. Names the first and its log.
        MissingPackageError: a classifier is to be scored, and scikit-learn is not installed.
    """
    return _grid(runs, tasks, options).train(out, options)


def run(command: EncodersCommand) -> EncoderScores:
    """The command ``interp-compose encoders``: results (Parquet, CSV), figures as HTML and PNG.

    Raises:
        InputError: ``out`` is ``runs``, or holds another study's result and ``overwrite`` is off.
    """
    output = command.output
    if output.out.resolve() == command.runs.resolve():
        raise InputError(
            f"--out and --runs are both {output.out}; choose another --out, so that the tables of "
            "the training stay"
        )
    options = replace(
        command.study,
        models=None if command.models is None else command.models.split(","),
        outputs=command.outputs.split(","),
        embeddings=command.embeddings.split(","),
        tuned=command.tuned.split(","),
        shares=_shares_of(command.shares),
    )
    return _grid(command.runs, tasks_of(command.tasks), options).command(output, options)


def _grid(
    runs: str | os.PathLike[str], tasks: Tasks, options: EncodersOptions
) -> Grid[EncoderScores]:
    _check(tasks, options)
    opened = _opened(runs, options)
    labelled = _labelled(tasks, options)
    _check_shares(opened, labelled, options.shares)
    values: dict[str, Any] = {}

    def digest_kept(value: Any) -> str:
        digest = digest_of(value)
        values[digest] = value
        return digest

    pairs = {
        name: digest_kept(pairs_value(task, options.limit))
        for name, task in tasks.items()
        if isinstance(task, PairTask)
    }
    trained = {name: digest_kept(labelled_value(task)) for name, task in labelled.items()}
    trained |= {
        name: digest_kept(spans_value(task.limited(options.limit)))
        for name, task in tasks.items()
        if isinstance(task, SpanTask)
    }

    def keep_all(out: Path) -> None:
        keep(values, out)
        write_signed(out / SOURCE, str(Path(runs).absolute()))

    judged = _runs(opened, tasks, pairs, trained, options)
    return Grid(
        result=EncoderScores,
        plan=SweepPlan(WORK, [asdict(run) for run in judged], None, WORKS[WORK]),
        place=(),  # their rows say it
        config={
            "study": WORK,
            **{name: one for name, one in asdict(opened[0].run).items() if name not in PLACE},
            "models": list(dict.fromkeys(each.run.model for each in opened)),
            "seeds": sorted({each.run.seed for each in opened}),
            "tasks": {name: dict(task.report) for name, task in tasks.items()},
            "outputs": list(options.outputs),
            "embeddings": list(options.embeddings),
            "tuned": list(options.tuned),
            "shares": list(options.shares),
            "tuning": {way: _numbers(way, options) for way in DEFAULTS},
            "limit": options.limit,
            "sample": sample_note(options.limit),
            **({} if options.models else left_out(opened)),
        },
        axes=("models", "seeds", "tasks", "outputs", "embeddings", "tuned", "shares"),
        keep=keep_all,
        versions={each.folder.name: versions_of(each.folder) for each in opened},
    )


def _runs(
    opened: Opened,
    tasks: Tasks,
    pairs: Mapping[str, str],
    trained: Mapping[str, str],
    options: EncodersOptions,
) -> list[JudgedRun]:
    """What one reading of the texts serves is one run: all outputs and embeddings of an encoder
    that stays as it is. ``pairs``, of which there are cosines, and ``trained``, what classifiers
    are trained on, are digests of tasks."""
    again = {name: digest for name, digest in pairs.items() if name not in trained}
    runs: list[JudgedRun] = []
    for each in opened:
        files = read_json(each.folder / DONE, DONE_KEYS)["files"]
        encoder: dict[str, Any] = {
            "encoder": each.folder.name,
            "weights": files[f"{MODEL}/{WEIGHTS}"],
            "model": each.run.model,
            "seed": each.run.seed,
        }
        outputs = _outputs_of(each.run, options)
        for name, task in tasks.items():
            if name in pairs:
                runs.append(
                    JudgedRun(
                        **encoder,
                        task=name,
                        data=pairs[name],
                        tuned="no",
                        outputs=outputs,
                        embeddings=list(options.embeddings),
                    )
                )
            if name not in trained:
                continue
            of_spans = isinstance(task, SpanTask)
            embeddings = [WORDS] if of_spans else list(options.embeddings)
            for way, share in product(options.tuned, options.shares):
                setup: dict[str, Any] = {**encoder, "task": name, "data": trained[name]}
                setup |= {"tuned": way, "share": float(share), **_numbers(way, options)}
                if way == "frozen":
                    runs.append(JudgedRun(**setup, outputs=outputs, embeddings=embeddings))
                    continue
                runs += [
                    JudgedRun(
                        **setup,
                        outputs=[output],
                        embeddings=[embedding],
                        pairs={} if of_spans else again,
                    )
                    for output, embedding in product(outputs, embeddings)
                ]
    return runs


def _numbers(way: str, options: EncodersOptions) -> dict[str, Any]:
    """How classifiers are trained, by default or as asked."""
    epochs, lr = DEFAULTS[way]
    return {
        "epochs": epochs if options.epochs is None else options.epochs,
        "lr": lr if options.lr is None else options.lr,
        "batch_size": options.batch_size,
    }


def _labelled(tasks: Tasks, options: EncodersOptions) -> dict[str, LabelledTask]:
    """What classifiers are trained on."""
    labelled: dict[str, LabelledTask] = {}
    for name, task in tasks.items():
        if isinstance(task, LabelledTask):
            labelled[name] = task
        elif isinstance(task, PairTask) and task.train and task.train[0].label is not None:
            labelled[name] = classes_of(name, task)
    return {name: task.limited(options.limit) for name, task in labelled.items()}


def _opened(runs: str | os.PathLike[str], options: EncodersOptions) -> list[FinishedEncoder]:
    """The runs, model by model; each has an output that is asked for."""
    opened = finished_encoders(runs, options.models)
    for each in opened:
        if not _outputs_of(each.run, options):
            raise OptionError(
                f"outputs={list(options.outputs)!r}: the model {each.run.model!r} composes nothing "
                "and has 'cont' alone; ask for that too, or leave the model out (models)"
            )
    return opened


def _outputs_of(run: PretrainingRun, options: EncodersOptions) -> list[str]:
    return [one for one in options.outputs if run.composes or one == "cont"]


def _check(tasks: Tasks, options: EncodersOptions) -> None:
    check_options(options.where, options.workers, options.slurm)
    check_names("outputs", options.outputs, OUTPUTS)
    check_names("embeddings", options.embeddings, EMBEDDINGS)
    check_names("tuned", options.tuned, TUNED[1:])
    for name in ("limit", "epochs", "batch_size"):
        value = getattr(options, name)
        if value is not None and (not is_whole(value) or value < 1):
            raise OptionError(f"{name}={value!r}: expected a whole number, 1 or more")
    if options.lr is not None and not (math.isfinite(options.lr) and options.lr > 0):
        raise OptionError(f"lr={options.lr!r}: expected a finite number above 0")
    shares = list(options.shares)
    if not shares or len({*shares}) < len(shares) or not all(0 < one <= 1 for one in shares):
        raise OptionError(
            f"shares={shares!r}: expected one or more numbers above 0 and up to 1, each once"
        )
    if not tasks:
        raise OptionError("tasks is empty: expected at least one, such as load_pairs('bird')")
    if any(isinstance(task, LabelledTask) for task in tasks.values()):
        check_package("sklearn", "papers")
    for name, task in tasks.items():
        pairs = drawn(task.test, options.limit) if isinstance(task, PairTask) else ()
        if isinstance(task, PairTask) and not are_apart(pairs):
            raise InputError(
                f"the task {name!r} has {len(pairs)} test pairs whose scores or "
                f"labels are not several: expected {FEWEST} pairs or more, not all judged alike "
                "(take more of them: limit)"
            )


def _check_shares(
    opened: Opened, labelled: Mapping[str, LabelledTask], shares: Sequence[float]
) -> None:
    """That each share of the training texts has several classes."""
    for name, task in labelled.items():
        train = task.split("train")
        for seed in sorted({each.run.seed for each in opened}):
            chosen = nested(len(train), min(shares), seed)
            which = f"{name} (share {min(shares):g}, seed {seed})"
            check_told_apart([train[i] for i in chosen], which)


def tasks_of(text: str) -> dict[str, PairTask | LabelledTask | SpanTask]:
    """``"bird=FOLDER,sst=FOLDER,mine=FILE"``, loaded.

    Raises:
        OptionError: no NAME=PLACE, or a name twice; and as :func:`load_pairs`,
            :func:`load_labelled` and :func:`load_squad`.
    """
    tasks: dict[str, PairTask | LabelledTask | SpanTask] = {}
    for part in text.split(","):
        name, equals, place = part.partition("=")
        if not (name and equals and place) or name in tasks:
            raise OptionError(
                f"tasks={text!r}: {part!r}: expected NAME=FOLDER (bird, paws-qqp, {SQUAD}, "
                f"{', '.join(names_of('labelled'))}) or NAME=FILE, by commas, each name once"
            )
        if name == SQUAD:
            tasks[name] = load_squad(place)
        elif name in names_of("labelled"):
            labelled = load_labelled(name, data_dir=place)
            tasks[labelled.name] = labelled
        elif Path(place).suffix in (".tsv", ".jsonl"):
            tasks[name] = load_pairs(place)
        else:
            pairs = load_pairs(name, data_dir=place)
            tasks[pairs.name] = pairs
    return tasks


def _shares_of(text: str) -> list[float]:
    try:
        return [float(one) for one in text.split(",")]
    except ValueError as error:
        raise OptionError(
            f"shares={text!r}: expected numbers, by commas, such as 0.1,0.5"
        ) from error


@dataclass(frozen=True, kw_only=True)
class JudgedRun:
    """The configuration of a run: its hash names the run's folder."""

    encoder: str
    """The folder's name among the runs of `pretrain`."""
    weights: str
    """Digest of its weights."""
    model: str
    seed: int
    task: str
    data: str
    """Digest of the task, kept beside the runs."""
    tuned: str
    outputs: Sequence[str]
    embeddings: Sequence[str]
    share: float = 0.0
    """Of the training split; 0 where nothing is trained."""
    epochs: int = 0
    lr: float = 0.0
    batch_size: int = 0
    pairs: Mapping[str, str] = field(default_factory=dict)
    """Tasks of pairs whose cosines are measured again after training, with their digests."""

    def rows(self, out: Path, folder: Path) -> Iterator[Row]:
        """What is measured, of a study in ``out``."""
        path = Path(read_signed(out / SOURCE)) / "runs" / self.encoder / MODEL
        model = load_model(str(path))
        assert isinstance(model, SmallEncoderModel)
        place = {"model": self.model, "seed": self.seed, "tuned": self.tuned, "share": self.share}
        place |= {"trained_on": NOTHING if self.tuned == "no" else self.task}
        task_rows: Iterator[Row] | list[Row]
        tuning = Tuning(self.epochs, self.lr, self.batch_size, self.seed)
        if self.tuned == "no":
            pairs = kept_pairs(out, self.data)
            task_rows = cosine_rows(model, pairs, self.outputs, self.embeddings)
        elif list(self.embeddings) == [WORDS]:
            spans = kept_spans(out, self.data, self.task)
            checkpoint_folder = folder if self.tuned == "end-to-end" else None
            task_rows = span_rows(model, spans, self.outputs, self.share, tuning, checkpoint_folder)
        else:
            task = kept_labelled(out, self.data, self.task)
            if self.tuned == "frozen":
                settings = (self.outputs, self.embeddings, self.share, tuning)
                task_rows = frozen_rows(model, task, *settings)
            else:
                output, embedding = cast(Output, self.outputs[0]), self.embeddings[0]
                task_rows = tuned_rows(model, task, output, embedding, self.share, tuning, folder)
        for row in task_rows:
            yield {**place, "task": self.task, **row}
        for name, digest in self.pairs.items():
            pairs = kept_pairs(out, digest)
            for row in cosine_rows(model, pairs, self.outputs, self.embeddings):
                yield {**place, "task": name, **row}


@trains
def judge(config: Mapping[str, Any], folder: Path) -> None:
    """The rows of a run into its folder."""
    run = JudgedRun(**config)
    rows = list(run.rows(folder.parents[1], folder))
    for row in rows:
        row["value"] = None if row["value"] != row["value"] else row["value"]  # JSON has no NaN
    atomic_write(folder / RESULT, json_bytes({"run": asdict(run), "scores": rows}))
    clear_together([folder])
