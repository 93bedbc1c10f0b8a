"""CAP curves: accuracy against the layer of pooling, as in CARMA's figures 2 and 8."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from interp_compose.plots.chart import (
    Chart,
    Level,
    Line,
    Panel,
    model_name,
    side_by_side,
    subtitle_of,
)
from interp_compose.plots.interactive import ChartFigure, draw
from interp_compose.plots.theme import CLEAN_STYLE, Style, dotted, styles_of
from interp_compose.studies.core.figures import by_pooling, lines_of
from interp_compose.studies.core.text import about, counted, decimal, filtered_of

LAYER_TITLE = "layer at which tokens are pooled (0 = embeddings)"
DEPTH_TITLE = "depth at which tokens are pooled (0 % = embeddings, 100 % = last block)"


def curve_figure(
    frame: pd.DataFrame,
    *,
    clean_accuracy: float,
    n_affected: int,
    config: Mapping[str, Any],
    normalised_depth: bool,
    floor: str = "",
) -> ChartFigure:
    """One curve per pooling of ``frame`` (layer, depth, pooling, accuracy, ci_low, ci_high, n).

    ``config`` names model, task and unit in the title; ``floor`` says that accuracies tell little.
    """
    lines = side_by_side(_lines(by_pooling(frame), normalised_depth), normalised_depth)
    n = counted(int(frame["n"].max()), "examples")
    shown = [f"{n}, {n_affected} with a unit of several tokens", _intervals(lines)]
    clean = Level(f"clean {clean_accuracy:.1%}", clean_accuracy, CLEAN_STYLE)
    chart = Chart(
        title=f"{model_name(config)}: accuracy when tokens are pooled",
        subtitle=about(
            config,
            ("task", "unit"),
            filtered_of(config),
            *shown,
            floor,
        ),
        x_title=DEPTH_TITLE if normalised_depth else LAYER_TITLE,
        y_title="accuracy",
        x_is_share=normalised_depth,
        panels=[Panel(lines, [clean])],
    )
    return draw(chart)


def logprob_figure(
    frame: pd.DataFrame, *, clean: float, config: Mapping[str, Any], normalised_depth: bool
) -> ChartFigure:
    """One curve per pooling of ``frame`` (layer, depth, pooling, target_logprob, low, high, n);
    ``clean`` is the clean model's mean."""
    x = "depth" if normalised_depth else "layer"
    lines = side_by_side(
        lines_of(by_pooling(frame), x, "target_logprob", "low", "high"), normalised_depth
    )
    level = Level(f"clean {decimal(clean, 2)}", clean, CLEAN_STYLE)
    chart = Chart(
        title=f"{model_name(config)}: log-probability of the answer, tokens pooled",
        subtitle=about(
            config,
            ("task", "unit"),
            filtered_of(config),
            f"mean over {counted(int(frame['n'].max()), 'examples')}",
            f"{_intervals(lines)} of the change from clean, paired by example",
        ),
        x_title=DEPTH_TITLE if normalised_depth else LAYER_TITLE,
        y_title="log-probability (nats)",
        x_is_share=normalised_depth,
        y_is_share=False,
        panels=[Panel(lines, [level])],
    )
    return draw(chart)


def _intervals(lines: Iterable[Line]) -> str:
    return f"{'bars' if all(line.has_bars for line in lines) else 'bands'}: 95 % intervals"


def comparison_figure(
    frames: Mapping[str, pd.DataFrame],
    clean_accuracies: Mapping[str, float],
    *,
    how: str,
    notes: Sequence[str] = (),
    normalised_depth: bool,
) -> ChartFigure:
    """One curve per label; each frame holds one pooling, columns as in :func:`curve_figure`;
    ``how`` tokens are pooled."""
    styles = styles_of(frames)
    lines = _lines([(k, styles[k], frame) for k, frame in frames.items()], normalised_depth)
    levels = [Level("", clean_accuracies[k], dotted(styles[k].colour)) for k in frames]
    chart = Chart(
        title=f"Accuracy when tokens are pooled, {how}",
        subtitle=subtitle_of(*notes, _intervals(lines), "dotted: the clean model"),
        x_title=DEPTH_TITLE if normalised_depth else LAYER_TITLE,
        y_title="accuracy",
        x_is_share=normalised_depth,
        panels=[Panel(lines, levels)],
    )
    return draw(chart)


def _lines(named: Iterable[tuple[str, Style, pd.DataFrame]], normalised_depth: bool) -> list[Line]:
    x = "depth" if normalised_depth else "layer"
    return lines_of(named, x, "accuracy", "ci_low", "ci_high")
