"""Tables of outcomes, checked column by column before anything is computed from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from interp_compose.errors import InputError


def typed(
    name: str, frame: pd.DataFrame, columns: Mapping[str, str], may_lack: Sequence[str] = ()
) -> pd.DataFrame:
    """The columns asked for, in order and in exactly their types; nothing is coerced to fit.

    Numbers of the columns ``may_lack`` may be NaN.
    """
    if set(frame.columns) != set(columns):
        missing = [c for c in columns if c not in frame.columns]
        foreign = [c for c in frame.columns if c not in columns]
        raise InputError(
            f"{name} lacks the columns {missing} and has the foreign columns {foreign}; "
            f"expected {', '.join(columns)}"
        )
    for column, kind in columns.items():
        _check_column(name, frame[column], kind, may_lack=column in may_lack)
    return frame[list(columns)].astype(dict(columns)).reset_index(drop=True)


def _check_column(name: str, column: pd.Series, kind: str, *, may_lack: bool) -> None:
    holds = {
        "int64": pd.api.types.is_integer_dtype(column),
        "float64": pd.api.types.is_float_dtype(column),
        "bool": pd.api.types.is_bool_dtype(column),
        "str": pd.api.types.is_string_dtype(column),
    }[kind]
    if len(column) and not holds:
        raise InputError(f"{name}.{column.name} has the type {column.dtype}; expected {kind}")
    bad = column.isna() & (not may_lack)
    if kind == "float64":
        bad |= np.isinf(column.astype(float))
    if bad.any():
        raise InputError(
            f"{name}.{column.name} is {column[bad].iloc[0]} in row {int(np.argmax(bad))}; "
            f"expected a {kind}"
        )
