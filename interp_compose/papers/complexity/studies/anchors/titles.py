"""Words in the titles and tables of the studies that train models on anchor functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from interp_compose.papers.complexity.tasks.anchor_record import described
from interp_compose.plots.chart import short
from interp_compose.studies.core.text import TextTable, text_table


def shape_of(config: Mapping[str, Any]) -> str:
    """Like "2 layers, pre-LN, width 64"."""
    layers = config.get("n_layers")
    parts = [f"{layers} layer{'' if layers == 1 else 's'}"] if layers is not None else []
    parts += [f"{short(str(config['norm']))}-LN"] if config.get("norm") is not None else []
    parts += [f"width {config['d_model']}"] if config.get("d_model") is not None else []
    return ", ".join(parts) or "Model"


def seeds_of(counts: Sequence[int]) -> str:
    """Like "3 seeds", or "2–3 seeds" where cells have more and fewer."""
    low, high = min(counts), max(counts)
    return f"{low}–{high} seeds" if low < high else f"{low} seed{'s' if low > 1 else ''}"


def mean_of(counts: Sequence[int]) -> str:
    """Whether numbers are means over seeds, of cells with so many."""
    return "mean over seeds" if max(counts) > 1 else "one seed"


def remarks_of(config: Mapping[str, Any]) -> list[str]:
    """The anchors of a task other than the paper's, and that gradients were not clipped, where that
    is on record."""
    own = config.get("own_task")
    return [
        *([described(own)] if own else []),
        *(["gradients not clipped"] if config.get("clip", 0) is None else []),
    ]


def diverged_runs(cells: pd.DataFrame) -> pd.DataFrame:
    """Cells whose ``diverged`` is a remark behind a line of text, "" where no run has diverged."""
    return cells.assign(diverged=[f"  {n} diverged" if n else "" for n in cells["diverged"]])


def legend(meanings: Mapping[str, str]) -> TextTable:
    """What signs mean, a row each."""
    rows = pd.DataFrame(meanings.items(), columns=["sign", "meaning"])
    return text_table(rows, (("", "sign", ">4"), ("", "meaning", "")))
