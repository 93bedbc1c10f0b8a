"""``compare``: the model as it is, fine-tuned, and fine-tuned with CARMA, over several seeds."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pandas as pd

from interp_compose._public import public
from interp_compose.errors import CorruptFileError, InputError, MissingDataError
from interp_compose.models.lens_model import LensModel
from interp_compose.runs.files import locked, plain_json
from interp_compose.runs.result import gathered_versions
from interp_compose.studies.carma.plan import ComparePlan, plan_comparison
from interp_compose.studies.carma.result import VERSIONS, Comparison
from interp_compose.studies.carma.run import (
    VersionRun,
    claim_runs,
    is_intact,
    make_runs_folder,
    run_version,
)
from interp_compose.tasks.synonyms import synonym_source
from interp_compose.tasks.task import Task
from interp_compose.text.synonyms.sources import SynonymSource
from interp_compose.training.carma import CarmaConfig
from interp_compose.training.config import TrainConfig

RUNS = "runs"
TABLES = (
    "accuracy",
    "cap",
    "synonyms",
    "training",
    "representations",
    "history",
)


@public
def compare(
    model: LensModel,
    task: Task,
    versions: Sequence[str] = VERSIONS,
    *,
    seeds: int | Sequence[int] = 5,
    carma: CarmaConfig | None = None,
    config: TrainConfig | None = None,
    synonyms: str | Path | SynonymSource = "auto",
    rates: Sequence[float] = (0.25, 0.4),
    layers: Sequence[int | float] | None = None,
    answers: str = "vocabulary",
    folder: str | Path | None = None,
    progress: bool = True,
) -> Comparison:
    """What CARMA changes beside plain fine-tuning (sections 4 and 5).

    Per seed, fine-tuning and CARMA start from the same weights and see the same batches; both, and
    the model as it is, are measured on the test split: accuracy, word-level CAP curves for mean,
    max and sum pooling, and consistency under synonyms, which are drawn anew for each seed and
    are the same for all versions.

    Args:
        model: from :func:`load_model`, in evaluation mode; it stays as it is.
        task: from :func:`load_task`, with train, validation and test examples.
        versions: two or all of "original", "ft" and "carma".
        seeds: how many (0, 1, 2, …), or which; differences are paired by seed.
        carma: by default :class:`CarmaConfig` with its own defaults.
        config: of both trainings; by default :meth:`TrainConfig.suggested`. Its seed is not read.
        synonyms: a source, or what :func:`.synonyms.synonym_source` takes.
        rates: shares of the words of each prompt's own text (not the template's) that are
            replaced; texts with too few words that have a synonym fall short, and the result's
            table "doses" says by how much.
        layers: where CAP pools: integers, or depths from 0.0 to 1.0; all by default.
        answers: what a prediction is chosen among wherever accuracy is read: ``"vocabulary"``
            (eq. 9), or ``"labels"``, those of a sentiment task (eq. 10). The loss stays over the
            vocabulary.
        folder: where each run is kept when it is done (tables, weights, history) and while it is
            going on (checkpoints), under ``runs/``; an interrupted comparison, called again, goes
            on from there, and so does one with more seeds or other versions.
        progress: show bars.

    Raises:
        InputError: before any work, with the value and the remedy: several processes
            (``WORLD_SIZE``) and a folder with another comparison's runs among them.
        CapabilityError: an encoder, or weights in half precision.
        InterventionError: CARMA, pooling or replacing would do nothing, or interventions are open
            on the model.
        MissingDataError, MissingPackageError: the synonyms are not there.
        NonFiniteError: a training broke; names version, seed, step and term. Finished runs stay.
    """
    plan = plan_comparison(
        model,
        task,
        versions=versions,
        seeds=seeds,
        carma=carma,
        config=config,
        synonyms=lambda: (
            synonym_source(str(synonyms), task.name)
            if isinstance(synonyms, str | Path)
            else synonyms
        ),
        rates=rates,
        layers=layers,
        answers=answers,
    )
    return carry_out(plan, folder=folder, progress=progress)


def carry_out(
    plan: ComparePlan, *, folder: str | Path | None, progress: bool, overwrite: bool = False
) -> Comparison:
    """Every run of a plan, and the comparison of them.

    Raises:
        InputError: ``folder`` holds another comparison's runs; ``overwrite`` deletes them.
        OutputError: the folder cannot be written to, or another process is writing there.
    """
    wanted = _wanted(plan)
    done: list[VersionRun] = []
    if folder is not None:
        make_runs_folder(Path(folder) / RUNS)
    with nullcontext() if folder is None else locked(folder):
        if folder is not None:
            claim_runs(Path(folder) / RUNS, plan.config, overwrite=overwrite)
        for number, (version, seeds, name) in enumerate(wanted, start=1):
            place = None if folder is None else Path(folder) / RUNS / name
            label = f"{number}/{len(wanted)}"  # a bar around the runs' own bars would garble them
            done.append(run_version(plan, version, seeds, place, label=label, progress=progress))
    versions = gathered_versions(
        {name: run.versions for run, (_, _, name) in zip(done, wanted, strict=True)}
    )
    tables = {
        table: pd.concat(
            [run.frames[table] for run in done if table in run.frames], ignore_index=True
        )
        for table in TABLES
    }
    drawn = {"replacements": plan.replacements, "doses": plan.doses}
    return replace(Comparison.from_runs({**tables, **drawn}, plan.config), versions=versions)


def _wanted(plan: ComparePlan) -> list[tuple[str, Sequence[int], str]]:
    """Version, seeds and folder's name of every run."""
    wanted: list[tuple[str, Sequence[int], str]] = []
    if "original" in plan.versions:
        wanted.append(("original", plan.seeds, "original"))
    trained = [version for version in plan.versions if version != "original"]
    return wanted + [(v, [seed], f"{v}-seed{seed}") for seed in plan.seeds for v in trained]


def finished(folder: Path, plan: ComparePlan) -> Comparison | None:
    """The comparison that ``folder`` holds, if it is this plan's and intact.

    So must be its runs, as far as they are still there.
    """
    try:
        found = Comparison.load(folder)
    except (MissingDataError, CorruptFileError, InputError):
        return None
    if found.config != plain_json(plan.config, "config"):
        return None
    runs = [(version, seeds, folder / RUNS / name) for version, seeds, name in _wanted(plan)]
    sound = all(is_intact(plan, *run) for run in runs if run[-1].is_dir())
    return found if sound else None
