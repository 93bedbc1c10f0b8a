"""A model as it was, fine-tuned, and fine-tuned with CARMA: its figures 2, 6, 7 and 8."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pandas as pd

from interp_compose.errors import InputError
from interp_compose.papers.carma.tables import LABELS
from interp_compose.plots.chart import Chart, Level, Line, Panel, model_name, side_by_side
from interp_compose.plots.interactive import ChartFigure, draw
from interp_compose.plots.theme import BLUE, MUTED, VERMILLION, Style, dotted
from interp_compose.studies.core.figures import lines_of
from interp_compose.studies.core.text import about

STYLES: Final = {
    "original": Style(MUTED, "triangle-up", dash="dash", width=1.8),
    "ft": Style(VERMILLION, "square"),
    "carma": Style(BLUE, "circle"),
}
NAMES: Final = {**LABELS, "ft": "FT (fine-tuning)"}
DEPTH: Final = "depth at which words are pooled (0 % = embeddings, 100 % = last block)"


def cap_figure(
    summary: pd.DataFrame, poolings: Sequence[str], *, config: Mapping[str, Any], notice: str = ""
) -> ChartFigure:
    """Accuracy under CAP by depth, a panel per pooling and a curve per version.

    Args:
        summary: version, metric, depth, pooling, mean, ci_low, ci_high (per cent), n_seeds; of
            the metrics "cap", the curves, and "accuracy", the dotted levels.
        poolings: "average", or names of poolings.
        config: names model and task in the titles.
        notice: what the reader must know, at the end of the subtitle.
    """
    clean = summary[summary["metric"] == "accuracy"]
    levels = [
        Level("", row["mean"] / 100, dotted(STYLES[row["version"]].colour))
        for row in clean.to_dict("records")
    ]
    cap = summary[summary["metric"] == "cap"]
    panels = []
    for pooling in poolings:
        lines = _lines(cap[cap["pooling"] == pooling], "depth", scale=0.01, percent=True)
        title = f"{pooling} pooling" if len(poolings) > 1 else ""
        panels.append(Panel(lines, levels, title))
    averaging = "averaged over poolings" if list(poolings) == ["average"] else "by pooling"
    return draw(
        Chart(
            title=f"{model_name(config)}: accuracy when words are pooled, {averaging}",
            subtitle=_subtitle(config, cap, "dotted: nothing pooled", notice),
            x_title=DEPTH,
            y_title="accuracy",
            x_is_share=True,
            panels=panels,
        )
    )


def consistency_figure(
    summary: pd.DataFrame, *, config: Mapping[str, Any], notice: str = ""
) -> ChartFigure:
    """ConsistSyn against the share of words replaced: points with intervals, one line a version.

    Of ``summary``, as in :func:`cap_figure`, the metric "consist_syn", by rate.
    """
    rows = summary[summary["metric"] == "consist_syn"]
    lines = _lines(rows, "rate", scale=1.0, bars=True, percent=True)
    if not lines:
        raise InputError(
            "ConsistSyn is undefined (NaN) for every version: no prompt was right before its words "
            "were replaced. Train for longer, or ask an easier task"
        )
    return draw(
        Chart(
            title=f"{model_name(config)}: still right when words become synonyms",
            subtitle=_subtitle(config, rows, notice).replace("bands", "bars"),
            x_title="share of the words asked to be replaced",
            y_title="ConsistSyn (%)",
            x_is_share=True,
            panels=[Panel(lines, [])],
            y_is_share=False,
            x_name="replaced:",
            x_ticks=sorted(set(rows["rate"])),
        )
    )


def representations_figure(
    summary: pd.DataFrame, *, config: Mapping[str, Any], notice: str = ""
) -> ChartFigure:
    """Cosines of two tokens of the same word, and of different words, by layer.

    Of ``summary``, as in :func:`cap_figure`, the metrics "same_word_cosine" and
    "different_word_cosine", by layer.
    """
    panels = []
    for metric in ("same_word_cosine", "different_word_cosine"):
        lines = _lines(summary[summary["metric"] == metric], "layer", scale=1.0)
        if lines:
            title = f"tokens of {'the same word' if metric[0] == 's' else 'different words'}"
            panels.append(Panel(lines, [], title))
    return draw(
        Chart(
            title=f"{model_name(config)}: how alike the tokens of a prompt are",
            subtitle=_subtitle(config, summary, notice),
            x_title="layer whose input is read (0 = embeddings)",
            y_title="mean cosine",
            panels=panels,
            y_is_share=False,
        )
    )


def training_figure(
    curve: pd.DataFrame, *, config: Mapping[str, Any], notice: str = ""
) -> ChartFigure:
    """The task's loss over the steps, a curve per trained version.

    ``curve`` is :func:`.differences.training_curve`'s; the rest as in :func:`cap_figure`.
    """
    clipped = bool((curve["ci_low"] < 0).any()) and curve["n_seeds"].max() > 2
    lines = _lines(curve.assign(ci_low=curve["ci_low"].clip(lower=0)), "step", scale=1.0)
    ends = "bands end at 0, the least loss" if clipped else ""
    return draw(
        Chart(
            title=f"{model_name(config)}: the task's loss in training",
            subtitle=_subtitle(config, curve, "points: means of nearby steps", ends, notice),
            x_title="step",
            y_title="cross-entropy of the answer (nats)",
            panels=[Panel(lines, [])],
            y_is_share=False,
            x_name="step",
        )
    )


def _lines(
    rows: pd.DataFrame, x: str, *, scale: float, bars: bool = False, percent: bool = False
) -> list[Line]:
    """A line per version that has numbers; where one has no interval, its ends are the mean.

    Student's interval of a few percentages may leave 0 … 100; it is drawn as far as it is possible.
    Of two seeds, whose interval says next to nothing, the ends are the seeds themselves.
    """
    within = (0.0, 100.0) if percent else (None, None)
    ends = {end: scale * rows[end].clip(*within) for end in ("ci_low", "ci_high")}
    if rows["n_seeds"].max() == 2:
        half = rows["sd"] / 2**0.5
        ends = {"ci_low": scale * (rows["mean"] - half), "ci_high": scale * (rows["mean"] + half)}
    scaled = rows.assign(mean=scale * rows["mean"], **ends)
    named = [
        (NAMES[version], style, scaled[scaled["version"] == version])
        for version, style in STYLES.items()
    ]
    interval = "bars" if bars else "band"
    lines = lines_of(named, x, "mean", "ci_low", "ci_high", n="n_seeds", interval=interval)
    return side_by_side(lines, x != "layer" and x != "step")


def _subtitle(config: Mapping[str, Any], rows: pd.DataFrame, *more: str) -> str:
    """Like "task mini-idm · 5 seeds · bands: 95 % intervals"."""
    n = int(rows["n_seeds"].max())
    spread = {1: "one seed, no intervals", 2: "2 seeds · bands: from one seed to the other"}
    return about(config, ["task"], spread.get(n, f"{n} seeds · bands: 95 % intervals"), *more)
