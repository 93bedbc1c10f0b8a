"""A run's result on disk: written whole, checked on load, never unpickled.

A saved result is a folder::

    result.json      the study's name, what was run (config) and with which versions
    <frame>.parquet  each tidy frame, types kept
    <frame>.csv      the same numbers for any other tool
    manifest.json    SHA-256 of every file above, and of figures and whatever else was written

The manifest tells this library's files from all others: what it does not name is never removed or
replaced unless an option says so. It is written twice. While files are being written it says which
("writing"), and the folder holds no result instead of half of one; at the end it is complete.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import pandas as pd
import pyarrow as pa

from interp_compose._public import public
from interp_compose.errors import CorruptFileError, InputError, MissingDataError, shortened
from interp_compose.notebook import block
from interp_compose.runs.checksums import digest_of, listed, verified
from interp_compose.runs.files import (
    MANIFEST,
    atomic_write,
    differences,
    disk,
    file_sha256,
    json_bytes,
    locked,
    named,
    plain_json,
    read_json,
)

FORMAT = "interp_compose.result/1"
RESULT = "result.json"
FRAME_NAME = re.compile(r"[a-z][a-z0-9_]*")
FILE_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9]+)+")
FORMULA = re.compile(r"'*[=+\-@\t\r\n]")
HEAD = ("model", "task")
"""Keys of a config that a head line names."""
LINE = 240
"""Characters of a ``repr``, at most."""
ROWS = 10
"""Rows of a table that a notebook shows."""
WAIT = 20.0
"""Seconds that a save waits for another one in the same folder."""

ResultT = TypeVar("ResultT", bound="Result")


@public
@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """What a study was given, what it found, and what it ran on; base of every study's result.

    Attributes:
        config: what was run (model, task, unit, seed, …), in JSON's types; tuples become lists.
        frames: tidy tables by name (lower case, digits, underscores).
        versions: packages and platform, see :func:`environment_versions`; of runs that were
            gathered, see :func:`gathered_versions`.

    Raises:
        InputError: the config is not JSON, or a frame's or column's name cannot be kept.
    """

    config: Mapping[str, Any]
    frames: Mapping[str, pd.DataFrame]
    versions: Mapping[str, Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "config", plain_json(self.config, "config"))
        object.__setattr__(self, "versions", plain_json(self.versions, "versions"))
        frames = {_checked_name(name): tidy(name, f) for name, f in self.frames.items()}
        object.__setattr__(self, "frames", frames)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {shortened(' '.join(self.head().split()), LINE)}>"

    def _repr_html_(self) -> str:
        first = next(iter(self.frames.values()), pd.DataFrame()).head(ROWS)
        rows = first.to_html(index=False, border=0, max_cols=10, float_format="{:.4g}".format)
        return block(type(self).__name__, self.head(), rows)

    def head(self) -> str:
        """One line: what was run, and how much came out."""
        named = [f"{key} {self.config[key]}" for key in HEAD if self.config.get(key)]
        rows = ", ".join(f"{name}: {len(frame)} rows" for name, frame in self.frames.items())
        return " · ".join([*named, rows])

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the result into ``folder`` (made if needed) and return it.

        A folder that already holds this result (same config, same numbers) is written again, so
        that a repeated or resumed run ends quietly in the same place. One that holds a different
        or a damaged result is refused: hours of work must not vanish because two runs were given
        one name. So are files of the names to be written that no earlier save wrote, or that were
        changed since. Other files are left alone; with ``overwrite``, those of an earlier result
        go.

        Raises:
            InputError: ``folder`` holds another result, or files of these names, and ``overwrite``
                is False; nothing was written.
            OutputError: the folder cannot be written to, or another process is writing there.
        """
        return store(self, folder, overwrite=overwrite)

    @classmethod
    def load(cls: type[ResultT], folder: str | os.PathLike[str]) -> ResultT:
        """Read a saved result and check every file's SHA-256 first.

        Raises:
            MissingDataError: ``folder`` holds no (complete) result.
            CorruptFileError: a file is missing, truncated or altered; the message names it.
            InputError: the folder holds another study's result.
        """
        folder = Path(folder)
        _, contents = _read_checked(folder)
        record = json.loads(contents[RESULT])
        if cls is not Result and record["study"] != cls.__name__:
            raise InputError(
                f"{folder} holds a result of the class {record['study']}, not {cls.__name__}; load "
                "it with ic.load_result"
            )
        frames = {name: read_parquet(contents[f"{name}.parquet"]) for name in record["frames"]}
        return cls(config=record["config"], frames=frames, versions=record["versions"])

    def _record(self) -> dict[str, Any]:
        """What ``result.json`` holds."""
        return {
            "study": type(self).__name__,
            "config": self.config,
            "versions": self.versions,
            "frames": list(self.frames),
        }

    def _files(self) -> dict[str, bytes]:
        """File name -> content, of everything but the manifest."""
        files = {RESULT: json_bytes(self._record())}
        for name, frame in self.frames.items():
            files[f"{name}.parquet"] = parquet_bytes(name, frame)
            files[f"{name}.csv"] = _csv_bytes(frame)
        return files


