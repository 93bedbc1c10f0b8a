"""One version under one seed: trained, measured, and kept, so that a comparison can go on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from interp_compose.errors import CorruptFileError, InputError, NonFiniteError, OutputError
from interp_compose.models.lens_model import LensModel
from interp_compose.models.weights import save_weights
from interp_compose.runs.checkpoint import CheckpointFolder
from interp_compose.runs.files import (
    atomic_write,
    check_writable,
    differences,
    file_sha256,
    json_bytes,
    listed,
    make_folder,
    named,
    plain_json,
    read_json,
    remove,
)
from interp_compose.runs.result import PACKAGES, Result, environment_versions, store
from interp_compose.studies.cap.result import CapCurve
from interp_compose.studies.carma.plan import ComparePlan, run_config
from interp_compose.studies.core.study import measure
from interp_compose.training.evaluate import answered, convergence, representations
from interp_compose.training.finetune import CHECKPOINTS, HISTORY, Finetuned, finetune_on
from interp_compose.training.history import TrainingHistory

OWNER = "comparison.json"
RUN_NAME = re.compile(r"original|(ft|carma)-seed\d+")


def make_runs_folder(folder: Path) -> None:
    """Make the folder for runs.

    Raises:
        InputError: it cannot be made, or nothing can be written there.
    """
    try:
        check_writable(make_folder(folder))
    except OutputError as refusal:
        why = getattr(refusal.__cause__, "strerror", None) or str(refusal.__cause__)
        raise InputError(
            f"{named(folder)} cannot be made a folder ({why}); choose another"
        ) from refusal


def claim_runs(folder: Path, config: Mapping[str, Any], *, overwrite: bool) -> None:
    """Make ``folder`` this comparison's, so that runs of two are never mixed.

    Seeds and versions may differ: a comparison with more of them goes on from the runs that are
    there. With ``overwrite``, another comparison's runs are deleted.

    Raises:
        InputError: ``folder`` holds another comparison's runs; with ``overwrite``, one is a link.
        CorruptFileError: there are runs, and nothing intact says whose.
    """
    versions = environment_versions()
    mine = {key: value for key, value in config.items() if key not in ("seeds", "versions")}
    mine = plain_json({**mine, "packages": {name: versions[name] for name in PACKAGES}}, "config")
    runs = [path for path in folder.iterdir() if path.is_dir() and RUN_NAME.fullmatch(path.name)]
    if runs:
        other = _other(folder, mine)
        if other is None:
            return
        if not overwrite:
            raise other
        links = [run for run in runs if run.is_symlink()]
        if links:
            raise InputError(
                f"{links[0]} is a link, and what it leads to is not deleted; remove the link, or "
                "choose another folder"
            )
        for run in runs:
            remove(run)
    atomic_write(folder / OWNER, json_bytes(mine))


def _other(folder: Path, mine: Mapping[str, Any]) -> InputError | CorruptFileError | None:
    """Why the runs in ``folder`` cannot be gone on from; None if they can."""
    remedy = "choose another folder, or start afresh: delete this one, or on the command line "
    remedy += "--overwrite it"
    try:
        theirs = read_json(folder / OWNER)
    except (OSError, CorruptFileError):
        return CorruptFileError(
            f"{folder / OWNER} is missing or damaged, so nobody knows which comparison the runs "
            f"beside it belong to; {remedy}"
        )
    if theirs == mine:
        return None
    return InputError(
        f"{folder} holds runs of another comparison: {differences(theirs, mine)}; {remedy}"
    )


WEIGHTS = "weights.safetensors"
HISTORY_ROWS = 200


@dataclass(frozen=True, eq=False, repr=False)
class VersionRun(Result):
    """The tables of one version under one seed (of the original: under all seeds)."""


def run_version(
    plan: ComparePlan,
    version: str,
    seeds: Sequence[int],
    folder: Path | None,
    *,
    label: str = "",
    progress: bool,
) -> VersionRun:
    """Train (unless it is the original) and measure; from ``folder`` where that is done already.

    ``folder`` then holds the tables, ``weights.safetensors`` and ``history.jsonl``; the manifest,
    which names them all with their SHA-256, is written last, and checkpoints are deleted after it.
    ``label``, like "2/5", stands before the bar's title.

    Raises:
        NonFiniteError: a training or a measurement broke; names version and seed.
    """
    config = _config(plan, version, seeds)
    run = None if folder is None else _finished(folder, config)
    if run is None:
        name = version if version == "original" else f"{version}, seed {seeds[0]}"
        title = f"{label} {name}".strip()
        try:
            run = _computed(plan, version, seeds, config, folder, title=title, progress=progress)
        except NonFiniteError as broken:
            raise NonFiniteError(f"{name}: {broken}") from broken
    if folder is not None:
        CheckpointFolder(folder / CHECKPOINTS, {}).clear()
    return run


def is_intact(plan: ComparePlan, version: str, seeds: Sequence[int], folder: Path) -> bool:
    """Whether ``folder`` holds this run, as far as it is still there."""
    there = [name for name in (WEIGHTS, HISTORY) if (folder / name).exists()]
    return _finished(folder, _config(plan, version, seeds), there) is not None


def _config(plan: ComparePlan, version: str, seeds: Sequence[int]) -> dict[str, Any]:
    shared = {key: value for key, value in plan.config.items() if key != "versions"}
    return {**shared, "version": version, "seeds": list(seeds)}


def _finished(
    folder: Path, config: Mapping[str, Any], files: Sequence[str] = (WEIGHTS, HISTORY)
) -> VersionRun | None:
    """The run that ``folder`` holds, if it is this one and intact, with its weights and history.

    Their SHA-256 is in the manifest of the tables, which say which run it is: no other run's are
    taken for them.
    """
    try:
        done = VersionRun.load(folder)
        known = listed(folder)
        for name in files if config["version"] != "original" else ():
            if known.get(name) != [file_sha256(folder / name)]:
                return None
    except (OSError, InputError):
        return None
    return done if done.config == plain_json(config, "config") else None


def _computed(
    plan: ComparePlan,
    version: str,
    seeds: Sequence[int],
    config: Mapping[str, Any],
    folder: Path | None,
    *,
    title: str,
    progress: bool,
) -> VersionRun:
    model, training = plan.model, None
    if version != "original":
        training = finetune_on(
            plan.model,
            plan.train,
            plan.validation,
            plan.task,
            carma=plan.carma if version == "carma" else None,
            config=run_config(plan, seeds[0]),
            folder=folder,
            progress=progress,
            title=title,
        )
        model = training.model
    tables = _measured(plan, model, version, seeds, progress=progress)
    if training is not None:
        tables |= _trained(training, version, seeds[0])
    run = VersionRun(config, tables, environment_versions())
    if folder is not None:
        others: dict[str, bytes | str] = {}
        if training is not None:
            save_weights(model, folder / WEIGHTS)
            beside = (WEIGHTS, f"{WEIGHTS}.sha256", HISTORY)
            others = {name: file_sha256(folder / name) for name in beside}
        store(run, folder, others, overwrite=True)
    return run


def _measured(
    plan: ComparePlan, model: LensModel, version: str, seeds: Sequence[int], *, progress: bool
) -> dict[str, pd.DataFrame]:
    """Accuracy, CAP, ConsistSyn's counts and representations; one row per seed each."""
    curve = measure(replace(plan.cap, model=model), progress=progress)
    before = curve.clean.sort_values("example")["correct"].to_numpy(bool)
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in ("accuracy", "synonyms")}
    for seed in seeds:
        here = {"version": version, "seed": seed}
        rows["accuracy"].append(
            {
                **here,
                "n_correct": int(before.sum()),
                "n": len(before),
                "n_distinct": int(curve.clean["prediction"].nunique()),
            }
        )
        for replaced in plan.replaced:
            if replaced.seed == seed:
                # A prompt in which no word was replaced cannot fail, and does not count.
                after = answered(model, replaced.items)[0].cpu().numpy()[replaced.changed]
                right = before[replaced.changed]
                rows["synonyms"].append(
                    {
                        **here,
                        "rate": replaced.rate,
                        "n_test": len(before),
                        "n": len(right),
                        "n_before": int(right.sum()),
                        "n_after": int(after.sum()),
                        "n_both": int((right & after).sum()),
                    }
                )
    probed = representations(model, plan.validation or plan.train)
    return {
        "cap": pd.concat([_cap(curve, version, seed) for seed in seeds], ignore_index=True),
        "representations": pd.DataFrame(
            [{"version": version, "seed": seed, **row} for seed in seeds for row in probed]
        ).astype({"same_word_cosine": float, "different_word_cosine": float, "stable_rank": float}),
        **{name: pd.DataFrame(of_table) for name, of_table in rows.items()},
    }


