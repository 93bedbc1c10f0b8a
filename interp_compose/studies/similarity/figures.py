"""Similarity curves: agreement with people against the layer at which texts are pooled."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import pandas as pd

from interp_compose.errors import InputError
from interp_compose.plots.chart import Chart, Level, Line, Panel, model_name, short, side_by_side
from interp_compose.plots.interactive import ChartFigure, draw
from interp_compose.plots.theme import (
    CLEAN_STYLE,
    COMPARISON_STYLES,
    MUTED,
    Style,
    dotted,
    styles_of,
)
from interp_compose.studies.core.figures import by_pooling, line_of
from interp_compose.studies.core.text import FEW, about

MINUS: Final = "\N{MINUS SIGN}"
ALL, MIRROR = "all", "mirror"
LAYER: Final = "layer at which {} pooled (0 = embeddings)"
DEPTH: Final = "depth at which {} pooled (0 % = embeddings, 100 % = last block)"
INTERVALS: Final = "95 % bootstrap intervals"
PAIRED: Final = f"{INTERVALS} of the difference to clean, the same pairs"


class ValueAxis(NamedTuple):
    """An axis, and the value on it to which the curves are compared."""

    title: str
    reference: float
    reference_label: str


SCALES: Final = {
    "pearson": ValueAxis("Pearson correlation with people's ratings", 0.0, ""),
    "spearman": ValueAxis("Spearman correlation with people's ratings", 0.0, ""),
    "auc": ValueAxis("ROC AUC against people's labels", 0.5, "chance"),
    "cosine": ValueAxis("mean cosine of AB and BA", 1.0, "order ignored"),
}


def similarity_figure(
    frame: pd.DataFrame,
    *,
    metric: str,
    config: Mapping[str, Any],
    normalised_depth: bool = False,
) -> ChartFigure:
    """One panel per subset of pairs, one curve per pooling, and the clean model as a level.

    Poolings have bands; controls, dashed, have bars: intervals of the paired difference to clean.

    Args:
        frame: layer, depth, pooling, subset, n, and for the metric m: m, m_diff_low, m_diff_high,
            clean_m, clean_m_low, clean_m_high.
        metric: "pearson", "spearman" or "auc".
        config: names model, task, unit and embedding in the titles.
        normalised_depth: the x axis is depth in per cent instead of the layer's number.

    Raises:
        InputError: the metric is NaN everywhere.
    """
    panels = []
    for subset, rows in _split(frame, "subset"):
        lines = _lines(by_pooling(rows), metric, normalised_depth, paired=True)
        title, level = _clean(rows, metric)
        title = f"{_pairs(subset, [rows])} · {title}"
        panels.append(Panel(lines, [_reference(metric), *level], title))
    unit = config.get("unit") or "text"
    where, last = DEPTH if normalised_depth else LAYER, config.get("n_layers")
    if not normalised_depth and last in set(frame["layer"]):
        where = where.replace("embeddings", f"embeddings, {last} = after the last block")
    return _draw(
        metric,
        title=f"{model_name(config)}: agreement with people when each {unit} is pooled",
        subtitle=about(
            config,
            ("task", "unit", "embedding"),
            _intervals(frame[f"{metric}_diff_low"], f"bands and bars: {PAIRED}"),
        ),
        x_title=where.format(f"each {unit} is"),
        x_is_share=normalised_depth,
        panels=panels,
    )


def layers_figure(by_layer: pd.DataFrame, *, metric: str, config: Mapping[str, Any]) -> ChartFigure:
    """Where the meaning of a phrase can be read: one curve per subset, nothing pooled.

    Args:
        by_layer: layer (0 … n_layers, the last being what leaves the last block), subset, n, and
            for the metric m: m, m_low, m_high.
        metric: "pearson", "spearman" or "auc".
        config: names model, task and embedding in the titles.

    Raises:
        InputError: the metric is NaN everywhere.
    """
    styles = styles_of(by_layer["subset"])
    subsets = _split(by_layer, "subset")
    named = [(_pairs(subset, [rows]), styles[subset], rows) for subset, rows in subsets]
    panels = [Panel(_lines(named, metric, False), [_reference(metric)])]
    return _draw(
        metric,
        title=f"{model_name(config)}: agreement with people, layer by layer",
        subtitle=about(
            config,
            ("task", "embedding"),
            "nothing pooled",
            _intervals(by_layer[f"{metric}_low"], f"bands: {INTERVALS}"),
        ),
        x_title=_read_title(by_layer),
        x_is_share=False,
        panels=panels,
    )


def order_figure(by_layer: pd.DataFrame, *, config: Mapping[str, Any]) -> ChartFigure:
    """Order sensitivity: the mean cosine of AB and BA at each layer, nothing pooled.

    Args:
        by_layer: layer, subset, cosine, cosine_low, cosine_high, n; only the subset "mirror" is
            drawn.
        config: names model, task and embedding in the titles.

    Raises:
        InputError: no mirror pairs.
    """
    rows = by_layer[by_layer["subset"] == MIRROR]
    if rows.empty:
        raise InputError(
            f"there are no mirror pairs (AB and BA) to compare; the subsets are "
            f"{', '.join(map(str, by_layer['subset'].unique())) or 'none'}. Pass pairs in which "
            f"some phrases are another's words in the other order, as in the task 'bird'"
        )
    note = f"{_pairs(MIRROR, [rows])} · nothing pooled · band: {INTERVALS}"
    named = [("AB and BA", COMPARISON_STYLES[0], rows)]
    return _draw(
        "cosine",
        title=f"{model_name(config)}: how much the order of words matters, layer by layer",
        subtitle=about(config, ("task", "embedding"), note),
        x_title=_read_title(by_layer),
        x_is_share=False,
        panels=[Panel(_lines(named, "cosine", False), [_reference("cosine")])],
    )


def similarity_comparison(
    frames: Mapping[str, pd.DataFrame],
    *,
    metric: str,
    note: str = "",
    normalised_depth: bool = True,
) -> ChartFigure:
    """Several models in one figure: one curve per label, one panel per subset that all have.

    Args:
        frames: a label for each frame; columns as in :func:`similarity_figure`, one pooling, the
            same in all.
        metric: "pearson", "spearman" or "auc".
        normalised_depth: depth in per cent, so that models of different sizes share an axis.

    Raises:
        InputError: the metric is NaN everywhere.
    """
    first = next(iter(frames.values()))
    pooling = first["pooling"].iloc[0]
    common = set.intersection(*(set(frame["subset"]) for frame in frames.values()))
    styles = styles_of(frames)
    panels = []
    for name in (subset for subset in dict.fromkeys(first["subset"]) if subset in common):
        parts = {label: frame[frame["subset"] == name] for label, frame in frames.items()}
        named = [(label, styles[label], rows) for label, rows in parts.items()]
        levels = [_reference(metric)]
        for label, rows in parts.items():
            levels += [
                Level("", level.y, dotted(styles[label].colour))
                for level in _clean(rows, metric)[1]
            ]
        lines = _lines(named, metric, normalised_depth, paired=True)
        panels.append(Panel(lines, levels, _pairs(name, parts.values())))
    where = DEPTH if normalised_depth else LAYER
    return _draw(
        metric,
        title=f"Agreement with people, {pooling} pooling",
        subtitle=about({}, (), note, f"bands: {PAIRED}", "dotted: clean"),
        x_title=where.format("texts are"),
        x_is_share=normalised_depth,
        panels=panels,
    )


def _draw(
    metric: str, *, title: str, subtitle: str, x_title: str, x_is_share: bool, panels: list[Panel]
) -> ChartFigure:
    """The panels that have a curve; refused if none has."""
    drawn = [panel for panel in panels if panel.lines]
    if not drawn:
        raise InputError(
            f"{metric} is undefined (NaN) everywhere, so there is nothing to draw: similarities or "
            "ratings that are all the same have no correlation. Pass pairs that differ"
        )
    chart = Chart(
        title=title,
        subtitle=subtitle,
        x_title=x_title,
        y_title=SCALES[metric].title,
        x_is_share=x_is_share,
        y_is_share=False,
        panels=drawn,
    )
    return draw(chart)


def _split(frame: pd.DataFrame, column: str) -> list[tuple[str, pd.DataFrame]]:
    """The rows of each value of a column, in order of appearance."""
    return [(name, frame[frame[column] == name]) for name in dict.fromkeys(frame[column])]


def _lines(
    named: Iterable[tuple[str, Style, pd.DataFrame]],
    column: str,
    normalised_depth: bool,
    *,
    paired: bool = False,
) -> list[Line]:
    """One line per label, style and rows; an undefined number (NaN) has no point, and
    without an interval a point is alone. Intervals are its own, or ``paired`` with the clean
    model's number."""
    x, ends = "depth" if normalised_depth else "layer", f"{column}{'_diff' * paired}"
    lines = [
        line_of(
            label,
            style,
            rows,
            x,
            column,
            f"{ends}_low",
            f"{ends}_high",
            interval="band" if style.dash == "solid" else "bars",  # controls are dashed
            on=f"clean_{column}" if paired else None,
        )
        for label, style, rows in named
    ]
    return side_by_side([line for line in lines if line.x], normalised_depth)


