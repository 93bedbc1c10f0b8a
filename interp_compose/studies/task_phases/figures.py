"""The figure of decoders on a task: accuracy by size of the training set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from interp_compose.plots.interactive import ChartFigure
from interp_compose.studies.core.figures import size_figure
from interp_compose.studies.core.shares import ALL


def accuracy_figure(summary: pd.DataFrame, config: Mapping[str, Any]) -> ChartFigure:
    """What each setting gets right of each split, by the number of training sequences."""
    return size_figure(
        summary[summary["kind"] == ALL],
        config,
        by="split",
        title="sequences that are right",
        x_title="training sequences",
        y_title="exact match",
        y_is_share=True,
    )
