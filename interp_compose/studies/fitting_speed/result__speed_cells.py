"""Means over seeds of the study of fitting speed, where a run may never have got there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd
from jaxtyping import Float

CELL: Final = ("init_rate", "n_layers", "violations")
MEASURES: Final = ("accuracy", "loss")
SHARES: Final = np.array([0, 0.005, 0.01, 0.02, 0.05, *np.linspace(0.1, 1, 10)])
"""False-positive rates at which ROC curves of several seeds are averaged."""


def spread(values: Float[np.ndarray, "run"]) -> tuple[int, float, float, float]:
    """How many got there, and mean, smallest and largest number of epochs.

    NaN stands for a run that never got there, so that its number is above all that were counted:
    with any such run there is no mean and no largest, and the smallest is that of the others.
    """
    reached = values[~np.isnan(values)]
    low = float(reached.min()) if len(reached) else math.nan
    if not len(reached) or len(reached) < len(values):
        return len(reached), math.nan, low, math.nan
    return len(reached), float(reached.mean()), low, float(reached.max())


def cells_of(runs: pd.DataFrame) -> pd.DataFrame:
    """One row per init rate, depth and number of violating groups; see
    :attr:`.speed_result.FittingSpeed.cells`."""
    rows = []
    for place, own in runs.groupby(list(CELL), sort=True):
        row: dict[str, object] = dict(zip(CELL, place, strict=True))
        row |= {"n": len(own), "diverged": int((~own["finite"]).sum())}
        for name in MEASURES:
            found = spread(own[f"{name}_epochs"].to_numpy(float))
            columns = [f"{name}_{what}" for what in ("fitted", "epochs", "low", "high")]
            row |= dict(zip(columns, found, strict=True))
        areas = own["auc"].dropna().to_numpy(float)
        ends = (areas.mean(), areas.min(), areas.max()) if len(areas) else [math.nan] * 3
        row |= dict(zip(("auc", "auc_low", "auc_high"), map(float, ends), strict=True))
        rows.append(row)
    return pd.DataFrame(rows)


def pair_cells_of(pairs: pd.DataFrame) -> pd.DataFrame:
    """The same of each pair of anchors; see :attr:`.speed_result.FittingSpeed.pair_cells`."""
    rows = []
    for place, own in pairs.groupby([*CELL, "pair"], sort=True):
        found = spread(own["epochs"].to_numpy(float))
        rows.append(
            {
                **dict(zip((*CELL, "pair"), place, strict=True)),
                "violates": bool(own["violates"].iloc[0]),
                "touched": bool(own["touched"].iloc[0]),
                "n": len(own),
                **dict(zip(("fitted", "epochs", "low", "high"), found, strict=True)),
            }
        )
    return pd.DataFrame(rows)


def roc_of(samples: pd.DataFrame) -> pd.DataFrame:
    """The ROC curves of a study's samples, averaged over seeds at equal false-positive rates
    (Fawcett 2006, vertical averaging); see :attr:`.speed_result.FittingSpeed.roc`.

    A run whose samples all violate the rule, or none of them, has no curve.
    """
    columns = [*CELL, "false_positive_rate", "true_positive_rate", "low", "high", "n"]
    parts = []
    for place, own in samples.groupby(list(CELL), sort=True):
        curves = [
            true_positive_rates(run["lateness"].to_numpy(float), run["violates"].to_numpy(bool))
            for _, run in own.groupby("seed", sort=True)
            if run["violates"].nunique() == 2
        ]
        if not curves:
            continue
        found = np.stack(curves)
        numbers: Sequence[object] = (
            SHARES, found.mean(axis=0), found.min(axis=0), found.max(axis=0), len(curves)
        )  # fmt: skip
        parts.append(pd.DataFrame(dict(zip(columns, (*place, *numbers), strict=True))))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def true_positive_rates(
    late: Float[np.ndarray, "sample"], violating: np.ndarray
) -> Float[np.ndarray, "share"]:
    """The ROC curve at :data:`SHARES`: its highest point there, straight between its corners."""
    from sklearn.metrics import roc_curve

    false, true, _ = roc_curve(violating, late, drop_intermediate=False)
    last = np.searchsorted(false, SHARES + 1e-12, side="right") - 1  # 0.3 is not 3/10 in floats
    then = np.minimum(last + 1, len(false) - 1)
    run = np.where(false[then] > false[last], false[then] - false[last], 1.0)
    rates: Float[np.ndarray, "share"] = true[last] + (true[then] - true[last]) * (
        (SHARES - false[last]) / run
    )
    return rates
