"""Files that are whole or absent, checked when read, and never unpickled; folders that one process
at a time writes to.

Everything is written under a temporary name, ``.interp_compose.<16 hex digits>.tmp``, and renamed.
The file of that name is locked by the process that writes it, and the kernel unlocks it however
that process ends: the next write to the same folder removes those that nobody holds.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from interp_compose.errors import (
    CorruptFileError,
    InputError,
    InterpComposeError,
    MissingDataError,
    OutputError,
    shortened,
)

if TYPE_CHECKING:
    from filelock import BaseFileLock
    from torch import Tensor

ABSENT = object()
TEMPORARY = re.compile(r"\.interp_compose\.[0-9a-f]{16}\.tmp")
LOCK = ".interp_compose.lock"
MANIFEST = "manifest.json"


@contextmanager
def disk(path: str | os.PathLike[str]) -> Iterator[None]:
    """What the system refuses while ``path`` is written to becomes an :class:`.OutputError`."""
    try:
        yield
    except InterpComposeError:
        raise
    except (OSError, ValueError) as refusal:
        if isinstance(refusal, ValueError) and "null" not in str(refusal):
            raise
        why = getattr(refusal, "strerror", None) or str(refusal)
        remedy = "Make room" if not isinstance(refusal, FileExistsError) else "Remove that file"
        raise OutputError(
            f"{named(path)} cannot be written ({why}); what was finished before is "
            f"intact. {remedy} or choose another folder, and run again"
        ) from refusal


def named(path: str | os.PathLike[str]) -> str:
    """A path as a message names it."""
    return shortened(os.fspath(path).replace("\0", "\\0"), 200)


def make_folder(folder: str | os.PathLike[str]) -> Path:
    """The folder, made if needed.

    Raises:
        OutputError: it cannot be made, or is a file.
    """
    with disk(folder):
        Path(folder).mkdir(parents=True, exist_ok=True)
    return Path(folder)


def remove(path: Path) -> None:
    """Delete a file, or a folder with everything in it; a link goes, and not what it leads to."""
    with disk(path):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def remove_if_empty(folder: Path) -> None:
    """Delete a folder in which nothing is left."""
    with disk(folder):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def atomic_write(path: str | os.PathLike[str], data: bytes | Callable[[BinaryIO], object]) -> None:
    """Write ``data`` (bytes, or a function that writes to a binary file) to ``path``, whole.

    A reader sees the old file or the new one: the bytes go to a temporary name next to it, are
    synced to disk, and take the name with ``os.replace``. Parent folders are made.

    Raises:
        OutputError: the disk is full or read-only, or the name cannot be.
    """
    path = Path(path)
    with disk(path), _temporary(make_folder(path.parent)) as (temporary, file):
        if isinstance(data, bytes):
            file.write(data)
        else:
            data(file)
        file.flush()
        os.fsync(file.fileno())
        _rename(temporary, file, path)


def write_safetensors(
    tensors: Mapping[str, Tensor],
    folder: Path,
    name: Callable[[str], str],
    metadata: Mapping[str, str] | None = None,
    salt: bytes = b"",
) -> tuple[Path, str]:
    """Tensors as a safetensors file in ``folder``, whole, named by the SHA-256 of ``salt`` and its
    bytes; both are returned.

    safetensors writes to a temporary file of its own, in whatever folder it is given: it is given
    one inside a folder that goes with the temporary file.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    with disk(folder), _temporary(make_folder(folder)) as (temporary, _):
        inside = _inside(temporary)
        inside.mkdir()
        written = inside / "weights"
        try:
            save_file(dict(tensors), written, metadata=None if metadata is None else dict(metadata))
        except SafetensorError as refusal:  # a full disk, among others
            raise OSError(0, str(refusal)) from refusal
        shutil.copymode(temporary, written)  # safetensors' own is for nobody else to read
        digest = file_sha256(written, salt)
        with open(written, "rb") as file:
            os.fsync(file.fileno())
            _rename(written, file, folder / name(digest))
    return folder / name(digest), digest


@contextmanager
def temporary_folder(parent: Path) -> Iterator[Path]:
    """A folder for what is to be renamed into ``parent`` when it is whole; gone after the block."""
    with disk(parent), _temporary(make_folder(parent)) as (temporary, _):
        _inside(temporary).mkdir()
        yield _inside(temporary)


def remove_stale(folder: Path) -> None:
    """Delete what killed processes left half-written in ``folder``."""
    if sys.platform == "win32" or not folder.is_dir():
        return
    with suppress(OSError), os.scandir(folder) as entries:
        for name in [entry.name for entry in entries if TEMPORARY.fullmatch(entry.name)]:
            lock = None
            with suppress(OutputError):
                lock = lock_file(folder / name)
            if lock is not None:
                shutil.rmtree(_inside(folder / name), ignore_errors=True)
                with suppress(OSError):
                    (folder / name).unlink()
                lock.release()


def check_writable(folder: Path) -> None:
    """Make a file in ``folder`` and delete it again; stale temporary files go.

    Raises:
        OutputError: that cannot be done.
    """
    with disk(folder), _temporary(folder) as (_, file):
        file.write(b"probe")


