"""Which synonyms a comparison takes, and what it says where they are missing."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nltk
import pytest

from interp_compose.errors import (
    DataFormatError,
    InputError,
    MissingDataError,
    MissingPackageError,
    OptionError,
)
from interp_compose.papers.carma.synonyms import load as carma_synonyms, sources as sentiment_words
from interp_compose.papers.carma.synonyms.load import synonym_source
from interp_compose.papers.carma.synonyms.replace import replace_synonyms
from interp_compose.papers.carma.synonyms.sources import SynonymSource, ThesaurusSource
from interp_compose.shipped.corpus import base_corpus
from interp_compose.tasks.mini import idm as mini_idm, sst as mini_sst
from interp_compose.tasks.mini.world import reserve_words
from interp_compose.tasks.sst import parse_tree
from interp_compose.tasks.wordnet import wordnet_reader
from interp_compose.types import Example
from tests.tasks.conftest import data_dir  # noqa: F401  a fixture


def missing(error: Exception) -> Callable[..., Any]:
    def fail(*args: Any, **options: Any) -> Any:
        raise error

    return fail


@pytest.fixture
def resources(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Vectors, frequencies and WordNet are there, each by a word."""
    found: dict[str, Callable[..., Any]] = {
        "load_vectors": lambda: "vectors",
        "spacy_frequency": lambda nlp: f"frequencies of {nlp}",
        "wordnet_reader": lambda folder: f"WordNet in {folder}",
        "wordnet_frequency": lambda reader: f"counts of {reader}",
        "read_frequency": lambda path: f"counts in {path}",
        "VectorSource": ThesaurusOf("vectors"),
        "WordNetSource": ThesaurusOf("wordnet"),
    }
    for name, stand_in in found.items():
        monkeypatch.setattr(carma_synonyms, name, stand_in)
    return monkeypatch


