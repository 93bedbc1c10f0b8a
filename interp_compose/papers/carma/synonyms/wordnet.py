"""Synonyms by WordNet: words that share a synset, the most frequent sense first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from interp_compose.errors import DataFormatError, MissingDataError
from interp_compose.papers.carma.synonyms.frequency import RARE, WordFrequency, counted_frequency
from interp_compose.papers.carma.synonyms.sources import RankedSource

_TAGS: Final[Mapping[str, str]] = MappingProxyType(
    {"NOUN": "n", "VERB": "v", "ADJ": "a", "ADV": "r"}
)


MAX_SENSE = 3
"""Senses considered. Synonyms of rarer ones seldom fit the sentence: for the fourth sense of *eye*
*middle*, for the eighth of *good* *adept*."""


def wordnet_frequency(reader: Any, threshold: float = RARE) -> WordFrequency:
    """How often the texts that WordNet was tagged on (SemCor) use each word, in any form.

    They are some 230,000 tagged words, so that at CARMA's threshold every word passes that
    occurs in them at all. This replaces spaCy's table offline.

    Raises ``MissingDataError`` if WordNet's folder lacks its counts.
    """
    counts: Counter[str] = Counter()
    for key, count in _sense_counts(reader).items():
        counts[key.partition("%")[0]] += count
    return counted_frequency(counts, "WordNet's tagged texts", threshold)


class WordNetSource(RankedSource):
    """Candidates that share a synset with the word, in one part of speech.

    The part of speech is the tagger's, or that in which WordNet's texts use the word most often.
    Only base forms have candidates: an inflected word (*films*, and also *found* and *better*,
    which are base forms as well as inflected ones) would need its synonym inflected too.
    ``similarity`` is 1/s, s being the first of the word's senses (from 1, as WordNet orders them)
    that the candidate shares, up to :data:`MAX_SENSE`. Names, phrases, stop words and words of
    another sentiment are left out, and so are words that are rare by ``frequency`` (None: none
    are).

    ``reader`` is NLTK's ``WordNetCorpusReader``. Raises ``MissingDataError`` if its folder lacks
    WordNet's counts, and ``MissingPackageError`` without TextBlob.
    """

    name: Final = "wordnet"

    def __init__(self, reader: Any, frequency: WordFrequency | None) -> None:
        super().__init__(frequency)
        self._reader = reader
        self._counts = _sense_counts(reader)

    @property
    def settings(self) -> dict[str, Any]:
        """WordNet's version and the bound for rare words."""
        return {
            "name": self.name,
            "version": self._reader.get_version(),
            "max_sense": MAX_SENSE,
            "frequency": self._frequency.settings if self._frequency else None,
            "check_sentiment": True,
        }

    def _similarities(self, word: str, pos: str | None) -> dict[str, float]:
        similar: dict[str, float] = {}
        for number, names in enumerate(self._senses(word, pos)[:MAX_SENSE], start=1):
            for name in names:
                if name != word and name not in similar and self._admissible(name):
                    similar[name] = 1 / number
        return similar

    def _senses(self, word: str, pos: str | None) -> list[list[str]]:
        """The words of each sense in one part of speech; none if the word is an inflected form.

        NLTK looks up base forms too, so that a synset without the word itself means inflection.
        """
        if pos is not None and pos not in _TAGS:
            return []
        synsets = self._reader.synsets(word, _TAGS[pos] if pos else None)
        senses: dict[str, list[list[str]]] = {}
        uses: Counter[str] = Counter()
        for synset in synsets:
            lemmas = [lemma for lemma in synset.lemmas() if lemma.name().lower() == word]
            if not lemmas:
                return []
            part = "a" if synset.pos() == "s" else synset.pos()
            senses.setdefault(part, []).append(synset.lemma_names())
            uses[part] += self._counts.get(lemmas[0].key().lower(), 0)
        return senses[max(senses, key=lambda part: uses[part])] if senses else []


def _sense_counts(reader: Any) -> dict[str, int]:
    """Sense key → how often it was tagged, read in one go (NLTK searches the file each time)."""
    try:
        with reader.open("cntlist.rev") as stream:
            lines = stream.read().splitlines()
    except OSError as missing:
        raise MissingDataError(
            "WordNet's folder has no cntlist.rev, which counts its words; get it again with: "
            "python -m nltk.downloader --force wordnet"
        ) from missing
    counts = {}
    for number, line in enumerate(lines, start=1):
        key, _, rest = line.partition(" ")
        count = rest.rpartition(" ")[2]
        if not count.isdecimal():
            raise DataFormatError(
                f"cntlist.rev of WordNet, line {number} reads {line[:60]!r}; expected a sense, its "
                "number and its count. Get it again with: "
                "python -m nltk.downloader --force wordnet"
            )
        counts[key] = int(count)
    return counts
