"""Where a run stands, on disk: written whole, hashed, the last two kept.

A checkpoint is one safetensors file, ``step_00000200.<sha256>.safetensors``: content and checksum
appear in one rename, so that a process killed at any moment leaves the earlier ones untouched. The
note inside says which run it belongs to; nothing is unpickled. It is a tensor of bytes, because a
safetensors header holds 100 MB at most and a long history is more.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from interp_compose.errors import CorruptFileError, InputError
from interp_compose.runs.files import (
    differences,
    file_sha256,
    json_value,
    plain_json,
    remove,
    remove_stale,
    write_safetensors,
)
from interp_compose.runs.folder import hashed
from interp_compose.runs.result import environment_versions

KEPT = 2
ABOUT = "about"
TOGETHER: Final = "checkpoints"
NAME = re.compile(r"step_(\d{8,})\.([0-9a-f]{64})\.safetensors")


@dataclass(frozen=True)
class Checkpoint:
    """Tensors by name, and the note beside them."""

    step: int
    tensors: Mapping[str, Tensor]
    note: Mapping[str, Any]


class CheckpointFolder:
    """The checkpoints of one run; ``fingerprint`` says what is trained, in JSON's types."""

    def __init__(self, folder: str | os.PathLike[str], fingerprint: Mapping[str, Any]) -> None:
        self.folder = Path(folder)
        self.fingerprint = plain_json(fingerprint, "fingerprint")

    def save(self, step: int, tensors: Mapping[str, Tensor], note: Mapping[str, Any]) -> Path:
        """Write a checkpoint; then all go but the last two.

        Those of the same step or a later one go as well: they are damaged, for a run resumes from
        the newest that is not.

        Raises:
            OutputError: it cannot be written; the earlier ones are intact.
        """
        about = {"fingerprint": self.fingerprint, "step": step, "note": note}
        written = bytearray(json.dumps(about, allow_nan=False).encode())
        noted = {ABOUT: torch.frombuffer(written, dtype=torch.uint8)}
        path, _ = write_safetensors({**tensors, **noted}, self.folder, partial(_name, step))
        others = [(at, other) for at, other in self._files() if other != path]
        earlier = [other for at, other in others if at < step]
        later = [other for at, other in others if at >= step]
        for old in [*earlier[: 1 - KEPT], *later]:
            remove(old)
        return path

    def latest(self) -> Checkpoint | None:
        """The newest checkpoint that is intact, or None where there is none at all.

        A damaged one is passed over, with a warning, for the one before it.

        Raises:
            CorruptFileError: there are checkpoints and all of them are damaged.
            InputError: the checkpoint belongs to another run; the message says what differs.
        """
        found = self._files()
        for step, path in reversed(found):
            about: dict[str, Any] = {}
            if file_sha256(path) == path.name.split(".")[1]:
                about, tensors = _read(path)
            if about.get("step") != step:
                what = "renamed" if about else "truncated or altered"
                warnings.warn(
                    f"{path} was {what} after it was written; going back to the checkpoint before "
                    "it",
                    stacklevel=2,
                )
                continue
            theirs = about["fingerprint"]
            if theirs != self.fingerprint:
                raise InputError(
                    f"{self.folder} holds checkpoints of a different run: "
                    f"{differences(theirs, self.fingerprint)}. Train with the earlier settings to "
                    "resume it, choose another folder, or delete this one to start afresh"
                )
            return Checkpoint(step, tensors, about["note"])
        if found:
            raise CorruptFileError(
                f"all {len(found)} checkpoints in {self.folder} are truncated, altered or renamed; "
                "delete the folder to train from the start"
            )
        return None

    def clear(self) -> None:
        """Delete the checkpoints, what a killed process left half-written, and the empty folder."""
        for _, path in self._files():
            remove(path)
        self.sweep()
        if self.folder.exists() and not any(self.folder.iterdir()):
            remove(self.folder)

    def sweep(self) -> None:
        """Delete what a killed process left half-written."""
        remove_stale(self.folder)

    def _files(self) -> list[tuple[int, Path]]:
        """Steps and files, oldest first."""
        named = [(NAME.fullmatch(path.name), path) for path in self.folder.glob("step_*")]
        return sorted((int(match.group(1)), path) for match, path in named if match)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        about: dict[str, Any] = json_value(tensors.pop(ABOUT).numpy().tobytes())
        if not isinstance(about, dict) or set(about) != {"fingerprint", "step", "note"}:
            raise ValueError("its note is another")
        return about, tensors
    except (SafetensorError, KeyError, TypeError, ValueError) as broken:
        raise CorruptFileError(
            f"{path} is no checkpoint of interp_compose ({broken}); move it out of the folder"
        ) from broken


def _name(step: int, sha256: str) -> str:
    return f"step_{step:08d}.{sha256}.safetensors"


def checkpoints_together(folders: Sequence[Path]) -> CheckpointFolder:
    """Of runs that are trained as one program, in the first one's folder.

    They are those of these runs and these versions of packages alone: a run that was stopped and is
    trained together with other runs then begins anew.
    """
    about = {"folders": [folder.name for folder in folders], "versions": environment_versions()}
    return CheckpointFolder(folders[0] / TOGETHER / hashed(about), about)


def clear_together(folders: Sequence[Path]) -> None:
    """Delete the checkpoints of finished runs, also those they share with other runs."""
    for folder in folders:
        remove(folder / TOGETHER)
