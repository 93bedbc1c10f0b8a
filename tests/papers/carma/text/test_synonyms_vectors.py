"""Synonyms by word vectors, over a pipeline made here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc

from interp_compose.errors import CapabilityError, InputError
from interp_compose.papers.carma.synonyms.frequency import WordFrequency
from interp_compose.papers.carma.synonyms.sources import SynonymSource
from interp_compose.papers.carma.synonyms.vectors import VectorSource, load_vectors


def words(source: SynonymSource, word: str, pos: str | None = None) -> list[str]:
    return [one.word for one in source.candidates(word, pos)]


VECTORS = {
    "film": (1.0, 0.0, 0.0),
    "movie": (0.9, 0.1, 0.0),
    "films": (0.99, 0.0, 0.0),  # the same lemma
    "filmed": (0.98, 0.0, 0.0),  # another part of speech
    "cinema": (0.8, 0.5, 0.0),
    "footage": (0.95, 0.1, 0.0),
    "awful": (0.99, 0.01, 0.0),  # another sentiment
    "Movie": (1.0, 0.0, 0.0),  # not in lower case
    "ox": (1.0, 0.0, 0.0),
    "the": (1.0, 0.0, 0.0),
    "far": (0.5, 0.8, 0.0),  # cosine 0.53
    "zero": (0.0, 0.0, 0.0),
    "house": (0.0, 0.0, 1.0),
}
COMMON = WordFrequency("toy", {word: -5.0 for word in VECTORS if word != "footage"}.get)


@Language.component("interp_compose_toy_tags")
def toy_tags(doc: Doc) -> Doc:
    for token in doc:
        token.pos_ = "VERB" if token.text.endswith("ed") else "NOUN"
        token.lemma_ = token.text.lower().removesuffix("ed").removesuffix("s")
    return doc


def toy_pipeline(*, tags: bool = True, vectors: bool = True) -> Any:
    nlp = spacy.blank("en")
    if tags:
        nlp.add_pipe("interp_compose_toy_tags")
    if vectors:
        nlp.vocab.reset_vectors(width=3)
        for word, vector in VECTORS.items():
            nlp.vocab.set_vector(word, np.array(vector, np.float32))
    return nlp


def test_vectors_against_cosines_in_the_open() -> None:
    source = VectorSource(toy_pipeline(), COMMON)
    assert isinstance(source, SynonymSource)

    def cosine(one: str, two: str) -> float:
        a, b = VECTORS[one], VECTORS[two]
        dot = sum(x * y for x, y in zip(a, b, strict=True))
        return float(dot / (sum(x * x for x in a) * sum(y * y for y in b)) ** 0.5)

    found = source.candidates("film", None)
    assert [one.word for one in found] == ["movie", "cinema"]
    for one in found:
        assert one.similarity == pytest.approx(cosine("film", one.word), rel=1e-6)
    assert words(source, "film", "VERB") == []
    assert words(source, "filmed") == []  # no other verb is near
    assert words(source, "filmed", "NOUN") == ["movie", "cinema"]
    assert "footage" in words(VectorSource(toy_pipeline(), None), "film")
    assert words(source, "footage")[0] == "movie"  # a rare word may be replaced
    assert words(source, "zero") == words(source, "unknown") == []
    settings = source.settings
    assert settings["words"] == 9
    assert settings["min_cosine"] == 0.6
    assert settings["pipeline"].startswith("en_pipeline-")
    assert json.loads(json.dumps(settings)) == settings


def test_words_that_share_a_row_of_pruned_vectors() -> None:
    nlp = toy_pipeline()
    nlp.vocab.strings.add("flick")
    nlp.vocab.vectors.add("unspelt", row=0)  # whose string was not kept
    nlp.vocab.vectors.add("flick", row=nlp.vocab.vectors.find(key="movie"))
    source = VectorSource(nlp, None)
    found = {one.word: one.similarity for one in source.candidates("film", None)}
    assert found["flick"] == found["movie"]
    assert {one.word: one.similarity for one in source.candidates("movie", None)}["flick"] == (
        pytest.approx(1)
    )


@pytest.mark.parametrize(
    ("pipeline", "frequency", "error", "message"),
    [
        ({"vectors": False}, None, InputError, "the pipeline 'en_pipeline-.*' has no word vectors"),
        ({"tags": False}, None, CapabilityError, "gives words no part of speech or no lemma; load"),
        ({}, WordFrequency("none", {}.get), InputError, "none of the 13 words with vectors of"),
    ],
)
def test_pipelines_that_will_not_do(
    pipeline: dict[str, bool], frequency: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        VectorSource(toy_pipeline(**pipeline), frequency)


def test_vectors_are_loaded_from_a_folder(tmp_path: Path) -> None:
    spacy.blank("en").to_disk(tmp_path / "toy")
    assert load_vectors(str(tmp_path / "toy")).lang == "en"


def test_many_words_in_several_blocks_against_one_by_one() -> None:
    """In float64, in the open; 300 words are three blocks, and any order gives the same."""
    rng = np.random.default_rng(0)
    nlp = toy_pipeline(vectors=False)
    letters = "abcdefghij"
    names = [f"x{letters[i // 100]}{letters[i // 10 % 10]}{letters[i % 10]}q" for i in range(300)]
    table = rng.normal(size=(300, 4))
    nlp.vocab.reset_vectors(width=4)
    for name, vector in zip(names, table, strict=True):
        nlp.vocab.set_vector(name, vector.astype(np.float32))
    source, backwards = VectorSource(nlp, None), VectorSource(nlp, None)
    last = {name: backwards.candidates(name, None) for name in reversed(names)}
    units = table / np.sqrt((table**2).sum(1, keepdims=True))
    for i, name in enumerate(names):
        cosines = {names[j]: float(units[i] @ units[j]) for j in range(300) if j != i}
        expected = {other: cosine for other, cosine in cosines.items() if cosine > 0.6}
        found = source.candidates(name, None)
        assert {one.word: one.similarity for one in found} == pytest.approx(expected, abs=1e-5)
        assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
        assert found == last[name]
