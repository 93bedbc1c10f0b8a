"""The file of a watcher: JSONL, appended to as looks come, read while training goes on.

The first line says what is watched; each look is one append of its rows, of which that of the
table "looks" is the last: a look of which a kill has left a part is left out. Lines are numbered
and have checksums, see :class:`.growing.GrowingFile`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from interp_compose.errors import CorruptFileError, InputError
from interp_compose.runs.files import differences
from interp_compose.runs.growing import GrowingFile, read_growing
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
    note: str = ""
    """What was left out when the file was read."""
    _file: GrowingFile | None = None

    @classmethod
    def read(cls, path: Path) -> Rows:
        """A file's rows; a last look that is not whole is left out, and noted.

        Raises:
            CorruptFileError: a line is not the one that a watcher wrote.
        """
        rows, note = read_growing(path, "ic.watch", {"config": None, **COLUMNS})
        tables = [row.pop("table") for row in rows]
        if tables[:1] != ["config"]:
            raise CorruptFileError(f"{path} holds no rows of ic.watch; give another path")
        result, pending = cls(rows[0]), []
        for table, row in zip(tables[1:], rows[1:], strict=True):
            pending.append(row)
            if table == "looks":
                *measured, look = pending
                result.measured += measured
                if result.looks and result.looks[-1]["step"] == look["step"]:
                    result.looks.pop()  # skipped, and then asked for by Watcher.look
                result.looks.append(look)
                pending = []
        rows_of = f"{len(pending)} whole rows of its last look are left out" if pending else ""
        if note or rows_of:
            result.note = f"{path.name}: {'; '.join(filter(None, [note, rows_of]))}"
        return result

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
        if self.path.exists() and self.path.stat().st_size:
            earlier = Rows.read(self.path)
            changes = differences(dict(earlier.config), dict(self.config))
            if changes:
                raise InputError(
                    f"{self.path} holds the rows of another watcher ({changes}), and would be "
                    "written over: move it away, or give another path"
                )
            self.measured = [row for row in earlier.measured if row["step"] < steps]
            self.looks = [row for row in earlier.looks if row["step"] < steps]
        lines = [{"table": "config", **self.config}]
        for look in self.looks:
            lines += _lines([r for r in self.measured if r["step"] == look["step"]], look)
        self._file = GrowingFile(self.path, lines)

    def add(self, measured: Iterable[Row], look: Row) -> None:
        """The rows of a look, or of one that was skipped."""
        measured = [{name: _plain(value) for name, value in row.items()} for row in measured]
        self.measured += measured
        self.looks.append(look)
        if self._file is not None:
            self._file.add(_lines(measured, look))


def _plain(value: Any) -> Any:
    """None for NaN, which JSON has not."""
    return None if isinstance(value, float) and math.isnan(value) else value


def _lines(measured: Iterable[Row], look: Row) -> list[Row]:
    return [*({"table": "measured", **row} for row in measured), {"table": "looks", **look}]
