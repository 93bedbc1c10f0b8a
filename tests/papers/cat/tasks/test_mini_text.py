"""The toy text and its sememes: always the same, meaning what it says, taken by ``pretrain``."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import interp_compose as ic
from interp_compose.errors import InputError, OptionError
from interp_compose.papers.cat.studies.pretrain.data import kept, sememes_by_tokens
from interp_compose.papers.cat.tasks.mini_text import (
    KINDS,
    VOCABULARY,
    mini_documents,
    mini_sememes,
)
from interp_compose.papers.cat.tasks.sememes import place_of

TINY = ic.cat.EncoderTraining(
    n_ctx=40, n_layers=1, d_model=8, n_heads=2, d_mlp=12, max_steps=2, batch_tokens=150, n_looks=1
)
HERE: dict[str, Any] = {"seeds": 1, "run": TINY, "where": "here", "progress": False}


def names_of(sememes: ic.cat.Sememes, word: str) -> set[str]:
    return {sememes.names[number] for number in sememes.words[word]}


def test_it_is_the_same_text_again() -> None:
    """Its digest is that of the figures in the docs."""
    text = "\n\n".join(mini_documents())
    assert sha256(text.encode()).hexdigest()[:16] == "b5d35c0fc93eeaf2"


def test_a_document_is_of_one_animal_and_says_what_it_is() -> None:
    """Every annotated word of a document is of one kind; who is *he* is male; all words occur."""
    sememes, seen = mini_sememes(), set()
    for document in mini_documents():
        words = document.split()
        annotated = [word for word in words if word in sememes.words]
        seen.update(annotated)
        kinds = [names_of(sememes, word) & set(KINDS) for word in annotated]
        assert len(set.intersection(*kinds)) == 1
        who = re.search(r"the (\w+) (?:lives|\w+ \.)", document)
        assert who is not None
        role = names_of(sememes, who[1])
        for pronoun, sememe in (("he", "male"), ("she", "female"), ("it", "young")):
            assert (pronoun not in words) or sememe in role
    assert seen == set(sememes.words)
    assert names_of(sememes, "ram") == {"sheep", "beast", "male", "adult"}
    assert names_of(sememes, "gosling") == {"goose", "bird", "young"}
    assert names_of(sememes, "bread") == {"human", "food"}


def test_words_are_named_by_their_sememes() -> None:
    made = ic.cat.Sememes.of({"ram": ["sheep", "male"], "ewe": ["female", "sheep", "sheep"]})
    assert made.names == ("sheep", "male", "female")
    assert made.words == {"ram": (0, 1), "ewe": (0, 2)}
    with pytest.raises(InputError, match="'ram' has the sememes"):
        ic.cat.Sememes.of({"ram": [], "ewe": ["sheep"]})
    for nothing in ({}, {"ram": []}):
        with pytest.raises(InputError, match=r"the sememes \{.*\} name none: expected words, and"):
            ic.cat.Sememes.of(nothing)


def test_sememes_of_words_that_the_text_has_not_are_refused(tmp_path: Path) -> None:
    """They would guide nothing, in silence; one word that occurs is enough."""
    foreign = {f"zz{letter}q": ["a", "b"] for letter in "abcdefghijklmnop"}
    with pytest.raises(InputError, match=r"none of the \d+ annotated words .* 'zz.q', occurs in "):
        ic.cat.pretrain("mini", ["bert", "cat-last"], tmp_path, sememes=foreign, **HERE)
    assert not list((tmp_path / "data").iterdir())
    # "dog" does not occur, and is a part of nothing that does; "lamb" occurs, "lam" inside it only.
    for words, occurs in (({"lamb": ["a"]}, True), ({"lam": ["a"]}, False)):
        guiding = {**foreign, **words}
        assert min(map(place_of, foreign)) < 0.1 <= place_of(next(iter(words)))
        out = tmp_path / next(iter(words))
        if occurs:
            ic.cat.pretrain("mini", ["cat-last"], out, sememes=guiding, **HERE)
            continue
        with pytest.raises(InputError, match="occurs in the training text"):
            ic.cat.pretrain("mini", ["cat-last"], out, sememes=guiding, **HERE)


def test_it_pretrains_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its own sememes and vocabulary, and again where the result lies already."""
    monkeypatch.chdir(tmp_path)
    trained = ic.cat.pretrain("mini", ["bert", "cat-last"], "out", **HERE)
    assert (trained.config["task"], trained.config["vocab_size"]) == ("mini", VOCABULARY)
    assert Path("out/mini.txt").read_text(encoding="utf-8") == "\n\n".join(mini_documents())
    data = kept(tmp_path / "out", trained.config["data"])
    assert data.guiding is not None
    assert data.held_out_words is not None
    words = {**data.guiding.words, **data.held_out_words.words}
    assert words == mini_sememes().words
    for side in (data.guiding, data.held_out_words):
        assert len(sememes_by_tokens(data.tokenizer, side)) == len(side.words)
    again = ic.cat.pretrain("mini", ["bert", "cat-last"], "out", **HERE)
    assert again.config == trained.config
    Path("mini").mkdir()
    with pytest.raises(InputError, match="'mini' is the toy text, and there is .*whole path"):
        ic.cat.pretrain("mini", ["bert"], "out", **HERE)


def test_a_dictionary_is_annotations(tmp_path: Path) -> None:
    mine = {word: [f"kind {i % 3}"] for i, word in enumerate(mini_sememes().words)}
    trained = ic.cat.pretrain("mini", ["cat-last"], tmp_path, sememes=mine, **HERE)
    guiding = kept(tmp_path, trained.config["data"]).guiding
    assert guiding is not None
    assert guiding.names == ("kind 0", "kind 1", "kind 2")


def test_what_a_small_text_meets_is_said_in_the_users_words(tmp_path: Path) -> None:
    """Shares and vocabularies that nobody gave are named as options, with one that does."""
    (tmp_path / "mine.txt").write_text("\n\n".join(mini_documents()), encoding="utf-8")
    few = {word: ["sheep"] for word in ("ram", "ewe", "lamb")}
    given: dict[str, Any] = {**HERE, "sememes": few}
    where = (tmp_path / "mine.txt", ["cat-last"], tmp_path / "out")
    with pytest.raises(OptionError, match=r"held_out_words=0\.1 holds out none of the 3") as error:
        ic.cat.pretrain(*where, **given)
    (share,) = re.findall(r"such as ([\d.]+)$", str(error.value))
    assert sum(place_of(word) < float(share) for word in few) == 1
    with pytest.raises(
        OptionError, match=r"give vocab_size=(\d+), or another text; 8192 is what .*--vocab-size"
    ) as error:
        ic.cat.pretrain(*where, **given, held_out_words=float(share))
    (size,) = re.findall(r"give vocab_size=(\d+)", str(error.value))
    ic.cat.pretrain(*where, **given, held_out_words=float(share), vocab_size=int(size))
