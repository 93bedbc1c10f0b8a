"""Log probabilities of words: spaCy's table, counts, and files."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import spacy

from interp_compose.errors import DataFormatError, InputError, MissingDataError
from interp_compose.papers.carma.synonyms.frequency import (
    WordFrequency,
    counted_frequency,
    read_frequency,
    spacy_frequency,
)


def write(folder: Path, text: str) -> Path:
    path = folder / "words.tsv"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_threshold_is_not_common_itself() -> None:
    toy = WordFrequency("toy", {"film": -14.99, "edge": -15.0}.get)
    assert toy.common("film")
    assert toy.common("Film")
    assert not toy.common("edge")
    assert not toy.common("unknown")
    assert toy.settings == {"name": "toy", "threshold": -15.0}


def test_spacys_table_is_checked_for() -> None:
    """Without it spaCy gives every word -20, and nothing would be common."""
    nlp = spacy.blank("en")
    assert nlp.vocab["house"].prob == -20
    with pytest.raises(
        MissingDataError, match="no lexeme_prob table for 'en', .* spacy-lookups-data"
    ):
        spacy_frequency(nlp)
    nlp.vocab.lookups.add_table("lexeme_prob", {})
    with pytest.raises(MissingDataError, match="no lexeme_prob table"):
        spacy_frequency(nlp)


def test_spacys_table() -> None:
    nlp = spacy.blank("en")
    nlp.vocab.lookups.add_table("lexeme_prob", {"house": -9.5, "rarity": -16.0})
    found = spacy_frequency(nlp)
    assert found.name == "spacy lexeme_prob"
    assert found.log_probability("house") == nlp.vocab["house"].prob == -9.5
    assert [found.common(word) for word in ("house", "rarity", "xyzzy")] == [True, False, False]
    assert spacy_frequency(nlp, -17.0).common("rarity")


def test_counts_become_log_probabilities() -> None:
    found = counted_frequency({"Film": 1, "film": 2, "cat": 1, "never": 0}, "mine", -1.0)
    assert found.log_probability("film") == pytest.approx(math.log(3 / 4))
    assert found.log_probability("cat") == pytest.approx(math.log(1 / 4))
    assert found.log_probability("never") is None
    assert [found.common(word) for word in ("film", "cat")] == [True, False]
    assert found.settings == {"name": "mine", "threshold": -1.0}


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ({"film": -1}, "the count of 'film' is -1; expected 0 or more"),
        ({"film": 0}, "no word of counts was counted"),
        ({}, "no word of counts was counted"),
    ],
)
def test_counts_that_count_nothing(counts: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        counted_frequency(counts)


@pytest.mark.parametrize("mark", [",", "\t"])
def test_a_file_of_counts(tmp_path: Path, mark: str) -> None:
    path = write(tmp_path, f"film{mark}3\ncat{mark} 1\n")
    found = read_frequency(path)
    assert found.log_probability("film") == pytest.approx(math.log(3 / 4))
    assert found.name == str(path)


def test_a_file_of_log_probabilities(tmp_path: Path) -> None:
    found = read_frequency(write(tmp_path, "film\t-9.25\nCat\t-15.5\n"), -15.0)
    assert found.log_probability("film") == -9.25
    assert [found.common(word) for word in ("film", "cat")] == [True, False]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"words.tsv is empty; expected a word and its count on each line"),
        ("word,count\nfilm,2\n", r"line 1 reads \['word', 'count'\]: expected a word and a number"),
        ("film,2\ncat\n", r"line 2 reads \['cat'\]: expected a word and a number, such as film,12"),
        ("film,2\n\ncat,1\n", r"line 2 reads \[\]: expected a word"),
        ("film,2\n,1\n", r"line 2 reads \['', '1'\]: expected a word"),
        ("film,2\ncat,nan\n", r"line 2 reads \['cat', 'nan'\]: expected a word and a number"),
        ("film,2\nFilm,1\n", r"line 2 reads .*: the word \(in lower case\) has a line already"),
        ("film,-2.5\ncat,1.5\n", r"line 2 reads .*: expected counts, or log probabilities up to"),
    ],
)
def test_a_garbled_file(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataFormatError, match=message):
        read_frequency(write(tmp_path, text))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="there is no .*none.csv; give a file with a word"):
        read_frequency(tmp_path / "none.csv")


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "words.csv"
    path.write_bytes(b"film,\xff\n")
    with pytest.raises(DataFormatError, match="words.csv is not UTF-8"):
        read_frequency(path)
