"""How common a word is: the natural logarithm of its probability, and a bound for rare words.

CARMA (appendix C.2) takes spaCy's probabilities and leaves out words at −15 or below, about
one in three million. spaCy has them in a separate table, ``lexeme_prob``, and without it gives
*every* word −20, so that nothing would pass; here its absence is an error.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interp_compose.errors import DataFormatError, InputError, MissingDataError
from interp_compose.runs.files import read_bytes

RARE = -15.0
"""CARMA's bound: words whose log probability is not above it are rare."""

_TABLE = "lexeme_prob"


@dataclass(frozen=True)
class WordFrequency:
    """Log probabilities of words in lower case; ``name`` is their source.

    A word that ``log_probability`` does not know (None) is rare.
    """

    name: str
    log_probability: Callable[[str], float | None]
    threshold: float = RARE

    def common(self, word: str) -> bool:
        """Whether a word's log probability is above the threshold."""
        value = self.log_probability(word.lower())
        return value is not None and value > self.threshold

    @property
    def settings(self) -> dict[str, Any]:
        """What a result records."""
        return {"name": self.name, "threshold": self.threshold}


def spacy_frequency(nlp: Any, threshold: float = RARE) -> WordFrequency:
    """spaCy's table: the pipeline's, or that of the package ``spacy-lookups-data``.

    Raises ``MissingDataError`` if neither has one.
    """
    from spacy.lookups import load_lookups

    for lookups in (nlp.vocab.lookups, load_lookups(nlp.lang, [_TABLE], strict=False)):
        if lookups.has_table(_TABLE) and len(lookups.get_table(_TABLE)):
            return WordFrequency(f"spacy {_TABLE}", lookups.get_table(_TABLE).get, threshold)
    raise MissingDataError(
        f"spaCy has no {_TABLE} table for {nlp.lang!r}, and without it gives every word the log "
        "probability -20, so that all would count as rare; get it with: "
        "pip install spacy-lookups-data, or give your own frequencies (read_frequency, "
        "counted_frequency)"
    )


def counted_frequency(
    counts: Mapping[str, int], name: str = "counts", threshold: float = RARE
) -> WordFrequency:
    """Frequencies from your own counts of words. Spellings in capitals are added up.

    Raises ``InputError`` for a negative count, or if all are 0.
    """
    lowered: dict[str, int] = {}
    for word, count in counts.items():
        if count < 0:
            raise InputError(f"the count of {word!r} is {count}; expected 0 or more")
        lowered[word.lower()] = lowered.get(word.lower(), 0) + count
    total = sum(lowered.values())
    if not total:
        raise InputError(f"no word of {name} was counted; expected counts of words, not all 0")
    logs = {word: math.log(count / total) for word, count in lowered.items() if count}
    return WordFrequency(name, logs.get, threshold)


def read_frequency(path: str | Path, threshold: float = RARE) -> WordFrequency:
    """A table from a file: a word and a number on each line, a comma or tab between them.

    Whole numbers are counts, numbers up to 0 with a point are natural logarithms of probabilities;
    no header. Raises ``MissingDataError`` without the file, ``DataFormatError`` naming a bad line.
    """
    path = Path(path)
    if not path.is_file():
        raise MissingDataError(
            f"there is no {path}; give a file with a word and its count on each line, a comma or "
            "tab between them"
        )
    try:
        text = read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataFormatError(f"{path} is not UTF-8 ({error}); save it as UTF-8 text") from error
    rows = csv.reader(text.splitlines(), delimiter="\t" if "\t" in text else ",")
    numbers: dict[str, str] = {}
    for line, row in enumerate(rows, start=1):
        if len(row) != 2 or not row[0].strip() or not _is_number(row[1]):
            raise _bad_line(path, line, row, "expected a word and a number")
        word = row[0].strip().lower()
        if word in numbers:
            raise _bad_line(path, line, row, "the word (in lower case) has a line already")
        numbers[word] = row[1].strip()
    if not numbers:
        raise DataFormatError(f"{path} is empty; expected a word and its count on each line")
    if all(number.isdecimal() for number in numbers.values()):
        return counted_frequency({w: int(n) for w, n in numbers.items()}, str(path), threshold)
    logs = {word: float(number) for word, number in numbers.items()}
    for line, (word, value) in enumerate(logs.items(), start=1):
        if value > 0:
            row = [word, numbers[word]]
            raise _bad_line(path, line, row, "expected counts, or log probabilities up to 0")
    return WordFrequency(str(path), logs.get, threshold)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _bad_line(path: Path, line: int, row: list[str], problem: str) -> DataFormatError:
    return DataFormatError(f"{path}, line {line} reads {row}: {problem}, such as film,1204")
