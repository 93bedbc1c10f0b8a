"""Finished runs of a pre-training, model by model, found again in the folder that holds them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interp_compose.checks import check_names
from interp_compose.errors import MissingDataError
from interp_compose.models.load import load_model
from interp_compose.papers.cat.models.small_encoder import SmallEncoderModel
from interp_compose.papers.cat.studies.pretrain.data import PretrainingData, kept
from interp_compose.papers.cat.studies.pretrain.measure import PLACE, WORK, PretrainingRun
from interp_compose.papers.shared.grid.finished import finished_of_all
from interp_compose.papers.shared.grid.sequence_run import MODEL

COMMAND: Final = "interp-compose pretrain"


@dataclass(frozen=True)
class FinishedEncoder:
    """A run that is done: what it was, and where it lies."""

    run: PretrainingRun
    folder: Path

    @property
    def data(self) -> PretrainingData:
        """What it was trained and measured on."""
        return kept(self.folder.parents[1], self.run.data)

    def model(self) -> SmallEncoderModel:
        """The model as it was at the end."""
        model = load_model(str(self.folder / MODEL))
        assert isinstance(model, SmallEncoderModel)
        return model


def finished_encoders(
    runs: str | os.PathLike[str],
    models: Sequence[str] | None,
    *,
    condition: Callable[[PretrainingRun], bool] = lambda run: True,
) -> list[FinishedEncoder]:
    """The finished runs of all seeds, model by model; each model has every seed.

    Args:
        runs: what was ``out`` of :func:`.pretrain`.
        models: in this order; None: all that are finished and that ``condition`` accepts.
        condition: which of all runs are opened where no models are named.

    Raises:
        OptionError: a model that is not there, or named twice.
        MissingDataError: the folder holds no runs, or none of a seed that other models have.
        InputError: it holds another sweep, runs of another version, or runs of several settings.
        CorruptFileError: a run's files were altered after it was done.
    """
    finished = finished_of_all(runs, PretrainingRun, work=WORK, command=COMMAND, varies=PLACE)
    encoders = {(run.model, run.seed): FinishedEncoder(run, folder) for run, folder in finished}
    names = list(dict.fromkeys(run.model for run, _ in finished))
    if models is not None:
        check_names("models", models, names)
        names = list(models)
    else:
        names = list(dict.fromkeys(run.model for run, _ in finished if condition(run)))
    seeds = sorted({seed for model, seed in encoders if model in names})
    for model in names:
        missing = [seed for seed in seeds if (model, seed) not in encoders]
        if missing:
            raise MissingDataError(
                f"{runs} holds no finished run of {model!r} of the seeds "
                f"{', '.join(map(str, missing))}, which other models have; give the command "
                f"`{COMMAND}` that fills it again, or leave the model out"
            )
    return [encoders[model, seed] for model in names for seed in seeds]
