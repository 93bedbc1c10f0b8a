"""Sequence-to-sequence tasks: pairs of a source and a target, in splits. ``load_sequences``."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from interp_compose._public import public, short
from interp_compose.errors import DataFormatError, InputError, OptionError, did_you_mean
from interp_compose.tasks.shown_task import ShownTask
from interp_compose.tasks.table import names_of, row_of

ALL_KINDS = "all"
"""What results call all kinds of pairs together."""


@public
@dataclass(frozen=True)
class SequencePair:
    """A source and its target; white space separates tokens.

    ``kind`` is the type of generalisation (COGS) or of compound (CoGnition), the number of hops
    (PrOntoQA) or the blocks of the summands (addition), else empty.

    Raises:
        InputError: a source or a target without a token, or with half of a surrogate pair; the kind
            "all", by which results call all kinds together.
    """

    source: str
    target: str
    kind: str = ""

    def __post_init__(self) -> None:
        for side in ("source", "target"):
            text = getattr(self, side)
            if not text or text.isspace():
                raise InputError(f"the {side} of a pair is {text!r}; expected at least one token")
            if not text.isascii() and any("\ud800" <= sign <= "\udfff" for sign in text):
                raise InputError(
                    f"the {side} of a pair, {short(text)}, holds half of a surrogate pair; decode "
                    "the file it came from as UTF-8"
                )
        if self.kind == ALL_KINDS:
            raise InputError(
                f"the kind of a pair is {self.kind!r}, by which results call all kinds together; "
                "give it another name"
            )


@contextmanager
def making_many() -> Iterator[None]:
    """Switch off the collector of cycles, which would go through all pairs again and again while
    they are made; they are in no cycle."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def generated_pair(source: str, target: str, kind: str = "") -> SequencePair:
    """A pair of text that the library itself has put together, without the checks: they take
    longer than a generator does."""
    pair = object.__new__(SequencePair)
    pair.__dict__.update(source=source, target=target, kind=kind)
    return pair


@public
@dataclass(frozen=True, repr=False)
class SequenceTask(ShownTask):
    """Pairs by split: ``"train"`` and the evaluation splits, such as ``"test"`` and ``"gen"``.

    ``report`` counts the pairs and names the sources. Its ``<split>_also_in_train`` is the number
    of pairs of an evaluation split whose source is in the training split as well.

    Raises:
        InputError: no training split, or a split without pairs.
        DataFormatError: sources of an evaluation split are in the training split, and the report
            does not count them (or counts another number).
    """

    name: str
    splits: Mapping[str, tuple[SequencePair, ...]]
    report: Mapping[str, int | str | float]

    def __post_init__(self) -> None:
        if "train" not in self.splits:
            raise InputError(
                f"the task {self.name!r} has the splits {', '.join(self.splits) or '(none)'}; "
                "one of them has to be 'train'"
            )
        for split, pairs in self.splits.items():
            if not pairs:
                raise InputError(f"the split {split!r} of the task {self.name!r} has no pairs")
        for split, repeated in also_in_train(self.splits).items():
            if self.report.get(f"{split}_also_in_train", 0) != len(repeated):
                raise DataFormatError(
                    f"{len(repeated)} of the {len(self.splits[split])} pairs of the split "
                    f"{split!r} of the task {self.name!r} are in the training split too, such as "
                    f"{short(repeated[0].source)}; take them out of one of the two"
                    if repeated
                    else f"the report of the task {self.name!r} counts pairs of the split "
                    f"{split!r} in the training split; there are none"
                )

    def split(self, name: str) -> tuple[SequencePair, ...]:
        """The pairs of one split; ``OptionError`` for a split that the task does not have."""
        if name not in self.splits:
            raise OptionError(
                f"split {name!r} is unknown; the task {self.name!r} has {', '.join(self.splits)}"
            )
        return self.splits[name]


def also_in_train(
    splits: Mapping[str, Sequence[SequencePair]],
) -> dict[str, list[SequencePair]]:
    """For each evaluation split, its pairs whose source has the tokens of one in the training
    split."""
    measured = {split: pairs for split, pairs in splits.items() if split != "train"}
    sources = {" ".join(pair.source.split()) for pairs in measured.values() for pair in pairs}
    both = sources.intersection(" ".join(pair.source.split()) for pair in splits["train"])
    return {
        split: [pair for pair in pairs if both and " ".join(pair.source.split()) in both]
        for split, pairs in measured.items()
    }


