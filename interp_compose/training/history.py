"""What happened during a run: a row per step, per evaluation, and per layer of an evaluation."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import pandas as pd

from interp_compose._public import public
from interp_compose.errors import CorruptFileError, InputError, MissingDataError
from interp_compose.runs.checksums import check_listed
from interp_compose.runs.growing import GrowingFile, read_growing
from interp_compose.runs.result import Result

if TYPE_CHECKING:
    from interp_compose.plots.interactive import ChartFigure

STEPS = ("step", "epoch", "lr", "loss", "task_loss", "mi", "stability", "accuracy", "grad_norm")
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "steps": (*STEPS, "seconds"),
    "evaluations": ("step", "accuracy", "loss", "n"),
    "representations": (
        "step",
        "layer",
        "same_word_cosine",
        "different_word_cosine",
        "stable_rank",
    ),
}
Tracker = Callable[[dict[str, float | int]], object]
"""Called with each row as it is measured, such as ``wandb.log`` or ``trackio.log``."""


@runtime_checkable
class WeightTracker(Protocol):
    """A :data:`Tracker` that wants to see the model that is trained, before the first step."""

    def watch(self, model: Any) -> None: ...

    def __call__(self, row: dict[str, float | int]) -> object: ...


WHOLE = {"step", "epoch", "n", "layer"}


@public
@dataclass(frozen=True, eq=False, repr=False)
class TrainingHistory(Result):
    """What a training run did, step by step.

    Frames:
        steps: ``step`` (from 1), ``epoch`` (from 0), ``lr``, ``loss`` (what was minimised),
            ``task_loss`` (nats), ``mi`` and ``stability`` (CARMA's terms, unweighted; NaN in plain
            fine-tuning), ``accuracy`` on the batch, ``grad_norm`` before clipping, ``seconds``.
        evaluations: ``step`` (0 is the model as it was given), ``accuracy`` and ``loss`` on the
            validation split, ``n``.
        representations: of some validation prompts at each evaluation, per ``layer`` (the residual
            that enters block k): mean cosine of tokens of the same word and of different words of
            a text, and the stable rank of all token vectors.
    """

    @property
    def frame(self) -> pd.DataFrame:
        """One row per optimiser step."""
        return self.frames["steps"]

    @property
    def evaluations(self) -> pd.DataFrame:
        """One row per evaluation on the validation split."""
        return self.frames["evaluations"]

    @property
    def representations(self) -> pd.DataFrame:
        """One row per evaluation and layer."""
        return self.frames["representations"]

    def plot(self, value: Literal["loss", "accuracy"] = "loss") -> ChartFigure:
        """Training and validation against the optimiser's step, where 0 is the model as it was
        given.

        Points of training are means of nearby batches, with a band from the smallest to the
        largest; those of validation are evaluations.

        Args:
            value: "loss", the answer's cross-entropy in nats (the task's, without CARMA's terms),
                or "accuracy", whose bars are Wilson's 95 % intervals.
        """
        from interp_compose.training.figures import history_figure

        return history_figure(self.frame, self.evaluations, value, self.config)


@dataclass
class Recorder:
    """Rows as they come, kept in memory, appended to a JSONL file where one is named, and told to
    a tracker where there is one."""

    path: Path | None = None
    track: Tracker | None = None
    rows: list[dict[str, Any]] = field(default_factory=list)
    _file: GrowingFile | None = None

    def add(self, kind: str, values: Mapping[str, float | int | None]) -> None:
        """One row of one of the tables; None where there is no number."""
        row = {"table": kind, **values}
        self.rows.append(row)
        if self.path is not None:
            self._file = self._file or GrowingFile(self.path, [])
            self._file.add([row])
        if self.track is not None:
            self.track(_flat(kind, values))

    def restart(self, rows: list[dict[str, Any]]) -> None:
        """Begin with these rows: the file is written anew, without what came after them."""
        self.rows = list(rows)
        if self.path is not None:
            self._file = GrowingFile(self.path, self.rows)

    def tables(self) -> dict[str, pd.DataFrame]:
        """The rows as tidy frames, every table there even without rows."""
        return {
            kind: _frame([row for row in self.rows if row["table"] == kind], columns)
            for kind, columns in COLUMNS.items()
        }


def _flat(kind: str, values: Mapping[str, float | int | None]) -> dict[str, float | int]:
    """A row as trackers take it: names and numbers, no gaps.

    Steps keep their names; the others become ``validation/loss``, ``layer 2/stable_rank``.
    """
    prefix = {"steps": "", "evaluations": "validation/"}.get(kind)
    if prefix is None:
        prefix = f"layer {values['layer']}/"
    return {
        name if name == "step" else prefix + name: value
        for name, value in values.items()
        if value is not None and name != "layer"
    }


def read_history(path: str | os.PathLike[str]) -> dict[str, pd.DataFrame]:
    """The tables of a ``history.jsonl``, of a run that is still going as well.

    A last line that is not yet whole is left out.

    Raises:
        MissingDataError: there is no such file.
        CorruptFileError: a line is not one of a history, or the manifest next to the file names
            another.
    """
    path = Path(path)
    if not path.is_file():
        raise MissingDataError(f"there is no file {path}; expected a run's history.jsonl")
    check_listed(path)
    return _read(path).tables()


def _read(path: Path) -> Recorder:
    rows, _ = read_growing(path, "a history", COLUMNS)
    return Recorder(rows=rows)


def check_history(path: Path) -> None:
    """Refuse a file that a history would be written over, and that is none.

    Raises:
        InputError: names it.
    """
    if path.exists():
        try:
            _read(path)
        except CorruptFileError as other:
            raise InputError(
                f"a history is to be written to {path}, and what is there is none ({other}); move "
                "it away, or choose another folder"
            ) from other


def _frame(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            name: pd.Series(
                [row[name] for row in rows], dtype="int64" if name in WHOLE else "float64"
            )
            for name in columns
        }
    )
