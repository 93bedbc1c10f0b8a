"""Tables of decoders on tasks of sequences, from ``benchmarks/results/``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from docs.generalise_results import difference, points
from docs.measured import Table, read

Row = dict[str, Any]


def overall(name: str) -> list[Row]:
    """What each setting gets right of each split, all kinds together."""
    return [row for row in read(name)["summary"] if row["kind"] == "all"]


def settings(rows: Iterable[Row]) -> list[str]:
    """In their order; the first is the one that others are compared with."""
    return list(dict.fromkeys(row["setting"] for row in rows))


def by_size(name: str) -> Table:
    """A row per split and size of the training set: what each setting gets right, and how far it is
    from the first."""
    rows = overall(name)
    first, *others = settings(rows)
    found = {(row["split"], row["size"], row["setting"]): row for row in rows}
    differences = {
        (row["split"], row["size"], row["setting"]): row
        for row in read(name)["differences"]
        if row["kind"] == "all"
    }
    heads = ["split", "training sequences", f"{first}: right, % (seeds)"]
    for other in others:
        heads += [f"{other}: right, % (seeds)", "difference, 95 %", "p (Holm)"]
    table = []
    for split, size in dict.fromkeys((row["split"], row["size"]) for row in rows):
        cells = [split, f"{size:,}", _right(found[split, size, first])]
        for other in others:
            to_first = differences[split, size, other]
            cells += [_right(found[split, size, other]), difference(to_first)]
            cells.append(f"{to_first['p_holm']:.2f}")
        table.append(cells)
    return heads, table


def inside(name: str) -> Table:
    """A row per setting and size: how far the training data are fitted, and W_Q of the first
    layer; means over seeds, the smallest and the largest in parentheses."""
    found = read(name)
    place = ("init_rate", "weight_decay", "size")
    rows = []
    for where in dict.fromkeys(tuple(run[key] for key in place) for run in found["runs"]):
        runs, ends = (
            [row for row in found[table] if tuple(row[key] for key in place) == where]
            for table in ("runs", "curve_ends")
        )
        fitted = [row["accuracy"] for row in ends if row["split"] == "train"]
        steps = [run["steps_to_fit"] for run in runs]
        rows.append(
            [
                f"γ {where[0]:g}, wd {where[1]:g}",
                f"{where[2]:,}",
                points(sum(fitted) / len(fitted)),
                "–" if None in steps else spread(steps, "{:,.0f}"),
                spread([run["stable_rank"] for run in runs], "{:.1f}"),
                spread([run["mean_abs_cosine"] for run in runs], "{:.2f}"),
            ]
        )
    heads = ["setting", "training sequences", "of training, %", "steps to a loss of 0.1"]
    return [*heads, "stable rank of W_Q", r"mean \|cos\|"], rows


def spread(values: list[float], form: str) -> str:
    """Like "12.3 (10.1–14.0)"."""
    mean, low, high = (
        form.format(one) for one in (sum(values) / len(values), min(values), max(values))
    )
    return f"{mean} ({low}–{high})"


def _right(row: Row) -> str:
    return f"{points(row['mean'])} ({points(row['smallest'])}–{points(row['largest'])})"


ASKED = {
    "clean": "nothing changed",
    "phrases": "phrases pooled before block {layer}",
    "cut": "attention to the {part}, where there is one, excluded",
    "cut, clean": "attention to the {part}, where there is one, left",
    "head": "one head of block {layer} ablated, mean of its heads",
}
"""What was done to the models, by the name it has in the file."""


def opened(name: str, split: str) -> Table:
    """A row for each intervention on the models of ``benchmarks.inside_tasks``, a column for each
    setting: sequences of a split that are right; then the stable rank of each layer's W_Q."""
    runs = read(name)["runs"]
    places = sorted({(row["init_rate"], row["weight_decay"]) for row in runs})
    found: dict[str, dict[tuple[float, float], dict[int, list[float]]]] = {}
    for row in runs:
        if row["what"] in ASKED and row["split"] == split:
            label, value = ASKED[row["what"]].format(**row), 100 * row["n_right"] / row["n"]
        elif row["what"] == "stable rank":
            label, value = f"stable rank of W_Q, block {row['layer']}", row["value"]
        else:
            continue
        seeds = found.setdefault(label, {}).setdefault((row["init_rate"], row["weight_decay"]), {})
        seeds.setdefault(row["seed"], []).append(value)
    rows = [
        [
            label,
            *(
                spread([sum(own) / len(own) for own in by_setting[place].values()], "{:.1f}")
                for place in places
            ),
        ]
        for label, by_setting in found.items()
    ]
    return ["", *(f"γ {rate:g}, wd {decay:g}" for rate, decay in places)], sorted(rows[2:]) + rows[
        :2
    ]
