"""What a watched training says, in a sentence: what changed most of each measure between its first
and its last look.

No change is tested: looks keep numbers and not the examples behind them.
"""

from __future__ import annotations

from typing import Final

import pandas as pd

from interp_compose.studies.core.text import counted
from interp_compose.studies.watch.figures import TITLES
from interp_compose.studies.watch.result import ON_DATA, cell

NO_TEST: Final = (
    "No change is tested: looks keep no single examples, an interval is of one look alone, and "
    "weights are those of one training."
)


def answers(measured: pd.DataFrame) -> list[str]:
    """The sentence that answers what the watcher asks, and that nothing is tested.

    Args:
        measured: as :attr:`.Watched.frame` has it.
    """
    steps = sorted(measured["step"].unique().tolist())
    if len(steps) < 2:
        taken = counted(len(steps), "looks") if steps else "no look"
        return [f"Whether anything changes over training is not known: there is {taken} yet."]
    of = measured["of"].where(measured["measure"].isin(ON_DATA), "mean of matrices")
    places = measured.assign(of=of).groupby(["measure", "of", "layer", "step"], sort=False)
    numbers = places.agg({"value": "mean", "low": "max", "high": "max"})
    first, last = (numbers.xs(step, level="step") for step in (steps[0], steps[-1]))
    change = (last["value"] - first["value"]).dropna().abs()
    clauses, same = [], []
    for measure in measured["measure"].unique():
        if measure not in change.index:  # no number at one of the two looks
            continue
        if change[measure].max() == 0:
            same.append(TITLES[measure])
            continue
        name, layer = change[measure].idxmax()
        where = f"at layer {layer}, {name}" if layer >= 0 else f"({name})"
        rows = (look.T[measure, name, layer] for look in (first, last))
        ends = map(cell, rows)
        clauses.append(f"{TITLES[measure]} {where}, from {' to '.join(ends)}")
    if not clauses and not same:
        return [f"Nothing has a number both at step {steps[0]} and at step {steps[-1]}."]
    found = [f"changes most: {'; '.join(clauses)}"] * bool(clauses)
    found += [f"has not changed: {', '.join(same)}"] * bool(same)
    return [f"From step {steps[0]} to step {steps[-1]} {'; '.join(found)}. {NO_TEST}"]
