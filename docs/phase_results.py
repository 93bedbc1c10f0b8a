"""Tables of models on anchor functions: ``phase_*``, ``post_ln``, ``unseen_*``."""

from __future__ import annotations

from statistics import fmean
from typing import Final

import pandas as pd

from docs.measured import (
    Columns,
    Row,
    Table,
    cell,
    each,
    frame,
    listed,
    merged,
    over,
    pivot,
    ranged,
    share as share,
    table,
)
from interp_compose.papers.complexity.studies.anchors.phase import doubt_of

ONSETS: Final = {
    "pre": "pre-LN",
    "pre_unclipped": "pre-LN, gradients not clipped",
    "post": "post-LN",
}
SURE: Final = 0.005
"""A permutation test of every seed by itself is below it."""
SHARES: Final = {"train": "train", "ID": "id", "OOD": "ood", "commutativity": "commutativity"}
OF_CELL: Final[Columns] = {
    **{head: merged(ranged(name, "share")) for head, name in SHARES.items()},
    "stable rank": merged(ranged("stable_rank", ".1f")),
    r"\|cosine\|": merged(ranged("mean_abs_cosine", "share")),
    "phase": "{shown}",
}
"""Columns of a cell of a diagram: means over seeds, and smallest to largest seed."""


def _cells(name: str) -> pd.DataFrame:
    """With each phase as it is shown, with its question marks."""
    cells = frame(name, "cells")
    shown = [
        f"{phase}{doubt_of(agree)}" if phase else "diverged"
        for phase, agree in zip(cells["phase"], cells["agree"], strict=True)
    ]
    return cells.assign(shown=shown)


def phases(setting: str) -> Table:
    """A row per weight decay, a column per init rate: the phase, and OOD accuracy below it."""
    cells = _cells(f"phase_diagram_{setting}")
    cells = cells.sort_values(["weight_decay", "init_rate"], ascending=[False, True])
    by = {"weight decay ↓ γ →": "**{weight_decay:g}**"}
    return pivot(cells, by, ["init_rate"], {"{init_rate:g}": _verdict})


def _verdict(row: Row) -> str:
    """Like "3? (.97)"."""
    return cell("{shown} ({ood:share})" if row["phase"] else "{shown}", row)


def every_cell(setting: str) -> Table:
    """A row per cell: means, and smallest to largest seed."""
    place = {"weight decay": "{weight_decay:g}", "γ": "{init_rate:g}"}
    return table(_cells(f"phase_diagram_{setting}"), {**place, **OF_CELL})


def circuits(setting: str, weight_decay: float) -> Table:
    """What masks show at one weight decay: a row per init rate and mask."""
    name, place = f"phase_diagram_{setting}", ["init_rate", "weight_decay"]
    rows = frame(name, "circuits").query("weight_decay == @weight_decay")
    columns: Columns = {
        "γ": "{init_rate:g}",
        "phase": "{shown}",
        "mask": "`{mode}`",
        "pairs apart, key masked": _over_seeds("pair_silhouette"),
        "(a, b) from (b, a)": _over_seeds("twin_distance"),
        "g(x; a₁) alike, second anchor masked": _over_seeds("anchor_contrast"),
    }
    return table(rows.merge(_cells(name)[[*place, "shown"]], on=place), columns)


def _over_seeds(name: str) -> str:
    return f"{{{name}_mean:share}} ({{{name}_min:share}} to {{{name}_max:share}})"


def seeds(name: str) -> Table:
    """Three init rates over five seeds: a row each."""
    columns = {"γ": "{init_rate:g}", **OF_CELL}
    del columns[r"\|cosine\|"]
    heads, rows = table(_cells(name), columns)
    return [head.replace("stable rank", "stable rank of W_Q") for head in heads], rows


def orders(name: str) -> Table:
    """How near numbers some steps apart lie, over random orders: a row per init rate."""
    rows = frame(name, "orders")
    rows["sure"] = (rows["distance_p_max"] < SURE).map({True: " *", False: ""})
    distance = "{distance_mean:share} ({distance_min:share}–{distance_max:share}){sure}"
    return pivot(rows, {"γ": "{init_rate:g}"}, ["step"], {"{step} apart": distance})


