"""``compare``: the model as it is, fine-tuned, and fine-tuned with CARMA, over several seeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from tqdm.auto import tqdm

from interp_compose.errors import OptionError
from interp_compose.models.lens_model import LensModel
from interp_compose.recipes.carma_comparison import Comparison
from interp_compose.recipes.carma_plan import VERSIONS, ComparePlan, plan_comparison
from interp_compose.recipes.carma_run import VersionRun, run_version
from interp_compose.recipes.carma_synonyms import synonym_source
from interp_compose.tasks.task import Task
from interp_compose.text.synonym_sources import SynonymSource
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
    folder: str | Path | None = None,
    progress: bool = True,
) -> Comparison:
    """What CARMA changes beside plain fine-tuning (paper 000, sections 4 and 5).

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
        synonyms: a source, or what :func:`.carma_synonyms.synonym_source` takes.
        rates: shares of the eligible words that are replaced.
        layers: where CAP pools: integers, or depths from 0.0 to 1.0; all by default.
        folder: where each run is kept when it is done (tables, weights, history) and while it is
            going on (checkpoints); an interrupted comparison, called again, goes on from there.
        progress: show bars.

    Raises:
        InputError: before any work, with the value and the remedy.
        InterventionError: CARMA, pooling or replacing would do nothing.
        NonFiniteError: a training broke; names version's step and term.
    """
    if not isinstance(task, Task):
        raise OptionError(f"the task is a {type(task).__name__}; pass what load_task(…) returns.")
    plan = plan_comparison(
        model,
        task,
        versions=versions,
        seeds=seeds,
        carma=carma,
        config=config,
        synonyms=(
            synonym_source(str(synonyms), task.name)
            if isinstance(synonyms, str | Path)
            else synonyms
        ),
        rates=rates,
        layers=layers,
    )
    return carry_out(plan, folder=folder, progress=progress)


def carry_out(plan: ComparePlan, *, folder: str | Path | None, progress: bool) -> Comparison:
    """Every run of a plan, and the comparison of them."""
    wanted = [("original", plan.seeds)] if "original" in plan.versions else []
    trained = [version for version in plan.versions if version != "original"]
    wanted += [(version, [seed]) for seed in plan.seeds for version in trained]
    done: list[VersionRun] = []
    for version, seeds in tqdm(wanted, desc="comparison", unit="run", disable=not progress):
        name = version if version == "original" else f"{version}-seed{seeds[0]}"
        place = None if folder is None else Path(folder) / RUNS / name
        done.append(run_version(plan, version, seeds, place, progress=progress))
    tables = {
        table: pd.concat(
            [run.frames[table] for run in done if table in run.frames], ignore_index=True
        )
        for table in TABLES
    }
    return Comparison.from_runs({**tables, "replacements": plan.replacements}, plan.config)
