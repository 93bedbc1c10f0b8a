"""From cosines to agreement with people: the two summary tables of a similarity curve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from interp_compose.stats.agreement import agreement
from interp_compose.stats.intervals import bootstrap_interval
from interp_compose.studies.similarity.result__similarity_tables import CONTROLS, POOLINGS, subsets_of


def rounding(dtype: str) -> float:
    """The step below which cosines are not told apart, because rounding makes it.

    Two vectors that differ by a few units in the last place have a cosine of 1 - 16 ε² or more;
    batches of other sizes moved float32 cosines by up to 5e-7. Finer differences would be ranked
    and correlated as if the model had made them.
    """
    eps = {"bfloat16": 2.0**-7, "float16": 2.0**-10}.get(dtype, 2.0**-23)
    return max(1e-6, 16 * eps**2)


def curve_table(
    outcomes: pd.DataFrame,
    clean: pd.DataFrame,
    metrics: Sequence[str],
    n_layers: int,
    *,
    step: float,
) -> pd.DataFrame:
    """One row per layer, pooling and subset: see :attr:`SimilarityCurve.frame`.

    Cosines are ranked in steps of ``step``.
    """
    wide = outcomes.pivot(index="pair", columns=["pooling", "layer"], values="cosine")
    there = set(outcomes["pooling"])
    cells = [
        (name, layer)
        for name in (*POOLINGS, *CONTROLS)
        if name in there
        for layer in sorted(set(outcomes.loc[outcomes["pooling"] == name, "layer"]))
    ]
    layers = np.array([layer for _, layer in cells])
    about = {
        "layer": layers,
        "depth": layers / max(n_layers - 1, 1),
        "pooling": [name for name, _ in cells],
    }
    return _by_subset(about, wide[cells].to_numpy(float), clean, metrics, step, against_clean=True)


def layer_table(
    layer_cosines: pd.DataFrame,
    clean: pd.DataFrame,
    metrics: Sequence[str],
    n_layers: int,
    *,
    step: float,
) -> pd.DataFrame:
    """One row per layer and subset: see :attr:`SimilarityCurve.by_layer`."""
    wide = layer_cosines.pivot(index="pair", columns="layer", values="cosine")
    layers = wide.columns.to_numpy(np.int64)
    about = {"layer": layers, "depth": layers / n_layers}
    return _by_subset(about, wide.to_numpy(float), clean, metrics, step, against_clean=False)


def _by_subset(
    about: dict[str, Any],
    cosines: Float[np.ndarray, "pair cell"],
    clean: pd.DataFrame,
    metrics: Sequence[str],
    step: float,
    *,
    against_clean: bool,
) -> pd.DataFrame:
    """A row per cell and subset; ``about`` says what each cell is."""
    target, reference = clean["target"].to_numpy(float), clean["cosine"].to_numpy(float)
    affected = clean["affected"].to_numpy(bool)
    tables = []
    for subset, rows in subsets_of(clean).items():
        columns: dict[str, Any] = {**about, "subset": subset}
        for metric in metrics:
            told_apart = _told_apart(cosines[rows], step, metric)
            untouched = _told_apart(reference[rows, None], step, metric)
            found = agreement(told_apart, target[rows], metric, reference=untouched[:, 0])
            columns[metric], columns[f"{metric}_low"] = found.value, found.low
            columns[f"{metric}_high"] = found.high
            if against_clean:
                columns[f"{metric}_diff"] = found.difference
                columns[f"{metric}_diff_low"] = found.difference_low
                columns[f"{metric}_diff_high"] = found.difference_high
                alone = agreement(untouched, target[rows], metric)
                columns[f"clean_{metric}"] = alone.value[0]
                columns[f"clean_{metric}_low"] = alone.low[0]
                columns[f"clean_{metric}_high"] = alone.high[0]
        columns["cosine"] = cosines[rows].mean(axis=0)
        columns["cosine_low"], columns["cosine_high"] = bootstrap_interval(cosines[rows])
        columns["n"] = len(rows)
        if against_clean:
            columns["n_affected"] = int(affected[rows].sum())
        tables.append(pd.DataFrame(columns))
    return pd.concat(tables, ignore_index=True)


def _told_apart(
    cosines: Float[np.ndarray, "pair cell"], step: float, metric: str
) -> Float[np.ndarray, "pair cell"]:
    """Cosines that differ by more than rounding, or not at all.

    Where all of a cell lie within a step, they are one number, which correlates with nothing.
    Metrics of ranks see whole steps, so that what differs by rounding alone is a tie; Pearson's r,
    which weighs differences by their size, sees the cosines as they are.
    """
    seen = cosines if metric == "pearson" else np.round(cosines / step) * step
    return np.where(np.ptp(cosines, axis=0) > step, seen, 1.0)