class ThesaurusOf:
    """A constructor whose source is named by what it was made of."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __call__(self, *made_of: Any) -> SynonymSource:
        return ThesaurusSource({"a": ["b"]}, name=f"{self.kind}: {', '.join(map(str, made_of))}")


# ---- auto -----------------------------------------------------------------------------------


def test_the_shipped_synonyms_allow_a_difference_between_the_rates() -> None:
    """The paper's contrast of 25 and 40 % needs texts with enough words that have a synonym."""
    texts = {
        "mini-idm": [one.text for one in mini_idm.splits()["test"]],
        "mini-sst": [" ".join(parse_tree(one.tree)[1]) for one in mini_sst.sentences()["test"]],
    }
    for task, least in (("mini-idm", 0.3), ("mini-sst", 0.9)):
        rows = [Example(text, "x") for text in texts[task]]
        source = synonym_source("shipped", task)
        low, high = (
            replace_synonyms(rows, source, rate=rate, seed=0).sentences() for rate in (0.25, 0.4)
        )
        assert (low["n_replaced"] < high["n_replaced"]).mean() > least
        if task == "mini-idm":  # where a quarter of the eligible words is a quarter of all
            eligible = low["n_eligible"]
            of_eligible = (eligible // 4).clip(lower=1).where(eligible > 0, 0)
            assert (low["n_replaced"] == of_eligible).sum() == 1133
            assert len(low) == 1140


def test_the_nouns_synonyms_stand_in_no_shipped_text() -> None:
    new = {word for words in mini_sst.NOUN_SYNONYMS.values() for word in words}
    assert set(mini_sst.NOUN_SYNONYMS) == set(mini_sst.NOUNS)
    lines = base_corpus(0, 1.0) + [one.text for part in mini_idm.splits().values() for one in part]
    lines += [one.tree for part in mini_sst.sentences().values() for one in part]
    assert not new & {word.strip('()".,') for line in lines for word in line.split()}


def test_a_shipped_task_brings_its_own(resources: pytest.MonkeyPatch) -> None:
    for name in ("auto", "shipped"):
        idm, sst = synonym_source(name, "mini-idm"), synonym_source(name, "mini-sst")
        assert idm.name == "mini-idm's reserve words"
        word, (first, *_) = next(iter(reserve_words().items()))
        assert first in {one.word for one in idm.candidates(word, None)}
        assert sst.name == "mini-sst's adjectives of the same label and its nouns' synonyms"
        for one in sst.candidates("witty", None):
            assert "witty" in {back.word for back in sst.candidates(one.word, None)}
        assert not sst.candidates("nosuchword", None)


def test_elsewhere_vectors_come_first(resources: pytest.MonkeyPatch) -> None:
    assert synonym_source("auto", "idm").name == "vectors: vectors, frequencies of vectors"
    given = synonym_source("auto", "sst", frequency="words.tsv")
    assert given.name == "vectors: vectors, counts in words.tsv"


@pytest.mark.parametrize("lacking", ["load_vectors", "spacy_frequency", "VectorSource"])
@pytest.mark.parametrize("error", [MissingDataError("not there"), MissingPackageError("no spacy")])
def test_and_wordnet_where_they_are_not(
    resources: pytest.MonkeyPatch, lacking: str, error: Exception
) -> None:
    resources.setattr(carma_synonyms, lacking, missing(error))
    found = synonym_source("auto", "idm", data_dir="here")
    assert found.name == "wordnet: WordNet in here, counts of WordNet in here"
    if lacking != "spacy_frequency":  # given ones stand in for spaCy's
        given = synonym_source("auto", "idm", frequency="words.tsv")
        assert given.name == "wordnet: WordNet in None, counts in words.tsv"
    with pytest.raises(type(error), match=str(error)):
        synonym_source("vectors", "idm")


def test_a_source_by_name_is_taken_even_for_a_shipped_task(resources: pytest.MonkeyPatch) -> None:
    assert synonym_source("wordnet", "mini-idm").name.startswith("wordnet: ")
    assert synonym_source("vectors", "mini-sst").name.startswith("vectors: ")


def test_nothing_is_there(resources: pytest.MonkeyPatch) -> None:
    resources.setattr(carma_synonyms, "load_vectors", missing(MissingDataError("no vectors")))
    resources.setattr(carma_synonyms, "wordnet_reader", missing(MissingDataError("no WordNet")))
    with pytest.raises(MissingDataError, match="no WordNet"):
        synonym_source("auto", "idm")


# ---- refused ----------------------------------------------------------------------------------


def test_unknown_names() -> None:
    for name in ("spacy", "", "Shipped", "words.csv"):
        with pytest.raises(OptionError, match="are unknown; choose one of auto, shipped, wordnet"):
            synonym_source(name, "mini-idm")
    with pytest.raises(OptionError, match="no synonyms are shipped for the task 'idm'"):
        synonym_source("shipped", "idm")


def test_frequencies_are_not_ignored(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text('{"sea": ["ocean"]}', encoding="utf-8")
    for name in ("auto", "shipped", str(path)):
        with pytest.raises(OptionError, match=r"taken as they are, .*words\.tsv"):
            synonym_source(name, "mini-idm", frequency="words.tsv")


def test_ones_own_thesaurus(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"Sea": ["ocean", "lake"], "über": ["sehr"]}), encoding="utf-8")
    found = synonym_source(str(path), "mini-idm")
    assert found.settings == {"name": "mine.json", "words": 2, "check_sentiment": False}
    assert [one.word for one in found.candidates("sea", None)] == ["lake", "ocean"]


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (b"{", DataFormatError, "is no JSON"),
        (b"[]", DataFormatError, "holds a list; expected word → synonyms"),
        (b"{}", InputError, "bad.json' is empty"),
        (b'{"sea": "ocean"}', DataFormatError, "gives 'sea' the synonyms 'ocean'"),
        (b'{"sea": ["ocean", 3]}', DataFormatError, "gives 'sea' the synonyms"),
    ],
)
def test_files_that_are_no_thesaurus(
    content: bytes, error: type[Exception], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with pytest.raises(error, match=message):
        synonym_source(str(path), "mini-idm")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        named = str(path) if path.suffix else str(path / "folder.json")
        with pytest.raises(MissingDataError, match="there is no thesaurus"):
            synonym_source(named, "mini-idm")


# ---- the resources themselves -----------------------------------------------------------------


def test_no_wordnet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = list(nltk.data.path)
    with pytest.raises(MissingDataError, match=rf"WordNet is not in {tmp_path}.* -d {tmp_path}"):
        synonym_source("wordnet", "idm", data_dir=tmp_path)
    assert nltk.data.path == before
    monkeypatch.setattr(nltk.data, "path", [])
    with pytest.raises(MissingDataError, match="WordNet is not in NLTK_DATA"):
        synonym_source("wordnet", "idm")


def test_no_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    import spacy

    monkeypatch.setattr(spacy, "load", missing(OSError("not there")))
    with pytest.raises(MissingDataError, match="python -m spacy download en_core_web_md"):
        synonym_source("vectors", "idm")


@pytest.mark.data
def test_no_textblob(few_words: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sentiment_words.textblob.cache_clear()
    real = importlib.import_module

    def without(name: str, *rest: Any) -> Any:
        if name == "textblob":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", without)
    monkeypatch.setattr(nltk.data, "path", list(nltk.data.path))
    with pytest.raises(MissingPackageError, match=r"pip install 'interp-compose\[synonyms\]'"):
        synonym_source("wordnet", "idm", data_dir=few_words)


# ---- WordNet's reader -------------------------------------------------------------------------

READ = """
import sys, warnings
warnings.simplefilter("error")
import nltk
from interp_compose.tasks.wordnet import wordnet_reader
folder = sys.argv[1] or None
before = list(nltk.data.path)
for _ in range(2 if folder else 1):  # a second reader adds nothing to the path
    reader = wordnet_reader(folder)
names = [lemma for synset in reader.synsets("ocean") for lemma in synset.lemma_names()]
assert "sea" in names or "ocean" in names, names
assert reader.synsets("house")[0].definition().startswith("a dwelling")
added = [path for path in nltk.data.path if path not in before]
assert nltk.data.path == added + before, nltk.data.path
from nltk.corpus import wordnet  # NLTK's own way is still open
assert wordnet.synsets("house")[0].name() == "house.n.01"
print(len(added))
"""
"""In a process of its own: NLTK's path is the whole process'."""


@pytest.fixture(scope="module")
def few_words(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: F811
    """NLTK's data with WordNet as it is but for its index, which NLTK reads whole each time."""
    folder = tmp_path_factory.mktemp("nltk_data")
    wordnet = folder / "corpora" / "wordnet"
    wordnet.mkdir(parents=True)
    for file in (data_dir / "nltk_data" / "corpora" / "wordnet").iterdir():
        if file.name in ("index.noun", "index.verb", "index.adj", "index.adv"):
            lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
            chosen = [line for line in lines if line.startswith(("house ", "ocean "))]
            synsets = {at for line in chosen for at in re.findall(r"\d{8}", line)}
            text = "".join(
                line  # of the licence, or of a word that such a synset has
                for line in lines
                if line.startswith("  ") or synsets & {*re.findall(r"\d{8}", line)}
            )
            (wordnet / file.name).write_text(text, encoding="utf-8")
        else:
            shutil.copyfile(file, wordnet / file.name)
    return folder


@pytest.mark.data
@pytest.mark.parametrize("by", ["argument", "environment"])
def test_wordnet_is_found_and_the_path_stays_usable(by: str, few_words: Path) -> None:
    folder = str(few_words)
    given, environment = (folder, {}) if by == "argument" else ("", {"NLTK_DATA": folder})
    ran = subprocess.run(
        [sys.executable, "-c", READ, given],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "", "HOME": "/nonexistent", **environment},
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == ("1" if by == "argument" else "0")
    assert ran.stderr == ""


@pytest.mark.data
def test_wordnet_serves_as_a_source(
    data_dir: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nltk.data, "path", list(nltk.data.path))
    found = synonym_source("wordnet", "mini-idm", data_dir=data_dir / "nltk_data")
    assert found.name == "wordnet"
    assert found.settings["frequency"]["name"] == "WordNet's tagged texts"
    assert "auto" in {one.word for one in found.candidates("car", None)}
    assert wordnet_reader(data_dir / "nltk_data").get_version() == found.settings["version"]
