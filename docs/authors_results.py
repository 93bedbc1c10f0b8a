"""Tables of the released code and the library: ``authors``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from docs.measured import Table, listed, read

Row = dict[str, str]


def cap() -> Table:
    """Predictions compared, and times by their batch."""
    times = read("authors")["cap"]
    what = f"{times['prompts']} prompts, {times['n_layer']} layers, three poolings"
    rows = [_row(f"{what}, their batch of {n}", times[f"batch_{n}"]) for n in (8, 1)]
    low, high = times["batch_8"]["hooked_ratio_range"]
    same = f"{low:.2g} to {high:.2g} times ours on the model as it is loaded"
    rows.append(_text("ours on a `HookedTransformer`, as theirs is", same))
    rows.append(_text("predictions", f"{times['equal']} of {times['compared']} equal"))
    return listed(rows)


def losses() -> Table:
    """Both losses, forward and backward."""
    times = read("authors")["losses"]
    rows = [
        _row("batch of 8, as it is", times["batch_8"], "as_it_is"),
        _row("batch of 8, each text its own words", times["batch_8"], "own_spans"),
        _row("batch of 1", times["batch_1"], "as_it_is"),
    ]
    values = (f"{times['batch_8'][f'stability_{whose}']:.6f}" for whose in ("theirs", "ours"))
    return listed([*rows, _text("stability, all tokens, float64", "", *values)])


def anchors() -> Table:
    """The data of Fig. 3, and training steps."""
    data, steps = read("authors")["data"], read("authors")["steps"]
    rows = [_row(f"{data['sequences']:,} sequences", data)]
    for key, name in (("fig3", "a step of Fig. 3's model"), ("default", "a step at width 64")):
        model = steps[key]
        what = f"{name}, {model['weights']:,} weights, batch of {model['batch']}"
        rows.append(_row(what, model, steps=model["steps"]))
    equal = f"{data['targets_equal']} of {data['targets_compared']} equal"
    apart = _power(max(steps[key]["logits_apart"] for key in ("fig3", "default")))
    return listed(
        [
            *rows,
            _text("targets", equal),
            _text("logits, from equal weights", f"apart by {apart} at most"),
        ]
    )


def conditions(part: str) -> str:
    """Number of turns, the machine and its load."""
    times = read("authors")[part]
    timed = (each for each in (times, *times.values()) if isinstance(each, Mapping))
    n = next(each["turns"] for each in timed if "turns" in each)
    versions = times["versions"]
    return (
        f"Seconds of processor time, medians of {n} turns, smallest and largest ratio in brackets; "
        f"{times['cpu']}, one thread, torch {versions['torch']}, transformer-lens "
        f"{versions['transformer-lens']}, load average {times['load']:g} on {times['cores']} cores."
    )


def _row(name: str, times: Mapping[str, Any], way: str = "theirs", steps: int = 1) -> Row:
    low, high = times[f"{way}_ratio_range"]
    theirs, ours = (_seconds(times[f"{whose}_s"] / steps) for whose in (way, "ours"))
    return _text(name, f"**{times[f'{way}_ratio']:.2g}** ({low:.2g}–{high:.2g})", theirs, ours)


def _text(name: str, ratio: str, theirs: str = "", ours: str = "") -> Row:
    return {"": name, "theirs": theirs, "ours": ours, "theirs over ours": ratio}


def _seconds(value: float) -> str:
    return f"{value:.3g} s" if value >= 1 else f"{1e3 * value:.3g} ms"


def _power(value: float) -> str:
    digits, exponent = f"{value:.0e}".split("e")
    marks = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    return f"{digits} · 10{str(int(exponent)).translate(marks)}"
