"""A model as it was, fine-tuned, and fine-tuned with CARMA: its figures 2, 6, 7 and 8."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, Final

import pandas as pd

from interp_compose.errors import InputError
from interp_compose.papers.carma.tables import LABELS
from interp_compose.plots.chart import (
    Chart,
    Level,
    Line,
    Panel,
    intervals_name,
    model_name,
    paired_note,
    side_by_side,
)
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
        summary: as :func:`.differences.with_reference` makes it, in per cent; of the metrics
            "cap", the curves, and "accuracy", the dotted levels.
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
            subtitle=_subtitle(config, cap, _paired(cap, panels), "dotted: nothing pooled", notice),
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
    panels = [Panel(lines, [])]
    return draw(
        Chart(
            title=f"{model_name(config)}: still right when words become synonyms",
            subtitle=_subtitle(config, rows, _paired(rows, panels), notice),
            x_title="share of the words asked to be replaced",
            y_title="ConsistSyn (%)",
            x_is_share=True,
            panels=panels,
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
            subtitle=_subtitle(config, summary, _paired(summary, panels), notice),
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
    n = int(curve["n_seeds"].max())
    clipped = bool((curve["ci_low"] < 0).any()) and n > 2
    ends = curve.assign(low=curve["ci_low"].clip(lower=0), high=curve["ci_high"], reference=0.0)
    if n == 2:  # whose interval says next to nothing
        half = curve["sd"] / 2**0.5
        ends = ends.assign(low=curve["mean"] - half, high=curve["mean"] + half)
    lines = _lines(ends, "step", scale=1.0)
    spread = {1: "", 2: "bands: from one seed to the other"}.get(n, "bands: 95 % intervals")
    note = "bands end at 0, the least loss" if clipped else ""
    return draw(
        Chart(
            title=f"{model_name(config)}: the task's loss in training",
            subtitle=_subtitle(
                config, curve, spread, "points: means of nearby steps", note, notice
            ),
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
    """
    numbers = ["mean", "low", "high", "reference"]
    scaled = rows.assign(**{name: scale * rows[name] for name in numbers})
    named = [
        (NAMES[version], style, scaled[scaled["version"] == version])
        for version, style in STYLES.items()
    ]
    within = (0.0, 100 * scale) if percent else (-inf, inf)
    how: dict[str, Any] = {"n": "n_seeds", "interval": "bars" if bars else "band"}
    lines = lines_of(named, x, "mean", "low", "high", on="reference", within=within, **how)
    return side_by_side(lines, x != "layer" and x != "step")


def _paired(rows: pd.DataFrame, panels: Sequence[Panel]) -> str:
    """What the lines' intervals are, if there are any."""
    lines = next((one.lines for one in panels if any(line.is_wide for line in one.lines)), None)
    if lines is None:
        return ""
    name = NAMES[rows["compared_with"].iloc[0]].split(" (")[0]
    if rows["n_seeds"].max() == 2:
        return f"{intervals_name(lines)}: from one seed's difference to {name} to the other's"
    return paired_note(lines, name, "seed")


def _subtitle(config: Mapping[str, Any], rows: pd.DataFrame, *more: str) -> str:
    """Like "task mini-idm · 5 seeds · bands: …"."""
    n = int(rows["n_seeds"].max())
    return about(config, ["task"], f"{n} seeds" if n > 1 else "one seed, no intervals", *more)
