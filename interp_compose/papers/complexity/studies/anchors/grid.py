"""Grids of runs on anchor functions: made and checked, and found again once they are finished."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final, TypeVar

import torch

from interp_compose.checks import check_package, check_unread
from interp_compose.errors import InputError, MissingDataError
from interp_compose.models.load import load_model
from interp_compose.papers.complexity.grid.together import NUMBER, fit, step_bytes
from interp_compose.papers.complexity.models.small_decoder import SmallDecoderModel
from interp_compose.papers.complexity.studies.anchors.options import RunSize
from interp_compose.papers.complexity.studies.anchors.run import HISTORY, MODEL, PhaseRun
from interp_compose.papers.complexity.tasks.anchor_record import record_of, violating_groups
from interp_compose.papers.complexity.tasks.anchors import AnchorTask
from interp_compose.papers.shared.grid.finished import finished_of_seed
from interp_compose.papers.works import WORKS
from interp_compose.runs.files import read_json
from interp_compose.runs.folder import SweepPlan
from interp_compose.settings import identity_of, read_toml
from interp_compose.studies.core.grid import Grid, GridResult, Tables, seeds_of
from interp_compose.studies.core.options import Execution, GridOptions

ResultT = TypeVar("ResultT", bound=GridResult)

WORK: Final = "anchors"
"""What a sweep calls the runs of a phase diagram."""
GRID: Final = ("init_rate", "weight_decay", "seed")
"""What tells them apart."""
OF_TASK: Final = {
    "hold_out": "unseen",
    "modulus": "modulus",
    "d_vocab": "d_vocab",
    "violations": "violations",
}
"""What a run says of the paper's task, and the field in which a task of one's own says it."""
SETTINGS: Final = Path(__file__).parents[2] / "settings"


def run_of(options: RunSize, preset: str | None, **more: Any) -> PhaseRun:
    """The run that the options of a command state; what the file of a paper's setting states
    beside them (in its table ``run``) is as it has it."""
    beside = {} if preset is None else read_toml(SETTINGS / f"{preset}.toml")["run"]
    return PhaseRun(**beside, **asdict(options), **more)


def with_task(run: PhaseRun, task: AnchorTask | None) -> PhaseRun:
    """The run on a task of one's own, with all its violating groups; of the paper's task, or None,
    the run itself, so that it keeps its name.

    Raises:
        OptionError: the run states what the task does.
    """
    if task is None:
        return run
    for name in OF_TASK:
        check_unread("run", run, PhaseRun(), **{name: f"task=AnchorTask({OF_TASK[name]}=…)"})
    record = record_of(task)
    if record == record_of(AnchorTask()):
        return run
    return replace(run, own_task=record, violations=len(violating_groups(task)))


def runs_of(
    run: PhaseRun, axes: Mapping[str, Sequence[Any]], options: GridOptions
) -> list[PhaseRun]:
    """Every run of a grid: ``run`` with another seed and other values of the fields in ``axes``,
    of which the last one changes first.

    Raises:
        OptionError: fewer than one seed.
    """
    return [
        replace(run, seed=seed, **dict[str, Any](zip(axes, values, strict=True)))
        for seed in seeds_of(options)
        for values in product(*axes.values())
    ]


def anchor_grid(
    result: type[ResultT],
    study: str,
    work: str,
    runs: Sequence[PhaseRun],
    axes: Mapping[str, str],
    tables: Tables,
    execution: Execution,
) -> Grid[ResultT]:
    """The grid of these runs. With a GPU, and ``where`` "here", as many are trained at a time as
    its memory holds (:func:`at_a_time`).

    Args:
        result: the class of what comes of them.
        study: what that calls itself.
        work: the runs' name in :data:`.works.WORKS`.
        runs: of every place.
        axes: what an axis is called, and the field of a run that it varies.
        tables: see :class:`.Grid`.
        execution: where they are trained.

    Raises:
        OptionError: a run that cannot be trained.
        MissingPackageError: scikit-learn is not installed.
    """
    check_package("sklearn", "papers")
    for run in runs:
        run.check()
    at_once = 1
    if torch.cuda.is_available() and execution.where == "here":
        at_once = at_a_time(runs, torch.cuda.get_device_properties(0).total_memory)
    values = {axis: sorted({getattr(run, name) for run in runs}) for axis, name in axes.items()}
    return Grid(
        result=result,
        plan=SweepPlan(work, [identity_of(run) for run in runs], at_once, WORKS[work]),
        place=tuple(axes.values()),
        config={"study": study, **setting_of(runs[0], axes.values()), **values},
        axes=list(axes),
        tables=tables,
    )


def setting_of(run: PhaseRun, grid: Collection[str] = GRID) -> dict[str, Any]:
    """What the runs of a grid have in common."""
    unread = () if run.own_task is None else set(OF_TASK) - {"violations"}
    return {
        name: value
        for name, value in identity_of(run).items()
        if name not in grid and name not in unread
    }


def run_bytes(run: PhaseRun) -> int:
    """What training such a run needs at most, about: weights, activations of a batch, data."""
    task = run.task
    step = step_bytes(
        run.decoder_config(task), run.batch_size * task.length, task.length, run.batch_size
    )
    data = 2 * (task.length + 1) * (run.samples + 4 * run.n_test)  # integers are twice as long
    return step + NUMBER * data


def at_a_time(runs: Sequence[PhaseRun], memory: int) -> int:
    """How many of these runs, the largest of them, a GPU of so many bytes trains together."""
    return fit(max(map(run_bytes, {run.kind for run in runs})), len(runs), memory)


@dataclass(frozen=True)
class FinishedPhaseRun:
    """A run that is done: what it was, where it lies, and its history."""

    run: PhaseRun
    folder: Path
    rows: list[dict[str, Any]]

    @property
    def place(self) -> tuple[float, float]:
        """Its cell of the diagram: init rate and weight decay."""
        return self.run.init_rate, self.run.weight_decay

    @property
    def is_sound(self) -> bool:
        """Whether its weights are numbers."""
        return bool(self.rows[-1]["finite"])

    def model(self) -> SmallDecoderModel:
        """The model as it was at the end."""
        model = load_model(str(self.folder / MODEL))
        assert isinstance(model, SmallDecoderModel)
        return model


def finished_runs(runs: str | os.PathLike[str], seed: int | None = None) -> list[FinishedPhaseRun]:
    """The finished runs of one seed in the folder of a diagram, by init rate and weight decay.

    Args:
        runs: what was ``out`` of :func:`.phase_diagram`.
        seed: of the runs; None: the smallest there is.

    Raises:
        MissingDataError: the folder holds no runs, or none of this seed is done.
        InputError: it holds another sweep, runs of another version, or runs of several settings.
        CorruptFileError: a run's files were altered after it was done.
    """
    pairs = finished_of_seed(
        runs, PhaseRun, work=WORK, command="interp-compose phases", varies=GRID, seed=seed
    )
    finished = [
        FinishedPhaseRun(run, folder, read_json(folder / HISTORY)["rows"]) for run, folder in pairs
    ]
    return sorted(finished, key=lambda each: each.place)


def chosen(
    runs: Sequence[FinishedPhaseRun], init_rates: Sequence[float], weight_decay: float
) -> list[FinishedPhaseRun]:
    """The runs of some init rates at one weight decay, in the order asked for.

    Raises:
        MissingDataError: a cell without a finished run; names those that have one.
        InputError: a run that diverged.
    """
    near = partial(math.isclose, rel_tol=1e-6)  # equal, but for what single precision loses
    chosen_runs = []
    for rate in init_rates:
        matches = [one for one in runs if all(map(near, one.place, (rate, weight_decay)))]
        if not matches:
            rates, decays = (sorted({one.place[axis] for one in runs}) for axis in (0, 1))
            raise MissingDataError(
                f"no finished run of seed {runs[0].run.seed} at init rate γ {rate:g} and weight "
                f"decay {weight_decay:g}; finished are γ {', '.join(f'{one:g}' for one in rates)} "
                f"and weight decays {', '.join(f'{one:g}' for one in decays)}"
            )
        if not matches[0].is_sound:
            raise InputError(
                f"the run at init rate γ {rate:g} and weight decay {weight_decay:g} diverged: it "
                "has no outputs to look at; leave it out"
            )
        chosen_runs.append(matches[0])
    return chosen_runs