def store(
    result: Result,
    folder: str | os.PathLike[str],
    others: Mapping[str, bytes | str] | None = None,
    *,
    overwrite: bool = False,
    replaces: bool = False,
) -> Path:
    """:meth:`Result.save`, with files next to the tables that the manifest names as well.

    Args:
        others: their content by name, or the SHA-256 of those that are there already. None: those
            that the manifest names stay where the folder holds this very result, and go otherwise.
        overwrite: replace whatever has the names to be written, and remove what the manifest names.
        replaces: another result of this library may be replaced, but no other file.
    """
    if not os.fspath(folder):
        raise InputError("the folder is an empty text; expected its path ('.' is this folder)")
    folder = Path(folder)
    tables = result._files()
    identity = _identity(tables)
    with locked(folder, wait=WAIT):
        before = listed(folder)
        if not (overwrite or replaces):
            _refuse_other_result(folder, identity, tables)
        if others is None:
            same = _stored_identity(folder) == identity
            others = {n: shas[-1] for n, shas in before.items() if same and n not in tables}
        contents = tables | {name: data for name, data in others.items() if isinstance(data, bytes)}
        digests = {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()}
        digests |= {name: sha for name, sha in others.items() if isinstance(sha, str)}
        new = {name: digests[name] for name in contents}
        check_names(folder, new, overwrite=overwrite)
        known = {name: sorted({*before.get(name, ()), sha}) for name, sha in digests.items()}
        writing = {"format": FORMAT, "writing": {**before, **known}}
        atomic_write(folder / MANIFEST, json_bytes(writing))
        with disk(folder):
            for name in before.keys() - digests.keys():
                if overwrite or _is_listed(folder / name, before[name]):
                    (folder / name).unlink(missing_ok=True)
        for name, data in contents.items():
            if not _is_listed(folder / name, [digests[name]]):  # else it is there already
                atomic_write(folder / name, data)
        manifest = {"format": FORMAT, "identity": identity, "files": digests}
        atomic_write(folder / MANIFEST, json_bytes(manifest))
    return folder


def check_names(folder: Path, names: Iterable[str] | Mapping[str, str], *, overwrite: bool) -> None:
    """Refuse files that are there under these names and that this library did not write.

    Args:
        names: of what is to be written; with its SHA-256 where that is known already, for a file
            that would not change is no loss.

    Raises:
        InputError: names the files.
    """
    known = listed(folder)
    new = names if isinstance(names, Mapping) else {}
    folders = [name for name in names if (folder / name).is_dir()]
    if folders:
        raise InputError(
            f"{named(folder / folders[0])} is a folder, and a file of this name is to be "
            "written; choose another folder"
        )
    if overwrite:
        return
    there = [name for name in names if os.path.lexists(folder / name)]
    mine = [n for n in there if not _is_listed(folder / n, [*known.get(n, ()), new.get(n, "")])]
    if mine:
        raise InputError(
            f"{named(folder)} has {', '.join(mine[:6])}{', …' if len(mine) > 6 else ''}, which "
            "no run of interp_compose wrote there, or which changed since; choose another folder, "
            "or pass overwrite=True (--overwrite) to replace them"
        )


def _is_listed(path: Path, digests: Sequence[str]) -> bool:
    return path.is_file() and file_sha256(path) in digests


def _csv_bytes(frame: pd.DataFrame) -> bytes:
    """The table as a CSV; what a spreadsheet would run as a formula has an apostrophe before it."""
    safe = frame.copy(deep=False)
    quoting: Literal[0, 2] = csv.QUOTE_MINIMAL
    for name in frame.columns:
        column = frame[name]
        if column.dtype.kind in "biufcmM":
            continue
        if any(map(_is_formula, column)):
            cells = [f"'{cell}" if _is_formula(cell) else cell for cell in column]
            safe[name] = pd.Series(cells, dtype=object)
        if any("\r" in cell for cell in column if isinstance(cell, str)):
            quoting = csv.QUOTE_NONNUMERIC  # else it would end a row for those who read it
    safe.columns = pd.Index([f"'{name}" if _is_formula(name) else name for name in frame.columns])
    return safe.to_csv(index=False, lineterminator="\n", quoting=quoting).encode()


def _is_formula(cell: object) -> bool:
    return isinstance(cell, str) and FORMULA.match(cell) is not None


