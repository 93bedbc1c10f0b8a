"""WordPiece: pieces against a search for the longest, special tokens, what is refused."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from interp_compose.errors import OptionError
from interp_compose.papers.cat.text.wordpiece import (
    CLS,
    MASK,
    MOST,
    PAD,
    SEP,
    SPECIALS,
    UNK,
    WordPieces,
    WordPieceTokenizer,
    continuing,
)

TEXTS = [
    "The water body, watered.",
    "Bodies of WATER; watery\nbody",
    "Cafés: no café unbodied!",
] * 2
SIZE = 64
TOKENIZER = WordPieceTokenizer.trained(TEXTS, SIZE)
VOCABULARY: dict[str, int] = TOKENIZER.get_vocab()
SEEN = "abcdefinortuwy"
"""Letters that begin a word of the text, or go on with one."""


def words_of(text: str) -> list[str]:
    """Lower case, no accents, punctuation apart."""
    plain = text.lower().replace("é", "e")
    return "".join(one if one.isalnum() else f" {one} " for one in plain).split()


def slow_pieces(word: str) -> list[str]:
    """The longest entry that the word begins with, then that of the rest; none: unknown."""
    pieces: list[str] = []
    while word:
        begin = "##" if pieces else ""
        ends = [n for n in range(len(word), 0, -1) if begin + word[:n] in VOCABULARY]
        if not ends:
            return [SPECIALS[UNK]]
        pieces.append(begin + word[: ends[0]])
        word = word[ends[0] :]
    return pieces


def surfaces(text: str) -> list[str]:
    """What a text is split into, special tokens left out."""
    ids = TOKENIZER(text, add_special_tokens=False)["input_ids"]
    found: list[str] = TOKENIZER.convert_ids_to_tokens(ids)
    return found


def test_special_tokens_come_first() -> None:
    assert [VOCABULARY[one] for one in SPECIALS] == [PAD, UNK, CLS, SEP, MASK] == list(range(5))
    assert sorted(VOCABULARY.values()) == list(range(SIZE))
    assert len(TOKENIZER) == SIZE
    names = ("pad", "unk", "cls", "sep", "mask")
    assert [getattr(TOKENIZER, f"{name}_token_id") for name in names] == list(range(5))


def test_every_piece_is_in_the_text_where_it_says() -> None:
    """Longer ones twice at least, at the beginning of a word or inside it, as ## says."""
    counts: Counter[str] = Counter()
    for text in TEXTS:
        for word in words_of(text):
            counts.update(word[:n] for n in range(1, len(word) + 1))
            for at in range(1, len(word)):
                counts.update("##" + word[at:n] for n in range(at + 1, len(word) + 1))
    for entry in set(VOCABULARY) - set(SPECIALS):
        letters = len(entry.removeprefix("##"))
        assert counts[entry] >= 2 or letters == 1, entry
    whole = {entry for entry in VOCABULARY if len(entry) > 1 and not entry.startswith("##")}
    assert whole & {"water", "body", "cafe", "wat", "bod", "caf"}  # something was merged


@given(st.lists(st.text(SEEN, min_size=1, max_size=12), min_size=1, max_size=4))
def test_words_are_split_into_their_longest_pieces(words: list[str]) -> None:
    expected = [piece for word in words for piece in slow_pieces(word)]
    assert surfaces(" ".join(words)) == expected


def test_case_accents_and_punctuation() -> None:
    assert surfaces("Water,CAFÉ!") == surfaces("water , cafe !")
    assert surfaces("Water,CAFÉ!") == [
        piece for word in ("water", ",", "cafe", "!") for piece in slow_pieces(word)
    ]
    assert surfaces("x water") == [SPECIALS[UNK], *slow_pieces("water")]
    assert surfaces("##water")[0] == SPECIALS[UNK]  # the signs are no part of the text's vocabulary
    assert TOKENIZER.decode(TOKENIZER("Unbodied WATERY")["input_ids"][1:-1]) == "unbodied watery"


def test_what_stands_around_one_text_and_two() -> None:
    water, body = (TOKENIZER.convert_tokens_to_ids(slow_pieces(one)) for one in ("water", "body"))
    assert TOKENIZER("water")["input_ids"] == [CLS, *water, SEP]
    pair = TOKENIZER("water", "body", return_token_type_ids=True)
    assert pair["input_ids"] == [CLS, *water, SEP, *body, SEP]
    assert pair["token_type_ids"] == [0] * (2 + len(water)) + [1] * (1 + len(body))
    assert TOKENIZER("")["input_ids"] == [CLS, SEP]
    several = TOKENIZER(["water", "water body"], padding=True)
    assert several["input_ids"][0] == [CLS, *water, SEP, *[PAD] * len(body)]
    assert several["attention_mask"][0] == [1] * (2 + len(water)) + [0] * len(body)


def test_it_is_made_again_of_what_is_saved() -> None:
    again = WordPieceTokenizer(json.dumps(TOKENIZER.saved()))
    assert again.saved() == TOKENIZER.saved()
    assert again.get_vocab() == VOCABULARY
    for text in ("Unbodied water", "no such wörds", ""):
        assert again(text, "body") == TOKENIZER(text, "body")
    assert (again.mask_token_id, again.pad_token_id) == (MASK, PAD)


