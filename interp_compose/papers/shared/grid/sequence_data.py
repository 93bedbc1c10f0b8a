"""The data of a sweep: pairs as text, kept once beside its runs, and as token ids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from interp_compose.errors import CorruptFileError, InputError
from interp_compose.papers.shared.text.vocabulary import EOS, Vocabulary
from interp_compose.papers.shared.training.sequence_objective import EncodedPair
from interp_compose.runs.checksums import digest_of, read_signed, write_signed
from interp_compose.runs.files import make_folder
from interp_compose.tasks.sequences import SequencePair, SequenceTask

DATA: Final = "data"
"""The folder, beside the runs'."""


class EncodedPairs(Sequence[EncodedPair]):
    """Pairs as token ids, each encoded when it is first asked for: of a million sums a run may
    train on a thousand.

    ``pairs`` are their texts, ``end`` the ids at the end of a source.
    """

    def __init__(
        self,
        pairs: Sequence[SequencePair],
        source: Vocabulary,
        target: Vocabulary,
        end: Sequence[int],
    ) -> None:
        self.pairs, self._source, self._target, self._end = pairs, source, target, list(end)
        self._encoded: dict[int, EncodedPair] = {}

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        if place not in self._encoded:
            pair = self.pairs[place]
            self._encoded[place] = EncodedPair(
                np.array([*self._source.ids(pair.source), *self._end]),
                np.array([*self._target.ids(pair.target), EOS]),
            )
        return self._encoded[place]

    def token_counts(self) -> Iterator[tuple[int, int]]:
        """Of each pair's source and target, their ends included."""
        for pair in self.pairs:
            yield len(pair.source.split()) + len(self._end), len(pair.target.split()) + 1


@dataclass(frozen=True, eq=False)
class SequenceData:
    """A task's splits as token ids.

    With one vocabulary both are the same one. So it is of one sequence, for decoders, whose sources
    have no EOS.
    """

    source: Vocabulary
    target: Vocabulary
    splits: Mapping[str, EncodedPairs]
    kinds: Mapping[str, Sequence[str]]

    @classmethod
    def of(
        cls,
        splits: Mapping[str, Sequence[SequencePair]],
        *,
        one_vocabulary: bool = False,
        one_sequence: bool = False,
    ) -> SequenceData:
        """Vocabularies are those of all splits: some tokens of COGS, such as the largest positions,
        are not in its training split, and are never predicted."""
        everything = [pair for pairs in splits.values() for pair in pairs]
        sides = ([pair.source for pair in everything], [pair.target for pair in everything])
        if one_vocabulary or one_sequence:
            sides = (sides[0] + sides[1],) * 2
        source, target = map(Vocabulary.of, sides)
        end = [] if one_sequence else [EOS]
        encoded = {name: EncodedPairs(pairs, source, target, end) for name, pairs in splits.items()}
        kinds = {name: [pair.kind for pair in pairs] for name, pairs in splits.items()}
        return cls(source, target, encoded, kinds)

    @property
    def longest(self) -> int:
        """Tokens of the longest source or target."""
        return max(max(both) for pairs in self.splits.values() for both in pairs.token_counts())

    @property
    def longest_pair(self) -> int:
        """Tokens of the longest source and target together."""
        return max(sum(both) for pairs in self.splits.values() for both in pairs.token_counts())

    def sample(self, n: int) -> dict[str, list[EncodedPair]]:
        """So many pairs at most of each split, always the same ones."""
        return {name: [self.splits[name][i] for i in at] for name, at in self.places(n).items()}

    def places(self, n: int) -> dict[str, list[int]]:
        """Where the pairs of :meth:`sample` are in their splits."""
        random = np.random.default_rng(0)
        return {
            name: random.permutation(len(pairs))[:n].tolist() for name, pairs in self.splits.items()
        }


def check_measured(task: SequenceTask) -> None:
    """``InputError`` of a task on which nothing is measured."""
    if set(task.splits) == {"train"}:
        raise InputError(
            f"the task {task.name!r} has no split but 'train', on which nothing is measured; add "
            "one, such as 'test'"
        )


def keep(splits: Mapping[str, Sequence[SequencePair]], out: Path) -> str:
    """Write a task's splits into the folder of a sweep, where its runs read them; their digest.

    So a run's configuration holds the data's digest instead of a folder's name, and a job on
    another machine needs the sweep's folder alone.
    """
    texts = plain(splits)
    digest = digest_of(texts)
    path = out / DATA / f"{digest}.json"
    if not path.exists():
        make_folder(path.parent)
        write_signed(path, texts)
    return digest


def plain(splits: Mapping[str, Sequence[SequencePair]]) -> dict[str, list[list[str]]]:
    """In JSON's types."""
    return {
        name: [[pair.source, pair.target, pair.kind] for pair in pairs]
        for name, pairs in splits.items()
    }


@lru_cache(maxsize=2)
def kept(
    out: Path, digest: str, *, one_vocabulary: bool = False, one_sequence: bool = False
) -> SequenceData:
    """The data that :func:`keep` wrote.

    Raises:
        CorruptFileError: they are gone, or were altered.
    """
    path = out / DATA / f"{digest}.json"
    splits = read_signed(path)
    if digest_of(splits) != digest:
        raise CorruptFileError(f"{path} holds other data; delete it, and call the study again")
    return SequenceData.of(
        {name: [SequencePair(*pair) for pair in pairs] for name, pairs in splits.items()},
        one_vocabulary=one_vocabulary,
        one_sequence=one_sequence,
    )
