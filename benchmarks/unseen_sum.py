"""Does a model reason about unseen pairs of anchors, or know what they add from other pairs?

At γ 0.8 and weight decay 0.01, on tasks that differ in what the anchor d adds. The unseen pairs add
c + d = −2 + d, which for d = 4 and 8 is what (b, b) or (a, b) add, and for d = −8, 3 and 7 what no
seen pair does. Seeds from 600 on, on which nothing was tried::

    python -m benchmarks.unseen_sum --out out/unseen_sum

Answers are told apart as in :mod:`benchmarks.unseen_pairs`.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pandas as pd
import torch

import interp_compose as ic
from benchmarks.anchor_runs import finished, keep, last_look
from benchmarks.common import machine, write
from benchmarks.unseen_pairs import SHARES, seen_sums, shares, sum_of
from interp_compose.papers.complexity.models.small_decoder import SmallDecoderModel
from interp_compose.papers.complexity.studies.anchors.phase import phase_of

SHIFTS: Final = (-8, 3, 7, 4, 8)
NORMS: Final = ("post", "pre")
RUN: Final = {"init_rate": 0.8, "weight_decay": 0.01}


def task_of(d: int) -> ic.complexity.AnchorTask:
    """The paper's task, but for what d adds."""
    task = ic.complexity.AnchorTask()
    return replace(task, anchors={**task.anchors, "d": d})


def train(config: Mapping[str, Any], folder: Path) -> None:
    """One run; its last look, and what it answers to the unseen pairs, into ``folder``."""
    options = {**config}
    task = task_of(options.pop("d"))
    run = ic.complexity.PhaseRun(**options)
    model = run.model(task)
    last = last_look(run, task, model)
    data = task.sample("ood", run.n_test, seed=run.stream("ood"))
    with torch.no_grad():
        said = SmallDecoderModel(model, name="trained")(data.tokens)[:, -1].argmax(-1)
    added = (said - data.keys).tolist()
    keep(folder, {**last, **shares(added, task)})


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, print, and write ``results/unseen_sum.json``."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=600)
    options = parser.parse_args(arguments)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    asked = [
        {**RUN, "norm": norm, "d": d, "seed": seed}
        for norm in NORMS
        for d in SHIFTS
        for seed in seeds
    ]
    looks = finished("benchmarks.unseen_sum:train", asked, options.out)
    names = ("train", "id", "ood", "commutativity", "stable_rank", *SHARES)
    rows = []
    for config, last in zip(asked, looks, strict=True):
        task = task_of(config["d"])
        unseen = sum_of(task, task.unseen[0])
        place = {name: config[name] for name in ("norm", "d", "seed")}
        told = {"sum": unseen, "seen": unseen in seen_sums(task)}
        phase = phase_of(**{name: last[name] for name in names[:4]})
        rows.append({**place, **told, "phase": phase, **{name: last[name] for name in names}})
    by_task = pd.DataFrame(rows).drop(columns="seed").groupby(["norm", "d", "sum", "seen"])
    means = by_task.agg({"phase": " ".join, **dict.fromkeys(names, "mean")})
    print(means.round(3).to_string())
    write("unseen_sum", {"runs": rows, **machine()})


if __name__ == "__main__":
    main()