def test_equal_texts_give_equal_vocabularies() -> None:
    """Ties between pieces included, of which there are many in words that occur as often."""
    texts = ["the quick brown fox jumps over lazy dogs, while seven wizards pack my box"] * 2
    one, again, other = (
        WordPieceTokenizer.trained(own, 85).saved() for own in (texts, list(texts), texts[::-1])
    )
    assert one == again == other


def test_which_entries_go_on_with_a_word() -> None:
    marks = continuing(TOKENIZER)
    assert marks.shape == (SIZE,)
    assert {one for one, i in VOCABULARY.items() if marks[i]} == {
        one for one in VOCABULARY if one.startswith("##")
    }
    assert 0 < marks.sum() < SIZE
    assert not marks[: len(SPECIALS)].any()


def test_another_sign_for_going_on() -> None:
    vocabulary = {"[UNK]": 0, "##a": 1, "@@a": 2, "a": 3, "@@": 4}
    backend = Tokenizer(
        models.WordPiece(vocabulary, unk_token="[UNK]", continuing_subword_prefix="@@")
    )
    found = continuing(PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="[UNK]"))
    assert found.tolist() == [False, False, True, False, True]


def test_tokenizers_of_another_kind_are_refused(bpe: Any) -> None:
    message = "the tokenizer is a {}: expected one of WordPiece, as BERT has"
    for other, name in ((bpe, type(bpe).__name__), (None, "NoneType"), (TEXTS, "list")):
        with pytest.raises(OptionError, match=message.format(name)):
            continuing(other)


def test_a_vocabulary_that_cannot_be_is_refused() -> None:
    for size in (-1, 5, MOST + 1):
        with pytest.raises(OptionError, match=f"vocab_size={size}: expected 6 to 1,048,576"):
            WordPieceTokenizer.trained(TEXTS, size)
    with pytest.raises(OptionError, match=r"vocab_size=9999: the text supports \d+ entries"):
        WordPieceTokenizer.trained(TEXTS, 9999)
    with pytest.raises(OptionError, match=r"vocab_size=6: the text supports 9 entries \(its char"):
        WordPieceTokenizer.trained(["aaa bab"] * 2, 6)  # a, b, ##a and ##b are needed
    with pytest.raises(OptionError, match=r"vocab_size=6: the text supports 5 entries"):
        WordPieceTokenizer.trained([], 6)


def test_what_occurs_more_often_is_merged_first() -> None:
    """ "ab" is met four times, "abc" twice, and "abd" once, which is not enough."""
    texts = ["ab abc", "abc ab abd"]
    letters = {"a", "b", "c", "d", "##a", "##b", "##c", "##d"}  # each, wherever it stands
    for more in (set(), {"ab"}, {"ab", "abc"}):
        tokenizer = WordPieceTokenizer.trained(texts, 13 + len(more))
        assert set(tokenizer.get_vocab()) - set(SPECIALS) == letters | more
    with pytest.raises(OptionError, match="vocab_size=16: the text supports 15 entries"):
        WordPieceTokenizer.trained(texts, 16)


def test_names_of_special_tokens_in_a_text_are_read_as_any_characters() -> None:
    text = "a [SEP] [MASK] b"
    tokenizer = WordPieceTokenizer.trained([text] * 2, 25)
    (pieces,) = tokenizer.pieces([text])
    assert min(pieces) >= len(SPECIALS)
    assert tokenizer.decode(pieces).replace(" ", "") == text.lower().replace(" ", "")


def test_characters_that_are_words_of_their_own_go_on_with_none() -> None:
    tokenizer = WordPieceTokenizer.trained(["水 狗 ab."] * 2, 12)
    assert set(tokenizer.get_vocab()) - set(SPECIALS) == {"水", "狗", "a", "b", ".", "##a", "##b"}


def test_a_berts_tokenizer_gives_the_same_pieces_uncut() -> None:
    given = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(TOKENIZER.backend_tokenizer.to_str()),
        **{f"{one[1:-1].lower()}_token": one for one in SPECIALS},
    )
    given.backend_tokenizer.enable_truncation(4)
    made = WordPieceTokenizer.of(given)
    assert made.pieces(["the water body"]) == TOKENIZER.pieces(["the water body"])
    assert len(made("the water body, the water body").input_ids) > 4
    assert WordPieceTokenizer.of(made) is made
    pieces = WordPieces.of(made)
    assert (pieces.pad, pieces.cls, pieces.sep, pieces.mask) == (PAD, CLS, SEP, MASK)
    assert pieces.plain.tolist() == list(range(len(SPECIALS), len(TOKENIZER)))
    other = Tokenizer(models.WordPiece({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    with pytest.raises(OptionError, match=r"has no \[CLS\], \[MASK\], \[PAD\], \[SEP\]"):
        WordPieceTokenizer.of(PreTrainedTokenizerFast(tokenizer_object=other, unk_token="[UNK]"))
