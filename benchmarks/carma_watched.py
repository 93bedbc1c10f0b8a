"""CARMA and fine-tuning, watched: ``python -m benchmarks.carma_watched --out out/carma-watched``.

The comparison of ``mini-base`` on ``mini-idm`` with its defaults, a look at every ``--every`` steps
of each training: the stable rank and the condensation of every matrix in blocks, and CAP at each
layer on 200 prompts of the validation split. Writes ``results/carma_watched_mini_idm.json``, of
each the mean over matrices (or CAP's accuracy by layer) by step, and differences after the last
step, paired by seed; and a picture.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pandas as pd

import interp_compose as ic
from benchmarks.common import machine, plain_rows, write
from benchmarks.watching import OF_WEIGHTS, over_seeds, redraw
from interp_compose.stats.seeds import paired_difference

N_PROMPTS: Final = 200
MEASURES: Final = (*OF_WEIGHTS, "cap")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--every", type=int, default=50)
    options = parser.parse_args(arguments)
    model = ic.load_model("mini-base")
    task = ic.load_task("mini-idm", model)

    def watched(run: str) -> Any:
        return ic.watch(
            model,
            measures=MEASURES,
            every=options.every,
            examples=task.validation[:N_PROMPTS],
            budget=None,
            path=options.out / f"{run}.jsonl",
        )

    found = ic.carma.compare(
        model, task, seeds=options.seeds, folder=options.out, watch=watched, progress=False
    )
    frame = pd.concat(
        [
            by_step(ic.Watched.read(options.out / f"{version}, seed {seed}.jsonl").frame).assign(
                version=version, seed=seed
            )
            for version in ("ft", "carma")
            for seed in found.config["seeds"]
        ]
    )
    about = {"task": "mini-idm", "seeds": found.config["seeds"], "every": options.every}
    about |= {"n_prompts": N_PROMPTS, "training": found.config["train"]}
    kept = {
        "means": plain_rows(over_seeds(frame, ["version", "measure", "layer"])),
        "differences": plain_rows(differences(frame)),
    }
    write("carma_watched_mini_idm", {"machine": machine(), "config": about, **kept})
    redraw("carma_watched_mini_idm")
    print(differences(frame).round(4).to_string())


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


if __name__ == "__main__":
    main()
