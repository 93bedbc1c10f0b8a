"""Complexity of weights while LRF and its controls learn SCAN without ``turn left``.

At 13 looks of each training: the mean stable rank and condensation of the matrices that all three
models have, and exact match on the test split. Settings are those of ``interp-compose generalise
--task scan-turn-left``, whose runs these repeat::

    python -m benchmarks.lrf_watched --out out/lrf-watched

Writes ``results/lrf_watched.json``, means over seeds by step and differences to the Transformer
after the last step, paired by seed; and a picture.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import pandas as pd

import interp_compose as ic
from benchmarks.anchor_runs import finished, keep
from benchmarks.common import IMAGES, machine, plain_rows, write
from interp_compose.models.init import init_xavier
from interp_compose.models.seq2seq import SmallSeq2Seq
from interp_compose.plots.chart import Chart, Panel
from interp_compose.plots.interactive import ChartFigure, draw
from interp_compose.stats.seeds import paired_difference
from interp_compose.studies.core.figures import by_value, lines_of
from interp_compose.studies.core.sequence_data import SequenceData
from interp_compose.studies.core.sequence_run import trained
from interp_compose.studies.generalise.run import SequenceRun
from interp_compose.text.vocabulary import BOS
from interp_compose.training.objectives import Row
from interp_compose.training.sequences import TargetSequence

TASK: Final = "scan-turn-left"
MODELS: Final = ("transformer", "lrf", "parameters")
MATRICES: Final = (
    *("W_Q", "W_K", "W_V", "W_O", "W_in", "W_out"),
    *("W_Q_cross", "W_K_cross", "W_V_cross", "W_O_cross"),
)
TITLES: Final = {
    "stable_rank": "stable rank",
    "mean_abs_cosine": "condensation: mean abs(cos) of rows",
}


@dataclass(frozen=True, eq=False)
class Watched(TargetSequence):
    """The objective, which tells a watcher of each evaluation."""

    watcher: ic.Watcher = field(kw_only=True)

    def evaluate(self, trainer: Any) -> Mapping[str, Sequence[Row]]:
        self.watcher(trainer.step)
        return super().evaluate(trainer)


def train(config: Mapping[str, Any], folder: Path) -> None:
    """One run, watched; its looks into ``folder``."""
    run = SequenceRun(**config, data="")
    data = SequenceData.of(ic.load_sequences(TASK).splits)
    model = SmallSeq2Seq(run.model_config(data))
    init_xavier(model, seed=run.seed)
    watcher = ic.watch(
        model,
        measures=tuple(TITLES),
        matrices=MATRICES,
        every=1,
        budget=None,
        path=folder / "looks.jsonl",
    )
    objective = Watched(data.splits["train"], BOS, curve=data.sample(run.n_curve), watcher=watcher)
    found = trained(model, objective, run.train_config(objective.lengths), folder)
    keep(folder, {"looks": plain_rows(watcher.frame), "curve": found["curve"]})


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, print, and write results and picture."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args(arguments)
    asked = [{"model": model, "seed": s} for s in range(options.seeds) for model in MODELS]
    found = finished("benchmarks.lrf_watched:train", asked, options.out)
    frame = pd.concat(
        [by_step(kept).assign(**config) for config, kept in zip(asked, found, strict=True)],
        ignore_index=True,
    )
    about = {"task": TASK, "seeds": list(range(options.seeds)), "matrices": list(MATRICES)}
    tables = {"means": plain_rows(over_seeds(frame)), "differences": plain_rows(differences(frame))}
    write("lrf_watched", {"machine": machine(), "config": about, **tables})
    figure(frame).save(IMAGES / "lrf_watched.png")
    print(differences(frame).round(4).to_string())


def by_step(kept: Mapping[str, Any]) -> pd.DataFrame:
    """Of each step: means over matrices, and exact match on the test split."""
    looks = pd.DataFrame(kept["looks"])
    means = looks.groupby(["step", "measure"])["value"].mean().reset_index()
    curve = pd.DataFrame(kept["curve"])
    right = curve.loc[curve["split"] == "test", ["step", "accuracy"]]
    right = right.rename(columns={"accuracy": "value"}).assign(measure="exact match")
    return pd.concat([means, right], ignore_index=True)


def over_seeds(frame: pd.DataFrame) -> pd.DataFrame:
    """Mean, smallest and largest seed of each model, measure and step."""
    found = frame.groupby(["model", "measure", "step"], sort=False)["value"]
    return found.agg(["mean", "min", "max", "size"]).reset_index()


def differences(frame: pd.DataFrame) -> pd.DataFrame:
    """Each model less the Transformer after the last step, paired by seed; and where it began."""
    first, last = frame["step"].min(), frame["step"].max()
    rows = []
    for measure, own in frame.groupby("measure", sort=False):
        ends = own[own["step"] == last].pivot(index="seed", columns="model", values="value")
        starts = own[own["step"] == first].groupby("model")["value"].mean()
        for model in MODELS:
            place = {"measure": measure, "model": model, "start": starts[model]}
            place["end"] = ends[model].mean()
            pair = paired_difference(ends[model].tolist(), ends[MODELS[0]].tolist())
            rows.append(place | (asdict(pair) if model != MODELS[0] else {}))
    return pd.DataFrame(rows)


def figure(frame: pd.DataFrame) -> ChartFigure:
    """Each measure of weights over steps, by model, over its value before training."""
    own = frame[frame["measure"].isin(list(TITLES))]
    place = ["model", "seed", "measure"]
    first = own[own["step"] == own["step"].min()].set_index(place)["value"]
    before = first.loc[list(own[place].itertuples(index=False, name=None))]
    rows = over_seeds(own.assign(value=own["value"].to_numpy() / before.to_numpy()))
    panels = []
    for measure, title in TITLES.items():
        lines = by_value(rows[rows["measure"] == measure], "model", rows)
        panels.append(Panel(lines_of(lines, "step", "mean", "min", "max", n="size"), [], title))
    last = float(rows["step"].max())
    return draw(
        Chart(
            title="SCAN without turn left: weights while LRF and its controls learn",
            subtitle=f"means of {frame['seed'].nunique()} seeds, matrices that all have · bands: "
            "smallest to largest seed",
            x_title="step",
            y_title="ratio to the value before training",
            x_is_share=False,
            y_is_share=False,
            panels=panels,
            x_name="step",
            x_ticks=[0.0, last / 2, last],
        )
    )


if __name__ == "__main__":
    main()
