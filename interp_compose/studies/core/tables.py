"""What a table holds, and the one check of frames from a user or from disk."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Final

import numpy as np
import pandas as pd

from interp_compose.errors import InputError, LayerError, OptionError

DTYPES: Final = {"int": "int64", "float": "float64", "bool": "bool", "str": "str"}
IS_OF: Final = {
    "int64": pd.api.types.is_integer_dtype,
    "float64": pd.api.types.is_float_dtype,
    "bool": pd.api.types.is_bool_dtype,
    "str": pd.api.types.is_string_dtype,
}
ERRORS: Final = {"layer": LayerError, "pooling": OptionError}
"""What a value outside the known ones of a column is refused with, where not ``InputError``."""
YOURS: Final = "…"
"""Among the known values of a column, where names of the user's own are: pooling functions."""


@dataclass(frozen=True)
class Table:
    """A table's columns, and what is true of its rows.

    Attributes:
        name: in a result, and in messages.
        definition: like "layer int, text str, loss float null": the columns in order, each with
            its type (int, float, bool, str); numbers of a column that is ``null`` may be NaN.
        key: columns that name a row: no two rows are alike in all of them.
        complete: groups of the key's columns; what occurs of one group has a row with all that
            occurs of the others.
        known: the values that a column may have, in the order of the rows.
        rules: expressions of columns that hold in every row, such as "0 <= right <= n".
        may_be_empty: whether there may be no rows.
    """

    name: str
    definition: str
    key: tuple[str, ...] = ()
    complete: tuple[tuple[str, ...], ...] = ()
    known: Mapping[str, Sequence[str]] = field(default_factory=dict)
    rules: tuple[str, ...] = ()
    may_be_empty: bool = False

    @property
    def columns(self) -> dict[str, str]:
        """The type of each column, as pandas names it."""
        words = [column.split() for column in self.definition.split(",")]
        return {name: DTYPES[kind] for name, kind, *_ in words}

    @property
    def null(self) -> frozenset[str]:
        """The columns whose numbers may be NaN."""
        words = [column.split() for column in self.definition.split(",")]
        return frozenset(name for name, _, *may_lack in words if may_lack == ["null"])

    def of(self, rows: Iterable[Mapping[str, Any]] | pd.DataFrame) -> pd.DataFrame:
        """Rows that the library has made itself, as a frame of these columns; unchecked."""
        rows = rows if isinstance(rows, pd.DataFrame) else list(rows)
        return pd.DataFrame(rows, columns=list(self.columns)).astype(self.columns)

    def check(
        self,
        frame: pd.DataFrame,
        every: Mapping[str, Sequence[Any]] | None = None,
        **known: Sequence[Any],
    ) -> pd.DataFrame:
        """A frame from outside with its columns in order, if it is such a table; nothing is
        coerced.

        Args:
            frame: of a user, or read from disk.
            every: values by column that may occur and, where the column is a group of
                :attr:`complete`, must.
            known: values by column that may occur, besides :attr:`known`.

        Raises:
            InputError: names the table, column and value. :class:`LayerError` of a layer and
                :class:`OptionError` of a pooling that are not among the known ones.
        """
        if frame.empty and self.may_be_empty:
            frame = self.of(())
        elif frame.empty:
            raise InputError(f"{self.name} has no rows; expected at least one")
        frame = self._typed(frame)
        every = every or {}
        for column, values in {**self.known, **known, **every}.items():
            if isinstance(values, range):  # perhaps of more numbers than fit into memory
                is_known = frame[column].between(values.start, values.stop - 1)
            else:
                is_known = frame[column].isin(list(values))
            foreign = frame[column][~is_known]
            if len(foreign):
                raise ERRORS.get(column, InputError)(
                    f"{self.name} has the {column} {foreign.tolist()[0]!r}; "
                    f"expected {_list(values)}"
                )
        for rule in self.rules:
            self._check_rule(frame, rule)
        doubled = frame[frame.duplicated(list(self.key))] if self.key else frame[:0]
        if len(doubled):
            raise InputError(
                f"{self.name} has {_row(doubled[list(self.key)])} more than once; expected one row"
            )
        if self.complete:
            self._check_complete(frame, every)
        return frame

    def ordered(
        self,
        frame: pd.DataFrame,
        every: Mapping[str, Sequence[Any]] | None = None,
        **known: Sequence[Any],
    ) -> pd.DataFrame:
        """:meth:`check`, and its rows in the key's order."""
        checked = self.check(frame, every, **known)
        return checked.sort_values(list(self.key), key=self.place, ignore_index=True)

    def place(self, column: pd.Series) -> pd.Series:
        """What a column is sorted by: itself, or its values' places among the known ones."""
        known = self.known.get(str(column.name))
        if known is None:
            return column
        yours = sorted({*column} - {*known})
        names = [one for name in known for one in (yours if name == YOURS else [name])]
        return column.map({name: i for i, name in enumerate(names)})

    def named_in(self, config: Mapping[str, Any]) -> dict[str, list[str]]:
        """Where the user's own names may be, the known values and those that a config has."""
        named = {}
        for column, known in self.known.items():
            if YOURS in known:
                yours = config.get(column)
                named[column] = [name for name in known if name != YOURS]
                named[column] += yours if isinstance(yours, list | tuple) else []
        return named

    def _typed(self, frame: pd.DataFrame) -> pd.DataFrame:
        columns = self.columns
        if set(frame.columns) != set(columns):
            missing = [name for name in columns if name not in frame.columns]
            foreign = [name for name in frame.columns if name not in columns]
            raise InputError(
                f"{self.name} lacks the columns {missing} and has the foreign columns {foreign}; "
                f"expected {', '.join(columns)}"
            )
        for name, dtype in columns.items():
            column, gaps = frame[name], frame[name].isna()
            may_lack = name in self.null
            if len(column) and not IS_OF[dtype](column) and not (may_lack and gaps.all()):
                raise InputError(
                    f"{self.name}.{name} has the type {column.dtype}; expected {dtype}"
                )
            bad = gaps & (not may_lack)
            if dtype == "float64":
                bad |= np.isinf(column.astype(float))
            if bad.any():
                raise InputError(
                    f"{self.name}.{name} is {column[bad].iloc[0]} in row {int(np.argmax(bad))}; "
                    f"expected a {dtype}"
                )
        return frame[list(columns)].astype(columns).reset_index(drop=True)

    def _check_rule(self, frame: pd.DataFrame, rule: str) -> None:
        bad = ~np.asarray(frame.eval(rule, engine="python"), dtype=bool)
        if bad.any():
            words = re.findall(r"'[^']*'|\w+", rule)
            named = [name for name in self.columns if name in words]
            raise InputError(
                f"{self.name} has {_row(frame.loc[bad, named])} in row {int(np.argmax(bad))}; "
                f"expected {rule}"
            )

    def _check_complete(self, frame: pd.DataFrame, every: Mapping[str, Sequence[Any]]) -> None:
        groups = [
            pd.DataFrame({group[0]: list(every[group[0]])})
            if group[0] in every
            else frame[list(group)].drop_duplicates()
            for group in self.complete
        ]
        if math.prod(map(len, groups)) == len(frame):
            return
        wanted = reduce(lambda some, other: some.merge(other, how="cross"), groups)
        there = wanted.merge(frame[list(self.key)], how="left", indicator="found")
        missing = there.loc[there["found"] == "left_only", list(self.key)]
        raise InputError(
            f"{self.name} has no row for {_row(missing)} ({len(missing)} missing); "
            "expected one for every combination"
        )


