"""Synonyms from a thesaurus and from WordNet; sentiment kept, rare words out."""

from __future__ import annotations

import io
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nltk
import numpy as np
import pytest

from interp_compose.errors import (
    DataFormatError,
    InputError,
    MissingDataError,
    MissingPackageError,
)
from interp_compose.papers.carma.synonyms import sources as sentiment_words
from interp_compose.papers.carma.synonyms.frequency import WordFrequency
from interp_compose.papers.carma.synonyms.sources import (
    SynonymSource,
    ThesaurusSource,
    is_content_word,
    polarity,
    ranked,
    same_sentiment,
    score,
)
from interp_compose.papers.carma.synonyms.vectors import VectorSource
from interp_compose.papers.carma.synonyms.wordnet import WordNetSource, wordnet_frequency
from interp_compose.tasks.wordnet import wordnet_reader
from tests.papers.carma.text.test_synonyms_vectors import toy_pipeline, words
from tests.tasks.conftest import data_dir

__all__ = ["data_dir"]


# --- what all share


def test_a_thesaurus_gives_what_it_was_given() -> None:
    source = ThesaurusSource({"Cat": ["pooch", "kitty"], "cat": ["kitty"]}, "mine")
    assert isinstance(source, SynonymSource)
    assert source.candidates("cat", "VERB") == (("kitty", 1, 1), ("pooch", 1, 1))
    assert source.candidates("dog", None) == ()
    assert source.settings == {"name": "mine", "words": 1, "check_sentiment": False}


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({}, "the thesaurus 'thesaurus' is empty; give word → synonyms"),
        ({"cat": []}, r"gives 'cat' the synonyms \[\]; expected a list with at least one word"),
        (
            {"cat": "kitty"},
            r"mapping\['cat'\]='kitty' is a str; expected a sequence \(each item a s",
        ),
        ({"cat": [""]}, r"gives 'cat' the synonyms \[''\]"),
    ],
)
def test_a_thesaurus_without_words_is_refused(mapping: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ThesaurusSource(mapping)


@pytest.mark.parametrize(
    ("word", "content"),
    [("cat", True), ("Cat", True), ("ox", False), ("the", False), ("The", False), ("n't", False),
     ("b2b", False), ("café", True), ("two-fold", False), ("", False)],
)  # fmt: skip
def test_content_words(word: str, content: bool) -> None:
    assert is_content_word(word) is content


def test_sentiment_is_kept_and_ranks() -> None:
    assert (polarity("good"), polarity("awful"), polarity("table")) == (0.7, -1, 0)
    assert same_sentiment("good", "excellent")
    assert not same_sentiment("good", "bad")
    assert not same_sentiment("good", "table")
    assert not same_sentiment("table", "bad")
    assert score(0.9, -0.5) == score(0.9, 0.5) == pytest.approx(0.6 * 0.9 + 0.4 * 0.5)
    found = ranked("good", {"great": 0.5, "excellent": 0.6, "bad": 0.99, "table": 0.9, "good": 1.0})
    assert [(one.word, one.similarity) for one in found] == [("great", 0.5), ("excellent", 0.6)]
    assert found[0].score == pytest.approx(0.6 * 0.5 + 0.4 * (1 - (0.8 - 0.7)))
    assert found[1].score == pytest.approx(0.6 * 0.6 + 0.4 * (1 - (1.0 - 0.7)))


def test_equal_scores_come_by_word() -> None:
    assert [one.word for one in ranked("table", {"desk": 0.5, "board": 0.5})] == ["board", "desk"]


def test_without_textblob(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "textblob", None)
    sentiment_words.textblob.cache_clear()
    polarity.cache_clear()
    with pytest.raises(
        MissingPackageError, match="textblob, which gives .* is not installed; get "
    ):
        WordNetSource(Reader(), None)
    with pytest.raises(MissingPackageError, match=r"interp-compose\[synonyms\]"):
        VectorSource(toy_pipeline(), None)
    monkeypatch.undo()
    assert polarity("good") == 0.7


# --- WordNet

SENSES = """
film.n   | movie film flick picture_show      | 30 31 2 1
film.n   | film cinema                        | 9 8
film.n   | film photographic_film             | 2 0
film.n   | film plastic                       | 1 3
film.v   | film shoot                         | 4 40
shoot.v  | shoot hit                          | 50 3
good.s   | good full                          | 20 3
good.a   | good great awful                   | 90 5 6
table.n  | table the ox tables Chart board    | 5 1 1 1 1 2
see.v    | see watch                          | 100 5
saw.n    | saw cutter                         | 3 0
"""
BASE_FORMS = {"films": "film", "saw": "see"}


class Lemma:
    def __init__(self, name: str, pos: str, number: int) -> None:
        self._name, self._key = name, f"{name.lower()}%{pos}:{number}"

    def name(self) -> str:
        return self._name

    def key(self) -> str:
        return self._key


class Synset:
    def __init__(self, head: str, names: list[str], number: int) -> None:
        self.head, self._pos = head.split(".")
        self._lemmas = [Lemma(name, self._pos, number) for name in names]

    def pos(self) -> str:
        return self._pos

    def lemmas(self) -> list[Lemma]:
        return self._lemmas

    def lemma_names(self) -> list[str]:
        return [lemma.name() for lemma in self._lemmas]


class Reader:
    """As much of NLTK's reader as the source uses, over the senses above."""

    def __init__(self, counts: str | None = None) -> None:
        rows = [[cell.strip() for cell in line.split("|")] for line in SENSES.strip().split("\n")]
        self._synsets = [Synset(head, ws.split(), i) for i, (head, ws, _) in enumerate(rows)]
        tagged = [
            f"{lemma.key()} 1 {count}"
            for synset, (_, _, each) in zip(self._synsets, rows, strict=True)
            for lemma, count in zip(synset.lemmas(), each.split(), strict=True)
            if count != "0"
        ]
        self._counts = "\n".join(tagged) if counts is None else counts

    def synsets(self, word: str, pos: str | None) -> list[Synset]:
        forms = {word, BASE_FORMS.get(word)}
        fits = {None: "nvasr", "n": "n", "v": "v", "a": "as", "r": "r"}[pos]
        return [
            one
            for one in self._synsets
            if one.pos() in fits and forms & {name.lower() for name in one.lemma_names()}
        ]

    def open(self, name: str) -> Any:
        assert name == "cntlist.rev"
        if self._counts == "missing":
            raise OSError(name)
        return io.StringIO(self._counts)

    def get_version(self) -> str:
        return "3.0"


@pytest.fixture
def wordnet() -> WordNetSource:
    return WordNetSource(Reader(), None)


def test_wordnet_words_of_the_first_three_senses_of_the_usual_part_of_speech(
    wordnet: WordNetSource,
) -> None:
    assert isinstance(wordnet, SynonymSource)
    found = wordnet.candidates("film", None)
    assert [(one.word, one.similarity) for one in found] == [
        ("flick", 1),
        ("movie", 1),
        ("cinema", 1 / 2),
    ]
    assert wordnet.candidates("film", None) is found  # remembered


def test_wordnet_takes_the_taggers_part_of_speech(wordnet: WordNetSource) -> None:
    assert words(wordnet, "film", "VERB") == ["shoot"]
    assert words(wordnet, "film", "NOUN") == ["flick", "movie", "cinema"]
    assert words(wordnet, "film", "ADV") == words(wordnet, "film", "PROPN") == []


def test_wordnet_keeps_sentiment_and_joins_both_kinds_of_adjectives(
    wordnet: WordNetSource,
) -> None:
    assert [one[:2] for one in wordnet.candidates("good", None)] == [("great", 1 / 2)]


def test_wordnet_leaves_out_names_phrases_and_words_without_meaning(
    wordnet: WordNetSource,
) -> None:
    assert words(wordnet, "table") == ["board", "tables"]


@pytest.mark.parametrize("word", ["films", "saw", "xyzzy"])
def test_wordnet_gives_inflected_and_unknown_words_nothing(
    wordnet: WordNetSource, word: str
) -> None:
    """*saw* is a base form too; a tagger tells it from *see*."""
    assert words(wordnet, word) == []
    assert words(wordnet, "saw", "NOUN") == ["cutter"]


def test_wordnet_leaves_rare_words_out() -> None:
    frequency = wordnet_frequency(Reader())
    assert words(WordNetSource(Reader(), frequency), "saw", "NOUN") == []  # cutter: never tagged
    common = WordFrequency("toy", {"movie": -5.0, "flick": -15.0, "cinema": -14.9}.get)
    source = WordNetSource(Reader(), common)
    assert words(source, "film") == ["movie", "cinema"]
    assert json.loads(json.dumps(source.settings)) == {
        "name": "wordnet",
        "version": "3.0",
        "max_sense": 3,
        "frequency": {"name": "toy", "threshold": -15.0},
        "check_sentiment": True,
    }
    assert WordNetSource(Reader(), None).settings["frequency"] is None


def test_wordnets_own_counts() -> None:
    frequency = wordnet_frequency(Reader())
    total = sum(int(n) for line in SENSES.strip().split("\n") for n in line.split("|")[2].split())
    assert frequency.log_probability("film") == pytest.approx(np.log((31 + 9 + 2 + 1 + 4) / total))
    assert frequency.log_probability("xyzzy") is None


@pytest.mark.parametrize(
    ("counts", "error", "message"),
    [
        ("missing", MissingDataError, "WordNet's folder has no cntlist.rev, .* nltk.downloader"),
        ("a%1 1 2\na%1 x", DataFormatError, "cntlist.rev of WordNet, line 2 reads 'a%1 x'; expec"),
    ],
)
def test_damaged_counts(counts: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        WordNetSource(Reader(counts), None)


@pytest.fixture(scope="module")
def real_wordnet(data_dir: Path) -> Iterator[Any]:
    before = list(nltk.data.path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its other languages
        reader = wordnet_reader(data_dir / "nltk_data")
    yield reader
    for stream in reader._data_file_map.values():
        stream.close()
    nltk.data.path[:] = before


@pytest.mark.data
def test_the_real_wordnet(real_wordnet: Any) -> None:
    frequency = wordnet_frequency(real_wordnet)
    source = WordNetSource(real_wordnet, frequency)
    assert {"film", "picture", "flick"} <= set(words(source, "movie"))
    for word in ("films", "found", "better", "left", "feeling"):
        assert words(source, word) == [], word
    assert "find" in words(source, "feel", "VERB")
    assert frequency.common("film")
    assert not frequency.common("colligate")


@pytest.mark.data
def test_the_counts_are_nltks(real_wordnet: Any) -> None:
    source = WordNetSource(real_wordnet, None)
    lemmas = [
        lemma
        for word in ("film", "good", "run", "kind", "act", "oak", "able", "asleep")
        for synset in real_wordnet.synsets(word)
        for lemma in synset.lemmas()
    ]
    assert sum(lemma.count() > 0 for lemma in lemmas) > 100
    for lemma in lemmas:
        assert source._counts.get(lemma.key().lower(), 0) == lemma.count(), lemma
