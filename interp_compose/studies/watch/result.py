"""What a watcher measured over a training, and when it looked."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pandas as pd

from interp_compose._public import public
from interp_compose._versions import environment_versions
from interp_compose.errors import InputError, MissingDataError, OptionError
from interp_compose.studies.core.result import StudyResult
from interp_compose.studies.core.text import Summary, counted, interval, text_table
from interp_compose.studies.watch.rows import LOOKS, MEASURED, Rows

if TYPE_CHECKING:
    from interp_compose.plots.interactive import ChartFigure

ON_DATA: Final = ("cap", "attention_leak", "agreement")
NAMES: Final = (
    *("stable_rank", "frobenius_norm", "effective_rank", "spectral_entropy", "mean_abs_cosine"),
    *ON_DATA,
)


@public
@dataclass(frozen=True, eq=False, repr=False)
class Watched(StudyResult):
    """What was measured while a model was trained, step by step.

    Of a training that has ended, and of one that goes on: :attr:`.Watcher.result`, or
    :meth:`read` of its file.
    """

    SCHEMA = (MEASURED, LOOKS)
    TABLES = ("measured", "looks")
    FIGURES = tuple(f"{name}_over_training" for name in NAMES)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Watched:
        """The rows of a watcher's file, of a training that is still going as well.

        Raises:
            MissingDataError: there is no such file.
            CorruptFileError: it is not one of a watcher.
        """
        path = Path(path)
        if not path.is_file():
            raise MissingDataError(f"there is no file {path}; expected the path of an ic.watch")
        return of_rows(Rows.read(path))

    @property
    def frame(self) -> pd.DataFrame:
        """One row per look and number.

        Columns: step; measure; layer (-1: of what is measured without an intervention); of (the
        matrix, the pooling, the metric); value; low, high (its 95 % interval: Wilson's of "cap",
        a bootstrap's of "agreement", NaN of others); n (examples or pairs; 1 of a matrix).
        """
        return self.frames["measured"]

    @property
    def looks(self) -> pd.DataFrame:
        """One row per step at which a look was due.

        Columns: step; taken, or skipped for the budget; seconds of the look; training_seconds so
        far, without the watcher's; watching_seconds so far, with this look's; expected, the
        seconds of the look before, which a look was expected to take (NaN at the first).
        """
        return self.frames["looks"]

    def plot(self, measure: str | None = None) -> ChartFigure:
        """One measure over the steps of the training, a line a layer.

        Args:
            measure: the first that was measured by default.

        Raises:
            OptionError: a measure that was not measured.
            InputError: no look yet.
        """
        from interp_compose.studies.watch.figures import watch_figure

        names = self.config["measures"]
        measure = names[0] if measure is None else measure
        if measure not in names:
            raise OptionError(f"measure={measure!r}: expected one of {', '.join(names)}")
        if self.frame.empty:
            raise InputError("there is nothing to draw: no look has been taken yet")
        return watch_figure(self.frame, self.looks, measure, config=self.config)

    def figures(self) -> dict[str, ChartFigure]:
        """A figure of each measure."""
        if self.frame.empty:
            return {}
        return {f"{name}_over_training": self.plot(name) for name in self.config["measures"]}

    def _answers(self) -> list[str]:
        from interp_compose.studies.watch.reading import answers

        return answers(self.frame)

    def sentences(self) -> list[str]:
        """What changed most of each measure."""
        return self._answers()

    def _summary(self) -> Summary:
        """Looks taken and skipped, what they took, and each measure at the first and the last, with
        its interval; of weights the mean over a layer's matrices. The layer is blank where nothing
        is pooled or knocked out."""
        looks = self.looks
        skipped = int((~looks["taken"]).sum())
        taken = counted(int(looks["taken"].sum()), "looks")
        lines = [f"{taken}, {skipped} skipped for the budget"]
        if len(looks):
            last = looks.iloc[-1]
            lines[0] += (
                f"; {last['watching_seconds']:.3g} s beside {last['training_seconds']:.3g} s of "
                "training"
            )
        if self.frame.empty:
            return self._told(lines)
        if self.frame["low"].notna().any():
            lines.append("in brackets: 95 % intervals; n: examples or pairs (of weights: matrices)")
        of = self.frame["of"].where(self.frame["measure"].isin(ON_DATA), "mean of matrices")
        by_place = self.frame.assign(of=of).groupby(["step", "measure", "of", "layer"], sort=False)
        numbers = by_place.agg({"value": "mean", "low": "max", "high": "max", "n": "sum"})
        steps = sorted({self.frame["step"].min(), self.frame["step"].max()})
        shown = {f"step {step}": numbers.loc[step].apply(cell, axis=1) for step in steps}
        cells = pd.DataFrame({**shown, "n": numbers.loc[steps[-1]]["n"].map(str)}).fillna("–")
        table = cells.reset_index()
        table["layer"] = table["layer"].map(str).where(table["layer"] >= 0, "")
        columns = [("measure", "measure", "<16"), ("of", "of", "<18"), ("layer", "layer", ">5")]
        columns += [(name, name, ">10") for name in shown]
        return self._told([*lines, "", text_table(table, [*columns, ("n", "n", ">6")])])


def cell(place: pd.Series[float]) -> str:
    """A value and its interval, where it has one."""
    value, low, high = (float(place[name]) for name in ("value", "low", "high"))
    return f"{value:.4g}" if math.isnan(low) else interval(value, low, high)


def of_rows(rows: Rows) -> Watched:
    """A watcher's rows as frames."""
    config = {**rows.config, **({"left_out": [rows.note]} if rows.note else {})}
    frames = {"measured": MEASURED.of(rows.measured), "looks": LOOKS.of(rows.looks)}
    return Watched(config=config, frames=frames, versions=environment_versions())
