"""Tables of decoders on tasks of sequences, from ``benchmarks/results/``."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any, Final

from docs.generalise_results import difference, points
from docs.measured import Table, read

Row = dict[str, Any]


def overall(name: str) -> list[Row]:
    """What each setting gets right of each split, all kinds together, smaller training sets first:
    a size that was measured later stands behind in the file."""
    rows = [row for row in read(name)["summary"] if row["kind"] == "all"]
    return sorted(rows, key=lambda row: row["size"])


def of_largest(rows: Iterable[Row]) -> list[Row]:
    """The rows of the largest training set."""
    found = list(rows)
    return [row for row in found if row["size"] == max(each["size"] for each in found)]


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
    splits, sizes = (dict.fromkeys(row[key] for row in rows) for key in ("split", "size"))
    for split, size in product(splits, sizes):
        cells = [split, f"{size:,}", _right(found[split, size, first])]
        for other in others:
            to_first = differences[split, size, other]
            cells += [_right(found[split, size, other]), difference(to_first)]
            cells.append(f"{to_first['p_holm']:.2f}")
        table.append(cells)
    return heads, table


def by_setting(name: str, split: str) -> Table:
    """A row per setting, with the largest training set: what is right of each split, and of one
    split how far that is from the first setting."""
    rows = of_largest(overall(name))
    splits = list(dict.fromkeys(row["split"] for row in rows))
    found = {(row["setting"], row["split"]): row for row in rows}
    to_first = {
        row["setting"]: row
        for row in of_largest(read(name)["differences"])
        if row["kind"] == "all" and row["split"] == split
    }
    table = []
    for setting in settings(rows):
        other = to_first.get(setting)
        apart = ["–", "–"] if other is None else [difference(other), f"{other['p_holm']:.2f}"]
        table.append([setting, *(_right(found[setting, one]) for one in splits), *apart])
    heads = ["setting", *(f"{one}: right, % (seeds)" for one in splits)]
    return [*heads, f"{split}: difference, 95 %", "p (Holm)"], table


def by_kind(name: str, split: str) -> Table:
    """A row per kind of a split, those that no setting gets right together in the last: what each
    setting gets right with the largest training set, and how far the second is from the first."""
    summary, differences = (of_largest(read(name)[table]) for table in ("summary", "differences"))
    rows = [row for row in summary if row["split"] == split and row["kind"] != "all"]
    found = {(row["kind"], row["setting"]): row for row in rows}
    apart = {row["kind"]: row for row in differences if row["split"] == split}
    kinds, names = dict.fromkeys(row["kind"] for row in rows), settings(rows)
    table, never = [], []
    for kind in kinds:
        if max(found[kind, one]["largest"] for one in names) < NEVER:
            never.append(kind)
            continue
        cells = [_right(found[kind, one]) for one in names]
        table.append([kind, *cells, difference(apart[kind]), f"{apart[kind]['p_holm']:.2f}"])
    if never:
        table.append([", ".join(never), *[f"< {100 * NEVER:g}"] * len(names), "–", "–"])
    heads = ["type", *(f"{one}: right, % (seeds)" for one in names)]
    return [*heads, "difference, 95 %", "p (Holm)"], table


NEVER: Final = 0.005
"""What every seed is below, of kinds that are not shown one by one."""


def inside(name: str) -> Table:
    """A row per setting and size: how far the training data are fitted, and W_Q of the first
    layer; means over seeds, the smallest and the largest in parentheses."""
    found = read(name)
    place = ("init_rate", "weight_decay", "size")
    rows = []
    places = dict.fromkeys(tuple(run[key] for key in place) for run in found["runs"])
    order = list(dict.fromkeys(where[:2] for where in places))
    for where in sorted(places, key=lambda where: (order.index(where[:2]), where[2])):
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


def perplexities(name: str) -> Table:
    """A row per setting and number of training tokens of a study of text."""
    found = read(name)
    first = found["summary"][0]["setting"]
    to_first = {(row["setting"], row["size"]): row for row in found["differences"]}
    rows: dict[tuple[str, int], dict[str, Row]] = {}
    for row in found["summary"]:
        rows.setdefault((row["setting"], row["size"]), {})[row["measure"]] = row
    ranks: dict[tuple[str, int], list[float]] = {}
    for run in found["runs"]:
        setting = f"γ {run['init_rate']:g}, wd {run['weight_decay']:g}"
        ranks.setdefault((setting, run["size"]), []).append(run["stable_rank"])
    table = []
    for place, measures in rows.items():
        other, own = to_first.get(place), measures["perplexity"]
        apart = "–"
        if other is not None:
            ends = f"{other['ci_low']:+.3f} to {other['ci_high']:+.3f}"
            apart = f"{other['difference']:+.3f} ({ends})"
        table.append(
            [
                place[0],
                f"{place[1]:,}",
                f"{own['mean']:.2f} ({own['smallest']:.2f}–{own['largest']:.2f})",
                f"{measures['bits_per_byte']['mean']:.3f}",
                apart,
                "–" if other is None else f"{other['p_holm']:.3f}".replace("0.000", "< 0.001"),
                spread(ranks[place], "{:.1f}"),
            ]
        )
    heads = ["setting", "training tokens", "perplexity (seeds)", "bits a byte"]
    return [*heads, f"nats a token, to {first}, 95 %", "p (Holm)", "stable rank of W_Q"], table


def failures(name: str) -> Table:
    """A row per init rate and small circle: how often a triangle is drawn."""
    rows = [
        [
            row["setting"],
            row["node"],
            f"{points(row['wrong'])} ({points(row['low'])} to {points(row['high'])})",
            points(row["clear"]),
            points(row["right"]),
            points(row["learned"]),
            row["verdict"],
        ]
        for row in read(name)["failure"]
    ]
    heads = ["init rate", "node", "triangles, % (95 %)", "clear, %", "right, %"]
    return [*heads, "right of the training node that is worst, %", "the failure"], rows


def drawn(name: str) -> Table:
    """A row per node: what is right at each init rate, mean over seeds and their range."""
    rows = read(name)["summary"]
    rates = list(dict.fromkeys(row["setting"] for row in rows))
    table = []
    for node, trained in dict.fromkeys((row["node"], row["trained"]) for row in rows):
        own = {(row["setting"], row["kind"]): row for row in rows if row["node"] == node}
        cells = [_right(own[rate, "all"]) for rate in rates]
        parts = [
            " / ".join(points(own[rate, kind]["mean"]) for kind in ("shape", "size", "color"))
            for rate in rates
        ]
        both = [f"{cell}; {part}" for cell, part in zip(cells, parts, strict=True)]
        table.append([node, "yes" if trained else "no", *both])
    return ["node", "trained", *rates], table


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
    "cut": "attention to the {part} excluded, where there is one",
    "cut, clean": "attention to the {part} kept, the same sequences",
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
