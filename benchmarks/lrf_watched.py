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
from benchmarks.watching import OF_WEIGHTS, over_seeds, weights_figure
from interp_compose.models.init import init_xavier
from interp_compose.models.seq2seq import SmallSeq2Seq
from interp_compose.stats.seeds import paired_difference
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
        measures=tuple(OF_WEIGHTS),
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
    tables = {
        "means": plain_rows(over_seeds(frame, ["model", "measure"])),
        "differences": plain_rows(differences(frame)),
    }
    write("lrf_watched", {"machine": machine(), "config": about, **tables})
    title = "SCAN without turn left: weights while LRF and its controls learn"
    weights_figure(frame, "model", title).save(IMAGES / "lrf_watched.png")
    print(differences(frame).round(4).to_string())


def by_step(kept: Mapping[str, Any]) -> pd.DataFrame:
    """Of each step: means over matrices, and exact match on the test split."""
    looks = pd.DataFrame(kept["looks"])
    means = looks.groupby(["step", "measure"])["value"].mean().reset_index()
    curve = pd.DataFrame(kept["curve"])
    right = curve.loc[curve["split"] == "test", ["step", "accuracy"]]
    right = right.rename(columns={"accuracy": "value"}).assign(measure="exact match")
    return pd.concat([means, right], ignore_index=True)


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


if __name__ == "__main__":
    main()