@contextmanager
def _temporary(folder: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """A new file that this process holds, and that is gone after the block unless renamed."""
    remove_stale(folder)
    while True:
        path = folder / f".interp_compose.{secrets.token_hex(8)}.tmp"
        with open(path, "xb") as file:
            lock = None
            if sys.platform != "win32":
                with suppress(OutputError):  # not every file system can lock
                    lock = lock_file(path)
                    if lock is None:
                        continue  # taken for a stale one before it was locked
            try:
                if not os.fstat(file.fileno()).st_nlink:
                    continue  # and deleted already
                yield path, file
            finally:
                shutil.rmtree(_inside(path), ignore_errors=True)
                with suppress(OSError):
                    path.unlink(missing_ok=True)
                if lock is not None:
                    lock.release()
            return


def _inside(temporary: Path) -> Path:
    return temporary.with_name(f"{temporary.name}.d")


def _rename(temporary: Path, file: BinaryIO, path: Path) -> None:
    if sys.platform == "win32":
        file.close()  # an open file cannot be renamed there
    os.replace(temporary, path)
    if os.name == "posix":  # makes the rename survive a power cut
        with suppress(OSError):
            handle = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


@contextmanager
def locked(folder: str | os.PathLike[str], *, wait: float = 0.0) -> Iterator[None]:
    """The folder, made if needed, is this thread's alone to write to; again inside is no matter.

    The lock is the kernel's: it goes with the process that holds it, however that ends.

    Args:
        wait: seconds for another process to finish.

    Raises:
        OutputError: another process (or thread) has it; or nothing can be written there.
    """
    from filelock import FileLock, Timeout

    path = make_folder(folder).resolve() / LOCK
    with disk(folder):
        lock = FileLock(path, is_singleton=True)
        try:
            lock.acquire(timeout=wait)
        except Timeout as taken:
            raise OutputError(
                f"another process is writing to {named(folder)}; wait until it has ended, or "
                "choose another folder"
            ) from taken
    try:
        yield
    finally:
        if lock.lock_counter == 1:
            with suppress(OSError):
                path.unlink()  # who waits for it sees that it is gone, and makes it anew
        lock.release()


def lock_file(path: Path) -> BaseFileLock | None:
    """The lock of a file, held until it is released or this process ends; None where it is taken,
    by another process or by another caller in this one.

    Raises:
        OutputError: it cannot be made, or the file system cannot lock.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(path, thread_local=False, fallback_to_soft=False)
    with disk(path):
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return None
    return lock


def file_sha256(path: str | os.PathLike[str], salt: bytes = b"") -> str:
    """SHA-256 of ``salt`` and a file's bytes, in hexadecimal; read a mebibyte at a time."""
    digest = hashlib.sha256(salt)
    with reading(path), open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


@contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[None]:
    """What the system refuses while ``path`` is read becomes a :class:`.MissingDataError` or a
    :class:`.CorruptFileError`."""
    try:
        yield
    except InterpComposeError:
        raise
    except FileNotFoundError as absent:
        raise MissingDataError(f"there is no file {named(path)}") from absent
    except OSError as failure:
        raise CorruptFileError(
            f"{named(path)} cannot be read ({failure.strerror}); restore it from a copy, or give "
            "the path of a file that you may read"
        ) from failure


def read_bytes(path: Path) -> bytes:
    """A whole file; raises as :func:`reading`."""
    with reading(path):
        return path.read_bytes()


def read_text(path: Path) -> str:
    """A text in UTF-8.

    Raises:
        CorruptFileError: it is none.
    """
    try:
        return read_bytes(path).decode("utf-8")
    except ValueError as broken:
        raise CorruptFileError(
            f"{path} is not UTF-8 ({broken}); restore it from a copy, or make it anew"
        ) from broken


def json_value(text: str | bytes) -> Any:
    """A JSON value; ValueError also where a key is given twice or nesting is too deep to read."""
    try:
        return json.loads(text, object_pairs_hook=_distinct)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice[:60]!r} is there more than once")
    return value


def plain_json(value: Mapping[str, Any], what: str) -> dict[str, Any]:
    """A copy in JSON's own types, as it will come back from a file."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))  # type: ignore[no-any-return]
    except (TypeError, ValueError, RecursionError) as error:
        shown = repr(dict(value))
        raise InputError(
            f"{what} {shown if len(shown) <= 120 else shown[:117] + '...'} cannot be kept as JSON "
            f"({error}); use strings, finite numbers, booleans, None, lists and dictionaries, e.g. "
            "str(path) for a path"
        ) from error


def json_bytes(value: Any) -> bytes:
    """The one way this module writes JSON, so that equal values are equal bytes."""
    return (json.dumps(value, indent=2, allow_nan=False) + "\n").encode()


def read_json(path: Path, keys: Collection[str] = ()) -> Any:
    """Parse a file of :func:`json_bytes`; any byte that it would not write is damage.

    Args:
        keys: that the value, an object then, has at the least: another file may have been put in
            its place.
    """
    data = read_bytes(path)
    try:
        value = json_value(data)
        intact = json_bytes(value) == data
        intact = intact and (not keys or (isinstance(value, dict) and set(keys) <= set(value)))
    except (ValueError, RecursionError):  # not JSON, not UTF-8, or NaN
        intact = False
    if not intact:
        raise CorruptFileError(
            f"{path} is truncated, or was altered or exchanged after it was written; delete its "
            "folder and run again, or restore it from a copy"
        )
    return value


def differences(before: Any, after: Any, at: str = "") -> str:
    """``seed was 1, is now 2; layers[0] was …``, or an empty string."""
    if isinstance(before, dict) and isinstance(after, dict):
        keys = list(before) + [key for key in after if key not in before]
        parts = [
            differences(before.get(key, ABSENT), after.get(key, ABSENT), f"{at}.{key}".strip("."))
            for key in keys
        ]
        return "; ".join(part for part in parts if part)
    if before == after:
        return ""
    return f"{at} was {_short(before)}, is now {_short(after)}"


def _short(value: Any) -> str:
    text = "absent" if value is ABSENT else json.dumps(value)
    return text if len(text) <= 80 else f"{text[:60]}… ({len(text)} characters)"
