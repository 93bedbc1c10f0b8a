"""Finished runs of a phase diagram, found again in the folder that holds them."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from interp_compose.errors import InputError, MissingDataError
from interp_compose.models.load import load_model
from interp_compose.papers.complexity.models.small_decoder import SmallDecoderModel
from interp_compose.papers.complexity.studies.anchors.grid import GRID, WORK
from interp_compose.papers.complexity.studies.anchors.run import HISTORY, MODEL, PhaseRun
from interp_compose.papers.shared.grid.finished import finished_of_seed
from interp_compose.runs.files import read_json


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
