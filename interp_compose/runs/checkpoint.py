"""How far a training is, on disk: written whole, checked when read, the last two kept.

A checkpoint is one safetensors file, ``step_00000200.<sha256>.safetensors``; nothing is unpickled.
Its note is a tensor of bytes, because a safetensors header holds 100 MB at most and a long history
is more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from interp_compose._versions import environment_versions
from interp_compose.errors import CorruptFileError, warn
from interp_compose.runs.files import json_value, remove, write_safetensors
from interp_compose.runs.folder import hashed
from interp_compose.runs.numbered import NumberedFiles

KEPT = 2
NOTE = "note"
TOGETHER: Final = "checkpoints"


@dataclass(frozen=True)
class Checkpoint:
    """Tensors by name, and the note that is saved with them."""

    step: int
    tensors: Mapping[str, Tensor]
    note: Mapping[str, Any]


class CheckpointFolder(NumberedFiles):
    """The checkpoints of one run, numbered by their steps: see :class:`.NumberedFiles`."""

    kind = "checkpoints"
    pattern = "step_*.safetensors"

    def save(self, step: int, tensors: Mapping[str, Tensor], note: Mapping[str, Any]) -> Path:
        """Write a checkpoint; then all go but the last two.

        Those of the same step or a later one go as well: they are damaged, for a run resumes from
        the newest that is not.

        Raises:
            OutputError: it cannot be written; the earlier ones are intact.
        """
        self.claim()
        written = bytearray(json.dumps(note, allow_nan=False).encode())
        noted = {NOTE: torch.frombuffer(written, dtype=torch.uint8)}
        path, _ = write_safetensors(
            {**tensors, **noted}, self.folder, partial(self.name_of, step), salt=self.salt(step)
        )
        others = [(number, other) for number, other in self.files() if other != path]
        earlier = [other for number, other in others if number < step]
        later = [other for number, other in others if number >= step]
        for old in [*earlier[: 1 - KEPT], *later]:
            remove(old)
        return path

    def latest(self) -> Checkpoint | None:
        """The newest checkpoint that is intact, or None where there is none at all.

        A damaged one is passed over, with a warning, for the one before it. What a save that was
        killed before its end left of older ones goes.

        Raises:
            CorruptFileError: there are checkpoints and all of them are damaged, or nothing says
                whose they are.
            InputError: they belong to another run; the message says what differs.
        """
        files = self.files()
        if files:
            self.check()
        for index in reversed(range(len(files))):
            step, path = files[index]
            if self.is_whole(step, path):
                for _, old in files[: max(0, index + 1 - KEPT)]:
                    remove(old)
                return _read(step, path)
            warn(
                f"{path} was truncated, altered or renamed after it was written; going back to the "
                "checkpoint before it",
            )
        if files:
            raise CorruptFileError(
                f"all {len(files)} checkpoints in {self.folder} are truncated, altered or renamed; "
                "delete the folder to train from the start"
            )
        return None


def _read(step: int, path: Path) -> Checkpoint:
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return Checkpoint(step, tensors, json_value(tensors.pop(NOTE).numpy().tobytes()))
    except (SafetensorError, KeyError, ValueError) as broken:
        raise CorruptFileError(
            f"{path} is no checkpoint of interp_compose ({broken}); move it out of the folder"
        ) from broken


def checkpoints_together(folders: Sequence[Path]) -> CheckpointFolder:
    """The checkpoints of runs that are trained as one program, in the first one's folder.

    They are those of these runs and these versions of packages alone: a run that was stopped and is
    trained together with other runs then begins anew.
    """
    fingerprint = {"folders": [one.name for one in folders], "versions": environment_versions()}
    return CheckpointFolder(folders[0] / TOGETHER / hashed(fingerprint), fingerprint)


def clear_together(folders: Sequence[Path]) -> None:
    """Delete the checkpoints of finished runs, also those they share with other runs."""
    for folder in folders:
        remove(folder / TOGETHER)
