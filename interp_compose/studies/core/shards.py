"""One measurement by several processes, on one machine or many: each measures whole batches of the
plan, so that the result is that of a single process, bit for bit.

Process ``i`` of ``n`` measures the batches ``i - 1``, ``i - 1 + n``, … and keeps them below the
output's folder, in ``shards/<i>-of-<n>/``. The one that finds all batches there makes the result.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pandas as pd

from interp_compose.errors import OptionError, OutputError
from interp_compose.runs.batches import BatchStore
from interp_compose.runs.files import locked, remove_if_empty

FOLDER: Final = "shards"


class NotTheLastError(Exception):
    """A shard is measured, and others are not; the text names them. No error of a user's."""


@dataclass(frozen=True)
class Shard:
    """Process ``number`` (1 to ``count``) of ``count``."""

    number: int
    count: int

    @classmethod
    def of(cls, text: str) -> Shard:
        """``"2/8"``.

        Raises:
            OptionError: it is none.
        """
        match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text.strip())
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise OptionError(
                f"shard={text!r}: expected a number and how many there are, 1/8 to 8/8 of eight"
            )
        return cls(int(match[1]), int(match[2]))

    def check(self, n_batches: int) -> None:
        """Refuse more shards than there are batches.

        Raises:
            OptionError: there would be none for some of them.
        """
        if self.count > n_batches:
            raise OptionError(
                f"shard='{self.number}/{self.count}': there are {n_batches} batches, and a shard "
                f"measures whole ones; share them out among {n_batches} at most, or set a smaller "
                "batch_size"
            )

    def batches(self, n_batches: int) -> range:
        """The numbers of those that it measures."""
        return range(self.number - 1, n_batches, self.count)

    def others(self, batches: Iterable[int]) -> str:
        """The shards that measure these batches, as ``"1/8, 3/8"``."""
        numbers = sorted({number % self.count + 1 for number in batches})
        return ", ".join(f"{number}/{self.count}" for number in numbers)

    def folder(self, out: Path) -> Path:
        """Where it keeps them."""
        return out / FOLDER / f"{self.number}-of-{self.count}"


@dataclass(frozen=True)
class Shards:
    """What all shards have kept of one run."""

    stores: tuple[BatchStore, ...]

    @classmethod
    def beside(cls, own: BatchStore, *, replace: bool = False) -> Shards:
        """Those of the run of ``own``, one of them; with ``replace``, what shards of another run
        have kept is deleted.

        Raises:
            InputError: a shard is another run's, with what differs; with ``replace``, only where
                a process is measuring it now.
            CorruptFileError: nothing intact says whose it is.
        """
        folders = sorted(path for path in own.folder.parent.iterdir() if path.is_dir())
        if replace:
            for folder in folders:
                BatchStore.replace_others(folder, own.fingerprint)
        return cls(tuple(BatchStore.of_others(folder, own.fingerprint) for folder in folders))

    def rows(self) -> dict[int, pd.DataFrame]:
        """Of each batch that is there, whole."""
        numbers = sorted({number for store in self.stores for number, _ in store.files()})
        kept = ((number, store.get(number)) for number in numbers for store in self.stores)
        return {number: rows for number, rows in kept if rows is not None}

    def clear(self) -> None:
        """Delete them, and their folders unless a process is there."""
        for store in self.stores:
            store.clear()
            with suppress(OutputError), locked(store.folder):
                pass  # the lock that a killed process left goes with this one
            remove_if_empty(store.folder)
