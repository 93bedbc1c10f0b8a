"""WordNet: reading, cleaning, filters and splits; against NLTK's own reader on the real thing."""

from __future__ import annotations

import re
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import nltk
import pytest
from hypothesis import given, strategies as st
from nltk.corpus.reader.wordnet import WordNetCorpusReader

from interp_compose.errors import AnswerError, DataFormatError, MissingDataError
from interp_compose.tasks.idm import clean_definition, idm_from_senses
from interp_compose.tasks.load import load_task
from interp_compose.tasks.prompts import prompt_for
from interp_compose.tasks.wordnet import (
    Sense,
    SenseExample,
    wordnet_examples,
    wordnet_senses,
    wordnet_version,
)
from interp_compose.types import Example
from tests.tasks.conftest import byte_tokenizer
from tests.tasks.stub import StubModel

PROMPT = prompt_for("GPT2LMHeadModel", "idm")

NOUNS = """\
  1 licence
00000010 05 n 02 kitten 0 kitty 1 001 @ 00000020 n 0000 | a young (domestic) cat; "a kitten mewed"
00000020 05 n 02 cat 0 true_cat 0 000 | feline mammal; soft - it purrs!
"""
ADJECTIVES = '00000030 00 s 01 galore(ip) 0 000 | existing in abundance; "daffodils galore"\n'
SENSES = (
    "kitten%1:05:00:: 00000010 1 7\ncat%1:05:00:: 00000020 1 18\ngalore%5:00:00:x:00 00000030 1 2\n"
)


@pytest.fixture
def wordnet(tmp_path: Path) -> Path:
    root = tmp_path / "corpora" / "wordnet"
    root.mkdir(parents=True)
    texts = {"data.noun": NOUNS, "data.adj": ADJECTIVES, "index.sense": SENSES}
    for name in ("data.noun", "data.adj", "data.verb", "data.adv", "index.sense"):
        (root / name).write_text(texts.get(name, ""))
    return tmp_path


def test_reading_the_database(wordnet: Path) -> None:
    path = list(nltk.data.path)
    assert wordnet_senses(wordnet) == [
        Sense("kitten", "a young (domestic) cat", 7),
        Sense("kitty", "a young (domestic) cat", 0),
        Sense("cat", "feline mammal; soft - it purrs!", 18),
        Sense("true_cat", "feline mammal; soft - it purrs!", 0),
        Sense("galore", "existing in abundance", 2),
    ]
    assert nltk.data.path == path


def test_examples_in_which_a_word_occurs(wordnet: Path) -> None:
    verbs = wordnet / "corpora" / "wordnet" / "data.verb"
    verbs.write_text(
        '00000040 29 v 03 Purr 0 go_on 0 mew 0 000 | go "r"; "cats purr, PURR"; "go on"; '
        '"he mewed"; "a mew (of purring)\n'
    )
    assert wordnet_examples(wordnet) == [
        SenseExample("kitten", "noun 00000010", "a kitten mewed"),
        SenseExample("purr", "verb 00000040", "cats purr, PURR"),
        SenseExample("mew", "verb 00000040", "a mew (of purring)"),
        SenseExample("galore", "adj 00000030", "daffodils galore"),
    ]


def test_the_task_from_a_folder(wordnet: Path) -> None:
    task = load_task("idm", StubModel(byte_tokenizer(["kitten"])), data_dir=wordnet)
    assert task.report["source"] == "WordNet of no stated version through NLTK"
    adjectives = wordnet / "corpora" / "wordnet" / "data.adj"
    licence = "  1 WordNet 3.1 Copyright 2011 by Princeton University.  \n"
    adjectives.write_text(licence + ADJECTIVES)
    task = load_task("idm", StubModel(byte_tokenizer(["kitten"])), data_dir=wordnet)
    assert task.report["source"] == "WordNet 3.1 through NLTK"
    (one,) = task.train + task.validation + task.test
    assert one == Example('a young cat is called a "', "kitten")
    assert task.report["senses"] == 5
    assert task.report["template_of"] == "GPT2LMHeadModel"


def test_nltk_data_is_found_without_a_folder(
    wordnet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nltk.data, "path", [str(wordnet)])
    assert len(wordnet_senses()) == 5


def test_missing_wordnet_names_the_one_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = StubModel(byte_tokenizer(["cat"]))
    with pytest.raises(MissingDataError, match=r"python -m nltk.downloader -d .* wordnet$"):
        load_task("idm", model, data_dir=tmp_path)
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    with pytest.raises(MissingDataError, match=r"NLTK_DATA.*: python -m nltk.downloader wordnet$"):
        load_task("idm", model)


@pytest.mark.parametrize(
    "line", ["00000010 05 n", "00000010 05 n zz cat 0 000 | a", "1 2 n 01 cat 0 000"]
)
def test_a_garbled_line_is_named(wordnet: Path, line: str) -> None:
    (wordnet / "corpora/wordnet/data.verb").write_text(f"  1 licence\n{line}\n")
    with pytest.raises(DataFormatError, match=r"data.verb, line 2 is no line of a WordNet"):
        wordnet_senses(wordnet)


def test_an_incomplete_folder_is_refused(wordnet: Path) -> None:
    (wordnet / "corpora/wordnet/index.sense").unlink()
    with pytest.raises(MissingDataError, match=r"has no index.sense. Get it again"):
        wordnet_senses(wordnet)


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("a young (domestic (or wild)) cat", "a young cat"),
        ("soft; it purrs!  (loudly)", "soft it purrs"),
        ("the cat's well-known `mew' - or hiss", "the cat's well-known mew or hiss"),
        ("50% of a_b / café", "50 of a b café"),
        ("(nothing)", ""),
        ("an open (bracket", "an open bracket"),
    ],
)
def test_cleaning(raw: str, clean: str) -> None:
    assert clean_definition(raw) == clean


