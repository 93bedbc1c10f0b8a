"""Figures of codes: sememes that they name, beside baselines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from interp_compose.plots.chart import Chart, Panel
from interp_compose.plots.interactive import ChartFigure, draw
from interp_compose.studies.core.figures import by_value, lines_of, n_seeds

SIDES = {"guiding": "words that guided training", "held_out": "words held out"}


def sememes_figure(summary: pd.DataFrame, config: Mapping[str, Any]) -> ChartFigure:
    """R-precision of each model beside that of the baselines, a panel for each side of the
    annotated words; bars are intervals over words."""
    rows = summary[summary["measure"] == "r_precision"]
    models = list(dict.fromkeys(rows["model"]))
    rows = rows.assign(place=rows["model"].map(models.index).astype(float))
    columns = ("place", "mean", "words_low", "words_high")
    panels = []
    for side, own in rows.groupby("side", sort=False):
        named = [
            (name, replace(style, width=0.0), one) for name, style, one in by_value(own, "source")
        ]
        panels.append(Panel(lines_of(named, *columns, interval="bars"), [], title=SIDES[str(side)]))
    return draw(
        Chart(
            title="Sememes named by the last block's codes",
            subtitle=f"{n_seeds(config)} · mean over words and seeds, bars: 95 % over words",
            x_title="",
            y_title="R-precision",
            x_is_share=False,
            panels=panels,
            x_name="",
            x_ticks=[float(i) for i in range(len(models))],
            x_notes=[model.replace("-", "\n") for model in models],
            x_is_category=True,
        )
    )
