"""Finished runs of a comparison of encoder–decoders, found again in the folder that holds them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from interp_compose.errors import MissingDataError, OptionError
from interp_compose.models.load import load_model
from interp_compose.papers.lrf.models.small_seq2seq import SmallSeq2SeqModel
from interp_compose.papers.lrf.studies.generalise.run import PLACE, WORK, SequenceRun
from interp_compose.papers.shared.grid.finished import finished_of_seed
from interp_compose.papers.shared.grid.sequence_data import SequenceData
from interp_compose.papers.shared.grid.sequence_run import MODEL


@dataclass(frozen=True)
class FinishedSequenceRun:
    """A run that is done: what it was, and where it lies."""

    run: SequenceRun
    folder: Path

    @property
    def data(self) -> SequenceData:
        """What it was trained and measured on."""
        return self.run.kept(self.folder)

    def model(self) -> SmallSeq2SeqModel:
        """The model as it was at the end.

        Raises:
            MissingDataError: the run was made by a release that did not keep models.
        """
        if not (self.folder / MODEL).is_dir():
            raise MissingDataError(
                f"{self.folder} holds no model: the release that trained it did not keep it; train "
                "it again, in another folder"
            )
        model = load_model(str(self.folder / MODEL))
        assert isinstance(model, SmallSeq2SeqModel)
        return model


def finished_runs(
    runs: str | os.PathLike[str], models: Sequence[str] | None, seed: int | None
) -> list[FinishedSequenceRun]:
    """The finished runs of one seed in the folder of a comparison.

    Args:
        runs: what was ``out`` of :func:`.generalise`.
        models: in this order; None: all that are finished, as they were asked for.
        seed: of the runs; None: the smallest there is.

    Raises:
        OptionError: no model, or one that is named twice.
        MissingDataError: the folder holds no runs, none of this seed is done, or none of a model;
            names those that are.
        InputError: it holds another sweep, runs of another version, or runs of several settings.
        CorruptFileError: a run's files were altered after it was done.
    """
    if models is not None and len({*models}) != (len(models) or 1):
        raise OptionError(
            f"models={models!r}: expected a list of names of trained models, each once, or None "
            "for all"
        )
    finished = {
        run.model: FinishedSequenceRun(run, folder)
        for run, folder in finished_of_seed(
            runs,
            SequenceRun,
            work=WORK,
            command="interp-compose generalise",
            varies=PLACE,
            seed=seed,
        )
    }
    for model in models or ():
        if model not in finished:
            chosen_seed = next(iter(finished.values())).run.seed
            raise MissingDataError(
                f"no finished run of {model!r} of seed {chosen_seed} in {runs}; finished are "
                f"{', '.join(finished)}"
            )
    return [finished[model] for model in models or finished]
