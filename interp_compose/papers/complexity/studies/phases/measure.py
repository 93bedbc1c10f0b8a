"""``phase_diagram``: a grid of runs, done where they are missing, and what came of them."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from interp_compose._versions import gathered_versions
from interp_compose.checks import check_unread
from interp_compose.errors import OptionError
from interp_compose.papers.complexity.studies.anchors.grid import (
    GRID,
    TRAIN,
    WORK,
    grid_config,
    runs_of,
    trained,
)
from interp_compose.papers.complexity.studies.anchors.presets import PRESETS
from interp_compose.papers.complexity.studies.anchors.run import (
    CIRCUITS as CIRCUITS_FILE,
    HISTORY as HISTORY_FILE,
    PhaseRun,
)
from interp_compose.papers.complexity.studies.phases.options import PhasesCommand
from interp_compose.papers.complexity.studies.phases.result import (
    CIRCUITS,
    HISTORY,
    RUNS,
    PhaseDiagram,
)
from interp_compose.runs.files import read_json
from interp_compose.runs.folder import versions_of
from interp_compose.studies.core.grid import checked, numbers, run_grid
from interp_compose.studies.core.keywords import keywords
from interp_compose.studies.core.options import GridOptions

AXES: Final = {"init_rates": "init_rate", "weight_decays": "weight_decay", "seeds": "seed"}
"""What the result calls the axes of its grid, and the fields of a run that they vary."""


@dataclass(frozen=True, kw_only=True)
class PhasesOptions(GridOptions):
    """What :func:`phase_diagram` takes by name."""

    run: PhaseRun | None = None
    """Everything else; its init rate, weight decay and seed are the grid's."""


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
        InputError: ``out`` holds another sweep.
        ModelError: runs failed; the others are kept. Names the first and its log.
    """
    base = options.run or PhaseRun()
    axes = {field: axis for axis, field in AXES.items()}
    check_unread("run", base, PhaseRun(), **{**axes, "seed": "first_seed"})
    if not base.hold_out:
        raise OptionError(
            "run.hold_out=False leaves no unseen pairs, on which phases depend; "
            "ic.complexity.fitting_speed trains such runs"
        )
    runs = _runs(base, init_rates, weight_decays, options)
    folders = trained(WORK, TRAIN, runs, out, options)
    return _diagram(runs, folders, grid_config("phases", runs, AXES))


def _runs(
    base: PhaseRun,
    init_rates: Sequence[float],
    weight_decays: Sequence[float],
    options: GridOptions,
) -> list[PhaseRun]:
    decays = checked(weight_decays, "weight_decays")
    axes = {"weight_decay": decays, "init_rate": checked(init_rates, "init_rates")}
    return runs_of(base, axes, options)


def run(command: PhasesCommand) -> PhaseDiagram:
    """The command ``interp-compose phases``: train what is missing, and write."""
    rates = numbers(command.gammas, "gammas")
    decays = numbers(command.weight_decays, "weight_decays")
    shape = asdict(command.run)
    base = PhaseRun() if command.paper is None else PRESETS[command.paper].run
    base = replace(base, **shape | {"clip": None if shape["clip"] == math.inf else shape["clip"]})
    options = vars(command.grid) | {"run": base}
    return run_grid(
        command.output,
        PhaseDiagram,
        grid_config("phases", _runs(base, rates, decays, command.grid), AXES),
        list(AXES),
        lambda bar: phase_diagram(rates, decays, command.output.out, **options | {"progress": bar}),
    )


def _diagram(
    runs: Sequence[PhaseRun], folders: Sequence[Path], config: Mapping[str, Any]
) -> PhaseDiagram:
    last, history, circuits = [], [], []
    for run, folder in zip(runs, folders, strict=True):
        place = {name: getattr(run, name) for name in GRID}
        rows = [{**place, **row} for row in read_json(folder / HISTORY_FILE)["rows"]]
        history += rows
        circuits += [{**place, **row} for row in read_json(folder / CIRCUITS_FILE)]
        last.append({**rows[-1], "phase": ""})  # the diagram names it
    tables = ((RUNS, last), (HISTORY, history), (CIRCUITS, circuits))
    return PhaseDiagram(
        config=config,
        frames={table.name: table.of(rows) for table, rows in tables},
        versions=gathered_versions({folder.name: versions_of(folder) for folder in folders}),
    )
