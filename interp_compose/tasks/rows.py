"""Rows as people have them: tables, lists, JSON lines and tab-separated columns; what is bad is
named by the number of its row or line.

And what tasks say of rows and files that are not as expected.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from interp_compose.errors import (
    DataFormatError,
    InputError,
    MissingDataError,
    OptionError,
    did_you_mean,
    together,
)
from interp_compose.runs.files import json_value, read_bytes

T = TypeVar("T")


@runtime_checkable
class Keyed(Protocol):
    """A mapping, or a row of pandas or of a database."""

    def keys(self) -> Any: ...


@runtime_checkable
class Frame(Protocol):
    """A table of pandas, polars, arrow or another library that speaks Arrow's interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


Row = Keyed | Sequence[Any]
"""Values by key, or in the order of the keys."""
Tables = Frame | Mapping[Any, Any]
"""The mapping has columns by name, as the hub's ``data[:9]`` has."""
Source = str | Path | Iterable[Any] | Tables


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
    source: Source,
    read: Callable[[Any, str], T],
    *,
    row: str = "row",
    first: int = 1,
) -> list[T]:
    """What ``read`` makes of each row of a JSONL file, or of what :func:`rows_in` takes, given how
    messages name it.

    Raises:
        MissingDataError: there is no such file.
        InputError: rows are bad; names the first 20, the line of a file, counted from 1.
    """
    bad: list[InputError] = []
    if isinstance(source, str | Path):
        rows, where = jsonl_rows(Path(source), broken=bad), f"{source}, line"
    else:
        rows, where = enumerate(rows_in(source), start=first), row
    out = []
    for number, one in rows:
        try:
            out.append(read(one, f"{where} {number}"))
        except InputError as problem:
            bad.append(problem)
    if bad:
        raise together(bad, len(out) + len(bad), f"{row}s", "correct them, or leave them out")
    return out


def rows_in(data: Iterable[Any] | Tables) -> list[Any]:
    """The rows of a table, of columns by name, or of any iterable, which is read once.

    ``DataFormatError`` for a table in which a name is that of several columns or has levels, and
    for a mapping that is no columns of one length.
    """
    source: Any = data
    if isinstance(source, Mapping):
        columns = [one if hasattr(one, "column_names") else plain(one) for one in source.values()]
        listed = all(isinstance(one, Sequence) and not isinstance(one, str) for one in columns)
        if not listed or len({*map(len, columns)}) != 1:
            raise DataFormatError(
                f"rows are a {type(source).__name__} ({', '.join(map(repr, source))}); expected "
                "a list of rows, a table, or columns of one length: a single row goes into a list, "
                "and of several tables, such as those of a DatasetDict, give one (data['test'])"
            )
        return [dict(zip(source, row, strict=True)) for row in zip(*columns, strict=True)]
    names = getattr(source, "column_names", None) or getattr(source, "columns", ())
    names = [*map(plain, names)] if isinstance(names, Iterable) else []  # or a method
    twice = [name for name in names if names.count(name) > 1]
    if twice or getattr(getattr(source, "columns", None), "nlevels", 1) > 1:
        raise DataFormatError(
            f"the table has {f'several columns named {twice[0]!r}' if twice else 'names in levels'}"
            f": {', '.join(map(repr, names))}; expected names of one level, each once"
        )
    if hasattr(source, "iloc") and hasattr(source, "columns"):  # pandas' and its likes'
        rows: list[Any] = source.to_dict("records")
        return rows
    shown = getattr(source, "format", None)  # the hub's: what it shows of its columns
    if isinstance(shown, Mapping) and "columns" in shown:
        if shown.get("type") == "custom":  # by a transform
            return [dict(row) for row in source]
        source = source.select_columns(shown["columns"])
    for name in ("to_dicts", "to_pylist", "to_list"):  # polars', arrow's, the hub's; and columns
        if hasattr(source, name):
            return [*getattr(source, name)()]
    if isinstance(source, Frame):
        import pyarrow as pa

        return rows_in(pa.table(source))
    return list(source)


