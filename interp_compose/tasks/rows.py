"""Rows of a file, each with the number of its line: JSON lines and tab-separated columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from interp_compose.errors import DataFormatError, MissingDataError
from interp_compose.runs.files import json_value


def jsonl_rows(path: Path) -> Iterator[tuple[int, Any]]:
    """Line numbers and values of a file with one JSON value a line; blank lines are skipped.

    Raises ``MissingDataError`` if there is no such file and ``DataFormatError``, which names the
    line, for one that is not JSON or not UTF-8.
    """
    for number, line in _lines(path):
        try:
            yield number, json_value(line)
        except ValueError as error:
            raise DataFormatError(
                f"{path}, line {number} is not JSON ({error}): {line[:80]!r}; "
                "write one object a line"
            ) from error


def tsv_rows(path: Path, needed: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Line numbers and cells by column of a tab-separated file; the first line names the columns.

    There is no quoting: a quotation mark is a character like any other. Blank lines are skipped.
    Raises ``MissingDataError`` if there is no such file and ``DataFormatError``, which names the
    line, for a header without the ``needed`` columns or a row that does not fit its header.
    """
    lines = _lines(path)
    first, header = next(lines)
    columns = header.split("\t")
    for column in needed:
        if columns.count(column) != 1:
            raise DataFormatError(
                f"{path}, line {first} has {columns.count(column)} columns named {column!r}: "
                f"{header[:80]!r}; the first line names the columns, tabs between them, "
                f"and {', '.join(needed)} have to be there once each"
            )
    if len(set(columns)) < len(columns):
        twice = next(column for column in columns if columns.count(column) > 1)
        raise DataFormatError(
            f"{path}, line {first} names the column {twice!r} more than once; keep one of them"
        )
    number = first
    for number, line in lines:
        cells = line.split("\t")
        if len(cells) != len(columns):
            raise DataFormatError(
                f"{path}, line {number} has {len(cells)} columns where the header has "
                f"{len(columns)}: {line[:80]!r}; put exactly one tab between two columns and "
                "none inside a text"
            )
        yield number, dict(zip(columns, cells, strict=True))
    if number == first:
        raise DataFormatError(f"{path} has a header and no rows; expected one row a line below it")


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    if not path.is_file():
        raise MissingDataError(f"there is no file {path}; check the path and its spelling")
    blank = True
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except ValueError as error:
            raise DataFormatError(
                f"{path}, line {number} is not UTF-8 ({error}): {line[:80]!r}; "
                "save the file as UTF-8"
            ) from error
        if text.strip(" "):
            blank = False
            yield number, text
    if blank:
        raise DataFormatError(f"{path} is empty; expected one row a line")
