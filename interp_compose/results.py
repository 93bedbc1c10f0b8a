"""A run's result on disk: written whole, checked on load, never unpickled.

A saved result is a folder::

    result.json      the study's name, what was run (config) and with which versions
    <frame>.parquet  each tidy frame, types kept
    <frame>.csv      the same numbers for any other tool
    manifest.json    SHA-256 of every file above; written last

The manifest is written last, and taken away first when a result is replaced, so that a folder
whose writing was interrupted holds no result instead of half of one.

:class:`BatchStore` is the folder of finished batches from which an interrupted run resumes.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
import pyarrow as pa

from interp_compose._files import (
    atomic_write,
    differences,
    file_sha256,
    json_bytes,
    plain_json,
    read_json,
    verified,
)
from interp_compose._public import public
from interp_compose.errors import CorruptFileError, InputError, MissingDataError

__all__ = ["BatchStore", "Result", "atomic_write", "environment_versions", "file_sha256"]

FORMAT = "interp_compose.result/1"
MANIFEST = "manifest.json"
RESULT = "result.json"
FINGERPRINT = "fingerprint.json"
FRAME_NAME = re.compile(r"[a-z][a-z0-9_]*")
FILE_NAME = re.compile(r"[a-z][a-z0-9_]*\.(json|csv|parquet)")
SHARD_NAME = re.compile(r"[0-9]{6,}\.[0-9a-f]{64}\.parquet")
PACKAGES = ("interp_compose", "torch", "transformers", "transformer_lens")

ResultT = TypeVar("ResultT", bound="Result")


@public
@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """What a study was asked, what it found, and what it ran on; base of every study's result.

    Attributes:
        config: what was run (model, task, unit, seed, …), in JSON's types; tuples become lists.
        frames: tidy tables by name (lower case, digits, underscores).
        versions: packages and platform, see :func:`environment_versions`.

    Raises:
        InputError: the config is not JSON, or a frame's or column's name cannot be kept.
    """

    config: Mapping[str, Any]
    frames: Mapping[str, pd.DataFrame]
    versions: Mapping[str, str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "config", plain_json(self.config, "config"))
        object.__setattr__(self, "versions", plain_json(self.versions, "versions"))
        frames = {_checked_name(name): _tidy(name, f) for name, f in self.frames.items()}
        object.__setattr__(self, "frames", frames)

    def __repr__(self) -> str:
        rows = ", ".join(f"{name}: {len(frame)} rows" for name, frame in self.frames.items())
        return f"<{type(self).__name__} {self.config}; {rows}>"

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the result into ``folder`` (made if needed) and return it.

        A folder that already holds this result (same config, same numbers) is written again, so
        that a repeated or resumed run ends quietly in the same place. One that holds a different
        or a damaged result is refused: hours of work must not vanish because two runs were given
        one name. Files that are not a result's are left alone.

        Raises:
            InputError: ``folder`` holds another result and ``overwrite`` is False.
        """
        folder = Path(folder)
        files = self._files()
        identity = _identity(files)
        if not overwrite:
            _refuse_other_result(folder, identity, files)
        (folder / MANIFEST).unlink(missing_ok=True)
        for name, data in files.items():
            atomic_write(folder / name, data)
        hashes = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
        manifest = {"format": FORMAT, "identity": identity, "files": hashes}
        atomic_write(folder / MANIFEST, json_bytes(manifest))
        return folder

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
        about = json.loads(contents[RESULT])
        if cls is not Result and about["study"] != cls.__name__:
            raise InputError(
                f"{folder} holds a {about['study']}, not a {cls.__name__}; "
                f"load it with {about['study']}.load, or with Result.load for the bare tables"
            )
        frames = {name: _read_parquet(contents[f"{name}.parquet"]) for name in about["frames"]}
        return cls(config=about["config"], frames=frames, versions=about["versions"])

    def _files(self) -> dict[str, bytes]:
        """File name -> content, of everything but the manifest."""
        about = {
            "study": type(self).__name__,
            "config": self.config,
            "versions": self.versions,
            "frames": list(self.frames),
        }
        files = {RESULT: json_bytes(about)}
        for name, frame in self.frames.items():
            files[f"{name}.parquet"] = _parquet_bytes(name, frame)
            files[f"{name}.csv"] = frame.to_csv(index=False, lineterminator="\n").encode()
        return files


