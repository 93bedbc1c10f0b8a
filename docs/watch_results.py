"""The tables of trainings that were watched, from ``benchmarks/results/``."""

from __future__ import annotations

from collections import Counter
from typing import Any

from docs.measured import Table, read
from docs.phase_results import hundredths

SPLITS = {"id": "seen", "ood": "unseen"}
OF_WEIGHTS = {"stable_rank": "stable rank", "mean_abs_cosine": "condensation"}
SHARES = ("exact match", "masked words")
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
        shown = [(row["mean"], row["min"], row["max"]) for row in shares]
        ranks = [known[rate, "id", "stable_rank", -1, step]["mean"] for step in (0, 100, -1)]
        rows.append(
            [
                f"{rate:g} ({told})",
                *("{:.2f} ({:.2f}–{:.2f})".format(*map(hundredths, row)) for row in shown),
                " → ".join(f"{rank:.1f}" for rank in ranks),
            ]
        )
    heads = [f"{split}: {place}" for split in SPLITS.values() for place in PLACES.values()]
    return ["γ", *heads, "stable rank, steps 0, 100, last"], rows


def ends(name: str) -> Table:
    """Heads and rows: each measure before training and after it, by model, and each model's
    difference to the first; shares in per cent."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for row in read(name)["differences"]:
        found.setdefault(row["measure"], {})[row["model"]] = row
    first, *others = next(iter(found.values()))
    rows = []
    for measure, own in found.items():
        scale, digits = (100, 1) if measure in SHARES else (1, 3)
        cells = [OF_WEIGHTS.get(measure, measure + (", %" if measure in SHARES else ""))]
        for row in own.values():
            cells.append(" → ".join(_number(row[at], scale, digits) for at in ("start", "end")))
        for model in others:
            apart = (own[model][at] for at in ("difference", "ci_low", "ci_high"))
            gain, low, high = (_number(one, scale, digits, "+") for one in apart)
            cells.append("–" if gain == "–" else f"{gain} ({low} to {high})")
        rows.append(cells)
    return ["", first, *others, *(f"{model} − {first}" for model in others)], rows


def cost() -> Table:
    """Heads and rows: of each set of measures, what its looks took of a training."""
    columns = {
        "taken": ("looks taken", "g"),
        "skipped": ("skipped", "g"),
        "look_s": ("seconds a look", ".3f"),
        "share": ("looks over training, W / T", ".1%"),
        "share_of_calls": ("all calls over training", ".1%"),
        "ratio": ("watched over unwatched, whole calls", ".3f"),
    }
    rows = []
    for row in read("watch_cost_cpu")["sets"]:
        if row["measures"]:
            reads = f"; {row['n_prompts']} prompts" if row["n_prompts"] else ""
            what = ", ".join(f"`{name}`" for name in row["measures"]) + reads
            rows.append([what, *(_ranged(row, key, form) for key, (_, form) in columns.items())])
    return ["measures", *(head for head, _ in columns.values())], rows


def _ranged(row: dict[str, Any], key: str, form: str) -> str:
    low, high = (format(end, form) for end in row[f"{key}_spread"])
    middle = format(row[key], form)
    return middle if low == high else f"{middle} ({low}–{high})"


def _number(value: float | None, scale: float, digits: int, sign: str = "") -> str:
    return "–" if value is None else f"{scale * value:{sign}.{digits}f}".replace("-", "−")
