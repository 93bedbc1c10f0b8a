"""``phase_diagram``: a grid of runs, done where they are missing, and what came of them."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pandas as pd

from interp_compose.checks import check_unread
from interp_compose.errors import OptionError
from interp_compose.papers.complexity.studies.anchors.grid import (
    WORK,
    anchor_grid,
    run_of,
    runs_of,
    with_task,
)
from interp_compose.papers.complexity.studies.anchors.phase import check_phases
from interp_compose.papers.complexity.studies.anchors.run import CIRCUITS, HISTORY, PhaseRun
from interp_compose.papers.complexity.studies.phases.options import PhasesCommand
from interp_compose.papers.complexity.studies.phases.result import PhaseDiagram
from interp_compose.papers.complexity.tasks.anchors import AnchorTask
from interp_compose.runs.files import read_json
from interp_compose.studies.core.grid import Grid, checked, numbers
from interp_compose.studies.core.keywords import keywords
from interp_compose.studies.core.options import GridOptions
from interp_compose.studies.core.tables import Table

AXES: Final = {"init_rates": "init_rate", "weight_decays": "weight_decay", "seeds": "seed"}
"""What the result calls the axes of its grid, and the fields of a run that they vary."""


@dataclass(frozen=True, kw_only=True)
class PhasesOptions(GridOptions):
    """What :func:`phase_diagram` takes by name."""

    run: PhaseRun | None = None
    """Everything else; its init rate, weight decay and seed are the grid's."""
    task: AnchorTask | None = None
    """Anchor functions of your own, in place of the paper's: three anchors or more, in pairs, some
    unseen in both orders."""


@keywords(PhasesOptions)
def phase_diagram(
    init_rates: Sequence[float],
    weight_decays: Sequence[float],
    out: str | os.PathLike[str],
    options: PhasesOptions,
) -> PhaseDiagram:
    """Train a model for every init rate, weight decay and seed, and name the phase of each
    (complexity control, section IV, Figs 3 and 5C).

    Runs that ``out`` holds already, of this grid or another, are not done again; a call that is
    interrupted loses the runs in flight at most. With a GPU, runs are trained many at a time.

    Args:
        init_rates: γ; a larger one is a smaller initialisation.
        weight_decays: of AdamW, on every parameter.
        out: folder for the runs: histories and weights.
        options: every option.

    Raises:
        OptionError: a grid that is empty or repeats; a shape, a rate or data that cannot be; a
            ``run`` that states what the grid does.
        InputError: ``out`` holds another sweep; a task of whose models phases say nothing.
        ModelError: runs failed; the others are kept. Names the first and its log.
    """
    return _grid(init_rates, weight_decays, options).train(out, options)


def run(command: PhasesCommand) -> PhaseDiagram:
    """The command ``interp-compose phases``."""
    shape = command.run
    if shape.clip == math.inf:
        shape = replace(shape, clip=None)
    options = PhasesOptions(**vars(command.grid), run=run_of(shape, command.preset()))
    rates = numbers(command.gammas, "gammas")
    decays = numbers(command.weight_decays, "weight_decays")
    return _grid(rates, decays, options).command(command.output, options)


def _grid(
    init_rates: Sequence[float], weight_decays: Sequence[float], options: PhasesOptions
) -> Grid[PhaseDiagram]:
    base = options.run or PhaseRun()
    axes = {field: axis for axis, field in AXES.items()} | {"own_task": "task"}
    check_unread("run", base, PhaseRun(), **{**axes, "seed": "first_seed"})
    if options.task is not None:
        base = with_task(base, options.task)
        check_phases(options.task)
    elif not base.hold_out:
        raise OptionError(
            "run.hold_out=False leaves no unseen pairs, on which phases depend; "
            "ic.complexity.fitting_speed trains such runs"
        )
    decays = checked(weight_decays, "weight_decays")
    values = {"weight_decay": decays, "init_rate": checked(init_rates, "init_rates")}
    runs = runs_of(base, values, options)
    return anchor_grid(PhaseDiagram, "phases", WORK, runs, AXES, _tables, options)


def _tables(
    schema: Sequence[Table], places: Sequence[Mapping[str, Any]], folders: Sequence[Path]
) -> dict[str, pd.DataFrame]:
    """Of each run its last look, all looks, and what masks show."""
    rows: dict[str, list[dict[str, Any]]] = {table.name: [] for table in schema}
    for place, folder in zip(places, folders, strict=True):
        history = [{**place, **row} for row in read_json(folder / HISTORY)["rows"]]
        rows["runs"].append({**history[-1], "phase": ""})  # the diagram names it
        rows["history"] += history
        rows["circuits"] += [{**place, **row} for row in read_json(folder / CIRCUITS)]
    return {table.name: table.of(rows[table.name]) for table in schema}
