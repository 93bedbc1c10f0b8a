"""Shares of sequences that are right: seed by seed, over seeds, and how settings differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from interp_compose.stats.seeds import holm, mean_interval, paired_difference
from interp_compose.tasks.sequences import ALL_KINDS

ALL: Final = ALL_KINDS
OVER_SEEDS: Final = ("mean", "low", "high", "smallest", "largest", "n", "n_seeds")
DIFFERENCE: Final = ("difference", "ci_low", "ci_high", "p")
CONTROLS: Final = ("fixed", "mlp")
"""What the names of an encoder's controls end in."""


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
        key = dict(zip(place, where, strict=True))
        low, high = np.clip([low, high], least, most).tolist()
        measured = {"mean": sum(shares) / len(shares), "low": low, "high": high}
        ends = {"smallest": min(shares), "largest": max(shares)}
        counts = {"n": int(group["n"].iloc[0]), "n_seeds": len(shares)}
        rows.append({**key, **measured, **ends, **counts})
    return pd.DataFrame(rows, columns=[*place, *OVER_SEEDS])


def differences_of(values: pd.DataFrame, setting: str, place: Sequence[str]) -> pd.DataFrame:
    """Of each value of ``setting`` and the first one, paired by seed, a row for each place where
    both were measured; p by Holm over all, where places have kinds over all of "all" kinds, and
    over all others."""
    settings = list(dict.fromkeys(values[setting]))
    rows = _paired(values, setting, place, [(one, settings[0]) for one in settings[1:]])
    table = pd.DataFrame(rows, columns=[setting, "other", *place, *DIFFERENCE, "n_seeds"])
    overall = table.get("kind", pd.Series(ALL, table.index)) == ALL
    return _corrected(table, [overall, ~overall])


def differences_of_readings(
    values: pd.DataFrame, first: str, place: Sequence[str], family: Sequence[str] = ()
) -> pd.DataFrame:
    """Of encoders' readings, each named by its model and the output that is read ("cat comp"),
    paired by seed, a row for each place where both were measured. What is ``compared``:

    ``first``: each reading with the first one; ``output``: comp and mix with cont of the same
    model; ``control``: an output of a model with the same of its controls (cat with cat-fixed and
    cat-mlp). p by Holm over the rows that agree in what is compared and in ``family``.
    """
    named = values.assign(reading=values["model"] + " " + values["output"])
    each = zip(named["reading"], named["model"], named["output"], strict=True)
    parts = {reading: (model, output) for reading, model, output in each}
    pairs = {
        "first": [(one, first) for one in parts if one != first],
        "output": [(one, f"{m} cont") for one, (m, output) in parts.items() if output != "cont"],
        "control": [(one, f"{m}-{kind} {o}") for one, (m, o) in parts.items() for kind in CONTROLS],
    }
    rows = [
        {**row, "compared": compared}
        for compared, compared_pairs in pairs.items()
        for row in _paired(named, "reading", place, compared_pairs)
    ]
    columns = ["reading", "other", "compared", *place, *DIFFERENCE, "n_seeds"]
    table = pd.DataFrame(rows, columns=columns)
    number = table.groupby(["compared", *family]).ngroup()
    return _corrected(table, [number == one for one in range(number.nunique())])


def with_costs(rows: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """``rows`` with the parameters of their model and the median seconds of its steps."""
    costs = runs.groupby("model", sort=False).agg(
        n_parameters=("n_parameters", "first"), step_seconds=("step_seconds", "median")
    )
    return rows.join(costs, on="model")


def _paired(
    values: pd.DataFrame, setting: str, place: Sequence[str], pairs: Sequence[tuple[str, str]]
) -> list[dict[str, Any]]:
    """One minus the other of each pair, over the seeds that both have in a place; none, no row."""
    rows: list[dict[str, Any]] = []
    for where, group in values.groupby(list(place), sort=False):
        measured = group.pivot_table(index="seed", columns=setting, values="value")
        for one, other in pairs:
            shares = measured.reindex(columns=[one, other]).dropna()
            if shares.empty:
                continue
            row: dict[str, Any] = {
                setting: one,
                "other": other,
                **dict(zip(place, where, strict=True)),
                **dict.fromkeys(DIFFERENCE, float("nan")),
                "n_seeds": len(shares),
            }
            row["difference"] = float((shares[one] - shares[other]).mean())
            if len(shares) > 1:
                difference = paired_difference(shares[one].tolist(), shares[other].tolist())
                row |= {name: getattr(difference, name) for name in DIFFERENCE}
            rows.append(row)
    return rows


def _corrected(table: pd.DataFrame, families: Iterable[pd.Series[bool]]) -> pd.DataFrame:
    """With ``p_holm``, over the rows of each family."""
    table.insert(list(table.columns).index("n_seeds"), "p_holm", float("nan"))
    for family in families:
        tested = table.index[family & table["p"].notna()]
        if len(tested):
            table.loc[tested, "p_holm"] = list(holm(table.loc[tested, "p"].tolist()))
    return table
