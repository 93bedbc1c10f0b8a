"""What is kept of what was found inside encoder–decoders: runs ``fusion_*``.

Of several results of ``interp-compose fusion``, each of another seed of one comparison, the tables
of probes, entanglement, forgetting, cuts, pooling and kinds of tokens, and what fuse-attention
reads: means over kinds of tokens, weights by head, entropies by layer. Other seeds of the same
comparison that the file has already stay.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pandas as pd

import interp_compose as ic
from benchmarks.common import RESULTS, plain_rows
from interp_compose.runs.files import read_json

TABLES: Final = (
    "probes",
    "read_back",
    "entanglement",
    "cuts",
    "cap",
    "tokens",
    "reads",
    "entropies",
)
LAYER: Final = ["model", "split", "stack", "layer"]


def over_kinds(fusion: ic.lrf.Fusion) -> dict[str, pd.DataFrame]:
    """What fuse-attention reads, means over tokens: ``reads`` by layer, head and earlier layer,
    ``entropies`` by layer, in nats and as the ``share`` of the largest."""
    reads, entropies = fusion.reads, fusion.frames["entropies"]
    return {
        "reads": _means(reads, [*LAYER, "head", "earlier"], ["weight"]),
        "entropies": _means(entropies, LAYER, ["entropy", "share"]),
    }


def _means(rows: pd.DataFrame, by: list[str], values: list[str]) -> pd.DataFrame:
    """Weighted by tokens; NaN where nothing was measured."""
    sums = rows.assign(**{value: rows[value] * rows["n"] for value in values})
    means = sums.groupby(by, sort=False)[[*values, "n"]].sum(min_count=1)
    return means[values].div(means["n"], axis=0).reset_index()


def measured(*folders: Path, name: str) -> dict[str, Any]:
    """Joined to what the file ``name`` has."""
    tables: dict[str, list[dict[str, Any]]] = {table: [] for table in TABLES}
    configs, seeds = [], set[int]()
    for folder in folders:
        fusion = ic.lrf.Fusion.load(folder)
        configs.append({key: each for key, each in fusion.config.items() if key != "data"})
        seed = configs[-1].pop("seed")
        seeds.add(seed)
        frames = {**fusion.frames, **over_kinds(fusion)}
        for table, rows in tables.items():
            rows += [{"seed": seed, **row} for row in plain_rows(frames[table])]
    if any(config != configs[0] for config in configs):
        raise SystemExit("the folders are not of one comparison: their configs differ")
    file = RESULTS / f"{name}.json"
    before = read_json(file) if file.exists() else {}
    if before.get("config") == configs[0]:
        for table, rows in tables.items():
            rows[:0] = [row for row in before.get(table, []) if row["seed"] not in seeds]
            for row in rows if table in TABLES[:2] else ():
                row.setdefault("stack", "encoder")  # all that earlier releases probed
    return {"config": configs[0], **tables}
