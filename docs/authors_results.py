"""Tables of the released code and the library, from ``benchmarks/results/authors.json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from docs.measured import Table, read

HEADS: Final = ["", "theirs", "ours", "theirs over ours"]


def cap() -> Table:
    """Heads and rows: predictions compared, and times by their batch."""
    found = read("authors")["cap"]
    what = f"{found['prompts']} prompts, {found['n_layer']} layers, three poolings"
    rows = [_row(f"{what}, their batch of {n}", found[f"batch_{n}"], "theirs") for n in (8, 1)]
    low, high = found["batch_8"]["hooked_ratio_range"]
    same = f"{low:.2g} to {high:.2g} times ours on the model as it is loaded"
    rows.append(["ours on a `HookedTransformer`, as theirs is", "", "", same])
    rows.append(["predictions", "", "", f"{found['equal']} of {found['compared']} equal"])
    return HEADS, rows


def losses() -> Table:
    """Heads and rows: both losses, forward and backward."""
    found = read("authors")["losses"]
    names = {
        "batch of 8, as it is": ("batch_8", "as_it_is"),
        "batch of 8, each text its own words": ("batch_8", "own_spans"),
        "batch of 1": ("batch_1", "as_it_is"),
    }
    rows = [_row(name, found[batch], way) for name, (batch, way) in names.items()]
    pair = (found["batch_8"][f"stability_{whose}"] for whose in ("theirs", "ours"))
    rows.append(["stability, all tokens, float64", *(f"{value:.6f}" for value in pair), ""])
    return HEADS, rows


def anchors() -> Table:
    """Heads and rows: the data of Fig. 3, and training steps."""
    found = read("authors")
    data = found["data"]
    rows = [_row(f"{data['sequences']:,} sequences", data, "theirs")]
    for key, name in (("fig3", "a step of Fig. 3's model"), ("default", "a step at width 64")):
        one = found["steps"][key]
        what = f"{name}, {one['weights']:,} weights, batch of {one['batch']}"
        rows.append(_row(what, one, "theirs", one["steps"]))
    equal = f"{data['targets_equal']} of {data['targets_compared']} equal"
    apart = max(found["steps"][key]["logits_apart"] for key in ("fig3", "default"))
    rows.append(["targets", "", "", equal])
    rows.append(["logits, from equal weights", "", "", f"apart by {_power(apart)} at most"])
    return HEADS, rows


def conditions(part: str) -> str:
    """Number of turns, the machine and its load."""
    found = read("authors")[part]
    n = next(one["turns"] for one in (found, *found.values()) if _timed(one))
    versions = found["versions"]
    return (
        f"Seconds of processor time, medians of {n} turns, smallest and largest ratio in brackets; "
        f"{found['cpu']}, one thread, torch {versions['torch']}, transformer-lens "
        f"{versions['transformer-lens']}, load average {found['load']:g} on {found['cores']} cores."
    )


def _timed(one: Any) -> bool:
    return isinstance(one, Mapping) and "turns" in one


def _row(name: str, found: Mapping[str, Any], way: str, steps: int = 1) -> list[str]:
    low, high = found[f"{way}_ratio_range"]
    times = (_seconds(found[f"{whose}_s"] / steps) for whose in (way, "ours"))
    return [name, *times, f"**{found[f'{way}_ratio']:.2g}** ({low:.2g}–{high:.2g})"]


def _seconds(value: float) -> str:
    return f"{value:.3g} s" if value >= 1 else f"{1e3 * value:.3g} ms"


def _power(value: float) -> str:
    digits, exponent = f"{value:.0e}".split("e")
    marks = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    return f"{digits} · 10{str(int(exponent)).translate(marks)}"