def _clean(rows: pd.DataFrame, metric: str) -> tuple[str, list[Level]]:
    """The clean model in words, with its own interval, and as a level; none if it is undefined."""
    value, low, high = (
        float(rows[f"clean_{metric}{end}"].iloc[0]) for end in ("", "_low", "_high")
    )
    if not math.isfinite(value):
        return "clean: undefined", []
    text = f"clean {value:.3f}"
    if math.isfinite(low) and math.isfinite(high):
        text += f" [{low:.3f}, {high:.3f}]"
    return text.replace("-", MINUS), [Level("clean", value, CLEAN_STYLE)]


def _intervals(ends: pd.Series, intervals: str) -> str:
    """What shows the intervals, if there are any."""
    return intervals if ends.notna().any() else "too few pairs for intervals"


def _reference(metric: str) -> Level:
    """A thin line at the scale's value to compare with."""
    scale = SCALES[metric]
    return Level(scale.reference_label, scale.reference, Style(MUTED, "circle", width=0.8))


def _pairs(subset: str, frames: Iterable[pd.DataFrame]) -> str:
    """Like "all 1627 pairs" or "mirror pairs (12, fewer than 30)"; no number where the frames
    disagree."""
    counts = sorted({int(n) for frame in frames for n in frame["n"]})
    subset = short(subset, 20)
    if len(counts) > 1:
        return f"{subset} pairs"
    few = f", fewer than {FEW}" if counts[0] < FEW else ""
    return f"all {counts[0]} pairs{few}" if subset == ALL else f"{subset} pairs ({counts[0]}{few})"


def _read_title(by_layer: pd.DataFrame) -> str:
    return f"layer that is read (0 = embeddings, {by_layer['layer'].max()} = after the last block)"
