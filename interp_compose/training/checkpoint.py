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
import secrets
import shutil
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from interp_compose._files import differences, file_sha256, plain_json
from interp_compose.errors import CorruptFileError, InputError
from interp_compose.training.sweep_folder import hashed

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
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        about = {"fingerprint": self.fingerprint, "step": step, "note": note}
        written = bytearray(json.dumps(about, allow_nan=False).encode())
        noted = {ABOUT: torch.frombuffer(written, dtype=torch.uint8)}
        temporary = self.folder / f".step_{step:08d}.{secrets.token_hex(4)}.tmp"
        try:
            save_file({**tensors, **noted}, temporary)
            with open(temporary, "rb") as file:
                os.fsync(file.fileno())
            path = self.folder / f"step_{step:08d}.{file_sha256(temporary)}.safetensors"
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(self.folder)
        others = [(at, other) for at, other in self._files() if other != path]
        earlier = [other for at, other in others if at < step]
        later = [other for at, other in others if at >= step]
        for old in [*earlier[: 1 - KEPT], *later]:
            old.unlink(missing_ok=True)
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
            if file_sha256(path) != path.name.split(".")[1]:
                warnings.warn(
                    f"{path} was truncated or altered after it was written; going back to the "
                    "checkpoint before it",
                    stacklevel=2,
                )
                continue
            about, tensors = _read(path)
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
                f"all {len(found)} checkpoints in {self.folder} are truncated or altered; delete "
                "the folder to train from the start"
            )
        return None

    def clear(self) -> None:
        """Delete the checkpoints, what a killed process left half-written, and the empty folder."""
        for _, path in self._files():
            path.unlink()
        self.sweep()
        if self.folder.exists() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def sweep(self) -> None:
        """Delete what a killed process left half-written."""
        for path in self.folder.glob(".step_*.tmp"):
            path.unlink(missing_ok=True)

    def _files(self) -> list[tuple[int, Path]]:
        """Steps and files, oldest first."""
        named = [(NAME.fullmatch(path.name), path) for path in self.folder.glob("step_*")]
        return sorted((int(match.group(1)), path) for match, path in named if match)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        about: dict[str, Any] = json.loads(tensors.pop(ABOUT).numpy().tobytes())
        return about, tensors
    except (SafetensorError, KeyError, TypeError, ValueError) as broken:
        raise CorruptFileError(
            f"{path} is no checkpoint of interp_compose ({broken}); move it out of the folder"
        ) from broken


def _sync_folder(folder: Path) -> None:
    """Makes a rename survive a power cut; a folder cannot be synced everywhere."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def checkpoints_together(folders: Sequence[Path]) -> CheckpointFolder:
    """Of runs that learn side by side, in the first one's folder.

    Other company has other checkpoints: a run that was stopped among some, and is started again
    among others, begins anew.
    """
    names = [folder.name for folder in folders]
    return CheckpointFolder(folders[0] / TOGETHER / hashed(names), {"folders": names})


def clear_together(folders: Sequence[Path]) -> None:
    """Delete the checkpoints of runs that are done, and those of any company they were in."""
    for folder in folders:
        if (folder / TOGETHER).is_dir():
            shutil.rmtree(folder / TOGETHER)