def _cap(curve: CapCurve, version: str, seed: int) -> pd.DataFrame:
    frame = curve.frame
    return pd.DataFrame(
        {
            "version": version,
            "seed": seed,
            "layer": frame["layer"],
            "depth": frame["depth"],
            "pooling": frame["pooling"],
            "n_correct": (frame["accuracy"] * frame["n"]).round().astype("int64"),
            "n": frame["n"].astype("int64"),
        }
    )


def _trained(training: Finetuned, version: str, seed: int) -> dict[str, pd.DataFrame]:
    """What the training took, whether it converged, and its curve, thinned."""
    history: TrainingHistory = training.history
    steps, evaluations = history.frame, history.evaluations
    settled, why = convergence(steps, evaluations)
    tenth = max(1, len(steps) // 10)
    done = len(steps)
    # With patience the weights kept are those of the best evaluation, else the last ones.
    kept = evaluations["accuracy"].iloc[-1:]
    if history.config["train"]["patience"] is not None:
        kept = evaluations["accuracy"]
    about = {
        "version": version,
        "seed": seed,
        "steps": done,
        "seconds": float(steps["seconds"].sum()),
        "step_seconds": float(steps["seconds"].median()),
        "first_loss": float(steps["task_loss"].head(tenth).mean()),
        "last_loss": float(steps["task_loss"].tail(tenth).mean()),
        "validation_accuracy": float(kept.max()),
        "converged": settled,
        "why": why,
        "stopped_early": done < int(history.config["total_steps"]),
    }
    return {"training": pd.DataFrame([about]), "history": _thinned(steps, version, seed)}


def _thinned(steps: pd.DataFrame, version: str, seed: int) -> pd.DataFrame:
    """Means over equal stretches of the run, at most :data:`HISTORY_ROWS`; step is the last one."""
    stretch = max(1, -(-len(steps) // HISTORY_ROWS))
    groups = steps.groupby(np.arange(len(steps)) // stretch)
    means = groups[["loss", "task_loss", "mi", "stability"]].mean()
    table = means.assign(version=version, seed=seed, step=groups["step"].last())
    columns = ["version", "seed", "step", "loss", "task_loss", "mi", "stability"]
    return table[columns].reset_index(drop=True)
