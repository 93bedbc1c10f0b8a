"""CAP curves: accuracy against the layer of pooling, as in CARMA's figures 2 and 8."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pandas as pd

from interp_compose.plots.chart import (
    Chart,
    Level,
    Panel,
    chance_level,
    model_name,
    paired_note,
    side_by_side,
    subtitle_of,
)
from interp_compose.plots.interactive import ChartFigure, draw
from interp_compose.plots.theme import CLEAN_STYLE, dotted, styles_of
from interp_compose.studies.core.figures import by_pooling, lines_of, share_lines
from interp_compose.studies.core.text import about, counted, decimal, filtered_of

LAYER_TITLE = "layer at which tokens are pooled (0 = embeddings)"
TO_CLEAN: Final = ("clean", "example")
DEPTH_TITLE = "depth at which tokens are pooled (0 % = embeddings, 100 % = last block)"


def curve_figure(
    frame: pd.DataFrame,
    *,
    n_affected: int,
    config: Mapping[str, Any],
    normalised_depth: bool,
    floor: str = "",
) -> ChartFigure:
    """One curve per pooling of ``frame`` (layer, depth, pooling, accuracy; reference, the clean
    model's; low and high, of the paired difference to it; n).

    ``config`` names model, task and unit in the title; ``floor`` says that accuracies tell little.
    """
    x = "depth" if normalised_depth else "layer"
    lines = side_by_side(share_lines(by_pooling(frame), x, "accuracy"), normalised_depth)
    n = counted(int(frame["n"].max()), "examples")
    shown = [f"{n}, {n_affected} with a unit of several tokens", paired_note(lines, *TO_CLEAN)]
    clean_accuracy = float(frame["reference"].iloc[0])
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
        panels=[Panel(lines, [clean, *chance_level(config)])],
    )
    return draw(chart)


def logprob_figure(
    frame: pd.DataFrame, *, config: Mapping[str, Any], normalised_depth: bool
) -> ChartFigure:
    """One curve per pooling of ``frame`` (layer, depth, pooling, target_logprob; reference, the
    clean model's mean; low and high, of the paired difference to it; n)."""
    named, clean = by_pooling(frame), float(frame["reference"].iloc[0])
    x = "depth" if normalised_depth else "layer"
    lines = lines_of(named, x, "target_logprob", "low", "high", on="reference")
    lines = side_by_side(lines, normalised_depth)
    level = Level(f"clean {decimal(clean, 2)}", clean, CLEAN_STYLE)
    chart = Chart(
        title=f"{model_name(config)}: log-probability of the answer, tokens pooled",
        subtitle=about(
            config,
            ("task", "unit"),
            filtered_of(config),
            f"mean over {counted(int(frame['n'].max()), 'examples')}",
            paired_note(lines, *TO_CLEAN),
        ),
        x_title=DEPTH_TITLE if normalised_depth else LAYER_TITLE,
        y_title="log-probability (nats)",
        x_is_share=normalised_depth,
        y_is_share=False,
        panels=[Panel(lines, [level])],
    )
    return draw(chart)


def comparison_figure(
    frames: Mapping[str, pd.DataFrame],
    *,
    how: str,
    notes: Sequence[str] = (),
    normalised_depth: bool,
) -> ChartFigure:
    """One curve per label; each frame holds one pooling, columns as in :func:`curve_figure`;
    ``how`` tokens are pooled."""
    styles = styles_of(frames)
    named = [(k, styles[k], frame) for k, frame in frames.items()]
    lines = share_lines(named, "depth" if normalised_depth else "layer", "accuracy")
    levels = [
        Level("", float(frame["reference"].iloc[0]), dotted(styles[k].colour))
        for k, frame in frames.items()
    ]
    chart = Chart(
        title=f"Accuracy when tokens are pooled, {how}",
        subtitle=subtitle_of(*notes, paired_note(lines, *TO_CLEAN), "dotted: clean"),
        x_title=DEPTH_TITLE if normalised_depth else LAYER_TITLE,
        y_title="accuracy",
        x_is_share=normalised_depth,
        panels=[Panel(lines, levels)],
    )
    return draw(chart)
