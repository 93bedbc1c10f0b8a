"""Studies whose result is of a grid of training runs, which a later call may enlarge.

Such a study is three things: the configurations of its runs, made of its options and checked (a
:class:`Grid`); a function that trains one run and leaves the rows that it measured in ``run.json``;
and a :class:`GridResult`, whose ``SCHEMA`` names the tables that the rows of all runs make. Its
function is :meth:`Grid.train`, its command :meth:`Grid.command`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, TypeVar

import numpy as np
import pandas as pd

from interp_compose._versions import gathered_versions
from interp_compose.errors import InputError, OptionError
from interp_compose.runs.files import read_json
from interp_compose.runs.folder import SweepPlan, resolve, versions_of
from interp_compose.runs.sweep import check_options, sweep
from interp_compose.studies.core.options import Execution, GridOptions, Output
from interp_compose.studies.core.output import check_folder, check_larger, write_result
from interp_compose.studies.core.result import StudyResult
from interp_compose.studies.core.tables import Table
from interp_compose.studies.core.text import Summary
from interp_compose.studies.core.view import StudyQuestion, View

R = TypeVar("R", bound=StudyResult)
ResultT = TypeVar("ResultT", bound="GridResult")
Tables = Callable[
    [Sequence[Table], Sequence[Mapping[str, Any]], Sequence[Path]], Mapping[str, pd.DataFrame]
]
"""Makes the tables of a schema of the places of the runs and their folders."""

RESULT: Final = "run.json"
"""What a run found, in its folder."""

MOST_SEED: Final = 2**31
"""The largest first seed."""
MOST: Final = 10_000
"""Values of one axis, at most; more are almost certainly a mistake."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Grid(Generic[R]):
    """The runs of a study, none of them trained yet, each checked.

    Attributes:
        result: the class of what comes of them.
        plan: what is done, each run with its configuration.
        place: the fields of a configuration that tell a run from all others, in the tables.
        config: what the result says of itself.
        axes: the keys of ``config`` of which a later call may hold more values.
        keep: writes what the runs read into the folder that they share.
        tables: reads the tables of all runs, as :func:`gathered` does from each ``run.json``.
        frames: tables of the result's schema that are not the runs'.
        versions: of packages with which what the runs open was made, by its name.
        here: what does a run in this process, where that is not what the plan names for others.
        name: what versions call a run, by its configuration and its folder.
    """

    result: type[R]
    plan: SweepPlan
    place: Sequence[str]
    config: Mapping[str, Any]
    axes: Sequence[str]
    keep: Callable[[Path], object] = lambda out: None
    tables: Tables = lambda schema, places, folders: gathered(schema, places, folders)
    frames: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    versions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    here: Callable[..., object] | None = None
    name: Callable[[Mapping[str, Any], Path], str] = lambda config, folder: folder.name

    def train(self, out: str | os.PathLike[str], execution: Execution) -> R:
        """Train what is missing in ``out``, and make a result of the tables of all runs.

        Raises:
            OptionError: options that do not go with ``where``.
            InputError: ``out`` holds another sweep.
            ModelError: runs failed; the others are kept. Names the first and its log.
        """
        check_options(execution.where, execution.workers, execution.slurm)
        self.keep(Path(out).absolute())
        folders = swept(self.plan, out, execution, self.here)
        places = [{name: run[name] for name in self.place} for run in self.plan.configs]
        of_runs = {
            self.name(run, folder): versions_of(folder)
            for run, folder in zip(self.plan.configs, folders, strict=True)
        }
        return self.result(
            config=dict(self.config),
            frames={**self.tables(self.result.SCHEMA, places, folders), **self.frames},
            versions=gathered_versions({**of_runs, **self.versions}),
        )

    def command(self, output: Output, execution: Execution) -> R:
        """Look at the folder, train what is missing, and write tables, figures and report.

        Raises:
            InputError: the folder holds another study's result, or that of a larger grid, and
                ``overwrite`` is off.
            ModelError: as :meth:`train`.
        """
        out, overwrite = output.out, output.overwrite
        settings = {name: value for name, value in self.config.items() if name not in self.axes}
        check_folder(out, self.result, settings, overwrite=overwrite)
        if not overwrite:
            check_larger(out, {name: self.config[name] for name in self.axes})
        result = self.train(out, replace(execution, progress=not output.quiet))
        write_result(out, result, overwrite=overwrite, grows=self.axes)
        return result


