"""Tables of trainings that were watched: ``*_watched`` and ``watch_cost_cpu``."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

from docs.measured import (
    Cell,
    Columns,
    Row,
    Table,
    beside,
    cell,
    chosen,
    frame,
    merged,
    pivot,
    records,
    table,
)

SPLITS = {"id": "seen", "ood": "unseen"}
OF_WEIGHTS = {"stable_rank": "stable rank", "mean_abs_cosine": "condensation"}
SHARES = ("exact match", "masked words")
PLACES = {-1: "not pooled", 0: "at embeddings", 1: "at layer 1"}


def cells() -> dict[tuple[float, str, str, int, int], dict[str, Any]]:
    """Of models on anchor functions: means over seeds, by init rate, split, measure, layer and
    step; the step of the last ones is -1 as well."""
    rows = frame("anchors_watched", "means")
    last = rows["step"].max()
    means = {}
    for row in records(rows):
        place = (row["init_rate"], row["split"], row["measure"], row["layer"])
        means[(*place, row["step"])] = row
        if row["step"] == last:
            means[(*place, -1)] = row
    return means


def anchors() -> Table:
    """Accuracy with the pair of anchors pooled, and the stable rank, by init rate."""
    means, phases = frame("anchors_watched", "means"), frame("anchors_watched", "runs")
    last = means["step"].max()
    pooled = means.query("measure == 'cap' and step == @last")
    pooled = chosen(pooled, ["split", "layer"], product(SPLITS, PLACES))
    pooled = pooled.assign(pairs=pooled["split"].map(SPLITS), at=pooled["layer"].map(PLACES))
    ranks = means.query("measure == 'stable_rank' and step in (0, 100, @last)")
    ranks = ranks.set_index(["init_rate", "step"])["mean"]

    def rate(row: Row) -> str:
        counts = Counter(phases.query("init_rate == @row['init_rate']")["phase"])
        text = ", ".join(f"phase {phase}: {n} of {counts.total()}" for phase, n in counts.items())
        return f"{row['init_rate']:g} ({text})"

    columns = {"{pairs}: {at}": "{mean:hundredths} ({min:hundredths}–{max:hundredths})"}
    heads, rows = pivot(pooled, {"γ": rate}, ["pairs", "at"], columns)
    for row, init_rate in zip(rows, pooled["init_rate"].unique(), strict=True):
        row.append(" → ".join(f"{ranks[init_rate, step]:.1f}" for step in (0, 100, last)))
    return [*heads, "stable rank, steps 0, 100, last"], rows


def ends(name: str) -> Table:
    """Each measure before training and after it, by model, and each model's difference to the
    first; shares in per cent."""
    rows = frame(name, "differences")
    is_share = rows["measure"].isin(SHARES)
    rows["style"] = is_share.map({True: ".1points", False: ".3f"})
    rows["measure"] = rows["measure"].replace(OF_WEIGHTS) + is_share.map({True: ", %", False: ""})
    first, by = rows["model"][0], {"": "{measure}"}
    ends = pivot(rows, by, ["model"], {"{model}": _before_and_after})
    apart = "{difference:+{style}} ({ci_low:+{style}} to {ci_high:+{style}})"
    others = rows[rows["model"] != first]
    return beside(ends, pivot(others, by, ["model"], {f"{{model}} − {first}": apart}))


def _before_and_after(row: Row) -> str:
    return f"{cell('{start:{style}}', row)} → {cell('{end:{style}}', row)}"


def cost() -> Table:
    """Of each set of measures, what its looks took of a training."""
    rows = frame("watch_cost_cpu", "sets")
    columns: Columns = {
        "measures": _measures,
        "looks taken": _ranged("taken", "g"),
        "skipped": _ranged("skipped", "g"),
        "seconds a look": _ranged("look_s", ".3f"),
        "looks over training, W / T": _ranged("share", ".1%"),
        "all calls over training": _ranged("share_of_calls", ".1%"),
        "watched over unwatched, whole calls": _ranged("ratio", ".3f"),
    }
    return table(rows[rows["measures"].map(len) > 0], columns)


def _measures(row: Row) -> str:
    reads = f"; {row['n_prompts']} prompts" if row["n_prompts"] else ""
    return ", ".join(f"`{name}`" for name in row["measures"]) + reads


def _ranged(name: str, style: str) -> Cell:
    low, high = (f"{{{name}_spread[{end}]:{style}}}" for end in (0, 1))
    return merged(f"{{{name}:{style}}} ({low}–{high})")
