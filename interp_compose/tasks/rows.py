"""Rows of a file, each with the number of its line: JSON lines and tab-separated columns.

And what tasks say of rows and files that are not as expected.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from interp_compose.errors import (
    DataFormatError,
    InputError,
    MissingDataError,
    OptionError,
    did_you_mean,
    together,
)
from interp_compose.runs.files import json_value

T = TypeVar("T")


def jsonl_rows(path: Path, *, broken: list[InputError] | None = None) -> Iterator[tuple[int, Any]]:
    """Line numbers and values of a file with one JSON value a line; blank lines are skipped.

    Raises ``MissingDataError`` if there is no such file and ``DataFormatError``, which names the
    line, for one that is not JSON or not UTF-8. With ``broken``, those of lines that are not JSON
    go there instead.
    """
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        try:
            yield number, json_value(line)
        except ValueError as error:
            problem = DataFormatError(
                f"{path}, line {number} is not JSON ({error}): {line[:80]!r}; "
                "write one object a line"
            )
            if broken is None:
                raise problem from error
            broken.append(problem)


def read_all(
    source: str | Path | Iterable[Any],
    read: Callable[[Any, str], T],
    *,
    row: str = "row",
    first: int = 1,
) -> list[T]:
    """What ``read`` makes of each row of a JSONL file, a list or a frame, given how messages name
    it.

    Raises:
        MissingDataError: there is no such file.
        InputError: rows are bad; names the first 20, the line of a file, counted from 1.
    """
    bad: list[InputError] = []
    if isinstance(source, str | Path):
        rows, where = jsonl_rows(Path(source), broken=bad), f"{source}, line"
    else:
        listed = source.to_dict("records") if hasattr(source, "to_dict") else source  # a frame
        rows, where = enumerate(listed, start=first), row
    out = []
    for number, one in rows:
        try:
            out.append(read(one, f"{where} {number}"))
        except InputError as problem:
            bad.append(problem)
    if bad:
        raise together(bad, len(out) + len(bad), f"{row}s", "correct them, or leave them out")
    return out


def tsv_rows(
    path: Path, needed: Sequence[str], *, broken: list[int] | None = None
) -> Iterator[tuple[int, dict[str, str]]]:
    """Line numbers and cells by column of a tab-separated file; the first line names the columns.

    There is no quoting: a quotation mark is a character like any other. Blank lines are skipped.
    Raises ``MissingDataError`` if there is no such file and ``DataFormatError``, which names the
    line, for a header without the ``needed`` columns or a row that does not fit its header; the
    lines of such rows go to ``broken`` instead, where it is given.
    """
    lines = numbered_lines(path)
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
        if len(cells) != len(columns) and broken is not None:
            broken.append(number)
            continue
        if len(cells) != len(columns):
            raise DataFormatError(
                f"{path}, line {number} has {len(cells)} columns where the header has "
                f"{len(columns)}: {line[:80]!r}; put exactly one tab between two columns and "
                "none inside a text"
            )
        yield number, dict(zip(columns, cells, strict=True))
    if number == first:
        raise DataFormatError(f"{path} has a header and no rows; expected one row a line below it")


@dataclass(frozen=True)
class Keys:
    """The keys of a user's row: those that it needs ("score or label": one of them), and others."""

    needed: tuple[str, ...]
    optional: tuple[str, ...]

    def __str__(self) -> str:
        return f"{', '.join(self.needed)} (and, if wanted, {', '.join(self.optional)})"

    def __contains__(self, key: object) -> bool:
        return any(key in one.split(" or ") for one in (*self.needed, *self.optional))

    def check(self, row: Mapping[str, Any], where: str) -> None:
        """``DataFormatError`` for keys of a row that are unknown; names those that it lacks too."""
        unknown = [repr(key) for key in row if key not in self]
        if not unknown:
            return
        lacking = [one for one in self.needed if not {*one.split(" or ")} & {*row}]
        raise DataFormatError(
            f"{where} has the unknown key{'s' * (len(unknown) > 1)} {', '.join(unknown)}"
            f"{' and lacks ' if lacking else ''}{', '.join(lacking)}; the keys (columns) are {self}"
        )

    def check_texts(self, row: Mapping[str, Any], keys: Sequence[str], where: str) -> None:
        """``DataFormatError`` for what is no text at one of these keys."""
        for key in keys:
            if not is_text(row.get(key)):
                names = f". The keys (columns) are {self}" if row.get(key) is None else ""
                raise DataFormatError(
                    f"{where} has {cell(row, key)}; give a text that is not blank{names}"
                )


