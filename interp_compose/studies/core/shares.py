"""Shares of sequences that are right: seed by seed, over seeds, and how settings differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from interp_compose.stats.seeds import holm, mean_interval, paired_difference
from interp_compose.tasks.sequences import ALL_KINDS

ALL: Final = ALL_KINDS
OVER_SEEDS: Final = ("mean", "low", "high", "smallest", "largest", "n", "n_seeds")
DIFFERENCE: Final = ("difference", "ci_low", "ci_high", "p")


def shares_of(accuracy: pd.DataFrame, place: Sequence[str]) -> pd.DataFrame:
    """The share that is right, of each run, split and kind, and of all kinds together.

    ``place`` are the columns that tell settings apart; ``seed`` tells their runs apart.
    """
    run = [*place, "seed", "split"]
    overall = accuracy.groupby(run, sort=False, dropna=False)[["n_right", "n"]].sum().reset_index()
    parts = [overall.assign(kind=ALL)]
    if (accuracy["kind"] != "").any():
        parts.append(accuracy[accuracy["kind"] != ""])
    values = pd.concat(parts, ignore_index=True)
    return values.assign(value=values["n_right"] / values["n"])


def summary_of(
    values: pd.DataFrame, place: Sequence[str], *, least: float = 0.0, most: float = 1.0
) -> pd.DataFrame:
    """Over seeds: mean, the ends of Student's t interval at 95 %, cut at the least and most that
    there can be, smallest and largest."""
    rows = []
    for where, group in values.groupby(list(place), sort=False, dropna=False):
        shares = group["value"].tolist()
        low, high = mean_interval(shares)
        about = dict(zip(place, where, strict=True))
        low, high = np.clip([low, high], least, most).tolist()
        measured = {"mean": sum(shares) / len(shares), "low": low, "high": high}
        ends = {"smallest": min(shares), "largest": max(shares)}
        counts = {"n": int(group["n"].iloc[0]), "n_seeds": len(shares)}
        rows.append({**about, **measured, **ends, **counts})
    return pd.DataFrame(rows, columns=[*place, *OVER_SEEDS])


def differences_of(values: pd.DataFrame, setting: str, place: Sequence[str]) -> pd.DataFrame:
    """Of each value of ``setting`` and the first one, paired by seed, a row for each place where
    both were measured; p by Holm over all, where places have kinds over all of "all" kinds, and
    over all others."""
    settings = list(dict.fromkeys(values[setting]))
    rows: list[dict[str, Any]] = []
    for where, group in values.groupby(list(place), sort=False):
        shares = group.pivot_table(index="seed", columns=setting, values="value")
        measured = [one for one in settings[1:] if {one, settings[0]} <= {*shares}]
        for one in measured:
            row: dict[str, Any] = {
                setting: one,
                "other": settings[0],
                **dict(zip(place, where, strict=True)),
                **dict.fromkeys(DIFFERENCE, float("nan")),
                "n_seeds": len(shares),
            }
            row["difference"] = float((shares[one] - shares[settings[0]]).mean())
            if len(shares) > 1:
                found = paired_difference(shares[one].tolist(), shares[settings[0]].tolist())
                row |= {name: getattr(found, name) for name in DIFFERENCE}
            rows.append(row)
    columns = [setting, "other", *place, *DIFFERENCE, "n_seeds"]
    table = pd.DataFrame(rows, columns=columns)
    table.insert(columns.index("n_seeds"), "p_holm", float("nan"))
    overall = table.get("kind", pd.Series(ALL, table.index)) == ALL
    for family in (overall, ~overall):
        tested = table.index[family & table["p"].notna()]
        if len(tested):
            table.loc[tested, "p_holm"] = list(holm(table.loc[tested, "p"].tolist()))
    return table
