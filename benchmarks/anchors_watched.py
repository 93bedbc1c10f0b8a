"""CAP while models on anchor functions pass from memorising to reasoning, or do not: run
``anchors_watched``.

At each of 16 looks the chain of anchors is pooled into one vector at each layer, in 200 sequences
with seen pairs and 200 with unseen ones, all with test keys; beside it the mean stable rank and
condensation of matrices in blocks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pandas as pd

import interp_compose as ic
from benchmarks.anchor_runs import SHARES, finished, keep, last_look
from benchmarks.common import IMAGES, RESULTS, plain_rows
from benchmarks.watching import OF_WEIGHTS, over_seeds, panel, steps_figure
from interp_compose.papers.complexity.models.small_decoder import SmallDecoderModel
from interp_compose.papers.complexity.studies.anchors.phase import phase_of
from interp_compose.papers.complexity.tasks.anchor_text import anchor_examples, anchor_tokenizer

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


def measured(
    folder: Path, rates: Sequence[float], weight_decay: float, seeds: Sequence[int]
) -> dict[str, Any]:
    """Means over seeds by step, each seed's after the last one, and the phases of runs."""
    configs = [
        {"init_rate": rate, "weight_decay": weight_decay, "seed": seed}
        for rate in rates
        for seed in seeds
    ]
    frames, runs = [], []
    for config, kept in zip(
        configs, finished("benchmarks.anchors_watched:train", configs, folder), strict=True
    ):
        place = {name: config[name] for name in ("init_rate", "seed")}
        frames.append(by_step(pd.DataFrame(kept["looks"])).assign(**place))
        shares = {name: kept["last"][name] for name in SHARES}
        runs.append({**place, "phase": phase_of(**shares), **shares})
    rows = over_seeds(
        pd.concat(frames, ignore_index=True), ["init_rate", "split", "measure", "layer"]
    )
    print(pd.DataFrame(runs).to_string())
    print(rows[rows["step"] == rows["step"].max()].round(3).to_string())
    config = {"n": N, "seeds": list(seeds), "weight_decay": weight_decay}
    looks = pd.concat(frames, ignore_index=True)
    return {
        "config": config,
        "runs": runs,
        "means": plain_rows(rows),
        "last": plain_rows(looks[looks["step"] == looks["step"].max()]),
    }


def by_step(looks: pd.DataFrame) -> pd.DataFrame:
    """Of each step and split: CAP by layer (-1: not pooled), and means of matrices (layer -1)."""
    place = ["split", "step", "measure", "layer"]
    weights = looks["measure"].isin(list(OF_WEIGHTS))
    layer = looks["layer"].where(~weights, -1)
    return looks.assign(layer=layer).groupby(place, sort=False)["value"].mean().reset_index()


def draw(name: str) -> None:
    """Accuracy on unseen pairs over steps, a panel for each init rate."""
    kept = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    rows = pd.DataFrame(kept["means"])
    shown = rows[(rows["measure"] == "cap") & (rows["split"] == "ood")]
    shown = shown.assign(place=[PLACES[layer] for layer in shown["layer"]])
    panels = [
        panel(of_rate, "place", f"γ = {rate:g}", shown)
        for rate, of_rate in shown.groupby("init_rate")
    ]
    steps_figure(
        panels,
        float(shown["step"].max()),
        "Anchor functions: unseen pairs, the pair pooled into one vector",
        f"means of {len(kept['config']['seeds'])} seeds, {N} sequences each",
        "accuracy",
        share=True,
    ).save(IMAGES / f"{name}.png")
