"""One record of integrity: the SHA-256 of each file, by its name.

Everything that is kept has one. It lies where that kind of folder is looked at first: a result's in
``manifest.json``, a run's in ``DONE``, a model's in ``SHA256SUMS``, that of single weights next to
them (``.sha256``; both as the command ``sha256sum`` writes and checks them), a numbered piece's in
its name, that of a single JSON value in its own file, and that of a line of a file that grows
(:mod:`.growing`) in the line.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from interp_compose.errors import CorruptFileError
from interp_compose.runs.files import (
    MANIFEST,
    atomic_write,
    file_sha256,
    json_bytes,
    read_bytes,
    read_json,
    read_text,
)

SUMS: Final = "SHA256SUMS"
LINE: Final = re.compile(r"^([0-9a-f]{64}) [ *](.+)$", re.MULTILINE)
"""A line of a list that ``sha256sum`` writes; the star is that of its binary mode."""
OTHER: Final = re.compile(r"\s*(#.*)?|([0-9a-fA-F]{64}) [ *](?:\./)?(.+)")
"""A line of somebody else's list: empty, a comment, or a file."""


def digests_of(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """The record of these files in ``folder``."""
    return {name: file_sha256(folder / name) for name in names}


def damage_of(folder: Path, digests: Mapping[str, str]) -> str:
    """The first of these files that is not the one whose SHA-256 is on record, and what is wrong
    with it; an empty text where all are."""
    for name, sha256 in digests.items():
        if not (folder / name).is_file():
            return f"{folder / name} is missing"
        if file_sha256(folder / name) != sha256:
            return f"{folder / name} was truncated or altered"
    return ""


def write_sums(listing: Path, digests: Mapping[str, str]) -> None:
    """A record as the command ``sha256sum`` writes it."""
    atomic_write(listing, _as_sums(digests).encode())


def _as_sums(digests: Mapping[str, str]) -> str:
    return "".join(f"{sha256}  {name}\n" for name, sha256 in digests.items())


def check_sums(listing: Path, names: Collection[str] = ()) -> None:
    """Check all files that a list names, in its folder.

    Args:
        names: of files that it has to name, if it is one of :func:`write_sums`. Without, it may be
            somebody else's, in the format of ``sha256sum``.

    Raises:
        CorruptFileError: there is no such list, it was altered, or a file is missing or altered.
    """
    remedy = "Get or save it again, or restore a copy."
    if not listing.is_file():
        raise CorruptFileError(f"{listing} is missing, which has the checksums. {remedy}")
    text = LINE.sub(r"\1  \2", read_text(listing))
    digests = {name: sha256 for sha256, name in LINE.findall(text)}
    intact = _as_sums(digests) == text and set(names) <= set(digests)
    if not names:
        lines = [OTHER.fullmatch(line) for line in text.splitlines()]
        intact = all(lines)
        digests = {line[3]: line[2].lower() for line in lines if line and line[3]}
    if not intact:
        raise CorruptFileError(f"{listing} is truncated or altered. {remedy}")
    damage = damage_of(listing.parent, digests)
    if damage:
        raise CorruptFileError(f"{damage}: it is not what {listing.name} beside it lists. {remedy}")


def verified(path: Path, sha256: str) -> bytes:
    """A file's bytes, whose checksum is the one expected."""
    if not path.exists():
        raise CorruptFileError(f"{path} is missing; run again, or restore it from a copy")
    data = read_bytes(path)
    if hashlib.sha256(data).hexdigest() != sha256:
        raise CorruptFileError(
            f"{path} ({len(data)} bytes) is truncated or was altered after it was written: its "
            "SHA-256 is not the one on record; run again, or restore it from a copy"
        )
    return data


def listed(folder: Path) -> dict[str, list[str]]:
    """What the manifest in ``folder`` names: the SHA-256 of each file that this library wrote.

    More than one where writing was interrupted: the file is the old one or the new one. Empty
    without a manifest that can be read.
    """
    try:
        manifest = read_json(folder / MANIFEST)
        files = {name: [sha] for name, sha in manifest.get("files", {}).items()}
        files |= {name: list(shas) for name, shas in manifest.get("writing", {}).items()}
    except (OSError, AttributeError, TypeError):
        return {}
    return {name: shas for name, shas in files.items() if Path(name).name == name}


def check_listed(path: Path) -> None:
    """Check a file against the manifest next to it, where that names it.

    Raises:
        CorruptFileError: it is not the file that belongs to the result in its folder.
    """
    known = listed(path.parent).get(path.name)
    if known is not None and path.is_file() and file_sha256(path) not in known:
        raise CorruptFileError(
            f"{path} is not the file that {MANIFEST} beside it names: it was truncated or altered, "
            "or belongs to another run; run again, or restore it from a copy"
        )


def write_signed(path: Path, value: Any) -> None:
    """A JSON value with its SHA-256 in one file; see :func:`read_signed`."""
    atomic_write(path, json_bytes({"sha256": digest_of(value), "value": value}))


def read_signed(path: Path) -> Any:
    """The value that :func:`write_signed` wrote.

    Raises:
        CorruptFileError: the file is missing, or was altered.
    """
    if not path.is_file():
        raise CorruptFileError(f"{path} is missing; run again, or restore it from a copy")
    stored = read_json(path)
    if not isinstance(stored, dict) or stored.get("sha256") != digest_of(stored.get("value")):
        raise CorruptFileError(
            f"{path} was altered after it was written, or by a release before 0.1.0, which alone "
            "reads it; delete its folder to start afresh"
        )
    return stored["value"]


def digest_of(value: Any) -> str:
    """SHA-256 of a JSON value, whatever the order of its keys."""
    text = json.dumps(value, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
