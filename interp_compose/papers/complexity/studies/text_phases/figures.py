"""Figures of language models: perplexity by size of the training set, and over the grid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from interp_compose.papers.shared.grid.figures import grid_figure, size_figure
from interp_compose.plots.interactive import ChartFigure


def perplexity_figure(summary: pd.DataFrame, config: Mapping[str, Any]) -> ChartFigure:
    """Perplexity of the held-out text, by the number of training tokens."""
    return size_figure(
        summary[summary["measure"] == "perplexity"].assign(split=""),
        config,
        by="split",
        title="perplexity of held-out text",
        x_title="training tokens",
        y_title="perplexity",
        y_is_share=False,
    )


def map_figure(summary: pd.DataFrame, config: Mapping[str, Any]) -> ChartFigure | None:
    """Perplexity at each init rate and weight decay, where both vary."""
    return grid_figure(
        summary[summary["measure"] == "perplexity"].assign(split=""),
        config,
        by="split",
        title="perplexity",
        unit="training tokens",
        y_is_share=False,
    )
