"""CARMA and fine-tuning, watched: run ``carma_watched_mini_idm``.

The comparison of ``mini-base`` with its defaults, a look at every few steps of each training: the
stable rank and the condensation of every matrix in blocks, and CAP at each layer on 200 prompts of
the validation split. Kept are of each the mean over matrices (or CAP's accuracy by layer) by step,
and differences after the last step, paired by seed.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pandas as pd

import interp_compose as ic
from benchmarks.common import plain_rows
from benchmarks.watching import OF_WEIGHTS, ends, over_seeds
from interp_compose.stats.seeds import paired_difference

N_PROMPTS: Final = 200
MEASURES: Final = (*OF_WEIGHTS, "cap")


def measured(folder: Path, task: str, seeds: int, every: int) -> dict[str, Any]:
    """Train both, watched."""
    model = ic.load_model("mini-base")
    prompts = ic.load_task(task, model)

    def watched(run: str) -> Any:
        return ic.watch(
            model,
            measures=MEASURES,
            every=every,
            examples=prompts.validation[:N_PROMPTS],
            budget=None,
            path=folder / f"{run}.jsonl",
        )

    compared = ic.carma.compare(
        model, prompts, seeds=seeds, folder=folder, watch=watched, progress=False
    )
    frame = pd.concat(
        by_step(ic.Watched.read(folder / f"{version}, seed {seed}.jsonl").frame).assign(
            version=version, seed=seed
        )
        for version in ("ft", "carma")
        for seed in compared.config["seeds"]
    )
    print(differences(frame).round(4).to_string())
    config = {"task": task, "seeds": compared.config["seeds"], "every": every}
    config |= {"n_prompts": N_PROMPTS, "training": compared.config["train"]}
    return {
        "config": config,
        "means": plain_rows(over_seeds(frame, ["version", "measure", "layer"])),
        "differences": plain_rows(differences(frame)),
        "runs": plain_rows(ends(frame)),
    }


def by_step(frame: pd.DataFrame) -> pd.DataFrame:
    """Of each step: each measure of weights, a mean over matrices (layer -1), and CAP by layer."""
    weights = frame[frame["measure"] != "cap"]
    means = weights.groupby(["step", "measure"])["value"].mean().reset_index().assign(layer=-1)
    cap = frame.loc[frame["measure"] == "cap", ["step", "measure", "layer", "value"]]
    return pd.concat([means, cap], ignore_index=True)


def differences(frame: pd.DataFrame) -> pd.DataFrame:
    """CARMA less fine-tuning after the last step, paired by seed; and where both began."""
    first, last = frame["step"].min(), frame["step"].max()
    rows = []
    for (measure, layer), own in frame.groupby(["measure", "layer"], sort=False):
        ends = own[own["step"] == last].pivot(index="seed", columns="version", values="value")
        found = asdict(paired_difference(ends["carma"].tolist(), ends["ft"].tolist()))
        start = own.loc[own["step"] == first, "value"].mean()
        of_versions = {"start": start, "ft": ends["ft"].mean(), "carma": ends["carma"].mean()}
        rows.append({"measure": measure, "layer": layer, **of_versions, **found})
    return pd.DataFrame(rows)
