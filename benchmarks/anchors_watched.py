"""CAP while models on anchor functions pass from memorising to reasoning, or do not.

Three init rates, weight decay 0.01, on seeds on which nothing was tested: one model memorises, one
learns pairs in either order, one reasons. At each of 16 looks the chain of anchors is pooled into
one vector at each layer, in 200 sequences with seen pairs and 200 with unseen ones, all with test
keys; beside it the mean stable rank and condensation of matrices in blocks::

    python -m benchmarks.anchors_watched --out out/anchors-watched

Writes ``results/anchors_watched.json``, means over seeds by step, and a picture.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pandas as pd

import interp_compose as ic
from benchmarks.anchor_runs import finished, keep, last_look
from benchmarks.common import IMAGES, machine, plain_rows, write
from benchmarks.watching import OF_WEIGHTS, over_seeds, panel, steps_figure
from interp_compose.papers.complexity.models.small_decoder import SmallDecoderModel
from interp_compose.papers.complexity.studies.anchors.phase import phase_of
from interp_compose.papers.complexity.tasks.anchor_text import anchor_examples, anchor_tokenizer
from interp_compose.plots.interactive import ChartFigure

RATES: Final = (0.4, 0.5, 0.8)
SPLITS: Final = {"id": "seen pairs", "ood": "unseen pairs"}
N: Final = 200
PLACES: Final = {-1: "not pooled", 0: "pooled at embeddings", 1: "pooled at layer 1"}


def train(config: Mapping[str, Any], folder: Path) -> None:
    """One run, watched; its looks into ``folder``."""
    run = ic.complexity.PhaseRun(**config)
    task, model = run.task, run.model(run.task)
    named = SmallDecoderModel(model, name="trained", tokenizer=anchor_tokenizer(task))
    watchers = {
        split: ic.watch(
            named,
            measures=("cap", *OF_WEIGHTS) if split == "id" else ("cap",),
            examples=anchor_examples(task, task.sample(split, N, seed=run.stream(split))),
            unit="span",
            every=1,
            budget=None,
        )
        for split in SPLITS
    }
    last = last_look(run, task, model, watchers.values())
    looks = [watcher.frame.assign(split=split) for split, watcher in watchers.items()]
    keep(folder, {"last": last, "looks": plain_rows(pd.concat(looks))})


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, print, and write results and picture."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=700)
    options = parser.parse_args(arguments)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    asked = [
        {"init_rate": rate, "weight_decay": 0.01, "seed": seed} for rate in RATES for seed in seeds
    ]
    found = finished("benchmarks.anchors_watched:train", asked, options.out)
    frames, phases = [], []
    for config, kept in zip(asked, found, strict=True):
        place = {name: config[name] for name in ("init_rate", "seed")}
        frames.append(by_step(pd.DataFrame(kept["looks"])).assign(**place))
        names = ("train", "id", "ood", "commutativity")
        shares = {name: kept["last"][name] for name in names}
        phases.append({**place, "phase": phase_of(**shares), **shares})
    frame = pd.concat(frames, ignore_index=True)
    rows = over_seeds(frame, ["init_rate", "split", "measure", "layer"])
    about = {"n": N, "seeds": list(seeds), "weight_decay": 0.01}
    tables = {"runs": phases, "means": plain_rows(rows)}
    write("anchors_watched", {"machine": machine(), "config": about, **tables})
    figure(rows, options.seeds).save(IMAGES / "anchors_watched.png")
    print(pd.DataFrame(phases).to_string())
    print(rows[rows["step"] == rows["step"].max()].round(3).to_string())


def by_step(looks: pd.DataFrame) -> pd.DataFrame:
    """Of each step and split: CAP by layer (-1: not pooled), and means of matrices (layer -1)."""
    place = ["split", "step", "measure", "layer"]
    weights = looks["measure"].isin(list(OF_WEIGHTS))
    layer = looks["layer"].where(~weights, -1)
    return looks.assign(layer=layer).groupby(place, sort=False)["value"].mean().reset_index()


def figure(rows: pd.DataFrame, n_seeds: int) -> ChartFigure:
    """Accuracy on unseen pairs over steps, a panel for each init rate."""
    shown = rows[(rows["measure"] == "cap") & (rows["split"] == "ood")]
    shown = shown.assign(place=[PLACES[layer] for layer in shown["layer"]])
    panels = [
        panel(own, "place", f"γ = {rate:g}", shown) for rate, own in shown.groupby("init_rate")
    ]
    return steps_figure(
        panels,
        float(shown["step"].max()),
        "Anchor functions: unseen pairs, the pair pooled into one vector",
        f"means of {n_seeds} seeds, {N} sequences each",
        "accuracy",
        share=True,
    )


if __name__ == "__main__":
    main()
