"""Figures of codes: sememes that they name, and whether a word has the same ones again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

from interp_compose.papers.cat.studies.pretrain.result import told_of_models
from interp_compose.papers.shared.grid.figures import (
    beside,
    by_value,
    n_seeds,
    of_several,
    unjoined,
)
from interp_compose.plots.chart import Chart, Panel, paired_note, subtitle_of
from interp_compose.plots.interactive import ChartFigure, draw
from interp_compose.plots.theme import BLUE, VERMILLION, Style
from interp_compose.studies.core.figures import lines_of, share_lines

SIDES = {"guiding": "words that guided training", "held_out": "words held out"}
SOURCES: Final = {
    "codes": "codes",
    "commonest": "commonest sememes (control)",
    "permuted": "permuted words (control)",
}
WORDS: Final = ("words_low", "words_high")
R_PRECISION: Final = (
    "R-precision: of as many codes as the word has sememes, the share that is right"
)

LINES = (
    ("codes, same word", "same", "codes", Style(BLUE, "circle")),
    ("codes, other word", "other", "codes", Style(BLUE, "circle", dash="dash", filled=False)),
    ("contextual, same word", "same", "cont", Style(VERMILLION, "square")),
    (
        "contextual, other word",
        "other",
        "cont",
        Style(VERMILLION, "square", dash="dash", filled=False),
    ),
)


def sememes_figure(
    summary: pd.DataFrame, differences: pd.DataFrame, config: Mapping[str, Any]
) -> ChartFigure:
    """R-precision of each model beside that of the baselines, a panel for each side of the
    annotated words; bars of baselines are intervals of the codes' difference to them."""
    rows = summary[summary["measure"] == "r_precision"]
    place = ["model", "side", "measure", "source"]
    change = differences.rename(columns={"other": "source"})[[*place, "difference", *WORDS]]
    rows = rows.drop(columns=[*WORDS]).merge(change, on=place, how="left")
    # The baseline less the codes is −difference, and its ends are minus the other's.
    rows = rows.assign(
        reference=rows["mean"] + rows["difference"], low=-rows[WORDS[1]], high=-rows[WORDS[0]]
    )
    models = list(dict.fromkeys(rows["model"]))
    rows = rows.assign(place=rows["model"].map(models.index) + beside(rows["source"]))
    sides = rows.assign(source=rows["source"].map(SOURCES)).groupby("side", sort=False)
    named = {SIDES[str(side)]: unjoined(by_value(side_rows, "source")) for side, side_rows in sides}
    panels = [
        Panel(share_lines(one, "place", "mean", interval="bars"), [], at)
        for at, one in named.items()
    ]
    return draw(
        Chart(
            title="Sememes named by the last block's codes",
            subtitle=subtitle_of(
                n_seeds(config),
                _means(config),
                paired_note([line for panel in panels for line in panel.lines], "codes", "word"),
                R_PRECISION,
                *told_of_models(models),
            ),
            x_title="",
            y_title="sememes named right (R-precision)",
            panels=panels,
            categories=models,
        )
    )


def consistency_figure(consistency: pd.DataFrame, config: Mapping[str, Any]) -> ChartFigure:
    """Mean cosines of two occurrences of a word, and of two words, block by block, of O and of
    h_cont; a panel for each model, bars from the smallest seed to the largest."""
    rows = consistency[consistency["question"] == "words"]
    panels = []
    for model, model_rows in rows.groupby("model", sort=False):
        named = []
        for label, kind, vector, style in LINES:
            runs = model_rows[model_rows["vector"] == vector].groupby("layer")[kind]
            named.append((label, style, runs.agg(["mean", "min", "max"]).reset_index()))
        n = int(model_rows["n"].iloc[0])
        named = [(label, style, one.assign(n=n)) for label, style, one in named]
        lines = lines_of(named, "layer", "mean", "min", "max", interval="bars")
        panels.append(Panel(lines, [], title=str(model)))
    layers = sorted(set(rows["layer"]))
    return draw(
        Chart(
            title="A word in two passages, and two words",
            subtitle=subtitle_of(
                n_seeds(config), _means(config), *of_several(config, "bars: smallest to largest")
            ),
            x_title="block",
            y_title="cosine",
            y_is_share=False,
            panels=panels,
            x_ticks=[float(layer) for layer in layers],
        )
    )


def _means(config: Mapping[str, Any]) -> str:
    return " and ".join(("mean over words", *of_several(config, "seeds")))
