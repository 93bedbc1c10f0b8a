"""Phrase transplants: accuracy of an answer against the layer, vector by vector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

from interp_compose.errors import OptionError
from interp_compose.plots.chart import Chart, Level, Panel, side_by_side
from interp_compose.plots.interactive import ChartFigure, draw
from interp_compose.plots.theme import BLUE, INK, MUTED, Style
from interp_compose.studies.core.figures import lines_of, model_name
from interp_compose.studies.core.text import about

STYLES: Final = {
    "transplant": Style(BLUE, "circle", width=3.0),
    "own": Style("#A3478A", "triangle-up", dash="dash", width=1.6),
    "random phrase": Style("#8C6D1F", "triangle-down", dash="dash", width=1.6),
    "random direction": Style("#707070", "x", dash="dot", width=1.6),
}
ANSWERS: Final = {"expected": "expected", "untouched": "answer"}
"""By the word of the figures, the columns of each answer."""


def accuracy_figure(frame: pd.DataFrame, answer: str, config: Mapping[str, Any]) -> ChartFigure:
    """One panel per pooling of ``frame``, see :attr:`.Transplants.frame`.

    Raises:
        OptionError: neither the expected nor the untouched answer.
    """
    if answer not in ANSWERS:
        raise OptionError(f"answer={answer!r}: expected one of {', '.join(ANSWERS)}")
    column = ANSWERS[answer]
    columns = ("layer", *(f"{column}_{each}" for each in ("accuracy", "low", "high")))
    first = frame.iloc[0]
    target = float(first[f"clean_{column}"])
    levels = [Level(f"target as it is {target:.1%}", target, Style(INK, "circle", width=1.3))]
    composed = float(first["composed_expected"])
    if answer == "expected" and first["n_composed"]:
        style = Style(MUTED, "circle", dash="dot", width=1.3)
        levels.append(Level(f"composed as text {composed:.1%}", composed, style))
    panels = []
    for pooling, own in frame.groupby("pooling", sort=False):
        named = [
            (name, STYLES[name], own[own["vector"] == name]) for name in own["vector"].unique()
        ]
        lines = side_by_side(lines_of(named, *columns), False)
        panels.append(Panel(lines, levels, title=f"{pooling} pooling"))
    return draw(
        Chart(
            title=f"{model_name(config)}: the {answer} answer when a phrase is replaced",
            subtitle=about(config, ("task",), f"{first['n']} pairs", "bands: 95 % intervals"),
            x_title="layer at which the phrase is replaced (0 = embeddings)",
            y_title=f"accuracy of the {answer} answer",
            x_is_share=False,
            panels=panels,
        )
    )
