"""The tables a similarity sweep hands over, checked before anything is computed from them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd
from jaxtyping import Int

from interp_compose.errors import InputError, LayerError, OptionError
from interp_compose.studies.core.tables import typed

POOLINGS: Final = ("mean", "max", "sum")
CONTROLS: Final = ("last", "first", "shuffled")
NONE: Final = "none"
ALL, MIRROR = "all", "mirror"
FEWEST: Final = 3  # pairs that a correlation needs

COSINE_COLUMNS: Final = {"pair": "int64", "layer": "int64", "pooling": "str", "cosine": "float64"}
PAIR_COLUMNS: Final = {
    "pair": "int64",
    "text1": "str",
    "text2": "str",
    "target": "float64",
    "subset": "str",
    "mirror": "bool",
    "affected": "bool",
    "n_tokens1": "int64",
    "n_tokens2": "int64",
    "n_groups1": "int64",
    "n_groups2": "int64",
}


def controls_of(unit: str) -> tuple[str, ...]:
    """The controls that mean something: a whole text has no other places for its boundaries."""
    return CONTROLS[:2] if unit == "phrase" else CONTROLS


def subsets_of(pairs: pd.DataFrame) -> dict[str, Int[np.ndarray, "_"]]:
    """Rows of ``pairs`` by subset: all of them, the named ones, and the mirror pairs.

    Mirror pairs form a subset where there are three or more and people do not judge them all
    alike; fewer have no correlation.
    """
    rows = np.arange(len(pairs))
    out: dict[str, Any] = {ALL: rows}
    for name in pairs["subset"].unique():
        if name:
            out[str(name)] = rows[(pairs["subset"] == name).to_numpy()]
    mirrors = pairs["mirror"].to_numpy(bool)
    if mirrors.sum() >= FEWEST and pairs.loc[mirrors, "target"].nunique() > 1:
        out[MIRROR] = rows[mirrors]
    return out


def checked_pairs(pairs: pd.DataFrame) -> pd.DataFrame:
    """``pairs`` with its columns typed and ordered, one row per pair, sorted by pair.

    Raises:
        InputError: see :meth:`SimilarityCurve.from_outcomes`.
    """
    table = typed("pairs", pairs, PAIR_COLUMNS)
    if table.empty:
        raise InputError("pairs has no rows; a curve needs at least three pairs")
    doubled = table["pair"][table["pair"].duplicated()]
    if len(doubled):
        raise InputError(f"pairs has pair {doubled.iloc[0]} more than once; expected one row each")
    for name in (ALL, MIRROR):
        if (table["subset"] == name).any():
            raise InputError(
                f"pairs has the subset {name!r}, which is formed here; give it another name"
            )
    return table.sort_values("pair", ignore_index=True)


def checked_cosines(cosines: pd.DataFrame, pairs: pd.DataFrame, *, n_layers: int) -> pd.DataFrame:
    """``cosines`` typed, complete and sorted by pair, layer and pooling.

    Raises:
        InputError, LayerError, OptionError: see :meth:`SimilarityCurve.from_outcomes`.
    """
    table = typed("cosines", cosines, COSINE_COLUMNS)
    names = (*POOLINGS, *CONTROLS, NONE)
    for name in table["pooling"].unique():
        if name not in names:
            raise OptionError(f"cosines has the pooling {name!r}; expected {', '.join(names)}")
    beyond = table["layer"] > n_layers - (table["pooling"] != NONE)
    outside = table["layer"][(table["layer"] < 0) | beyond]
    if len(outside):
        raise LayerError(
            f"cosines has layer {outside.iloc[0]}; expected 0 … {n_layers - 1}, or {n_layers} "
            "with the pooling 'none'"
        )
    beyond_one = table["cosine"][table["cosine"].abs() > 1]
    if len(beyond_one):
        raise InputError(f"cosines has {beyond_one.iloc[0]}; a cosine lies between -1 and 1")
    _check_complete(table, pairs, n_layers)
    _check_unaffected(table, pairs, n_layers)
    order = table["pooling"].map({name: i for i, name in enumerate(names)})
    return table.iloc[np.lexsort((order, table["layer"], table["pair"]))].reset_index(drop=True)


def _check_complete(table: pd.DataFrame, pairs: pd.DataFrame, n_layers: int) -> None:
    """Every pair once in every cell that occurs, and at every layer of the untouched model."""
    doubled = table[table.duplicated(["pair", "layer", "pooling"])]
    if len(doubled):
        pair, layer, pooling = doubled.iloc[0][["pair", "layer", "pooling"]]
        raise InputError(
            f"cosines has pair {pair} at layer {layer}, {pooling}, more than once; expected one "
            "row each"
        )
    unknown = sorted(set(table["pair"]) - set(pairs["pair"]))
    if unknown:
        raise InputError(f"cosines has pair {unknown[0]}, which pairs has not")
    untouched = set(table["layer"][table["pooling"] == NONE])
    if untouched != set(range(n_layers + 1)):
        raise InputError(
            f"cosines has the untouched model at layers {sorted(untouched)}; expected all of "
            f"0 … {n_layers}"
        )
    if (table["pooling"] == NONE).all():
        raise InputError("cosines holds no pooling; a curve needs at least one layer and protocol")
    for (layer, pooling), rows in table.groupby(["layer", "pooling"], sort=True):
        if len(rows) < len(pairs):
            missing = sorted(set(pairs["pair"]) - set(rows["pair"]))
            raise InputError(
                f"cosines lacks pair {missing[0]} at layer {layer}, {pooling} ({len(missing)} in "
                "all); every pair needs a row, unaffected ones carry their clean cosine"
            )


def _check_unaffected(table: pd.DataFrame, pairs: pd.DataFrame, n_layers: int) -> None:
    """Where there is nothing to pool, the cosine is the clean one."""
    plain = set(pairs.loc[~pairs["affected"], "pair"])
    rows = table[table["pair"].isin(plain)]
    untouched = rows[(rows["pooling"] == NONE) & (rows["layer"] == n_layers)]
    clean = rows["pair"].map(untouched.set_index("pair")["cosine"])
    off = rows[(rows["pooling"] != NONE) & (rows["cosine"] != clean)]
    if len(off):
        row = off.iloc[0]
        raise InputError(
            f"pair {row['pair']} has no unit of several tokens, yet its cosine at layer "
            f"{row['layer']}, {row['pooling']}, is {row['cosine']} and not the clean one; copy it"
        )