@dataclass(frozen=True, eq=False, repr=False)
class GridResult(StudyResult):
    """The tables of all runs of a grid, and those that are computed of them."""

    RUNS: ClassVar[tuple[str, ...]] = ("runs/ (weights and history of each)",)
    VIEW: ClassVar[View]
    """The columns that the summary shows of the tables ``summary`` and ``differences``."""
    QUESTION: ClassVar[StudyQuestion | None] = None
    """What those tables answer, in sentences."""

    @classmethod
    def from_runs(
        cls: type[ResultT], tables: Mapping[str, pd.DataFrame], config: Mapping[str, Any]
    ) -> ResultT:
        """A result of the tables that ``SCHEMA`` states.

        Raises:
            InputError: a table or column is missing, foreign or of the wrong type; rows are
                missing or doubled; counts do not fit.
        """
        return cls._checked(tables, config)

    def computed(self) -> Mapping[str, pd.DataFrame]:
        """The tables beside those of the schema, from these."""
        return {}

    def _rows(self) -> pd.DataFrame:
        """The table over seeds, with what :attr:`VIEW` shows of other tables."""
        return self.frames["summary"]

    def _summary(self) -> Summary:
        """A row per place, over seeds, and the paired differences, as text for a terminal."""
        lines = self.VIEW.lines(self._rows())
        if "differences" in self.frames:
            lines += self.VIEW.differences(self.frames["differences"])
        return self._told(lines)

    def _answers(self) -> list[str]:
        if self.QUESTION is None or self.frames["summary"].empty:
            return []
        return self.QUESTION.answer(self.frames["summary"], self.frames["differences"])

    def sentences(self) -> list[str]:
        """Whether what is compared differs, what was asked, and what came out at one place."""
        if self.QUESTION is None:
            return super().sentences()
        return self.QUESTION.sentences(self.frames["summary"], self.frames["differences"])

    def __post_init__(self) -> None:
        measured = {table.name for table in self.SCHEMA}
        if measured <= self.frames.keys() and not {*self.TABLES} <= self.frames.keys():
            object.__setattr__(self, "frames", {**self.frames, **self.computed()})
        super().__post_init__()


def swept(
    plan: SweepPlan,
    out: str | os.PathLike[str],
    execution: Execution,
    here: Callable[..., object] | None = None,
) -> tuple[Path, ...]:
    """The folder of each run of a plan, done where it was missing; in this process by ``here``, or
    by what the plan names.

    Raises:
        InputError: ``out`` holds another sweep.
        ModelError: runs failed; the others are kept. Names the first and its log.
    """
    done = sweep(
        plan,
        here or resolve(plan.function or plan.work),
        out,
        where=execution.where,
        workers=execution.workers,
        slurm=execution.slurm,
        progress=execution.progress,
    )
    done.check()
    return tuple(done.folders)


def gathered(
    schema: Sequence[Table], places: Sequence[Mapping[str, Any]], folders: Sequence[Path]
) -> dict[str, pd.DataFrame]:
    """The tables of all runs. ``places`` tell them apart; a table has the run's rows of its name,
    and ``runs``, where there is such a table, how each was trained.

    Raises:
        InputError: rows of a run lack a column, as those of an earlier release may.
    """
    rows: dict[str, list[dict[str, Any]]] = {table.name: [] for table in schema}
    for place, folder in zip(places, folders, strict=True):
        record = read_json(folder / RESULT)
        if "runs" in rows:
            rows["runs"].append({**place, **_training(record)})
        for table in schema:
            if table.name == "runs":
                continue
            run_rows = [{**place, **row} for row in record.get(table.name, [])]
            missing = table.columns.keys() - table.null - run_rows[0].keys() if run_rows else set()
            if missing:
                raise InputError(
                    f"{folder} is a run of an earlier release: its {table.name} lack "
                    f"{', '.join(sorted(missing))}; remove that folder to train the run again, or "
                    "choose another folder for all"
                )
            rows[table.name] += run_rows
    return {table.name: table.of(rows[table.name]) for table in schema}


