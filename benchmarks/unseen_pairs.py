"""What models answer to the pairs of anchors that they never saw: runs ``unseen_pairs_*``.

At weight decay 0.01, for every init rate of a phase diagram, the answers to 1,000 unseen inputs are
told apart by what they add to the key: −10, which is right and which no seen pair adds; one of the
two sums of seen pairs next to it, −16 and −7; another of the nine seen sums; anything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from benchmarks.common import plain_rows, spread_of
from interp_compose.papers.complexity.studies.anchors.grid import finished_runs
from interp_compose.papers.complexity.tasks.anchors import AnchorTask

DECAY = 0.01
INPUTS = 1000
SHARES = ["right", "nearest_sums", "other_sums", "else"]


def measured(folder: Path, seeds: Sequence[int]) -> dict[str, Any]:
    """Shares of answers by init rate and seed, of the diagram's runs in ``folder``."""
    rows = []
    for opened in (each for seed in seeds for each in finished_runs(folder, seed)):
        run = opened.run
        if run.weight_decay != DECAY or not opened.is_sound:
            continue
        data = run.task.sample("ood", INPUTS, seed=run.stream("ood"))
        with torch.no_grad():
            answers = opened.model()(data.tokens)[:, -1].argmax(-1)
        added = (answers - data.keys).tolist()
        rows.append({"init_rate": run.init_rate, "seed": run.seed, **shares(added, run.task)})
    frame = pd.DataFrame(rows)
    print(spread_of(frame.drop(columns="seed"), ["init_rate"]).round(3).to_string())
    return {"runs": plain_rows(frame)}


def shares(added: Sequence[int], task: AnchorTask) -> dict[str, float]:
    """Shares of answers, by what they add to the key."""
    right = sum_of(task, task.unseen[0])
    seen = seen_sums(task)
    nearest = {max(s for s in seen if s < right), min(s for s in seen if s > right)}
    counts = [0, 0, 0, 0]
    for one in added:
        counts[0 if one == right else 1 if one in nearest else 2 if one in seen else 3] += 1
    return {name: count / len(added) for name, count in zip(SHARES, counts, strict=True)}


def seen_sums(task: AnchorTask) -> set[int]:
    """What the seen pairs add to a key."""
    return {sum_of(task, chain) for chain in task.chains if chain not in task.unseen}


def sum_of(task: AnchorTask, chain: tuple[str, ...]) -> int:
    """What the operations of a chain add to a key."""
    return task.apply(50, chain) - 50