def environment_versions() -> dict[str, str]:
    """Versions of the packages that decide the numbers, of Python, and the platform's name.

    Nothing is imported for it; a package that is not installed is ``"not installed"``.
    """
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return versions | {"python": platform.python_version(), "platform": platform.platform()}


class BatchStore:
    """Finished batches of one run, on disk, so that an interrupted run resumes where it stopped.

    ``fingerprint`` says what is computed (config, data), in JSON's types; the folder remembers
    it. Each batch is one Parquet file whose name carries the SHA-256 of fingerprint and
    bytes: content and checksum appear in one rename, and a damaged batch, or one that another run
    wrote here meanwhile, does not match its name, so that it counts as not done and is computed
    again. With ``replace``, batches of another run are deleted.

    Raises:
        InputError: the folder holds batches of another run; the message says what differs.
        CorruptFileError: the folder's fingerprint cannot be read.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        fingerprint: Mapping[str, Any],
        *,
        replace: bool = False,
    ) -> None:
        self.folder = Path(folder)
        mine = plain_json(fingerprint, "fingerprint")
        self._salt = _digest(mine).encode()
        path = self.folder / FINGERPRINT
        if path.exists() and (replace or not self._shards()) and _read_fingerprint(path) != mine:
            self.clear()
        if not path.exists():
            if self._shards():
                raise CorruptFileError(
                    f"{path} is missing, so nobody knows which run the batches beside it belong "
                    "to; delete the folder to start afresh"
                )
            atomic_write(path, json_bytes({"sha256": _digest(mine), "fingerprint": mine}))
            return
        theirs = _read_fingerprint(path)
        if theirs != mine:
            raise InputError(
                f"{self.folder} holds batches of a different run: {differences(theirs, mine)}. "
                "Run with the earlier settings to resume it, choose another folder, or start "
                "afresh: delete this one, or on the command line --overwrite it"
            )

    def done(self) -> set[int]:
        """Indices of the batches that are there and whose checksum holds."""
        return {index for index, path in self._shards() if self._is_whole(path)}

    def put(self, index: int, frame: pd.DataFrame) -> None:
        """Store batch ``index``; an earlier one of the same index is replaced."""
        if index < 0:
            raise InputError(f"a batch's index is {index}; it counts from 0")
        data = _parquet_bytes(f"batch {index}", _tidy(f"batch {index}", frame))
        name = f"{index:06d}.{self._sha256(data)}.parquet"
        atomic_write(self.folder / name, data)
        for other, path in self._shards():
            if other == index and path.name != name:
                path.unlink()

    def get(self, index: int) -> pd.DataFrame:
        """Batch ``index``, one of :meth:`done`.

        Raises:
            InputError: there is no such batch.
            CorruptFileError: it is truncated or altered.
        """
        paths = [path for other, path in self._shards() if other == index]
        if not paths:
            there = sorted({other for other, _ in self._shards()})
            raise InputError(f"batch {index} is not in {self.folder}, which holds {there}")
        # two files only if a replacement was interrupted: then an intact one is as good
        intact = [path for path in paths if self._is_whole(path)]
        if not intact:
            raise CorruptFileError(
                f"{paths[0]} was truncated or altered, or is another run's; run again, and it is "
                "computed anew"
            )
        return _read_parquet(intact[0].read_bytes())

    def clear(self) -> None:
        """Delete the batches and the fingerprint, and the folder if nothing else is in it."""
        half_written = self.folder.glob(".*.parquet.*.tmp")  # of a process that was killed
        for path in [path for _, path in self._shards()] + list(half_written):
            path.unlink()
        (self.folder / FINGERPRINT).unlink(missing_ok=True)
        if self.folder.exists() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _sha256(self, data: bytes) -> str:
        """Of a batch and of the run that it belongs to: no other run takes it for its own."""
        return hashlib.sha256(self._salt + data).hexdigest()

    def _is_whole(self, path: Path) -> bool:
        return self._sha256(path.read_bytes()) == path.name.split(".")[1]

    def _shards(self) -> list[tuple[int, Path]]:
        paths = (path for path in self.folder.glob("*.parquet") if SHARD_NAME.fullmatch(path.name))
        return sorted((int(path.name.split(".")[0]), path) for path in paths)


def _read_fingerprint(path: Path) -> Any:
    stored = read_json(path)
    if not isinstance(stored, dict) or stored.get("sha256") != _digest(stored.get("fingerprint")):
        raise CorruptFileError(
            f"{path} was altered after it was written; delete its folder to start afresh"
        )
    return stored["fingerprint"]


def _digest(value: Any) -> str:
    """SHA-256 of a JSON value, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _checked_name(name: str) -> str:
    if not FRAME_NAME.fullmatch(name):
        raise InputError(
            f"a frame is called {name!r}; its name becomes a file's, so it must be lower-case "
            "letters, digits and underscores, e.g. 'outcomes'"
        )
    return name