def _training(record: Mapping[str, Any]) -> dict[str, Any]:
    """How a run was trained, and what is inside its model."""
    losses = record["losses"]
    return {
        "n_parameters": record["n_parameters"],
        "steps": len(losses),
        "step_seconds": record["step_seconds"],
        "first_loss": losses[0],
        "last_loss": float(np.mean(losses[-max(1, len(losses) // 20) :])),
        **record.get("inside", {}),
    }


def seeds_of(options: GridOptions) -> range:
    """The seeds of every cell; refuses fewer than one, too many, and one below 0."""
    if not 1 <= options.seeds <= MOST:
        raise OptionError(f"seeds={options.seeds!r}: expected a whole number, 1 to {MOST}")
    if not 0 <= options.first_seed <= MOST_SEED:
        raise OptionError(
            f"first_seed={options.first_seed!r}: expected a whole number from 0 to {MOST_SEED}"
        )
    return range(options.first_seed, options.first_seed + options.seeds)


def numbers(text: str, name: str) -> list[float]:
    """``"0.3:1.0:0.1"``, from, to and step, both ends in; ``"0,0.01,1"``; or both, by commas.

    Raises:
        OptionError: no number, a step that never arrives, or an empty list; names the part.
    """
    values: list[float] = []
    for part in text.split(","):
        bounds = part.split(":")
        try:
            limits = [float(bound) for bound in bounds]
        except ValueError as error:
            raise OptionError(
                f"{name}={text!r}: {part!r} is no number; expected e.g. 0.3:1.0:0.1 or 0,0.01,1"
            ) from error
        if len(limits) == 1:
            values.append(limits[0])
            continue
        if len(limits) != 3 or not all(map(math.isfinite, limits)):
            raise OptionError(f"{name}={text!r}: {part!r} is no from:to:step, such as 0.3:1.0:0.1")
        low, high, step = limits
        count = (high - low) / step if step else -1.0
        if not -1e-9 <= count < MOST:
            raise OptionError(
                f"{name}={text!r}: {part!r} does not go from {low:g} to {high:g} by {step:g}"
            )
        values += [round(low + i * step, 10) for i in range(math.floor(count + 1e-9) + 1)]
    return values


def checked(values: Sequence[float | int], name: str, *, whole: bool = False) -> list[float]:
    """A grid's axis: finite numbers of 0 or more, none twice, at least one; ``whole`` ones.

    Raises:
        OptionError: names the value.
    """
    if not values:
        raise OptionError(f"{name}={values!r}: expected numbers, at least one")
    if len(values) > MOST:
        raise OptionError(f"{name} holds {len(values)} values: expected at most {MOST}")
    for value in values:
        if not math.isfinite(value):
            raise OptionError(f"{name} holds {value!r}: expected finite numbers")
        if whole and value != int(value):
            raise OptionError(f"{name} holds {value:g}: expected whole numbers")
    if min(values) < 0:
        raise OptionError(f"{name} holds {min(values):g}: expected 0 or more")
    axis = [float(value) for value in values]
    for one, other in pairwise(sorted(axis)):
        if one == other:
            raise OptionError(f"{name} holds {one:g} twice; each run is done once")
        if f"{one:g}" == f"{other:g}":
            raise OptionError(
                f"{name} holds {one!r} and {other!r}, which tables and figures both call {one:g}; "
                "take one of them"
            )
    return axis