def _checked_name(name: str) -> str:
    if not FRAME_NAME.fullmatch(name):
        raise InputError(
            f"a frame is called {name!r}; its name becomes a file's, so it must be lower-case "
            "letters, digits and underscores, e.g. 'outcomes'"
        )
    return name


def tidy(name: str, frame: pd.DataFrame) -> pd.DataFrame:
    """A copy with a plain 0 … n-1 index and columns named by distinct strings."""
    if any(level is not None for level in frame.index.names):
        raise InputError(
            f"{name} has an index named {list(frame.index.names)}, which a tidy table has as "
            "columns; call .reset_index() first"
        )
    columns = list(frame.columns)
    if not all(isinstance(c, str) for c in columns) or len(set(columns)) < len(columns):
        raise InputError(f"{name} has the columns {columns}; each needs a name (str) of its own")
    tidy = frame.reset_index(drop=True)
    tidy.attrs = {}
    return tidy


def _identity(files: Mapping[str, bytes]) -> str:
    """SHA-256 over study, config and numbers: what makes two results the same result.

    Versions are left out (the same numbers on another machine are the same result), and so is
    Parquet, whose bytes depend on the library that wrote them; the CSVs hold the same numbers.
    """
    record = json.loads(files[RESULT])
    numbers = {name: hashlib.sha256(files[f"{name}.csv"]).hexdigest() for name in record["frames"]}
    return digest_of([record["study"], record["config"], numbers])


def _stored_identity(folder: Path) -> str | None:
    try:
        return str(_read_manifest(folder)["identity"])
    except (MissingDataError, CorruptFileError):
        return None


def _refuse_other_result(folder: Path, identity: str, files: Mapping[str, bytes]) -> None:
    remedy = "choose another folder, or pass overwrite=True to replace it"
    try:
        old, contents = _read_checked(folder)
    except MissingDataError:
        return
    except CorruptFileError as error:
        raise InputError(f"{folder} holds a damaged result ({error}); {remedy}") from error
    if old["identity"] == identity:
        return
    before, after = json.loads(contents[RESULT]), json.loads(files[RESULT])
    what = ("study", "config")
    changed = differences({k: before[k] for k in what}, {k: after[k] for k in what})
    changed = changed or (
        "the same config gave other numbers (their last digits may differ between thread counts, "
        "devices and versions)"
    )
    raise InputError(f"{folder} already holds a different result: {changed}; {remedy}")


def _altered(folder: Path) -> CorruptFileError:
    return CorruptFileError(
        f"{folder / MANIFEST} is not a manifest in the format {FORMAT!r}: it was altered, or "
        "written by another version of interp_compose; run the study again"
    )


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    if not folder.is_dir():
        raise MissingDataError(f"{folder} holds no result: there is no such folder")
    try:
        manifest = read_json(path) if path.exists() else {"format": FORMAT, "writing": {}}
    except CorruptFileError as damage:
        raise CorruptFileError(
            f"{path} is truncated or was altered after it was written; run again with overwrite "
            "(--overwrite): what else the folder holds, such as finished runs, stays"
        ) from damage
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise _altered(folder)
    if set(manifest) == {"format", "writing"}:
        below = sorted(one.parent.name for one in folder.glob(f"*/{MANIFEST}"))
        inside = f"; folders in it that do: {', '.join(below[:5])}" if below else ""
        raise MissingDataError(
            f"{folder} holds no result: {MANIFEST} is not there or not complete (never written, or "
            f"the writing was interrupted){inside or '; run the study again'}"
        )
    if set(manifest) != {"format", "identity", "files"} or not isinstance(manifest["files"], dict):
        raise _altered(folder)
    if RESULT not in manifest["files"] or not all(map(FILE_NAME.fullmatch, manifest["files"])):
        raise _altered(folder)
    return manifest


def _read_checked(folder: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The manifest, and the content of every table's file, each checked."""
    manifest = _read_manifest(folder)
    files = manifest["files"]
    contents = {RESULT: verified(folder / RESULT, files[RESULT])}
    frames = json.loads(contents[RESULT])["frames"]
    tables = [f"{name}.{kind}" for name in frames for kind in ("csv", "parquet")]
    if not set(tables) <= set(files):
        raise _altered(folder)
    contents |= {name: verified(folder / name, files[name]) for name in tables}
    if _identity(contents) != manifest["identity"]:
        raise _altered(folder)
    return manifest, contents


def parquet_bytes(name: str, frame: pd.DataFrame) -> bytes:
    buffer = io.BytesIO()
    try:
        frame.to_parquet(buffer, engine="pyarrow", index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise InputError(
            f"{name} cannot be kept as Parquet ({error}); give each column values of one type"
        ) from error
    return buffer.getvalue()


def read_parquet(data: bytes) -> pd.DataFrame:
    return pd.read_parquet(io.BytesIO(data), engine="pyarrow")
