"""Keeps what was found inside: ``python -m benchmarks.fusion_outcomes length out/fusion-*``.

The folders are those that ``interp-compose fusion`` wrote of one comparison, each of another seed;
their tables of probes, forgetting, cuts, pooling and kinds of tokens go into
``results/fusion_{name}.json``, and what fuse-attention reads: means over kinds of tokens, weights
by head, entropies by layer. Other seeds of the same comparison that the file has already stay.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

import pandas as pd

import interp_compose as ic
from benchmarks.common import RESULTS, machine, plain_rows, write
from interp_compose.runs.files import read_json

TABLES: Final = ("probes", "read_back", "cuts", "cap", "tokens", "reads", "entropies")
LAYER: Final = ["model", "split", "stack", "layer"]


def over_kinds(found: ic.lrf.Fusion) -> dict[str, pd.DataFrame]:
    """What fuse-attention reads, means over tokens: ``reads`` by layer, head and earlier layer,
    ``entropies`` by layer, in nats and as the ``share`` of the largest."""
    reads, entropies = found.reads, found.frames["entropies"]
    return {
        "reads": _means(reads, [*LAYER, "head", "earlier"], ["weight"]),
        "entropies": _means(entropies, LAYER, ["entropy", "share"]),
    }


def _means(rows: pd.DataFrame, by: list[str], values: list[str]) -> pd.DataFrame:
    """Weighted by tokens; NaN where nothing was measured."""
    sums = rows.assign(**{value: rows[value] * rows["n"] for value in values})
    means = sums.groupby(by, sort=False)[[*values, "n"]].sum(min_count=1)
    return means[values].div(means["n"], axis=0).reset_index()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name", help="of the task, in the file's name")
    parser.add_argument("folders", nargs="+", help="written by interp-compose fusion")
    options = parser.parse_args(arguments)
    tables: dict[str, list[object]] = {name: [] for name in TABLES}
    configs, seeds = [], set[int]()
    for folder in options.folders:
        found = ic.lrf.Fusion.load(folder)
        configs.append({key: each for key, each in found.config.items() if key != "data"})
        seed = configs[-1].pop("seed")
        seeds.add(seed)
        frames = {**found.frames, **over_kinds(found)}
        for name, rows in tables.items():
            rows += [{"seed": seed, **row} for row in plain_rows(frames[name])]
    if any(config != configs[0] for config in configs):
        raise SystemExit("the folders are not of one comparison: their configs differ")
    file = RESULTS / f"fusion_{options.name}.json"
    before = read_json(file) if file.exists() else {}
    if before.get("config") == configs[0]:
        for name, rows in tables.items():
            rows[:0] = [row for row in before.get(name, []) if row["seed"] not in seeds]
    write(f"fusion_{options.name}", {"machine": machine(), "config": configs[0], **tables})


if __name__ == "__main__":
    main()