def report_of(
    source: str, splits: Mapping[str, Sequence[SequencePair]], *, overlap: bool = False
) -> dict[str, int | str | float]:
    """The source, the pairs of each split, and of each evaluation split those with a token (on the
    same side) that no training pair has; with ``overlap`` also those in the training split."""
    report: dict[str, int | str | float] = {"source": source}
    report.update((f"{split}_all", len(pairs)) for split, pairs in splits.items())
    sources = {token for pair in splits["train"] for token in pair.source.split()}
    targets = {token for pair in splits["train"] for token in pair.target.split()}
    for split, both in also_in_train(splits).items():
        report[f"{split}_with_unseen_tokens"] = sum(
            not sources.issuperset(pair.source.split())
            or not targets.issuperset(pair.target.split())
            for pair in splits[split]
        )
        if overlap:
            report[f"{split}_also_in_train"] = len(both)
    return report


def check_counts(
    data: str, where: object, parts: Mapping[str, Sequence[object]], expected: Mapping[str, int]
) -> None:
    """``DataFormatError`` unless each part of a data set has as many items as are published."""
    for part, number in expected.items():
        n = len(parts[part])
        if n != number:
            raise DataFormatError(
                f"{where}: {part} has {n} examples, and {data}'s has {number}; the files are "
                "incomplete, or those of another data set or version. Get them again"
            )


@public
def load_sequences(
    name: str, *, data_dir: str | Path | None = None, seed: int | None = None
) -> SequenceTask:
    """A sequence-to-sequence task by its name.

    Args:
        name: a split of SCAN (Lake and Baroni 2018), whose commands are generated:
            ``"scan-length"`` (training targets of at most 22 actions; ``"scan-length-26"`` of at
            most 26, and so for every other number), ``"scan-jump"`` and ``"scan-turn-left"`` (the
            primitive alone is a tenth of the training split, as published), ``"scan-simple"``;
            ``"cogs"`` (Kim and Linzen 2020); ``"cfq-mcd1"``, ``"cfq-mcd2"``, ``"cfq-mcd3"``
            (Keysers et al. 2020); ``"cognition"`` (Li et al. 2021); ``"addition"`` and
            ``"addition-reversed"``, each also with the largest number to add, as in
            ``"addition-99"`` (:func:`.addition`, which takes other squares); ``"prontoqa"``,
            ``"prontoqa-1"`` (one hop, and no longer ones; so for every other number up to 7) and
            ``"prontoqa-answers"`` (:func:`.prontoqa`, which takes other numbers).
        data_dir: the folder with the public files. For SCAN only ``"scan-simple"`` needs it, whose
            published split is random; given for another one, the files have to agree with what is
            generated, and their order is kept.
        seed: for ``"scan-simple"`` instead of a folder: a random split of the same sizes, which
            is not the published one.

    Raises:
        OptionError: an unknown name; a seed with a folder, or where nothing is random.
        MissingDataError: the data is not there; says where to get it.
        DataFormatError: a garbled file, which it names, or one of another data set or version.
    """
    row = row_of("sequences", name)
    if row is None:
        names = names_of("sequences")
        raise OptionError(
            f"sequence task {name!r} is unknown; choose one of {', '.join(names)}, "
            "scan-length-26 (or another number of actions), prontoqa-1 (or another number of "
            "hops, up to 7), addition-99 (or another largest number, 2 to 999)"
            f"{did_you_mean(name, names)}"
        )
    if seed is not None and seed < 0:
        raise OptionError(f"seed={seed!r}: expected a whole number, 0 or more")
    if seed is not None and (name != "scan-simple" or data_dir is not None):
        raise OptionError(
            f"seed={seed} has no use for {name!r} with data_dir={data_dir!r}: it draws the split "
            "'scan-simple' where no data_dir is given; leave it out"
        )
    if "data_dir" not in row.takes and data_dir is not None:
        raise OptionError(f"{name!r} is generated; leave data_dir={str(data_dir)!r} out")
    task: SequenceTask = row.load(name=name, data_dir=data_dir, seed=seed)
    return task
