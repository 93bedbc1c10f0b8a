"""The tables that a comparison of versions is computed from, and what is refused in them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pandas as pd

from interp_compose.errors import InputError
from interp_compose.studies.cap.result__cap_outcomes import POOLINGS
from interp_compose.studies.core.tables import typed

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
