"""COGS: English sentences and their logical forms; one evaluation split by generalisation type.

Kim and Linzen 2020, "COGS: A Compositional Generalization Challenge Based on Semantic
Interpretation" (EMNLP). ``kind`` is the type. Of the training pairs 143 are of kind ``primitive``
(a word alone) and 12 show a word or construction once (``exposure_example_…``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from interp_compose.errors import DataFormatError
from interp_compose.tasks.published import altered, named
from interp_compose.tasks.rows import data_files, numbered_lines
from interp_compose.tasks.sequences import (
    SequencePair,
    SequenceTask,
    check_counts,
    report_of,
)

COUNTS: Final = {"train": 24155, "dev": 3000, "test": 3000, "gen": 21000}


def cogs(data_dir: str | Path | None) -> SequenceTask:
    """The four splits; raises as :func:`.sequences.load_sequences` says."""
    names = [f"{split}.tsv" for split in COUNTS]
    hint = (
        "get the folder data of https://github.com/najoungkim/COGS and pass it, with "
        f"{', '.join(names)}, as data_dir (--data-dir)"
    )
    paths = data_files("cogs", data_dir, names, needs="the data set COGS", hint=hint)
    splits = {split: _read(path) for split, path in zip(COUNTS, paths, strict=True)}
    check_counts("COGS", data_dir, splits, COUNTS)
    kinds = {pair.kind for pair in splits["gen"]}
    if altered("COGS", {"types of gen": kinds}):
        raise DataFormatError(
            f"{data_dir} is not COGS: the types in gen.tsv ({len(kinds)}) are not its 21 types of "
            "generalisation. Get the files again, or make an ic.SequenceTask of them"
        )
    name, source = named("cogs", "COGS", data_dir, splits)
    return SequenceTask(name, splits, report_of(source, splits))


def _read(path: Path) -> tuple[SequencePair, ...]:
    pairs = []
    for number, line in numbered_lines(path):
        cells = line.split("\t")
        if len(cells) != 3 or not all(cell.strip() for cell in cells):
            raise DataFormatError(
                f"{path}, line {number} is not a sentence, a logical form and a type with tabs "
                f"between: {line[:80]!r}. Get the file again"
            )
        pairs.append(SequencePair(*cells))
    return tuple(pairs)