def plain(value: Any, depth: int = 9) -> Any:
    """A value, and those in it, in Python's own types, a mapping where fields have names; None for
    NaN, NaT and pandas' NA."""
    names = getattr(getattr(value, "dtype", None), "names", None)  # of numpy's records
    for name in ("as_py", "tolist", "to_list"):  # arrow's; numpy's, pandas', torch's; polars'
        if hasattr(value, name) and not isinstance(value, type):
            with suppress(RuntimeError):  # a tensor without values is refused for what it is
                value = getattr(value, name)()
            break
    if names and isinstance(value, list):
        return [plain(dict(zip(names, one, strict=True)), depth - 1) for one in value]
    if names and isinstance(value, tuple):
        return plain(dict(zip(names, value, strict=True)), depth - 1)
    if hasattr(value, "_asdict") and depth:
        return plain(value._asdict(), depth - 1)
    if isinstance(value, list | tuple) and depth:
        return [plain(one, depth - 1) for one in value]
    nan = isinstance(value, float) and value != value
    return None if nan or type(value).__name__ in ("NAType", "NaTType") else value


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
    """The keys of a user's row: those that it needs ("score or label": one of them), and others;
    all are texts but those of ``no_texts``."""

    needed: tuple[str, ...]
    optional: tuple[str, ...]
    no_texts: tuple[str, ...]

    def __str__(self) -> str:
        return f"{', '.join(self.needed)} (and, if wanted, {', '.join(self.optional)})"

    @property
    def names(self) -> list[str]:
        """All keys, in the order of a row that is a list."""
        return [key for one in (*self.needed, *self.optional) for key in one.split(" or ")]

    def row(self, row: Any, where: str, kind: str) -> dict[str, Any]:
        """What a row has, as plain values, without what means nothing: a mapping or anything
        else with keys, a dataclass's or a named tuple, or a list in the order of the keys.

        ``DataFormatError``, in which ``where`` names it, for anything else, for unknown keys, and
        for what is no text where one is needed.
        """
        if is_dataclass(row) and not isinstance(row, type):
            row = {one.name: getattr(row, one.name) for one in fields(row)}
        elif hasattr(row, "_asdict"):
            row = row._asdict()
        elif hasattr(row, "keys") and not isinstance(row, type):
            keys = [*row.keys()]  # sqlite3's iterates values
            if twice := [key for key in keys if keys.count(key) > 1]:
                raise DataFormatError(
                    f"{where} has the column {twice[0]!r} more than once; keep one of them"
                )
            row = {key: row[key] for key in keys}
        elif isinstance(row := plain(row), list) and len(self.needed) <= len(row) <= len(
            self.names
        ):
            header = all(one in self.names for one in row)
            row = row if header else dict(zip(self.names, row, strict=False))
        if not isinstance(row, dict):
            alone = "; a single row goes into a list" * isinstance(row, str)
            fits = f"{kind}, ({', '.join(self.needed)}) or an object with these"
            raise DataFormatError(f"{where} is {shown(row)}; expected {fits}{alone}")
        if unknown := [key for key in map(plain, row) if key not in self.names]:
            missing = [one for one in self.needed if not {*one.split(" or ")} & {*row}]
            known = [key for one in missing for key in one.split(" or ")] or self.optional
            near = filter(None, (did_you_mean(str(key).casefold(), known) for key in unknown))
            raise DataFormatError(
                f"{where} has the unknown key{'s' * (len(unknown) > 1)} "
                f"{', '.join(map(repr, unknown))}{' and lacks ' if missing else ''}"
                f"{', '.join(missing)}; the keys (columns) are {self}{next(near, '')}"
            )
        given = {k: one for k, value in row.items() if (one := plain(value)) is not None}
        for key in self.names:
            needed, value = key in self.needed, given.get(key, "")
            if not needed and isinstance(value, str) and not value:
                given.pop(key, None)
            elif key not in self.no_texts and not is_text(value):
                remedy = " that is not blank" if needed else ", or leave it out"
                more = "" if key in given else f". The keys (columns) are {self}"
                raise DataFormatError(f"{where} has {cell(given, key)}; give a text{remedy}{more}")
        return given


def mapping_of(row: Any, where: str, expected: str) -> Mapping[str, Any]:
    """A row; ``DataFormatError``, in which ``where`` names it, for anything but a mapping."""
    if isinstance(row, Mapping):
        return row
    raise DataFormatError(f"{where} is {shown(row)}; expected {expected}")


def unknown_task(
    subject: str, name: str, known: Sequence[str], keys: Keys, study: str, kinds: Sequence[str]
) -> OptionError:
    """What is said of a name that is none of the ``known`` ones, or of the path of a file that is
    of none of the ``kinds``: how one's own data are loaded.

    Args:
        subject: like "task 'x' is".
        study: the call that takes rows of another file, without its data.
    """
    if not (Path(name).suffix or os.path.exists(name)):
        return OptionError(
            f"{subject} unknown; choose one of {', '.join(known)}, or give the path of a "
            f"{' or '.join(kinds)} file{did_you_mean(name, known)}"
        )
    return OptionError(
        f"{subject} no {' or '.join(kinds)} file, and none of {', '.join(known)}. Rows of your own "
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
    text = repr(value).replace("\n", " ")
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
    data = read_bytes(path)
    if path.suffix.lower() != ".gz":
        return data
    try:
        return gzip.decompress(data)
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
            text = line.decode("utf-8-sig")  # files put one after another have several marks
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
