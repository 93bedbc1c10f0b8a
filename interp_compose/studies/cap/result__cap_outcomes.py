"""The tables a CAP sweep hands over, checked column by column before anything is computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pandas as pd

from interp_compose.errors import InputError, LayerError, OptionError
from interp_compose.studies.core.tables import typed

POOLINGS: Final = ("mean", "max", "sum")
CONTROLS: Final = ("last", "shuffled")

OUTCOME_COLUMNS: Final = {
    "example": "int64",
    "layer": "int64",
    "pooling": "str",
    "prediction": "int64",
    "correct": "bool",
    "target_logprob": "float64",
    "target_rank": "int64",
}
CLEAN_COLUMNS: Final = {
    "example": "int64",
    "prompt": "str",
    "answer": "str",
    "prediction": "int64",
    "prediction_text": "str",
    "correct": "bool",
    "target_logprob": "float64",
    "target_rank": "int64",
    "affected": "bool",
    "n_tokens": "int64",
    "n_groups": "int64",
}


def checked_clean(clean: pd.DataFrame) -> pd.DataFrame:
    """``clean`` with its columns typed and ordered, one row per example, sorted by example.

    Raises:
        InputError: see :meth:`CapCurve.from_outcomes`.
    """
    table = _ranked("clean", clean, CLEAN_COLUMNS)
    if table.empty:
        raise InputError("clean has no rows; a curve needs at least one example")
    doubled = table["example"][table["example"].duplicated()]
    if len(doubled):
        raise InputError(
            f"clean has example {doubled.iloc[0]} more than once; expected one row each"
        )
    return table.sort_values("example", ignore_index=True)


def checked_outcomes(outcomes: pd.DataFrame, clean: pd.DataFrame, *, n_layers: int) -> pd.DataFrame:
    """``outcomes`` typed, complete and sorted by example, layer and pooling.

    Raises:
        InputError, LayerError, OptionError: see :meth:`CapCurve.from_outcomes`.
    """
    table = _ranked("outcomes", outcomes, OUTCOME_COLUMNS)
    if table.empty:
        raise InputError("outcomes has no rows; a curve needs at least one layer and protocol")
    for name in table["pooling"].unique():
        if name not in POOLINGS + CONTROLS:
            raise OptionError(
                f"outcomes has the pooling {name!r}; expected {', '.join(POOLINGS + CONTROLS)}"
            )
    outside = table["layer"][(table["layer"] < 0) | (table["layer"] >= n_layers)]
    if len(outside):
        raise LayerError(
            f"outcomes has layer {outside.iloc[0]}, but the model has layers 0 … {n_layers - 1}"
        )
    _check_complete(table, clean)
    _check_unaffected(table, clean)
    order = table["pooling"].map({name: i for i, name in enumerate(POOLINGS + CONTROLS)})
    return table.iloc[np.lexsort((order, table["layer"], table["example"]))].reset_index(drop=True)


def _check_complete(table: pd.DataFrame, clean: pd.DataFrame) -> None:
    """Every example once at every (layer, pooling) that occurs."""
    key = ["example", "layer", "pooling"]
    doubled = table[table.duplicated(key)]
    if len(doubled):
        example, layer, pooling = doubled.iloc[0][key]
        raise InputError(
            f"outcomes has example {example} at layer {layer}, {pooling}, more than once; "
            "expected one row each"
        )
    unknown = sorted(set(table["example"]) - set(clean["example"]))
    if unknown:
        raise InputError(f"outcomes has example {unknown[0]}, which clean has not")
    for (layer, pooling), rows in table.groupby(["layer", "pooling"], sort=True):
        if len(rows) < len(clean):
            missing = sorted(set(clean["example"]) - set(rows["example"]))
            raise InputError(
                f"outcomes lacks example {missing[0]} at layer {layer}, {pooling} "
                f"({len(missing)} in all); every example needs a row, unaffected ones carry "
                "their clean outcome"
            )


def _check_unaffected(table: pd.DataFrame, clean: pd.DataFrame) -> None:
    """Where there is nothing to pool, the outcome is the clean one."""
    what = ["prediction", "correct", "target_rank", "target_logprob"]
    untouched = clean.loc[~clean["affected"], ["example", *what]]
    pairs = table.merge(untouched, on="example", suffixes=("", "_clean"))
    for column in what:
        off = pairs[pairs[column] != pairs[f"{column}_clean"]]
        if len(off):
            row = off.iloc[0]
            raise InputError(
                f"example {row['example']} has no unit of several tokens, yet its {column} at "
                f"layer {row['layer']}, {row['pooling']}, is {row[column]} and not the clean "
                f"{row[f'{column}_clean']}; copy the clean outcome"
            )


def _ranked(name: str, frame: pd.DataFrame, columns: Mapping[str, str]) -> pd.DataFrame:
    """The columns in their types, ranks from 1 on."""
    table = typed(name, frame, columns)
    low = table["target_rank"][table["target_rank"] < 1]
    if len(low):
        raise InputError(
            f"{name}.target_rank is {low.iloc[0]} in row {low.index[0]}; expected "
            "a rank, 1 for the most likely token"
        )
    return table