def check_same(name: str, frame: pd.DataFrame, reference: pd.DataFrame, key: str, why: str) -> None:
    """Refuse rows whose values are not those of the reference's row with the same key."""
    for column in reference.columns.drop(key):
        wanted = frame[key].map(reference.set_index(key)[column])
        off = wanted.notna() & (frame[column] != wanted)
        if off.any():
            raise InputError(
                f"{name} has {_row(frame.loc[off, [key, 'layer', 'pooling', column]])}, but clean "
                f"has {wanted[off].iloc[0]}; expected the same: {why}"
            )


def _row(rows: pd.DataFrame) -> str:
    """The first of some rows, like "layer 3, pooling mean"."""
    return ", ".join(f"{name} {rows[name].iloc[0]}" for name in rows)


def with_foil(clean: Table, config: Mapping[str, Any]) -> Table:
    """The table of clean outcomes, with the column ``foil`` where a prediction was chosen among an
    example's answer and its foil."""
    if config.get("answers") != "foil":
        return clean
    return replace(clean, definition=f"{clean.definition}, foil str")


def _list(values: Sequence[Any]) -> str:
    if isinstance(values, range):
        return f"{values.start} … {values.stop - 1}"
    more = f", … ({len(values)} in all)" if len(values) > 10 else ""
    return ", ".join(str(value) for value in list(values)[:10]) + more
