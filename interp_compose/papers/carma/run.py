"""One version under one seed, trained and measured: a run of the grid that a comparison is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from interp_compose._versions import PACKAGES, environment_versions
from interp_compose.errors import NonFiniteError
from interp_compose.models.lens_model import LensModel
from interp_compose.models.weights import save_weights
from interp_compose.papers.carma.inputs import read_inputs
from interp_compose.papers.carma.plan import ComparePlan
from interp_compose.papers.carma.tables import TABLES
from interp_compose.papers.works import WORKS
from interp_compose.runs.checkpoint import CheckpointFolder
from interp_compose.runs.checksums import digests_of
from interp_compose.runs.files import plain_json
from interp_compose.runs.folder import hashed
from interp_compose.runs.result import Result, store
from interp_compose.studies.core.study import measured
from interp_compose.training.evaluate import answered, convergence, representations
from interp_compose.training.finetune import CHECKPOINTS, HISTORY, Finetuned, finetune_on
from interp_compose.training.history import Tracker, TrainingHistory

WORK: Final = "carma"
"""What a sweep calls these runs."""
TRAIN: Final = WORKS[WORK]
"""The function that does them in another process."""
WEIGHTS: Final = "weights.safetensors"
HISTORY_ROWS = 200


def run_configs(plan: ComparePlan) -> list[dict[str, Any]]:
    """Of every run of a comparison, all that decides it: which weights are frozen, and the versions
    of packages as well, so that one comparison is never made with several.

    The original is measured once, for all seeds.
    """
    shared = dict(plan.config)
    versions, seeds = shared.pop("versions"), shared.pop("seeds")
    packages = environment_versions()
    shared["packages"] = {name: packages[name] for name in PACKAGES}
    weights = plan.model.lens.named_parameters()
    shared["frozen"] = [name for name, weight in weights if not weight.requires_grad]
    trained = [version for version in versions if version != "original"]
    runs = [("original", seeds)] if "original" in versions else []
    runs += [(version, [seed]) for seed in seeds for version in trained]
    return [
        plain_json({**shared, "version": version, "seeds": of_run}, "config")
        for version, of_run in runs
    ]


def run_name(config: Mapping[str, Any]) -> str:
    """``"original"``, or as ``"ft, seed 0"``."""
    version: str = config["version"]
    return version if version == "original" else f"{version}, seed {config['seeds'][0]}"


def inputs_of(config: Mapping[str, Any], out: Path) -> Path:
    """The folder of what a run of the comparison in ``out`` reads."""
    shared = {key: value for key, value in config.items() if key not in ("seeds", "version")}
    return out / "inputs" / hashed(shared)


def run_in_worker(config: Mapping[str, Any], folder: Path) -> None:
    """A run in a process that knows nothing of it."""
    plan = read_inputs(inputs_of(config, folder.parents[1]), config)
    run_version(plan, config, folder, progress=False)


@dataclass(frozen=True, eq=False, repr=False)
class VersionRun(Result):
    """The tables of one version under one seed (of the original: under all seeds)."""


def run_version(
    plan: ComparePlan,
    config: Mapping[str, Any],
    folder: Path | None,
    *,
    label: str = "",
    progress: bool,
    watch: Callable[[str], Tracker] | None = None,
) -> VersionRun:
    """Train (unless it is the original) and measure one of :func:`run_configs`.

    ``folder`` then holds the tables, ``weights.safetensors`` and ``history.jsonl``, and until then
    checkpoints, from which a run that was stopped goes on. ``label``, like "2/5", comes before the
    bar's title; what ``watch`` gives for the run's name is told of its steps.

    Raises:
        NonFiniteError: a training or a measurement broke; names version and seed.
    """
    version, seeds, training = config["version"], config["seeds"], None
    try:
        if version != "original":
            training = finetune_on(
                plan.model,
                plan.train,
                plan.validation,
                plan.task,
                carma=plan.carma if version == "carma" else None,
                config=replace(plan.training, seed=seeds[0]),
                folder=folder,
                progress=progress,
                title=f"{label} {run_name(config)}".strip(),
                track=None if watch is None else watch(run_name(config)),
            )
        model = training.model if training else plan.model
        tables = _measured(plan, model, version, seeds, progress=progress)
    except NonFiniteError as broken:
        raise NonFiniteError(f"{run_name(config)}: {broken}") from broken
    if training:
        tables |= _trained(training, version, seeds[0])
    run = VersionRun(config, tables, environment_versions())
    if folder is None:
        return run
    others: dict[str, bytes | str] = {}
    if training:
        save_weights(model, folder / WEIGHTS)
        others.update(digests_of(folder, (WEIGHTS, f"{WEIGHTS}.sha256", HISTORY)))
    store(run, folder, others, overwrite=True)
    CheckpointFolder(folder / CHECKPOINTS, {}).clear()
    return run


def _measured(
    plan: ComparePlan, model: LensModel, version: str, seeds: Sequence[int], *, progress: bool
) -> dict[str, pd.DataFrame]:
    """Accuracy, CAP, ConsistSyn's counts and representations; one row per seed each."""
    curve = measured(replace(plan.cap, model=model), progress=progress)
    correct = curve.clean.sort_values("example")["correct"].to_numpy(bool)
    cap = curve.frame.assign(n_correct=(curve.frame["accuracy"] * curve.frame["n"]).round())
    accuracy = {
        "n_correct": int(correct.sum()),
        "n": len(correct),
        "n_distinct": curve.clean["prediction"].nunique(),
    }
    synonyms: list[dict[str, Any]] = []
    for replaced in plan.replaced:
        if replaced.seed in seeds:
            # A prompt in which no word was replaced cannot fail, and does not count.
            correct_after = answered(model, replaced.items)[0].cpu().numpy()[replaced.changed]
            correct_before = correct[replaced.changed]
            synonyms.append(
                {
                    "version": version,
                    "seed": replaced.seed,
                    "rate": replaced.rate,
                    "n_test": len(correct),
                    "n": len(correct_before),
                    "n_before": int(correct_before.sum()),
                    "n_after": int(correct_after.sum()),
                    "n_both": int((correct_before & correct_after).sum()),
                }
            )
    of_every_seed = {
        "cap": cap,
        "representations": pd.DataFrame(representations(model, plan.validation or plan.train)),
        "accuracy": pd.DataFrame([accuracy]),
    }
    tables = {
        name: TABLES[name].of(
            pd.concat([frame.assign(version=version, seed=seed) for seed in seeds])
        )
        for name, frame in of_every_seed.items()
    }
    return {**tables, "synonyms": pd.DataFrame(synonyms)}


