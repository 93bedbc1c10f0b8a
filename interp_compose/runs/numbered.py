"""Finished pieces of one run, numbered: the batches of a study, the checkpoints of a training."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from interp_compose.errors import CorruptFileError, InputError
from interp_compose.runs.checksums import digest_of, read_signed, write_signed
from interp_compose.runs.files import (
    differences,
    file_sha256,
    make_folder,
    plain_json,
    remove,
    remove_if_empty,
    remove_stale,
)

FINGERPRINT = "fingerprint.json"


class NumberedFiles:
    """The folder from which an interrupted run goes on.

    ``fingerprint`` says what is computed (config, data), in JSON's types; the folder remembers it.
    Each piece is one file whose name carries the SHA-256 of fingerprint, number and bytes: content
    and checksum appear in one rename, and a piece that is damaged, that another run wrote, or that
    was renamed to another number does not match its name.
    """

    kind: ClassVar[str]
    """What a message calls the pieces."""
    pattern: ClassVar[str]
    """Glob of the pieces' names: a prefix, and the kind of file."""

    def __init__(self, folder: str | os.PathLike[str], fingerprint: Mapping[str, Any]) -> None:
        self.folder = Path(folder)
        self.fingerprint = plain_json(fingerprint, "fingerprint")

    def claim(self, *, replace: bool = False) -> None:
        """Make the folder this run's; with ``replace``, pieces of another run are deleted.

        Raises:
            InputError, CorruptFileError: as :meth:`check`.
            OutputError: it cannot be written to.
        """
        path = make_folder(self.folder) / FINGERPRINT
        remove_stale(self.folder)
        free = replace or not self.files()
        if free and path.exists() and read_signed(path) != self.fingerprint:
            self.clear()
        self.check()
        if not path.exists():
            write_signed(path, self.fingerprint)

    def check(self) -> None:
        """Refuse pieces that are not this run's.

        Raises:
            InputError: they are another run's; the message says what differs.
            CorruptFileError: nothing intact says whose they are.
        """
        path = self.folder / FINGERPRINT
        if not path.exists():
            if self.files():
                raise CorruptFileError(
                    f"{path} is missing, so the {self.kind} in this folder cannot be matched to "
                    "a run (releases before 0.1.0 wrote none for checkpoints); delete the "
                    "folder to start afresh"
                )
            return
        theirs = read_signed(path)
        if theirs != self.fingerprint:
            raise InputError(
                f"{self.folder} holds {self.kind} of a different run: "
                f"{differences(theirs, self.fingerprint)}. Run with the earlier settings to resume "
                "it, choose another folder, or delete this one to start afresh (on the command "
                "line: --overwrite)"
            )

    def clear(self) -> None:
        """Delete the pieces and the fingerprint, and the folder if nothing else is in it."""
        remove_stale(self.folder)
        for _, path in self.files():
            remove(path)
        remove(self.folder / FINGERPRINT)
        remove_if_empty(self.folder)

    def files(self) -> list[tuple[int, Path]]:
        """Numbers and files, in order."""
        prefix, kind = self.pattern.split("*")
        name = re.compile(rf"{prefix}(\d{{6,}})\.[0-9a-f]{{64}}{re.escape(kind)}")
        named = [(name.fullmatch(path.name), path) for path in self.folder.glob(self.pattern)]
        return sorted((int(match.group(1)), path) for match, path in named if match)

    def name_of(self, number: int, sha256: str) -> str:
        prefix, kind = self.pattern.split("*")
        return f"{prefix}{number:08d}.{sha256}{kind}"

    def salt(self, number: int) -> bytes:
        """What goes before a piece's bytes into its checksum."""
        return f"{digest_of(self.fingerprint)}{number} ".encode()

    def is_whole(self, number: int, path: Path) -> bool:
        """Whether a piece is what was written under this number by this run."""
        return file_sha256(path, self.salt(number)) == path.name.split(".")[1]
