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
from benchmarks.common import IMAGES, machine, plain_rows, write
from interp_compose.plots.chart import Chart, Panel
from interp_compose.plots.interactive import ChartFigure, draw
from interp_compose.stats.seeds import paired_difference
from interp_compose.studies.core.figures import by_value, lines_of

N_PROMPTS: Final = 200
MEASURES: Final = ("stable_rank", "mean_abs_cosine", "cap")
TITLES: Final = {
    "stable_rank": "stable rank",
    "mean_abs_cosine": "condensation: mean abs(cos) of rows",
}


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

    found = ic.compare(
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
    kept = {"means": plain_rows(over_seeds(frame)), "differences": plain_rows(differences(frame))}
    write("carma_watched_mini_idm", {"machine": machine(), "config": about, **kept})
    figure(frame).save(IMAGES / "carma_watched_mini_idm.png")
    print(differences(frame).round(4).to_string())


def by_step(frame: pd.DataFrame) -> pd.DataFrame:
    """Of each step: each measure of weights, a mean over matrices (layer -1), and CAP by layer."""
    weights = frame[frame["measure"] != "cap"]
    means = weights.groupby(["step", "measure"])["value"].mean().reset_index().assign(layer=-1)
    cap = frame.loc[frame["measure"] == "cap", ["step", "measure", "layer", "value"]]
    return pd.concat([means, cap], ignore_index=True)


def over_seeds(frame: pd.DataFrame) -> pd.DataFrame:
    """Mean, smallest and largest of each version, measure, layer and step."""
    place = ["version", "measure", "layer", "step"]
    found = frame.groupby(place, sort=False)["value"].agg(["mean", "min", "max", "size"])
    return found.reset_index()


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


def figure(frame: pd.DataFrame) -> ChartFigure:
    """Each measure of weights over steps, by version, over its value before training."""
    own = frame[frame["measure"].isin(list(TITLES))]
    first = own[own["step"] == own["step"].min()].set_index(["version", "seed", "measure"])["value"]
    before = first.loc[list(own[["version", "seed", "measure"]].itertuples(index=False, name=None))]
    rows = over_seeds(own.assign(value=own["value"].to_numpy() / before.to_numpy()))
    panels = [
        Panel(
            lines_of(
                by_value(rows[rows["measure"] == measure], "version", rows),
                *("step", "mean", "min", "max"),
                n="size",
            ),
            [],
            title,
        )
        for measure, title in TITLES.items()
    ]
    last = rows["step"].max()
    return draw(
        Chart(
            title="mini-idm: CARMA and fine-tuning, while they train",
            subtitle=f"{frame['seed'].nunique()} seeds · bands: smallest to largest seed",
            x_title="step",
            y_title="ratio to the value before training",
            x_is_share=False,
            y_is_share=False,
            panels=panels,
            x_name="step",
            x_ticks=[0.0, float(last) / 2, float(last)],
        )
    )


if __name__ == "__main__":
    main()