def _tidy(name: str, frame: pd.DataFrame) -> pd.DataFrame:
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
    about = json.loads(files[RESULT])
    numbers = {name: hashlib.sha256(files[f"{name}.csv"]).hexdigest() for name in about["frames"]}
    return _digest([about["study"], about["config"], numbers])


def _refuse_other_result(folder: Path, identity: str, files: Mapping[str, bytes]) -> None:
    if not (folder / MANIFEST).exists():
        return
    remedy = "choose another folder, or pass overwrite=True to replace it"
    try:
        old, contents = _read_checked(folder)
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


def _read_checked(folder: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The manifest, and the content of every file it lists, each checked."""
    path = folder / MANIFEST
    if not path.exists():
        raise MissingDataError(
            f"{folder} holds no result: {MANIFEST} is not there (never written, or the writing "
            "was interrupted); run the study again"
        )
    try:
        manifest = read_json(path)
    except CorruptFileError as damage:
        raise CorruptFileError(
            f"{path} is truncated or was altered after it was written; delete this file alone and "
            "run again: what else the folder holds, such as finished runs, stays"
        ) from damage
    altered = CorruptFileError(
        f"{path} is not a manifest in the format {FORMAT!r}: it was altered, or written by "
        "another version of interp_compose; run the study again"
    )
    if not isinstance(manifest, dict) or set(manifest) != {"format", "identity", "files"}:
        raise altered
    if manifest["format"] != FORMAT or not isinstance(manifest["files"], dict):
        raise altered
    if RESULT not in manifest["files"] or not all(map(FILE_NAME.fullmatch, manifest["files"])):
        raise altered
    contents = {name: verified(folder / name, sha) for name, sha in manifest["files"].items()}
    frames = json.loads(contents[RESULT])["frames"]
    expected = {RESULT} | {f"{name}.{kind}" for name in frames for kind in ("csv", "parquet")}
    if set(contents) != expected or _identity(contents) != manifest["identity"]:
        raise altered
    return manifest, contents


def _parquet_bytes(name: str, frame: pd.DataFrame) -> bytes:
    buffer = io.BytesIO()
    try:
        frame.to_parquet(buffer, engine="pyarrow", index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise InputError(
            f"{name} cannot be kept as Parquet ({error}); give each column values of one type"
        ) from error
    return buffer.getvalue()


def _read_parquet(data: bytes) -> pd.DataFrame:
    return pd.read_parquet(io.BytesIO(data), engine="pyarrow")
