"""Files that are whole or absent, checked when read, and never unpickled."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from interp_compose.errors import CorruptFileError, InputError

ABSENT = object()


def atomic_write(path: str | os.PathLike[str], data: bytes | Callable[[BinaryIO], object]) -> None:
    """Write ``data`` (bytes, or a function that writes to a binary file) to ``path``, whole.

    A reader sees the old file or the new one: the bytes go to a temporary name beside it, are
    synced to disk, and take the name with ``os.replace``. Parent folders are made.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as file:
            if isinstance(data, bytes):
                file.write(data)
            else:
                data(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def file_sha256(path: str | os.PathLike[str]) -> str:
    """SHA-256 of a file's bytes, in hexadecimal; read a mebibyte at a time."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def verified(path: Path, sha256: str) -> bytes:
    """A file's bytes, whose checksum is the one expected."""
    if not path.exists():
        raise CorruptFileError(f"{path} is missing; run again, or restore it from a copy")
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != sha256:
        raise CorruptFileError(
            f"{path} ({len(data)} bytes) is truncated or was altered after it was written: its "
            "SHA-256 is not the one on record; run again, or restore it from a copy"
        )
    return data


def plain_json(value: Mapping[str, Any], what: str) -> dict[str, Any]:
    """A copy in JSON's own types, as it will come back from a file."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))  # type: ignore[no-any-return]
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{what} {dict(value)!r} cannot be kept as JSON ({error}); use strings, finite "
            "numbers, booleans, None, lists and dictionaries, e.g. str(path) for a path"
        ) from error


def json_bytes(value: Any) -> bytes:
    """The one way this module writes JSON, so that equal values are equal bytes."""
    return (json.dumps(value, indent=2, allow_nan=False) + "\n").encode()


def read_json(path: Path) -> Any:
    """Parse a file of :func:`json_bytes`; any byte that it would not write is damage."""
    data = path.read_bytes()
    try:
        value = json.loads(data)
        intact = json_bytes(value) == data
    except ValueError:  # not JSON, not UTF-8, or NaN
        intact = False
    if not intact:
        raise CorruptFileError(
            f"{path} is truncated or was altered after it was written; delete its folder and run "
            "again, or restore it from a copy"
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
