"""Synonyms by word vectors: a pipeline's common words, by the cosine of their vectors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
from jaxtyping import Float

from interp_compose.errors import CapabilityError, InputError
from interp_compose.papers.carma.synonyms.frequency import WordFrequency
from interp_compose.papers.carma.synonyms.sources import RankedSource
from interp_compose.text.parsers import load_spacy
from interp_compose.text.spacy_words import pipeline_name

MIN_COSINE = 0.6
"""The released code's bound: only what is closer is a candidate."""


def load_vectors(name: str = "en_core_web_md") -> Any:
    """A spaCy pipeline with word vectors, a tagger and a lemmatizer, as in the paper.

    Raises ``MissingDataError``, with the command that downloads it.
    """
    return load_spacy(name, exclude=["parser", "ner"])


_BLOCK: Final = 128
"""Words per matrix product."""


class VectorSource(RankedSource):
    """Candidates from the vocabulary of ``nlp``, whose vectors are closer than 0.6 to the word's.

    The vocabulary holds the content words in lower case that have a vector and are not rare by
    ``frequency`` (None: any). A candidate has the word's part of speech (the tagger's in context,
    or that of the word alone), another lemma (*running* is no synonym of *run*) and the word's
    sentiment. ``similarity`` is the cosine. Pipelines
    whose vectors were pruned give merged words the same vector, and so a cosine of 1.

    Raises:
        InputError: ``nlp`` has no vectors, or no word of its vocabulary passes.
        CapabilityError: ``nlp`` gives words no part of speech or no lemma.
        MissingPackageError: TextBlob is not installed.
    """

    name: Final = "vectors"

    def __init__(self, nlp: Any, frequency: WordFrequency | None) -> None:
        super().__init__(frequency)
        self._nlp = nlp
        self._check_tagging()
        vectors = nlp.vocab.vectors
        if not vectors.n_keys:
            raise InputError(
                f"the pipeline {self._label!r} has no word vectors; load one that has, such as "
                "load_vectors('en_core_web_md')"
            )
        strings = nlp.vocab.strings
        row_by_word = {strings[key]: row for key, row in vectors.key2row.items() if key in strings}
        admissible = sorted(word for word in row_by_word if self._admissible(word))
        if not admissible:
            raise InputError(
                f"none of the {len(row_by_word)} words with vectors of {self._label!r} is a common "
                "word in lower case; give other frequencies, or a lower threshold"
            )
        rows, row_of = np.unique([row_by_word[word] for word in admissible], return_inverse=True)
        self._units = _unit(np.asarray(vectors.data[rows], np.float32))
        self._row_of = dict(zip(admissible, row_of.tolist(), strict=True))
        self._words_at: list[list[str]] = [[] for _ in rows]  # several where pruned
        for word, row in self._row_of.items():
            self._words_at[row].append(word)
        self._near: dict[int, list[tuple[int, float]]] = {}
        self._pos_and_lemma: dict[str, tuple[str, str]] = {}

    @property
    def settings(self) -> dict[str, Any]:
        """The pipeline and the bounds."""
        return {
            "name": self.name,
            "pipeline": self._label,
            "words": len(self._row_of),
            "min_cosine": MIN_COSINE,
            "frequency": self._frequency.settings if self._frequency else None,
            "check_sentiment": True,
        }

    def _similarities(self, word: str, pos: str | None) -> dict[str, float]:
        if not self._nlp.vocab.has_vector(word):
            return {}
        cosines = {other: cosine for i, cosine in self._close(word) for other in self._words_at[i]}
        self._read_words([word, *cosines])
        word_pos, word_lemma = self._pos_and_lemma[word]
        similar = {}
        for other, cosine in cosines.items():
            other_pos, lemma = self._pos_and_lemma[other]
            if other_pos == (pos or word_pos) and lemma != word_lemma:
                similar[other] = cosine
        return similar

    def _close(self, word: str) -> list[tuple[int, float]]:
        """Rows near a word, with their cosines.

        A word of the vocabulary is looked up with the rows around it, in one matrix product: that
        is many times faster than one by one, and most rows are needed sooner or later.
        """
        row = self._row_of.get(word)
        if row is None:
            vector = np.asarray(self._nlp.vocab.get_vector(word), np.float32)
            return self._neighbours(_unit(vector[None]))[0]
        if row not in self._near:
            start = row - row % _BLOCK
            rows = self._neighbours(self._units[start : start + _BLOCK])
            self._near.update(enumerate(rows, start=start))
        return self._near[row]

    def _neighbours(self, units: Float[np.ndarray, "word width"]) -> list[list[tuple[int, float]]]:
        """For each vector, the rows closer to it than the bound, with their cosines."""
        neighbours = []
        for cosines in units @ self._units.T:
            rows = np.flatnonzero(cosines > MIN_COSINE)
            bounded = np.minimum(cosines[rows], 1)
            neighbours.append(list(zip(rows.tolist(), bounded.tolist(), strict=True)))
        return neighbours

    def _read_words(self, words: Iterable[str]) -> None:
        """Cache the part of speech and the lemma of each word alone."""
        unread = [word for word in words if word not in self._pos_and_lemma]
        for word, doc in zip(unread, self._nlp.pipe(unread), strict=True):
            self._pos_and_lemma[word] = doc[0].pos_, doc[0].lemma_.lower()

    def _check_tagging(self) -> None:
        token = self._nlp("house")[0]
        if not token.pos_ or not token.lemma_:
            raise CapabilityError(
                f"the pipeline {self._label!r} gives words no part of speech or no lemma; load one "
                "with a tagger and a lemmatizer, such as load_vectors('en_core_web_md')"
            )

    @property
    def _label(self) -> str:
        return pipeline_name(self._nlp)


def _unit(rows: Float[np.ndarray, "word width"]) -> Float[np.ndarray, "word width"]:
    """Rows of length 1; a row of zeros stays zero, and is close to nothing."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: Float[np.ndarray, "word width"] = rows / np.where(lengths, lengths, 1)
    return unit
