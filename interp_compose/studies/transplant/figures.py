"""Phrase transplants: accuracy of an answer against the layer, vector by vector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

from interp_compose.plots.chart import Chart, Level, Panel, model_name, paired_note, side_by_side
from interp_compose.plots.interactive import ChartFigure, draw
from interp_compose.plots.theme import BLUE, CLEAN_STYLE, MUTED, Style, dotted
from interp_compose.studies.core.figures import share_lines
from interp_compose.studies.core.text import about, counted
from interp_compose.studies.transplant.result import SHOWN

STYLES: Final = {
    "transplant": Style(BLUE, "circle", width=3.0),
    "own": Style("#A3478A", "triangle-up", dash="dash", width=1.6),
    "random phrase": Style("#8C6D1F", "triangle-down", dash="dash", width=1.6),
    "random direction": Style("#707070", "x", dash="dot", width=1.6),
}
ANSWERS: Final = {
    "expected": "expected_accuracy",
    "untouched": "answer_accuracy",
    "remembered": "remembered",
}
"""The column of each answer's share."""
TITLES: Final = {
    "expected": "the expected answer",
    "untouched": "the target's own answer",
    "remembered": "the source's own answer",
}
CLEAN: Final = {
    "expected": "clean_expected",
    "untouched": "clean_answer",
    "remembered": "clean_remembered",
}


def accuracy_figure(frame: pd.DataFrame, answer: str, config: Mapping[str, Any]) -> ChartFigure:
    """One panel per pooling of ``frame``, see :attr:`.Transplants.frame`, with ``reference``, the
    share of what a vector is compared with, and low and high, of the paired difference to it."""
    first = frame.iloc[0]
    levels = []
    if CLEAN[answer] in first:  # a result that was saved before has no share that is remembered
        target = float(first[CLEAN[answer]])
        levels.append(Level(f"clean target {target:.1%}", target, CLEAN_STYLE))
    if answer == "expected" and first["n_composed"]:
        composed = float(first["composed_expected"])
        levels.append(Level(f"composed as text {composed:.1%}", composed, dotted(MUTED)))
    n = "n_remembered" if answer == "remembered" else "n"
    panels = []
    for pooling, rows in frame.groupby("pooling", sort=False):
        named = [
            (label, STYLES[name], rows[rows["vector"] == name])
            for name in rows["vector"].unique()
            for label in [name if name == "transplant" else f"{SHOWN.get(name, name)} (control)"]
        ]
        lines = side_by_side(share_lines(named, "layer", ANSWERS[answer], n=n), False)
        panels.append(Panel(lines, levels, title=f"{pooling} pooling"))
    return draw(
        Chart(
            title=f"{model_name(config)}: {TITLES[answer]} when a phrase is replaced",
            subtitle=about(
                config,
                ("task",),
                counted(int(first[n]), "pairs"),
                paired_note(panels[0].lines, str(first["compared_with"]), "pair"),
            ),
            x_title="layer at which the phrase is replaced (0 = embeddings)",
            y_title=f"share of {TITLES[answer]}",
            panels=panels,
        )
    )
