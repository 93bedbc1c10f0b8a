"""Which phase a model is in (paper 004, section IV), and cells of a grid from their runs."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import pandas as pd

from interp_compose.errors import InputError

FITS_ID: Final = 0.9
REASONS: Final = 0.5
COMMUTES: Final = 0.7
PHASES: Final = {
    "1": "memorises",
    "2": "learns pairs, each by itself",
    "2c": "learns pairs, in either order",
    "3": "reasons",
}
MEASURES: Final = ("train", "id", "ood", "commutativity", "stable_rank", "mean_abs_cosine")


def phase_of(id: float, ood: float, commutativity: float) -> str:
    """The phase by the paper's rule: ``"1"``, ``"2"``, ``"2c"`` (with commutativity) or ``"3"``.

    Phase 1 where ID accuracy is below 0.9; else phase 3 where OOD accuracy exceeds 0.5 (Fig. 5C);
    else phase 2, with commutativity where at least 0.7 of the unseen inputs keep their prediction
    when their anchors change places (Fig. 3B).

    Raises:
        InputError: a share outside 0 … 1.
    """
    for name, share in (("id", id), ("ood", ood), ("commutativity", commutativity)):
        if not 0 <= share <= 1:
            raise InputError(f"{name}={share!r}: expected a share between 0 and 1")
    if id < FITS_ID:
        return "1"
    if ood > REASONS:
        return "3"
    return "2c" if commutativity >= COMMUTES else "2"


def cells_of(runs: pd.DataFrame) -> pd.DataFrame:
    """One row per init rate and weight decay: means over seeds, their range, and the phase.

    ``n`` counts the seeds, ``diverged`` those whose weights became NaN or infinite; these are left
    out of the means. ``phase`` is that of the means, as in the paper, and ``agree`` the share of
    seeds that are in it by themselves; a cell all of whose runs diverged has the phase ``""``.
    """
    rows = []
    for (rate, decay), all_runs in runs.groupby(["init_rate", "weight_decay"], sort=True):
        sound = all_runs[all_runs["finite"]]
        row: dict[str, object] = {
            "init_rate": rate,
            "weight_decay": decay,
            "n": len(all_runs),
            "diverged": len(all_runs) - len(sound),
            "phase": "",
            "agree": math.nan,
        }
        for name in MEASURES:
            values = sound[name].to_numpy(float)
            found = (values.mean(), values.min(), values.max()) if len(values) else [math.nan] * 3
            row |= dict(zip((name, f"{name}_low", f"{name}_high"), map(float, found), strict=True))
        if len(sound):
            row["phase"] = phase_of(
                *(float(sound[m].mean()) for m in ("id", "ood", "commutativity"))
            )
            row["agree"] = float(np.mean(sound["phase"] == row["phase"]))
        rows.append(row)
    return pd.DataFrame(rows)