def _trained(training: Finetuned, version: str, seed: int) -> dict[str, pd.DataFrame]:
    """What the training took, whether it converged, and its curve, thinned."""
    history: TrainingHistory = training.history
    steps, evaluations = history.frame, history.evaluations
    converged, why = convergence(steps, evaluations)
    tenth = max(1, len(steps) // 10)
    n_steps = len(steps)
    # With patience the weights kept are those of the best evaluation, else the last ones.
    accuracies = evaluations["accuracy"].iloc[-1:]
    if history.config["train"]["patience"] is not None:
        accuracies = evaluations["accuracy"]
    row = {
        "version": version,
        "seed": seed,
        "steps": n_steps,
        "seconds": float(steps["seconds"].sum()),
        "step_seconds": float(steps["seconds"].median()),
        "first_loss": float(steps["task_loss"].head(tenth).mean()),
        "last_loss": float(steps["task_loss"].tail(tenth).mean()),
        "validation_accuracy": float(accuracies.max()),
        "converged": converged,
        "why": why,
        "stopped_early": n_steps < int(history.config["total_steps"]),
    }
    return {"training": pd.DataFrame([row]), "history": _thinned(steps, version, seed)}


def _thinned(steps: pd.DataFrame, version: str, seed: int) -> pd.DataFrame:
    """Means over equal stretches of the run, at most :data:`HISTORY_ROWS`; step is the last one."""
    stretch = max(1, -(-len(steps) // HISTORY_ROWS))
    groups = steps.groupby(np.arange(len(steps)) // stretch)
    means = groups[["loss", "task_loss", "mi", "stability"]].mean()
    table = means.assign(version=version, seed=seed, step=groups["step"].last())
    return TABLES["history"].of(table)