def onsets() -> Table:
    """Which came first, reasoning or condensation: a row per diagram."""
    rows = []
    for setting, name in ONSETS.items():
        runs = frame(f"phase_diagram_{setting}", "onsets")
        reasons, condenses = runs["reasons"], runs["condenses"]
        rows.append(
            {
                "": name,
                "runs": len(runs),
                "both happen": (reasons.notna() & condenses.notna()).sum(),
                "condenses first": (condenses < reasons).sum(),
                "in any pair of runs, %": by_chance(condenses, reasons),
                "same evaluation": (condenses == reasons).sum(),
                "reasons first": (condenses > reasons).sum(),
                "only reasons": (reasons.notna() & condenses.isna()).sum(),
                "only condenses": (reasons.isna() & condenses.notna()).sum(),
            }
        )
    return listed(rows)


def by_chance(condenses: pd.Series[float], reasons: pd.Series[float]) -> str:
    """Of all pairs of a run that condenses with one that reasons, both of those that do both: in
    how many the first comes first, in per cent."""
    both = condenses.notna() & reasons.notna()
    first = condenses[both].to_numpy()[:, None] < reasons[both].to_numpy()[None]  # [run run]
    return f"{100 * first.mean():.0f}"


def post_ln() -> Table:
    """What moves the post-LN model at γ 0.8: a row per variant, unseen pairs seed by seed."""
    rows = over(frame("post_ln", "runs"), ["variant"])
    rows["attention_share"] = rows["attention_share"].map(fmean)
    columns: Columns = {
        "": "{variant}",
        "phase of each seed": each("phase", between=" "),
        "OOD of each": each("ood", "share", " "),
        "ID": merged("{id:share}"),
        "commutativity": merged("{commutativity:share}"),
        "stable rank": merged("{stable_rank:.1f}"),
        "attention's share": "{attention_share:share}",
    }
    return table(rows, columns)


def samples_post() -> Table:
    """The post-LN model with more training data: a row per init rate and number of samples."""
    columns: Columns = {
        "γ": "{init_rate:g}",
        "training samples": "{samples:,}",
        "phase of each seed": each("phase", between=" "),
        "OOD of each": each("ood", "share", " "),
        "ID": merged("{id:share}"),
        "commutativity": merged("{commutativity:share}"),
        "stable rank": merged("{stable_rank:.1f}"),
    }
    rows = over(frame("phase_samples_post", "runs"), ["init_rate", "samples"])
    return table(rows.sort_values(["init_rate", "samples"]), columns)


def unseen_sum() -> Table:
    """What models answer to unseen pairs whose sum was seen or not: a row per norm and task."""
    columns: Columns = {
        "model": "{norm}-LN",
        "d": "{d}",
        "c + d": "{sum}",
        "seen": lambda row: "yes" if row["seen"] else "no",
        "phases": each("phase", between=" "),
        "right": merged("{right:share}"),
        "next seen sums": merged("{nearest_sums:share}"),
        "another seen sum": merged("{other_sums:share}"),
        "else": merged("{else:share}"),
        "ID": merged("{id:share}"),
        "commutativity": merged("{commutativity:share}"),
        "stable rank": merged("{stable_rank:.1f}"),
    }
    return table(over(frame("unseen_sum", "runs"), ["norm", "d", "sum", "seen"]), columns)


def answers(norm: str) -> Table:
    """What models answer to unseen pairs at weight decay 0.01: a row per init rate."""
    columns: Columns = {
        "γ": "{init_rate:g}",
        "right: x − 10": merged("{right:share}"),
        "x − 16 or x − 7": merged("{nearest_sums:share}"),
        "another seen sum": merged("{other_sums:share}"),
        "anything else": merged("{else:share}"),
    }
    rows = over(frame(f"unseen_pairs_{norm}", "runs"), ["init_rate"])
    return table(rows.sort_values("init_rate"), columns)