@given(st.text(alphabet="ab '-();,.!_\"é\t", max_size=40))
def test_cleaning_twice_changes_nothing(raw: str) -> None:
    clean = clean_definition(raw)
    assert clean_definition(clean) == clean
    assert not set(clean) & set('();,.!_"\t')
    assert "  " not in clean


def test_filters_in_their_order() -> None:
    senses = [
        Sense("cat", "feline mammal", 18),
        Sense("puss", "feline mammal", 20),  # step 5 would keep it, but it is not one token
        Sense("tom", "feline mammal", 18),  # a tie: the first stays
        Sense("cat", "a spiteful woman", 3),  # a rarer sense
        Sense("true_cat", "feline mammal", 99),
        Sense("Cat", "a name", 99),
        Sense("dog", "a dog that barks", 5),  # contains the word
        Sense("hound", "(obsolete)", 5),  # nothing is left
        Sense("hound", "a hunting animal!", 0),
    ]
    task = idm_from_senses(senses, byte_tokenizer(["cat", "tom", "dog", "hound"]), PROMPT, 42)
    found = {(one.prompt, one.answer) for one in task.train + task.validation + task.test}
    assert found == {
        ('feline mammal is called a "', "cat"),
        ('a hunting animal is called a "', "hound"),
    }
    counts = [9, 7, 5, 4, 3, 2, 2]
    steps = [
        "senses",
        "single_lower_case_words",
        "usable_definitions",
        "one_token",
        "one_word_a_definition",
        "one_definition_a_word",
        "one_token_in_context",
    ]
    assert [task.report[step] for step in steps] == counts
    assert (task.report["train_in_paper"], task.report["test_in_paper"]) == (9563, 1231)


def test_no_word_is_one_token(crude: Any) -> None:
    with pytest.raises(AnswerError, match="none of 1 words of WordNet is a single token"):
        idm_from_senses([Sense("cat", "feline mammal", 1)], crude, PROMPT, 42)
    senses = [Sense("cat", "feline mammal", 1), Sense("cat", "a woman", 0)]
    whole = idm_from_senses(senses, crude, PROMPT, 42, several=True)
    assert [whole.report[f"any_tokens{of}"] for of in ("", "_in_context")] == [2, 1]
    assert (
        whole.filtered("test")
        == "filters left 1 of 2 definitions: answers of known tokens, none twice"
    )


def test_a_word_is_on_the_same_side_for_every_tokenizer() -> None:
    words = [f"{a}{b}" for a in "bcdfghklmn" for b in "aeiouwxyzs"]
    senses = [Sense(word, f"a {i} thing", 0) for i, word in enumerate(words)]
    full = idm_from_senses(senses, byte_tokenizer(words), PROMPT, 42)
    half = idm_from_senses(senses, byte_tokenizer(words[::2]), PROMPT, 42)
    other = idm_from_senses(senses, byte_tokenizer(words), PROMPT, 43)
    assert [len(full.split(x)) for x in ("train", "validation", "test")] == [80, 10, 10]
    for name in ("train", "validation", "test"):
        assert set(half.split(name)) <= set(full.split(name)) != set(other.split(name))
    assert idm_from_senses(senses, byte_tokenizer(words), PROMPT, 42) == full


@pytest.fixture(scope="module")
def real(data_dir: Path) -> list[Sense]:
    assert wordnet_version(data_dir / "nltk_data") == "3.0"
    return wordnet_senses(data_dir / "nltk_data")


@pytest.mark.data
def test_the_real_wordnet_against_nltks_reader(
    real: list[Sense], data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(real) == 206_978
    ours = Counter((one.word, one.definition) for one in real)
    counted = {(one.word, one.definition): one.count for one in real}
    monkeypatch.setattr(nltk.data, "path", [str(data_dir / "nltk_data")])
    with pytest.warns(UserWarning, match="multilingual functions"):
        reader = WordNetCorpusReader(nltk.data.find("corpora/wordnet"), None)
    synsets = list(reader.all_synsets("r"))
    theirs = Counter((name, one.definition()) for one in synsets for name in one.lemma_names())
    assert sum((theirs - ours).values()) == 0
    examples = {(one.word, one.text) for one in wordnet_examples(data_dir / "nltk_data")}
    for synset in synsets[::20]:
        for name, text in product(synset.lemma_names(), synset.examples()):
            occurs = name.lower() in re.findall("[a-z0-9]+", text.lower())
            assert not occurs or (name.lower(), text.strip()) in examples, (name, text)
        for lemma in synset.lemmas():
            assert counted[lemma.name(), synset.definition()] == lemma.count()


@pytest.mark.data
def test_no_word_and_no_definition_is_in_two_splits(real: list[Sense]) -> None:
    sample = real[::10]
    words = sorted({one.word for one in sample if one.count})
    task = idm_from_senses(sample, byte_tokenizer(words), PROMPT, 42)
    splits = [task.split(name) for name in ("train", "validation", "test")]
    assert [task.report[name] for name in ("train", "validation", "test")] == [*map(len, splits)]
    total = sum(map(len, splits))
    assert total > 1000
    assert abs(len(splits[0]) / total - 0.8) < 0.04
    for part in ("answer", "prompt"):
        assert len({getattr(one, part) for rows in splits for one in rows}) == total
