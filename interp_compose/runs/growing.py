"""JSON lines that are appended to while a training goes on, each with a checksum that follows from
the line before it: the history of a training, and what a watcher saw.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from interp_compose.errors import CorruptFileError, OutputError
from interp_compose.runs.files import atomic_write, disk, json_value, named, read_bytes

SEALED: Final = re.compile(rb'(\{.*), "sha256": "([0-9a-f]{16})"\}')
"""A line of :class:`GrowingFile`."""


class GrowingFile:
    """JSON lines, written anew with some rows and appended to as others come. Each has its number
    as ``line`` and, as ``sha256``, the first 16 digits of that of the line before it and itself: a
    line that is altered, deleted, doubled, exchanged or of another file is seen."""

    def __init__(self, path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
        self.path = path
        self._n, self._last, self._size = 0, b"", 0
        atomic_write(path, self._sealed(rows))

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Append rows, in one write.

        Raises:
            OutputError: somebody else has written to the file, or it cannot be written.
        """
        with disk(self.path), open(self.path, "ab") as file:
            if file.tell() != self._size:
                raise OutputError(
                    f"{named(self.path)} was moved, cut or written to since its last row: give "
                    "every run a path of its own"
                )
            file.write(self._sealed(rows))

    def _sealed(self, rows: Iterable[Mapping[str, Any]]) -> bytes:
        lines = []
        for row in rows:
            self._n += 1
            text = json.dumps({**row, "line": self._n}).encode()[:-1]
            self._last = text + b', "sha256": "' + _seal(self._last, text) + b'"}\n'
            lines.append(self._last)
        self._size += sum(map(len, lines))
        return b"".join(lines)


def read_growing(
    path: Path, what: str, columns: Mapping[str, Collection[str] | None]
) -> tuple[list[dict[str, Any]], str]:
    """The rows of a :class:`GrowingFile`, with ``columns`` by their ``table`` (None: any), and a
    note on a last line that is not whole, which is left out; of a file that still grows, too.

    Raises:
        CorruptFileError: a line is not the one that was written; names it.
    """
    *lines, cut = read_bytes(path).split(b"\n")
    rows: list[dict[str, Any]] = []
    before = b""
    for number, line in enumerate(lines, start=1):
        sealed = SEALED.fullmatch(line)
        row = {}
        if sealed and sealed[2] == _seal(before, sealed[1]):
            row = {key: v for key, v in json_value(line).items() if key not in ("line", "sha256")}
        expected = columns.get(row.get("table", ""), ("",)) if row else ("",)
        if expected is not None and {*row} != {"table", *expected}:
            raise CorruptFileError(
                f"{path}, line {number} is not a row of {what} as it was written: "
                f"{line[:60].decode(errors='replace')!r}{'' if sealed else ' has no checksum'}. It "
                "was altered, or lines before it deleted, doubled or exchanged: restore the file, "
                "or move it away and start afresh (pandas.read_json(path, lines=True) reads "
                "unchecked what can be read)"
            )
        rows.append(row)
        before = line + b"\n"
    return rows, f"line {len(lines) + 1}, which is cut, is left out" if cut else ""


def _seal(before: bytes, text: bytes) -> bytes:
    return hashlib.sha256(before + text).hexdigest()[:16].encode()
