"""Sources of synonyms: their protocol, what they share, and a user's thesaurus.

``wordnet.py`` and ``vectors.py`` hold the two sources of CARMA (appendix
C.2). What passes their filters is ranked as in the authors' released code, by
0.6 · similarity + 0.4 · (1 − absolute difference in polarity).
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, Protocol, runtime_checkable

from interp_compose._public import public
from interp_compose.errors import InputError, MissingPackageError
from interp_compose.papers.carma.synonyms.frequency import WordFrequency

NEUTRAL = 0.05
"""Polarities in [−0.05, 0.05] are neutral."""


@cache
def polarity(word: str) -> float:
    """TextBlob's polarity of a word on its own, in [−1, 1]; ``MissingPackageError`` without it."""
    return float(textblob().TextBlob(word).sentiment.polarity)


def same_sentiment(one: str, two: str) -> bool:
    """Whether two words are both negative, both neutral, or both positive."""
    return _class(polarity(one)) == _class(polarity(two))


def _class(value: float) -> int:
    return (value > NEUTRAL) - (value < -NEUTRAL)


@cache
def textblob() -> Any:
    """The package, or ``MissingPackageError`` with the command that installs it."""
    try:
        return importlib.import_module("textblob")
    except ImportError as error:
        raise MissingPackageError(
            "textblob, which gives the sentiment of a word, is not installed; get it with: "
            "pip install 'interp-compose[synonyms]'"
        ) from error


MIN_LENGTH = 3
"""Characters of the shortest word replaced, as in the released code (2 in the paper's text)."""


class Candidate(NamedTuple):
    """A word that may replace another; ``similarity`` is in [0, 1], ``score`` ranks it."""

    word: str
    similarity: float
    score: float


@runtime_checkable
class SynonymSource(Protocol):
    """A source of candidates for a word."""

    @property
    def name(self) -> str: ...

    @property
    def settings(self) -> dict[str, Any]:
        """What a result records of the source, in JSON's types."""
        ...

    def candidates(self, word: str, pos: str | None) -> Sequence[Candidate]:
        """Candidates for ``word`` (in lower case), the best score first, equal ones by word.

        ``pos`` is a universal part of speech (``NOUN``) if a tagger gave one.
        """
        ...


class RankedSource(ABC):
    """A source that finds similar words, filters rare ones, and ranks what is left.

    It caches what it has looked up; with ``frequency`` None every word passes. Raises
    ``MissingPackageError`` without TextBlob.
    """

    def __init__(self, frequency: WordFrequency | None) -> None:
        textblob()
        self._frequency = frequency
        self._known: dict[tuple[str, str | None], tuple[Candidate, ...]] = {}

    def candidates(self, word: str, pos: str | None) -> tuple[Candidate, ...]:
        """The word's candidates, best score first; none for a word that the source cannot read."""
        key = (word, pos)
        if key not in self._known:
            self._known[key] = ranked(word, self._similarities(word, pos))
        return self._known[key]

    @abstractmethod
    def _similarities(self, word: str, pos: str | None) -> dict[str, float]:
        """Words that may replace ``word``, before sentiment is compared, with similarities."""

    def _admissible(self, word: str) -> bool:
        """A content word in lower case that is not rare."""
        is_common = self._frequency is None or self._frequency.common(word)
        return word.islower() and is_content_word(word) and is_common


@public
@dataclass(frozen=True)
class ThesaurusSource:
    """Given synonyms: word → those that may replace it, each with similarity 1.

    They are taken as they are, whatever their sentiment, frequency or part of speech. Keys are
    compared in lower case. Raises ``InputError`` if there is none, or one without synonyms.
    """

    mapping: Mapping[str, Sequence[str]]
    name: str = "thesaurus"

    def __post_init__(self) -> None:
        if not self.mapping:
            raise InputError(f"the thesaurus {self.name!r} is empty; give word → synonyms")
        merged: dict[str, set[str]] = {}
        for word, synonyms in self.mapping.items():
            if not synonyms or not all(synonyms):
                raise InputError(
                    f"the thesaurus {self.name!r} gives {word!r} the synonyms {synonyms!r}; "
                    "expected a list with at least one word, such as ['mama']"
                )
            merged.setdefault(word.lower(), set()).update(synonyms)
        lowered = {word: tuple(sorted(synonyms)) for word, synonyms in merged.items()}
        object.__setattr__(self, "mapping", lowered)

    @property
    def settings(self) -> dict[str, Any]:
        """Its name and its number of words, for the result."""
        return {"name": self.name, "words": len(self.mapping), "check_sentiment": False}

    def candidates(self, word: str, pos: str | None) -> tuple[Candidate, ...]:
        """The synonyms given for ``word``; ``pos`` is ignored."""
        return tuple(Candidate(synonym, 1.0, 1.0) for synonym in self.mapping.get(word, ()))


@cache
def _stop_words() -> frozenset[str]:
    from spacy.lang.en.stop_words import STOP_WORDS

    return frozenset(STOP_WORDS)


def is_content_word(word: str) -> bool:
    """Letters only, at least :data:`MIN_LENGTH` of them, and none of spaCy's stop words.

    The paper names NLTK's list, which is a separate download; spaCy's comes with spaCy, is longer
    (326 words), and holds number words such as *three* and verbs such as *make*.
    """
    return word.isalpha() and len(word) >= MIN_LENGTH and word.lower() not in _stop_words()


def ranked(word: str, similarities: Mapping[str, float]) -> tuple[Candidate, ...]:
    """Candidates that are negative, neutral or positive as ``word`` is, the best score first."""
    candidates = [
        Candidate(other, similarity, score(similarity, polarity(word) - polarity(other)))
        for other, similarity in similarities.items()
        if other != word and same_sentiment(word, other)
    ]
    return tuple(sorted(candidates, key=lambda one: (-one.score, one.word)))


def score(similarity: float, polarity_difference: float) -> float:
    """The released code's rank: 0.6 · similarity + 0.4 · (1 − difference in polarity)."""
    return 0.6 * similarity + 0.4 * (1 - abs(polarity_difference))
