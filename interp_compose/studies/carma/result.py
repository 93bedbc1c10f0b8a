"""The result of a comparison: what CARMA changes beside plain fine-tuning from the same start.

Eight tidy tables of what was measured, and five that are computed from them: ``values`` (one
number per run and measure), ``summary`` (over seeds), ``differences`` (paired by seed, with a
verdict each), ``dose_summary`` (words replaced) and ``overhead``.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from interp_compose._public import public
from interp_compose.errors import InputError, OptionError
from interp_compose.runs.result import environment_versions
from interp_compose.studies.cap.result import POOLINGS
from interp_compose.studies.carma.differences import (
    AVERAGE,
    differences_table,
    dose_summary,
    saturated_rates,
    seed_values,
    summary_table,
    training_curve,
)
from interp_compose.studies.core.result import StudyResult
from interp_compose.studies.core.tables import typed

if TYPE_CHECKING:
    from interp_compose.plots.interactive import ChartFigure


VERSIONS: Final = ("original", "ft", "carma")
TRAINED: Final = ("ft", "carma")


@dataclass(frozen=True)
class Table:
    """What a table must hold.

    Attributes:
        columns: name -> type.
        cell: the columns that name a row; no two rows share them.
        counts: (part, whole) columns: the first counts some of those that the second counts.
        undefined: numbers that may be NaN.
        positive: numbers above 0.
        complete: every combination of the cells' values has a row.
        versions: the versions that may occur.
    """

    columns: Mapping[str, str]
    cell: tuple[str, ...]
    counts: tuple[tuple[str, str], ...] = ()
    undefined: tuple[str, ...] = ()
    positive: tuple[str, ...] = ()
    complete: bool = False
    versions: tuple[str, ...] = VERSIONS


_RUN: Final = {"version": "str", "seed": "int64"}
_PART: Final = {"rate": "float64", "seed": "int64"}

TABLES: Final[Mapping[str, Table]] = {
    "accuracy": Table(
        columns=_RUN | {"n_correct": "int64", "n": "int64", "n_distinct": "int64"},
        cell=("version", "seed"),
        counts=(("n_correct", "n"), ("n_distinct", "n")),
        positive=("n", "n_distinct"),
        complete=True,
    ),
    "cap": Table(
        columns=_RUN
        | {"layer": "int64", "depth": "float64", "pooling": "str"}
        | {"n_correct": "int64", "n": "int64"},
        cell=("version", "seed", "layer", "pooling"),
        counts=(("n_correct", "n"),),
        positive=("n",),
        complete=True,
    ),
    "synonyms": Table(
        columns=_RUN
        | {"rate": "float64", "n": "int64", "n_test": "int64"}
        | {"n_before": "int64", "n_after": "int64", "n_both": "int64"},
        cell=("version", "seed", "rate"),
        counts=(
            *(("n_both", "n_before"), ("n_both", "n_after")),
            *(("n_before", "n"), ("n_after", "n"), ("n", "n_test")),
        ),
        positive=("n",),
        complete=True,
    ),
    "training": Table(
        columns=_RUN
        | {"steps": "int64", "seconds": "float64", "step_seconds": "float64"}
        | {"first_loss": "float64", "last_loss": "float64", "validation_accuracy": "float64"}
        | {"converged": "bool", "why": "str", "stopped_early": "bool"},
        cell=("version", "seed"),
        undefined=("validation_accuracy",),
        positive=("seconds", "step_seconds"),
        complete=True,
        versions=TRAINED,
    ),
    "representations": Table(
        columns=_RUN
        | {"layer": "int64", "same_word_cosine": "float64", "different_word_cosine": "float64"}
        | {"stable_rank": "float64"},
        cell=("version", "seed", "layer"),
        undefined=("same_word_cosine", "different_word_cosine", "stable_rank"),
    ),
    "replacements": Table(
        columns=_PART
        | {"example": "int64", "prompt": "str", "replaced": "str", "position": "int64"}
        | {"original": "str", "replacement": "str", "similarity": "float64"},
        cell=("rate", "seed", "example", "position"),
        undefined=("similarity",),
    ),
    "doses": Table(
        columns=_PART
        | {"example": "int64", "n_words": "int64", "n_eligible": "int64"}
        | {"n_wanted": "int64", "n_replaced": "int64"},
        cell=("rate", "seed", "example"),
        counts=(
            *(("n_wanted", "n_words"), ("n_replaced", "n_wanted"), ("n_replaced", "n_eligible")),
        ),
        complete=True,
    ),
    "history": Table(
        columns=_RUN
        | {"step": "int64", "loss": "float64", "task_loss": "float64"}
        | {"mi": "float64", "stability": "float64"},
        cell=("version", "seed", "step"),
        undefined=("mi", "stability"),
        versions=TRAINED,
    ),
}
"""A comparison's tables by name; their columns are explained in
:meth:`~interp_compose.studies.carma.result.Comparison.from_runs`."""


def checked_tables(tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """All of :data:`TABLES`, columns in order, versions and then the other cells ascending.

    Raises:
        InputError: a table or column is missing, foreign or of the wrong type; an unknown version
            or pooling; rows that are doubled or missing; counts that do not fit; tables that
            speak of different versions or seeds. The message names table and row.
    """
    if set(tables) != set(TABLES):
        missing = [name for name in TABLES if name not in tables]
        foreign = [name for name in tables if name not in TABLES]
        raise InputError(
            f"the tables {missing} are missing and {foreign} are foreign; "
            f"expected {', '.join(TABLES)}"
        )
    checked = {name: _checked(name, tables[name], table) for name, table in TABLES.items()}
    _check_runs(checked)
    return checked


def _checked(name: str, frame: pd.DataFrame, table: Table) -> pd.DataFrame:
    frame = _typed(name, frame, table)
    if "version" in frame:
        _check_words(name, frame["version"], table.versions)
    if "pooling" in frame:
        _check_words(name, frame["pooling"], POOLINGS)
    if "rate" in frame and not frame["rate"].between(0, 1, inclusive="right").all():
        rate = frame["rate"][~frame["rate"].between(0, 1, inclusive="right")].iloc[0]
        raise InputError(f"{name}.rate is {rate}; expected a share of words, above 0 and up to 1")
    for column in table.positive:
        if (frame[column] <= 0).any():
            raise InputError(f"{name}.{column} is {frame[column].min()}; expected more than 0")
    _check_counts(name, frame, table.counts)
    cell = list(table.cell)
    doubled = frame.duplicated(cell)
    if doubled.any():
        raise InputError(f"{name} has {_row(frame[doubled], cell)} more than once; expected once")
    if table.complete:
        _check_complete(name, frame, cell)
    return frame.sort_values(cell, key=_by_version, ignore_index=True)


def _typed(name: str, frame: pd.DataFrame, table: Table) -> pd.DataFrame:
    """:func:`typed`, but that some numbers may be NaN, and that no rows need no columns."""
    if frame.empty:
        frame = pd.DataFrame(columns=list(table.columns))
    gaps = {column: frame[column].isna() for column in table.undefined if column in frame}
    filled = frame.assign(**{c: frame[c].astype(float).fillna(0.0) for c in gaps})
    result = typed(name, filled, table.columns)
    return result.assign(**{c: result[c].mask(gap.to_numpy()) for c, gap in gaps.items()})


def _check_words(name: str, column: pd.Series, known: Sequence[str]) -> None:
    foreign = column[~column.isin(known)]
    if len(foreign):
        raise InputError(
            f"{name} has the {column.name} {foreign.iloc[0]!r}; expected one of {', '.join(known)}"
        )


def _check_counts(name: str, frame: pd.DataFrame, counts: Sequence[tuple[str, str]]) -> None:
    for small, large in counts:
        bad = (frame[small] < 0) | (frame[small] > frame[large])
        if bad.any():
            row = frame[bad].iloc[0]
            raise InputError(
                f"{name} has {small} {row[small]} with {large} {row[large]} in row "
                f"{bad.argmax()}; expected 0 ≤ {small} ≤ {large}"
            )


def _check_complete(name: str, frame: pd.DataFrame, cell: list[str]) -> None:
    there = set(frame[cell].itertuples(index=False, name=None))
    for row in itertools.product(*(dict.fromkeys(frame[column]) for column in cell)):
        if row not in there:
            what = ", ".join(f"{key} {value}" for key, value in zip(cell, row, strict=True))
            raise InputError(f"{name} has no row for {what}; every combination needs one")


def _check_runs(tables: Mapping[str, pd.DataFrame]) -> None:
    """The same versions and the same seeds in every table that must be complete."""
    if tables["accuracy"].empty:
        raise InputError("accuracy has no rows; expected one per version and seed")
    versions, seeds = set(tables["accuracy"]["version"]), set(tables["accuracy"]["seed"])
    for name, table in TABLES.items():
        if not table.complete:
            continue
        frame, wanted = tables[name], versions & set(table.versions)
        for column, expected in (("version", wanted), ("seed", seeds if wanted else set())):
            if column in frame and set(frame[column]) != expected:
                raise InputError(
                    f"{name} has the {column}s {sorted(set(frame[column]))}, "
                    f"accuracy {sorted(expected)}; expected the same runs in both"
                )


def _by_version(column: pd.Series) -> pd.Series:
    if column.name == "version":
        return column.map({name: i for i, name in enumerate(VERSIONS)})
    if column.name == "pooling":
        return column.map({name: i for i, name in enumerate(POOLINGS)})
    return column


def _row(frame: pd.DataFrame, cell: Sequence[str]) -> str:
    return ", ".join(f"{key} {frame[key].iloc[0]}" for key in cell)


@public
@dataclass(frozen=True, eq=False, repr=False)
class Comparison(StudyResult):
    """A model as it was, fine-tuned, and fine-tuned with CARMA (sections 4 and 5).

    Make one with :meth:`from_runs`; keep it with :meth:`~Result.save`; read it back with
    :meth:`~Result.load`.
    """

    TABLES = (
        "summary",
        "differences",
        "overhead",
        "values",
        "dose_summary",
        "accuracy",
        "cap",
        "synonyms",
        "training",
        "representations",
        "history",
        "replacements",
        "doses",
    )
    RUNS = ("runs/ (weights and history of each)",)
    FIGURES = ("cap_average", "cap_protocols", "consistency", "representations", "training")
    PAGES = ("report.html",)

    @classmethod
    def from_runs(cls, tables: Mapping[str, pd.DataFrame], config: Mapping[str, Any]) -> Comparison:
        """Compare the versions, seed by seed.

        Args:
            tables: by name; ``version`` is "original", "ft" or "carma", ``seed`` a number.
                *accuracy*: version, seed, n_correct, n, n_distinct (how many different tokens were
                predicted; the original has a row per seed as well); *cap*: version, seed, layer,
                depth (0 … 1), pooling (mean, max or sum), n_correct, n; *synonyms*: version, seed,
                rate (share of words asked for), n (prompts in which a word was replaced), n_test
                (all prompts) and, of the n, n_before (right before), n_after (right after),
                n_both; *training*: version, seed, steps, seconds,
                step_seconds (median), first_loss, last_loss, validation_accuracy, converged, why
                (text, "" if converged), stopped_early; *representations*: version, seed, layer,
                same_word_cosine, different_word_cosine, stable_rank; *replacements*: rate, seed,
                example, prompt, replaced, position, original, replacement, similarity; *doses*:
                rate, seed, example, n_words (of the prompt's own text), n_eligible, n_wanted,
                n_replaced; *history*: version, seed, step, loss, task_loss, mi, stability.
            config: what was run, in JSON's types.

        Raises:
            InputError: a table or column is missing, foreign or of the wrong type; rows are
                missing or doubled; counts do not fit; tables speak of different runs.
        """
        checked = checked_tables(tables)
        values = seed_values(checked)
        frames = {
            "summary": summary_table(values),
            "differences": differences_table(values, checked["training"]),
            "overhead": _overhead(checked["training"]),
            "values": values,
            "dose_summary": dose_summary(checked["doses"]),
            **checked,
        }
        return cls(config=config, frames=frames, versions=environment_versions())

    @property
    def frame(self) -> pd.DataFrame:
        """One row per version and measure, over seeds.

        Columns: version; metric ("accuracy", "cap", "consist_syn", in per cent; "consist_syn_cv",
        the coefficient of variation; "improvement_over_ft" and "improvement_over_original", the
        normalised improvement of ConsistSyn in per cent; "same_word_cosine",
        "different_word_cosine", "stable_rank"); rate, layer, depth and pooling where the metric
        has them; mean; sd; ci_low and ci_high, the 95 % interval; n_seeds.
        """
        return self.frames["summary"]

    @property
    def differences(self) -> pd.DataFrame:
        """One row per pair of versions and measure, with the verdict that the numbers allow.

        Columns: see :func:`~interp_compose.studies.carma.differences.differences_table`.
        """
        return self.frames["differences"]

    @property
    def overhead(self) -> pd.DataFrame:
        """What CARMA costs, one row per seed: its tables 6 and 7.

        Columns: seed; ft_seconds, carma_seconds and their ratio (depends on early stopping);
        ft_step_seconds, carma_step_seconds (median of a step) and their step_ratio.
        """
        return self.frames["overhead"]

    @property
    def dose(self) -> pd.DataFrame:
        """How many words were asked to be replaced, and were, one row per rate.

        Columns: see :func:`.differences.dose_summary`; the numbers of each
        prompt are in ``frames["doses"]``.
        """
        return self.frames["dose_summary"]

    def plot_cap(self, pooling: str = AVERAGE) -> ChartFigure:
        """Accuracy under CAP by depth, a curve per version, as in CARMA's figures 2 and 8.

        Args:
            pooling: a protocol, or "average" for the mean over protocols.

        Raises:
            OptionError: a protocol that was not run.
        """
        from interp_compose.studies.carma.figures import cap_figure

        known = [AVERAGE, *self._poolings()]
        if pooling not in known:
            raise OptionError(f"pooling {pooling!r} was not run; choose {', '.join(known)}")
        return cap_figure(self.frame, [pooling], config=self.config, notice=self._notice())

    def plot_cap_protocols(self) -> ChartFigure:
        """The same in a panel per protocol, as in CARMA's figures 6 and 7."""
        from interp_compose.studies.carma.figures import cap_figure

        return cap_figure(self.frame, self._poolings(), config=self.config, notice=self._notice())

    def plot_consistency(self) -> ChartFigure:
        """ConsistSyn against the share of words replaced, a line per version."""
        from interp_compose.studies.carma.figures import consistency_figure

        rates = saturated_rates(self.frame)
        notice = [self._notice(), f"saturated at {rates}" if rates else ""]
        return consistency_figure(
            self.frame, config=self.config, notice=" · ".join(filter(None, notice))
        )

    def plot_representations(self) -> ChartFigure:
        """Cosines of tokens of the same and of different words, by layer."""
        from interp_compose.studies.carma.figures import representations_figure

        return representations_figure(self.frame, config=self.config, notice=self._notice())

    def plot_training(self) -> ChartFigure:
        """The task's loss over the steps, a curve per trained version."""
        from interp_compose.studies.carma.figures import training_figure

        curve = training_curve(self.frames["history"])
        return training_figure(curve, config=self.config, notice=self._notice())

    def figures(self) -> dict[str, ChartFigure]:
        """Every figure that has something to show, by the name its files get."""
        figures = {
            "cap_average": self.plot_cap(),
            "cap_protocols": self.plot_cap_protocols(),
        }
        if (self.frames["synonyms"]["n_before"] > 0).any():
            figures["consistency"] = self.plot_consistency()
        cosines = self.frames["representations"][["same_word_cosine", "different_word_cosine"]]
        if cosines.notna().any(axis=None):
            figures["representations"] = self.plot_representations()
        if len(self.frames["history"]):
            figures["training"] = self.plot_training()
        return figures

    def summary(self) -> str:
        """Verdicts and the main numbers as aligned text, for a terminal."""
        from interp_compose.studies.carma.verdicts import terminal_summary

        return terminal_summary(self)

    def report(self) -> str:
        """One HTML page with everything in it: verdicts, tables, figures, the paper's numbers.

        About 5 MB (plotly.js is inside); nothing is fetched from anywhere when it is opened.
        """
        from interp_compose.studies.carma.report import report_page

        return report_page(self)

    def pages(self) -> dict[str, bytes]:
        """The report."""
        return {"report.html": self.report().encode()}

    def _notice(self) -> str:
        """Like "4 of 10 trainings not converged", for a picture; "" if all have."""
        converged = self.frames["training"]["converged"]
        stuck = int((~converged).sum())
        return f"{stuck} of {len(converged)} trainings not converged" if stuck else ""

    def _poolings(self) -> list[str]:
        there = set(self.frames["cap"]["pooling"])
        return [name for name in POOLINGS if name in there]


def _overhead(training: pd.DataFrame) -> pd.DataFrame:
    """See :attr:`Comparison.overhead`."""
    columns = ["seed", "seconds", "step_seconds"]
    ft, carma = (training[training["version"] == name][columns] for name in ("ft", "carma"))
    both = ft.merge(carma, on="seed", suffixes=("_ft", "_carma"))
    return pd.DataFrame(
        {
            "seed": both["seed"],
            "ft_seconds": both["seconds_ft"],
            "carma_seconds": both["seconds_carma"],
            "ratio": both["seconds_carma"] / both["seconds_ft"],
            "ft_step_seconds": both["step_seconds_ft"],
            "carma_step_seconds": both["step_seconds_carma"],
            "step_ratio": both["step_seconds_carma"] / both["step_seconds_ft"],
        }
    )
