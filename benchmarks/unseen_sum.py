"""Does a model reason about unseen pairs of anchors, or know what they add from other pairs? Run
``unseen_sum``.

Answers are told apart as in :mod:`benchmarks.unseen_pairs`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pandas as pd
import torch

import interp_compose as ic
from benchmarks.anchor_runs import SHARES as OF_SPLITS, finished, keep, last_look
from benchmarks.unseen_pairs import SHARES, seen_sums, shares, sum_of
from interp_compose.papers.complexity.models.small_decoder import SmallDecoderModel
from interp_compose.papers.complexity.studies.anchors.phase import phase_of

SHIFTS: Final = (-8, 3, 7, 4, 8)
"""What the anchor d adds."""


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
        answers = SmallDecoderModel(model, name="trained")(data.tokens)[:, -1].argmax(-1)
    added = (answers - data.keys).tolist()
    keep(folder, {**last, **shares(added, task)})


def measured(
    folder: Path, run: Mapping[str, Any], norms: Sequence[str], seeds: Sequence[int]
) -> dict[str, Any]:
    """What runs on each task come to."""
    configs = [
        {**run, "norm": norm, "d": d, "seed": seed}
        for norm in norms
        for d in SHIFTS
        for seed in seeds
    ]
    names = (*OF_SPLITS, "stable_rank", *SHARES)
    rows = []
    for config, last in zip(
        configs, finished("benchmarks.unseen_sum:train", configs, folder), strict=True
    ):
        task = task_of(config["d"])
        unseen = sum_of(task, task.unseen[0])
        place = {name: config[name] for name in ("norm", "d", "seed")}
        place |= {"sum": unseen, "seen": unseen in seen_sums(task)}
        phase = phase_of(**{name: last[name] for name in OF_SPLITS})
        rows.append({**place, "phase": phase, **{name: last[name] for name in names}})
    by_task = pd.DataFrame(rows).drop(columns="seed").groupby(["norm", "d", "sum", "seen"])
    means = by_task.agg({"phase": " ".join, **dict.fromkeys(names, "mean")})
    print(means.round(3).to_string())
    return {"runs": rows}