def mapping_of(row: Any, where: str, expected: str) -> Mapping[str, Any]:
    """A row; ``DataFormatError``, in which ``where`` names it, for anything but a mapping."""
    if isinstance(row, Mapping):
        return row
    raise DataFormatError(f"{where} is {shown(row)}; expected {expected}")


def unknown_task(
    said: str, name: str, known: Sequence[str], keys: Keys, study: str, kinds: Sequence[str]
) -> OptionError:
    """What is said of a name that is none of the ``known`` ones, or of the path of a file that is
    of none of the ``kinds``: how one's own data are loaded.

    Args:
        said: like "task 'x' is".
        study: the call that takes rows of another file, without its data.
    """
    if not (Path(name).suffix or os.path.exists(name)):
        return OptionError(
            f"{said} unknown; choose one of {', '.join(known)}, or give the path of a "
            f"{' or '.join(kinds)} file{did_you_mean(name, known)}"
        )
    return OptionError(
        f"{said} no {' or '.join(kinds)} file, and none of {', '.join(known)}. Rows of your own "
        f"have {keys}: save them as {' or '.join(kinds)}, or read the file and pass its rows to "
        f"the study, as ic.{study}(model, pandas.read_csv(…))"
    )


def check_split(name: str, known: Sequence[str]) -> None:
    """``OptionError`` for the name of a split that no such task has."""
    if name not in known:
        raise OptionError(f"split {name!r} is unknown; choose one of {', '.join(known)}")


def is_text(value: Any) -> bool:
    """Whether a value is a text that is not blank."""
    return isinstance(value, str) and bool(value.strip())


def cell(row: Mapping[str, Any], key: str) -> str:
    """What a row has for a key, as messages say it: ``3 as its score``, or ``no score``."""
    return f"no {key}" if row.get(key) is None else f"{shown(row[key])} as its {key}"


def shown(value: Any) -> str:
    """A value for messages, cut at 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def data_files(
    task: str, data_dir: str | Path | None, names: Sequence[str], *, needs: str, hint: str
) -> list[Path]:
    """The files of a data set; ``MissingDataError``, with the ``hint`` where to get them, if the
    folder is not given or one is not there."""
    if data_dir is None:
        raise MissingDataError(f"task {task!r} needs {needs}: {hint}")
    paths = [Path(data_dir) / name for name in names]
    for path in paths:
        if not path.is_file():
            raise MissingDataError(f"there is no {path}: {hint}")
    return paths


def text_of(path: Path) -> str:
    """A whole file; ``DataFormatError`` for one that is not UTF-8."""
    try:
        return _whole(path).decode("utf-8-sig")
    except ValueError as error:
        raise DataFormatError(f"{path} is not UTF-8 ({error}); save the file as UTF-8") from error


def _whole(path: Path) -> bytes:
    if path.suffix.lower() != ".gz":
        return path.read_bytes()
    try:
        return gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise DataFormatError(f"{path} cannot be unpacked ({error}); get the file again") from error


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Line numbers and lines of a file, which may be packed (``.gz``); blank lines are skipped.

    Raises ``MissingDataError`` if there is no such file and ``DataFormatError`` for one that is
    empty or has a line, which it names, that is not UTF-8.
    """
    if not path.is_file():
        raise MissingDataError(f"there is no file {path}; check the path and its spelling")
    blank = True
    for number, line in enumerate(_whole(path).splitlines(), start=1):
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
