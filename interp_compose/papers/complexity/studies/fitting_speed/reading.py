"""What the speed of fitting says, in sentences: whether data that break the rule take more epochs,
and whether their samples are the late ones.

Both are decided in each cell over seeds, by the paired t test, with Holm's correction over cells:
epochs against those of the same seed without violating groups, areas against chance. A cell is left
out where a run never fitted its data or diverged, or where all seeds differ by the same, which
leaves no spread to test against.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import nan
from typing import Any, Final

import numpy as np
import pandas as pd

from interp_compose.papers.complexity.studies.fitting_speed.result import CELL
from interp_compose.studies.core.decided import (
    LIES,
    PLAIN,
    Measure,
    Row,
    changed,
    lowered,
    paired,
    raised,
    records,
)
from interp_compose.studies.core.text import counted

EPOCHS: Final = Measure("epochs", 1.0)
"""Whose margin is one, since they are counted by evaluations, by default an epoch apart."""
CHANCE: Final = 0.5
"""The ROC area of samples that are late by chance."""
FITTED: Final = "the number of epochs until all training samples are right"
AREA: Final = "the ROC area by which lateness tells samples that break the rule"

Cell = tuple[Row, "pd.Series[float]", "pd.Series[float]"]
"""A place, and two numbers of each seed."""


def answers(runs: pd.DataFrame) -> list[str]:
    """The sentences that answer what the study asks; none where no run has violating groups.

    Args:
        runs: as :attr:`.FittingSpeed.frame` has them.
    """
    if not (runs["violations"] > 0).any():
        return []
    epochs, areas = slower(runs), told_apart(runs)
    act = "Breaking the rule"
    longer = (
        _decided(epochs, EPOCHS, act=act, what=FITTED, than="without")
        if epochs
        else f"Whether {lowered(act)} changes {FITTED} is not known: no run is without it."
    )
    return [
        longer,
        _decided(areas, PLAIN, act=raised(AREA), what="chance", than="chance", saying=LIES),
    ]


def slower(runs: pd.DataFrame) -> list[Cell]:
    """Of each cell with violating groups, epochs by seed, and those of the same seeds without."""
    cells = _by_cell(runs, "accuracy_epochs")
    return [
        (dict(zip(CELL, place, strict=True)), *numbers.align(cells[(*place[:2], 0)], join="inner"))
        for place, numbers in cells.items()
        if place[2] > 0 and (*place[:2], 0) in cells
    ]


def told_apart(runs: pd.DataFrame) -> list[Cell]:
    """Of each cell with violating groups, areas by seed, and chance."""
    return [
        (dict(zip(CELL, place, strict=True)), numbers, numbers * 0 + CHANCE)
        for place, numbers in _by_cell(runs, "auc").items()
        if place[2] > 0
    ]


def _by_cell(runs: pd.DataFrame, value: str) -> dict[Any, pd.Series[float]]:
    """Of each cell, a number for each seed."""
    groups = runs.set_index("seed").groupby([*CELL])
    return {place: cell[value] for place, cell in groups}


def _decided(cells: Sequence[Cell], measure: Measure, **words: Any) -> str:
    """What differs in which cells, and how many are left out."""
    complete = [one for one in cells if one[1].notna().all() and one[2].notna().all()]
    tested = [one for one in complete if len(one[1]) > 1 and np.ptp(one[1] - one[2]) > 0]
    n_seeds = max((len(one[1]) for one in cells), default=0)
    rows = records(paired(tested)) if tested else [{"ci_low": nan, "n": n_seeds}]
    text = changed(rows, measure, places=partial(_places, n_cells=len(tested)), of="seeds", **words)
    left = len(cells) - len(tested)
    if left == 0 or n_seeds < 2:
        return text
    why = "where a run never fitted its data or diverged, or all seeds differ by the same"
    return f"{text[:-1]}; not tested in {counted(left, 'cells')}, {why}."


def _places(rows: Sequence[Row], n_cells: int) -> str:
    """One by its settings, several by their number."""
    if len(rows) > 1:
        return f"in {len(rows)} of {n_cells} cells"
    (cell,) = rows
    groups = counted(int(cell["violations"]), "violating groups")
    return f"at γ {cell['init_rate']:g}, {counted(int(cell['n_layers']), 'layers')}, {groups}"
