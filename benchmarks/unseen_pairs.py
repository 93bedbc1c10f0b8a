"""What models answer to the pairs of anchors that they never saw.

Run with ``python -m benchmarks.unseen_pairs --runs out/phases --norm pre``, on the folder of a
phase diagram. At weight decay 0.01, for every init rate, the answers to 1,000 unseen inputs are
told apart by what they add to the key: −10, which is right and which no seen pair adds; one of the
two sums of seen pairs next to it, −16 and −7; another of the nine seen sums; anything else.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import torch

from benchmarks.common import machine, plain_rows, spread_of, write
from interp_compose.papers.complexity.studies.anchors.grid import finished_runs
from interp_compose.papers.complexity.tasks.anchors import AnchorTask

DECAY = 0.01
INPUTS = 1000
SHARES = ["right", "nearest_sums", "other_sums", "else"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Ask, print, and write ``results/unseen_pairs_{norm}.json``."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--norm", required=True, choices=("pre", "post"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=200)
    options = parser.parse_args(arguments)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    found = []
    for opened in (each for seed in seeds for each in finished_runs(options.runs, seed)):
        run = opened.run
        if run.norm != options.norm:
            raise SystemExit(f"{options.runs} holds runs of norm {run.norm}, not {options.norm}")
        if run.weight_decay != DECAY or not opened.is_sound:
            continue
        data = run.task.sample("ood", INPUTS, seed=run.stream("ood"))
        with torch.no_grad():
            said = opened.model()(data.tokens)[:, -1].argmax(-1)
        added = (said - data.keys).tolist()
        found.append({"init_rate": run.init_rate, "seed": run.seed, **shares(added, run.task)})
    frame = pd.DataFrame(found)
    by_rate = spread_of(frame.drop(columns="seed"), ["init_rate"])
    print(by_rate.round(3).to_string())
    write(f"unseen_pairs_{options.norm}", {"runs": plain_rows(frame), **machine()})


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


if __name__ == "__main__":
    main()
