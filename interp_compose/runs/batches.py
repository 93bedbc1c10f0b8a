"""Work that is done batch by batch, kept on disk as it goes, and resumed where it stopped."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pandas as pd

from interp_compose._versions import environment_versions
from interp_compose.errors import InputError, InterventionError, OptionError, OutputError
from interp_compose.runs.files import atomic_write, locked, remove, remove_if_empty
from interp_compose.runs.numbered import NumberedFiles
from interp_compose.runs.result import parquet_bytes, read_parquet, tidy

REPLACING: Final = 2.0
"""Seconds to wait for a process that is replacing the same batches."""


class BatchStore(NumberedFiles):
    """Finished batches of one run, as Parquet: see :class:`.NumberedFiles`. A damaged batch counts
    as not done, and is computed again.

    Raises:
        InputError, CorruptFileError: as :meth:`.NumberedFiles.claim`.
    """

    kind = "batches"
    pattern = "*.parquet"

    def __init__(
        self,
        folder: str | os.PathLike[str],
        fingerprint: Mapping[str, Any],
        *,
        replace: bool = False,
    ) -> None:
        super().__init__(folder, fingerprint)
        self.claim(replace=replace)

    @classmethod
    def of_others(cls, folder: Path, fingerprint: Mapping[str, Any]) -> BatchStore:
        """Batches that other processes keep in ``folder``, to be read.

        Raises:
            InputError, CorruptFileError: as :meth:`.NumberedFiles.check`.
        """
        store = cls.__new__(cls)
        NumberedFiles.__init__(store, folder, fingerprint)
        store.check()
        return store

    @classmethod
    def replace_others(cls, folder: Path, fingerprint: Mapping[str, Any]) -> None:
        """Delete batches of another run from ``folder``, unless a process is working there."""
        try:
            cls.of_others(folder, fingerprint)
        except InputError:
            with suppress(OutputError), locked(folder, wait=REPLACING):
                cls(folder, fingerprint, replace=True)

    def put(self, number: int, frame: pd.DataFrame) -> None:
        """Store batch ``number``; an earlier one of the same number is replaced."""
        if number < 0:
            raise InputError(f"a batch's index is {number}; it counts from 0")
        data = parquet_bytes(f"batch {number}", tidy(f"batch {number}", frame))
        sha256 = hashlib.sha256(self.salt(number) + data).hexdigest()
        name = self.name_of(number, sha256)
        atomic_write(self.folder / name, data)
        for other, path in self.files():
            if other == number and path.name != name:
                remove(path)

    def get(self, number: int) -> pd.DataFrame | None:
        """Batch ``number``; None where it is not there, truncated, altered or another run's."""
        for other, path in self.files():  # two of one number if a replacement was interrupted
            if other == number and self.is_whole(number, path):
                return read_parquet(path.read_bytes())
        return None


class _NoBatches:
    """Batches that nobody keeps."""

    def get(self, number: int) -> None:
        """None: no batch was kept."""

    def put(self, number: int, frame: pd.DataFrame) -> None:
        """Keep nothing."""


@contextmanager
def kept_batches(
    resume: str | Path | None,
    config: Mapping[str, Any],
    unversioned: Sequence[str],
    *,
    start_afresh: bool,
    is_shard: bool = False,
) -> Iterator[BatchStore | _NoBatches]:
    """The finished batches of a run, kept in the folder ``resume`` under its ``config`` and the
    versions of what computes them, and deleted when the ``with`` block, which makes the result of
    them, has ended well. Those of a shard stay: who has all makes the result.

    Args:
        resume: None: nothing is kept.
        config: of the run.
        unversioned: the model's hooks that no version names (:attr:`.OpenBlocks.unversioned`), and
            functions of the user's.
        start_afresh: whether batches of another run are discarded.

    Raises:
        InterventionError: ``resume`` under such: nobody could tell whether they are those
            under which the stored batches were computed.
    """
    if resume is None:
        yield _NoBatches()
        return
    if unversioned:
        raise InterventionError(
            f"resume={str(resume)!r} under {unversioned[0]!r} ({len(unversioned)} in all): "
            "the name of a hook or function does not tell what it computes, and stored batches "
            "of another one could be mixed in. Name a hook, model.hooks(…, version='strength 3'), "
            "or leave out resume; plain PyTorch hooks, edited attentions and pooling functions of "
            "your own cannot be resumed."
        )
    if Path(resume).is_file() or not str(resume):
        raise OptionError(f"resume={resume!r}: expected a folder for finished batches, or None")
    fingerprint = {**config, "versions": environment_versions()}
    with locked(resume):
        store = BatchStore(resume, fingerprint, replace=start_afresh)
        yield store
        if not is_shard:
            store.clear()
    remove_if_empty(Path(resume))
