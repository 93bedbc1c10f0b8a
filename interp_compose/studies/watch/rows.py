"""The file of a watcher: JSONL, appended to as looks come, read while training goes on.

The first line says what is watched; each look is one append of its rows, of which that of the
table "looks" is the last: a look of which a kill has left a part is left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from interp_compose.errors import CorruptFileError, InputError
from interp_compose.runs.files import append, atomic_write, differences, json_value, read_text
from interp_compose.studies.core.tables import Table

Row = dict[str, Any]
MEASURED: Final = Table(
    "measured",
    "step int, measure str, layer int, of str, value float null, low float null, high float null, "
    "n int",
    key=("step", "measure", "layer", "of"),
    rules=("step >= 0",),
    may_be_empty=True,
)
LOOKS: Final = Table(
    "looks",
    "step int, taken bool, seconds float, training_seconds float, watching_seconds float, "
    "expected float null",
    key=("step",),
    rules=("step >= 0",),
    may_be_empty=True,
)
COLUMNS: Final = {table.name: tuple(table.columns) for table in (MEASURED, LOOKS)}


@dataclass
class Rows:
    """What was measured, and every step at which there was or might have been a look."""

    config: Mapping[str, Any]
    path: Path | None = None
    measured: list[Row] = field(default_factory=list)
    looks: list[Row] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Rows:
        """A file's rows; a last line that is not whole is left out.

        Raises:
            CorruptFileError: a line is not a watcher's.
        """
        found: Rows | None = None
        pending: list[Row] = []
        for number, line in enumerate(read_text(path).split("\n")[:-1], start=1):
            try:
                row = json_value(line)
                table = row.pop("table")
                whole = number > 1 if table in COLUMNS else number == 1 and table == "config"
                whole = whole and (table == "config" or set(row) == set(COLUMNS[table]))
            except (ValueError, KeyError, TypeError, AttributeError):
                whole = False
            if not whole:
                raise CorruptFileError(
                    f"{path}, line {number} is not a row of ic.watch: {line[:80]!r}; the file "
                    "would be written over: move it away, or give another path"
                )
            if table == "config":
                found = cls(row)
            elif table == "measured":
                pending.append(row)
            elif found is not None:
                found.measured += [one for one in pending if one["step"] == row["step"]]
                found.looks.append(row)
                pending = []
        return cls({}) if found is None else found

    def begin(self, steps: int) -> None:
        """Take up the rows of an earlier process of steps below ``steps``, and write the file anew
        with them.

        Raises:
            InputError: the file holds rows of another watcher; it is left as it is.
            CorruptFileError: it holds something else.
        """
        self.measured, self.looks = [], []
        if self.path is None:
            return
        if self.path.exists():
            earlier = Rows.read(self.path)
            told = differences(dict(earlier.config), dict(self.config)) if earlier.config else ""
            if told:
                raise InputError(
                    f"{self.path} holds the rows of another watcher ({told}), and would be written "
                    "over: move it away, or give another path"
                )
            self.measured = [row for row in earlier.measured if row["step"] < steps]
            self.looks = [row for row in earlier.looks if row["step"] < steps]
        lines = _lines("config", [self.config])
        for look in self.looks:
            lines += _lines("measured", [r for r in self.measured if r["step"] == look["step"]])
            lines += _lines("looks", [look])
        atomic_write(self.path, lines.encode())

    def add(self, measured: Iterable[Row], look: Row) -> None:
        """The rows of a look, or of one that was skipped."""
        measured = [{name: _plain(value) for name, value in row.items()} for row in measured]
        self.measured += measured
        self.looks.append(look)
        if self.path is not None:
            append(self.path, _lines("measured", measured) + _lines("looks", [look]))


def _plain(value: Any) -> Any:
    """None for NaN, which JSON has not."""
    return None if isinstance(value, float) and math.isnan(value) else value


def _lines(table: str, rows: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps({"table": table, **row}) + "\n" for row in rows)
