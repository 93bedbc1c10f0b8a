"""The complexity of weights in training (complexity control, Fig. 7), at little cost."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pandas as pd
import torch

from interp_compose._public import public
from interp_compose.errors import InputError, NonFiniteError, OptionError
from interp_compose.models.lens_model import LensModel
from interp_compose.models.weight_matrices import (
    IN_BLOCKS,
    MATRICES,
    WeightMatrix,
    weight_matrices,
)
from interp_compose.probes.condensation import mean_abs_cosine
from interp_compose.probes.rank import effective_rank, frobenius, spectral_entropy, stable_rank
from interp_compose.probes.rank_tracker import StableRankTracker
from interp_compose.runs.files import append, atomic_write, json_value, read_text
from interp_compose.training.history import Tracker

EXACT: Final = 128
"""Smaller side up to which all eigenvalues cost no more than two looks."""
PLACE: Final = {"step": "int64", "layer": "int64", "matrix": "str"}
MEASURES: Final = {
    "stable_rank": None,  # followed from look to look
    "frobenius_norm": lambda weight: frobenius(weight.float()),
    "effective_rank": effective_rank,
    "spectral_entropy": spectral_entropy,
    "mean_abs_cosine": mean_abs_cosine,
}


@public
class ComplexityTracker:
    """Stable ranks of weight matrices, every so many steps of a training run.

    Pass it to :func:`finetune` as ``track``, or in a loop of your own call :meth:`watch` once and
    :meth:`measure` when you like::

        tracker = ic.ComplexityTracker(every=50)
        ic.finetune(model, task, track=tracker)
        tracker.frame

    With ``path`` every row is appended to a JSONL file as it comes. A run that was killed and
    resumes from a checkpoint, given a tracker with the same ``path``, goes on in that file: rows of
    steps after the checkpoint are dropped, and measured again. (A run that starts at step 0 writes
    the file anew.) Matrices whose smaller side has at most 128 entries are measured exactly, and
    come out the same to the bit. Larger ones are iterated from where the last look ended
    (:class:`.StableRankTracker`), which a resumed run does not know:
    their numbers agree within 10⁻⁴, relatively. Where two singular values are about to change
    places, a look may follow the smaller one, by at most 1 %, until the next of the checks from a
    random start that every tenth look makes.

    Args:
        every: steps between two measurements; step 0 is the model as it was given.
        matrices: which ones, by the names of :data:`~.weight_matrices.MATRICES`, heads merged.
        measures: any of ``"stable_rank"``, ``"frobenius_norm"``, ``"effective_rank"``,
            ``"spectral_entropy"`` and ``"mean_abs_cosine"``. The last three look at the whole
            matrix anew each time: give ``every`` more steps.
        path: a JSONL file, made if needed.
        also: told every row that the tracker is told, and every number measured, as
            ``layer 2/W_Q/stable_rank``; such as ``wandb.log``.

    Raises:
        OptionError: ``every`` is below 1, or an unknown matrix or measure.
    """

    def __init__(
        self,
        *,
        every: int = 50,
        matrices: Sequence[str] = IN_BLOCKS,
        measures: Sequence[str] = ("stable_rank", "frobenius_norm"),
        path: str | os.PathLike[str] | None = None,
        also: Tracker | None = None,
    ) -> None:
        if every < 1:
            raise OptionError(f"every={every!r}: expected an integer, 1 or more")
        unknown = [name for name in matrices if name not in MATRICES]
        if unknown or not matrices:
            raise OptionError(
                f"matrices={matrices!r}: expected some of {', '.join(MATRICES)}, in a tuple"
            )
        if not measures or not set(measures) <= set(MEASURES):
            raise OptionError(
                f"measures={measures!r}: expected some of {', '.join(MEASURES)}, in a tuple"
            )
        self.every = every
        self.matrices = tuple(matrices)
        self.measures = tuple(measures)
        self.also = also
        self.path = None if path is None else Path(path)
        if self.path is not None and self.path.is_dir():
            raise OptionError(
                f"path={str(path)!r} is a folder; expected a file, such as rows.jsonl"
            )
        self.rows: list[dict[str, Any]] = []
        self._model: LensModel | None = None
        self._started = False
        self._followed: dict[tuple[int, str], StableRankTracker] = {}

    def watch(self, model: LensModel) -> None:
        """Read the weights of this model from now on; :func:`finetune` says which it trains.

        Raises:
            OptionError: not a loaded model.
            CapabilityError: quantised, sparse or missing weights; none of the matrices.
        """
        next(iter(weight_matrices(model, self.matrices)))
        self._model, self._started = model, False
        self._followed = {}

    def __call__(self, row: Mapping[str, float | int]) -> None:
        """What :func:`finetune` tells of a step or an evaluation; measures when it is time."""
        if self.also is not None:
            self.also(dict(row))
        step = int(row["step"])
        if not self._started:
            self._begin(step)
        if step % self.every == 0 and (not self.rows or self.rows[-1]["step"] != step):
            self.measure(step)

    @torch.no_grad()
    def measure(self, step: int) -> None:
        """One row for each matrix, as it is now.

        Raises:
            InputError: no model is being watched.
            NonFiniteError: NaN or infinite weights.
        """
        if self._model is None:
            raise InputError(
                "the tracker watches no model; pass it to finetune(…, track=tracker), or call "
                "tracker.watch(model) first"
            )
        if not self._started:
            self._begin(step)
        rows = [self._row(step, matrix) for matrix in weight_matrices(self._model, self.matrices)]
        self.rows += rows
        if self.path is not None:
            append(self.path, _lines(rows))
        if self.also is not None:
            self.also({"step": step} | _flat(rows))

    @property
    def frame(self) -> pd.DataFrame:
        """One row per step and matrix: step, layer, matrix, and a column for each measure."""
        kinds = PLACE | dict.fromkeys(self.measures, "float64")
        return pd.DataFrame(self.rows, columns=list(kinds)).astype(kinds)

    def _row(self, step: int, matrix: WeightMatrix) -> dict[str, Any]:
        row: dict[str, Any] = {"step": step, "layer": matrix.layer, "matrix": matrix.name}
        try:
            for name in self.measures:
                measure = MEASURES[name]
                value = measure(matrix.weight) if measure else self._stable_rank(matrix)
                row[name] = float(value)
        except NonFiniteError as broken:
            raise NonFiniteError(
                f"layer {matrix.layer}, {matrix.name}, at step {step}: {broken}"
            ) from broken
        return row

    def _stable_rank(self, matrix: WeightMatrix) -> float:
        if min(matrix.weight.shape) <= EXACT:
            return float(stable_rank(matrix.weight))
        place = (matrix.layer, matrix.name)
        if place not in self._followed:
            self._followed[place] = StableRankTracker()
        return self._followed[place].update(matrix.weight)

    def _begin(self, step: int) -> None:
        """Take up the rows of an earlier process that come before ``step``."""
        rows: list[dict[str, Any]] = []
        if self.path is not None:
            if self.path.exists():
                rows = [row for row in self._earlier(self.path) if row["step"] < step]
            atomic_write(self.path, _lines(rows).encode())
        self.rows, self._started = rows, True

    def _earlier(self, path: Path) -> list[dict[str, Any]]:
        """What the file holds; a last line that is not whole is left out."""
        rows = []
        for number, line in enumerate(read_text(path).split("\n")[:-1], start=1):
            try:
                rows.append(json_value(line))
                whole = set(rows[-1]) >= set(PLACE)
            except (ValueError, TypeError):
                whole = False
            if not whole:
                raise InputError(
                    f"{path}, line {number} is not a tracker's row: {line[:80]!r}; the file would "
                    "be written over: move it away, or give another path"
                )
        return rows


def _lines(rows: Sequence[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def _flat(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Like ``layer 2/W_Q/stable_rank``, as trackers take it."""
    return {
        f"layer {row['layer']}/{row['matrix']}/{name}": float(row[name])
        for row in rows
        for name in row
        if name not in PLACE
    }
