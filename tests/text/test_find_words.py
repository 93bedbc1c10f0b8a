"""Words found again in token ids, whatever tokenizer cut them."""

from __future__ import annotations

from typing import Any

import pytest
from tokenizers import decoders

from interp_compose.errors import AlignmentError, PositionError
from interp_compose.text.find_words import word_positions
from tests.text.conftest import BUILDERS, unigram

TEXT = "the lazy dogs' tails, said the young dog"
CASES = {
    "dog": ["dog"],
    "lazy": ["lazy"],
    "young dog": ["young", "dog"],
    "the": ["the", "the"],
}


@pytest.fixture(scope="module")
def tokenizers() -> dict[str, Any]:
    """Each kind, with the decoder that its like has."""
    built = {name: build() for name, build in BUILDERS.items()}
    built["unigram"].backend_tokenizer.decoder = decoders.Metaspace()
    built["llama"].backend_tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return built


def surfaces(tokenizer: Any, ids: list[int], found: list[int]) -> str:
    """The text of the tokens found, without blanks and what marks a word's begin or middle."""
    pieces = tokenizer.convert_ids_to_tokens([ids[at] for at in found])
    return "".join(piece.strip("Ġ▁").removeprefix("##") for piece in pieces)


@pytest.mark.parametrize("word", CASES)
def test_every_occurrence_in_every_kind_of_tokenizer(tokenizer: Any, word: str) -> None:
    ids = tokenizer(TEXT)["input_ids"]
    found = word_positions(tokenizer, ids, [word])
    assert found == sorted(set(found))
    assert surfaces(tokenizer, ids, found) == "".join(CASES[word])
    special = {at for at, token in enumerate(ids) if token in tokenizer.all_special_ids}
    assert not special & set(found)


def test_without_its_special_tokens(tokenizer: Any) -> None:
    ids = tokenizer(TEXT)["input_ids"]
    bare = tokenizer(TEXT, add_special_tokens=False)["input_ids"]
    shift = ids.index(bare[0])
    found = word_positions(tokenizer, bare, ["dog", "said"])
    assert [at + shift for at in found] == word_positions(tokenizer, ids, ["dog", "said"])


def test_several_words_are_a_union(tokenizer: Any) -> None:
    ids = tokenizer(TEXT)["input_ids"]
    both = {*word_positions(tokenizer, ids, ["dog"]), *word_positions(tokenizer, ids, ["tails"])}
    assert word_positions(tokenizer, ids, ["tails", "dog"]) == sorted(both)


def test_blanks_separate_words(bpe: Any) -> None:
    ids = bpe("the dog sat apart on a part")["input_ids"]
    apart, a_part = word_positions(bpe, ids, ["apart"]), word_positions(bpe, ids, ["a part"])
    assert not set(apart) & set(a_part)
    assert bpe.decode([ids[at] for at in apart]) == " apart"
    assert bpe.decode([ids[at] for at in a_part]) == " a part"
    with pytest.raises(PositionError, match="no word 'do g'"):
        word_positions(bpe, ids, ["do g"])


def test_a_word_is_read_as_the_tokenizer_reads_it(tokenizers: dict[str, Any]) -> None:
    uncased = tokenizers["wordpiece"]
    ids = uncased("Don't you think? The dogs' tails")["input_ids"]
    found = word_positions(uncased, ids, ["Don't"])
    assert uncased.decode([ids[at] for at in found]).replace(" ", "") == "don't"
    assert word_positions(uncased, ids, ["The"]) == word_positions(uncased, ids, ["the"])
    cased = tokenizers["bpe"]
    ids = cased("The dog and the fox")["input_ids"]
    assert not set(word_positions(cased, ids, ["The"])) & set(word_positions(cased, ids, ["the"]))


def test_an_unknown_word_is_not_any_unknown_word(tokenizers: dict[str, Any]) -> None:
    uncased = tokenizers["wordpiece"]
    ids = uncased("a ☃ dog")["input_ids"]
    assert uncased.unk_token_id in ids
    with pytest.raises(PositionError, match="row 3 has no word '☂'"):
        word_positions(uncased, ids, ["☂"], row=3)
    assert len(word_positions(uncased, ids, ["dog"])) >= 1


@pytest.mark.parametrize("word", ["cat", "", " ", "laz", "dog said", "the lazy dogs' tails, saidd"])
def test_a_word_that_is_not_there(tokenizer: Any, word: str) -> None:
    ids = tokenizer(TEXT)["input_ids"]
    with pytest.raises(PositionError, match=r"row 2 has no word .*; its words are the, lazy, dogs"):
        word_positions(tokenizer, ids, [word], row=2)


def test_ids_that_no_text_gives(bpe: Any) -> None:
    ids = bpe("dog", add_special_tokens=False)["input_ids"]
    letters = [bpe.convert_tokens_to_ids(letter) for letter in "dog"]
    assert letters != ids
    with pytest.raises(AlignmentError, match="row 0 decodes to 'dog', which this tokenizer enc"):
        word_positions(bpe, letters, ["dog"])
    with pytest.raises(AlignmentError, match="row 1 holds no text, only special tokens"):
        word_positions(bpe, [bpe.bos_token_id], ["dog"], row=1)


def test_a_tokenizer_that_does_not_decode_to_text() -> None:
    tokenizer = unigram()  # it has no decoder, so that its blanks stay visible
    with pytest.raises(AlignmentError, match="row 0 decodes to .▁the ▁.*pass positions as numbers"):
        word_positions(tokenizer, tokenizer(TEXT)["input_ids"], ["dog"])
