"""The tables of trainings that were watched, from ``benchmarks/results/``."""

from __future__ import annotations

from collections import Counter
from typing import Any

from docs.measured import Table, read

SPLITS = {"id": "seen", "ood": "unseen"}
PLACES = {-1: "not pooled", 0: "at embeddings", 1: "at layer 1"}


def cells() -> dict[tuple[float, str, str, int, int], dict[str, Any]]:
    """Of models on anchor functions: means over seeds, by init rate, split, measure, layer and
    step; the step of the last ones is -1 as well."""
    rows = read("anchors_watched")["means"]
    last = max(row["step"] for row in rows)
    found = {}
    for row in rows:
        place = (row["init_rate"], row["split"], row["measure"], row["layer"])
        found[(*place, row["step"])] = row
        if row["step"] == last:
            found[(*place, -1)] = row
    return found


def anchors() -> Table:
    """Heads and rows: accuracy with the pair of anchors pooled, and the stable rank, by init
    rate."""
    known, runs = cells(), read("anchors_watched")["runs"]
    rows = []
    for rate in dict.fromkeys(run["init_rate"] for run in runs):
        phases = Counter(run["phase"] for run in runs if run["init_rate"] == rate)
        told = ", ".join(f"phase {phase}: {n} of {phases.total()}" for phase, n in phases.items())
        shares = [known[rate, split, "cap", place, -1] for split in SPLITS for place in PLACES]
        ranks = [known[rate, "id", "stable_rank", -1, step]["mean"] for step in (0, 100, -1)]
        rows.append(
            [
                f"{rate:g} ({told})",
                *(f"{r['mean']:.2f} ({r['min']:.2f}–{r['max']:.2f})" for r in shares),
                " → ".join(f"{rank:.1f}" for rank in ranks),
            ]
        )
    heads = [f"{split}: {place}" for split in SPLITS.values() for place in PLACES.values()]
    return ["γ", *heads, "stable rank, steps 0, 100, last"], rows
