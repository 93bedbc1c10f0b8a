"""Pairs of texts that people have judged: a score of relatedness, or a label 0 or 1."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from pathlib import Path
from typing import Any

from interp_compose._public import public
from interp_compose.errors import DataFormatError, OptionError
from interp_compose.tasks.rows import (
    Keys,
    Row,
    Source,
    cell,
    check_split,
    read_all,
    shown,
    tsv_rows,
)
from interp_compose.tasks.shown_task import ShownTask

FILE_KINDS = (".tsv", ".jsonl")
RESERVED_SUBSETS = ("all", "mirror", "same words")  # formed where pairs are measured
SPLITS = ("train", "test")


@public
@dataclass(frozen=True)
class Pair:
    """Two texts and what people say of them: a ``score`` on any scale, or a ``label``.

    ``label`` is 1 for a paraphrase (or a related text) and 0 for none. ``subset`` names a group of
    pairs to be measured on its own; ``tree1`` and ``tree2`` are Penn-style bracketings of the
    texts, from which constituents are read.
    """

    text1: str
    text2: str
    score: float | None = None
    label: int | None = None
    subset: str | None = None
    tree1: str | None = None
    tree2: str | None = None

    @property
    def is_mirror(self) -> bool:
        """Whether one text has the other's words in reverse: "water body" and "body water".

        Words are between white space, and case does not count. A text that reads the same
        both ways ("over and over"), or one word, mirrors nothing.
        """
        words1, words2 = self.text1.casefold().split(), self.text2.casefold().split()
        return words1 == words2[::-1] and words1 != words2


KEYS = Keys(("text1", "text2", "score or label"), ("subset", "tree1", "tree2"), ("score", "label"))
PairRow = Pair | Row
"""What a study takes for a pair; of a list the third is a score."""


@public
@dataclass(frozen=True, repr=False)
class PairTask(ShownTask):
    """Pairs of a data set; ``report`` counts them and names their source."""

    name: str
    train: tuple[Pair, ...]
    test: tuple[Pair, ...]
    report: Mapping[str, int | str | float]

    def _splits(self) -> Mapping[str, Sequence[Pair]]:
        return {name: self.split(name) for name in SPLITS}

    def split(self, name: str) -> tuple[Pair, ...]:
        """The pairs of one split; ``OptionError`` unless it is train or test."""
        check_split(name, SPLITS)
        chosen: tuple[Pair, ...] = getattr(self, name)
        return chosen


@public
def read_pairs(source: Source) -> tuple[Pair, ...]:
    """Pairs from a ``.tsv`` file (with a header), a ``.jsonl`` file, or rows: a list, or a table of
    pandas, polars, arrow or the hub.

    A row has ``text1``, ``text2`` and either ``score``, a finite number, or ``label``, 0 or 1;
    all rows of a list have the same of the two. It may have ``subset``, ``tree1`` and ``tree2``.
    Of a tuple the third is the score. None, NaN and pandas' NA, and an empty cell of a TSV, count
    as absent.

    Raises:
        OptionError: a file that is neither ``.tsv`` nor ``.jsonl``.
        MissingDataError: there is no such file.
        DataFormatError: a bad row, or the same pair twice; names the row (the line of a file;
            counted from 1) and what is wrong with it.
    """
    if isinstance(source, str | Path):
        path = Path(source)
        if path.suffix == ".tsv":
            places = ((f"{path}, line {n}", row) for n, row in tsv_rows(path, ("text1", "text2")))
            numbered = [(where, pair_from_text(row, where)) for where, row in places]
        elif path.suffix == ".jsonl":
            numbered = read_all(path, lambda row, where: (where, read_pair(row, where)))
        else:
            raise OptionError(
                f"{str(path)!r} is no file of pairs; expected one of {', '.join(FILE_KINDS)}"
            )
    else:
        numbered = read_all(source, lambda row, where: (where, read_pair(row, where)))
    pairs = tuple(pair for _, pair in numbered)
    check_pairs(pairs, where=[where for where, _ in numbered])
    return pairs


def check_pairs(pairs: Sequence[Pair], *, where: Sequence[str]) -> None:
    """What holds between the pairs of a list: some are there, of one kind, and none twice.

    ``where`` names every pair in the ``DataFormatError``. "B A" after "A B" is another pair.
    """
    if not pairs:
        raise DataFormatError(
            "the list of pairs is empty; expected rows like "
            '{"text1": "water body", "text2": "body water", "score": 0.4}'
        )
    kinds = ["label" if pair.score is None else "score" for pair in pairs]
    seen: dict[tuple[str, str], str] = {}
    for pair, kind, place in zip(pairs, kinds, where, strict=True):
        if kind != kinds[0]:
            raise DataFormatError(
                f"{place} has a {kind} where {where[0]} has a {kinds[0]}; all pairs of a list "
                "need the same of the two: read them as two lists"
            )
        texts = (pair.text1, pair.text2)
        if texts in seen:
            raise DataFormatError(
                f"{place} repeats {seen[texts]}: {shown(pair.text1)} and {shown(pair.text2)}; "
                "keep one of the two"
            )
        seen[texts] = place


def pair_from_text(cells: Mapping[str, str], where: str) -> Pair:
    """One row whose values are all text, as in a TSV; an empty cell counts as absent."""
    row: dict[str, Any] = {key: cell or None for key, cell in cells.items()}
    if row.get("score"):
        row["score"] = _parsed(row["score"])
    if row.get("label"):
        row["label"] = {"0": 0, "1": 1}.get(row["label"], row["label"])
    return read_pair(row, where)


def read_pair(row: Any, where: str) -> Pair:
    """One row; ``where`` names it in the ``DataFormatError`` that a bad one raises."""
    row = KEYS.row(row, where, "a Pair (ic.load_pairs)")
    if row.get("subset") in RESERVED_SUBSETS:
        raise DataFormatError(
            f"{where} has {cell(row, 'subset')}, a name of pairs that studies choose themselves "
            f"({', '.join(RESERVED_SUBSETS)}): give your subset another name"
        )
    if "score" in row and "label" in row:
        raise DataFormatError(
            f"{where} has {cell(row, 'score')} and {cell(row, 'label')}; give one of the two"
        )
    if "score" in row:
        return Pair(**{**row, "score": _score(row["score"], where)})
    if "label" in row:
        return Pair(**{**row, "label": _label(row["label"], where)})
    raise DataFormatError(
        f"{where} has {cell(row, 'score')} and {cell(row, 'label')}; give a score (a finite "
        "number) or a label (0 or 1), or take the pair out"
    )


def _score(value: Any, where: str) -> float:
    if not isinstance(value, bool) and isinstance(value, Real | Decimal):
        try:
            number = float(value)
        except (OverflowError, ValueError):  # beyond the largest float; a signalling NaN
            number = math.inf
        if math.isfinite(number):
            return number
    raise DataFormatError(
        f"{where} has {shown(value)} as its score; give a finite number, written like 0.7"
    )


def _label(value: Any, where: str) -> int:
    if isinstance(value, Real) and value in (0, 1):
        return int(bool(value))
    raise DataFormatError(f"{where} has {shown(value)} as its label; give 0, or 1 for a paraphrase")


def _parsed(text: str) -> float | str:
    """The number that a cell states; the text itself, to be refused, where it states none."""
    try:
        number = float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) and "_" not in text else text
