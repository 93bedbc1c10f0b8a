"""Words and their ids."""

from __future__ import annotations

import pytest

from interp_compose.errors import InputError
from interp_compose.papers.shared.text.vocabulary import Vocabulary


def test_ids_of_sorted_words_after_the_specials() -> None:
    vocabulary = Vocabulary.of(["jump  twice", "run", "jump and run"])
    assert vocabulary.words == ("and", "jump", "run", "twice")
    assert len(vocabulary) == 7
    assert vocabulary.ids("run and jump") == [5, 3, 4]
    assert vocabulary == Vocabulary(("and", "jump", "run", "twice"))
    assert vocabulary.text([5, 3, 2, 4, 0]) == "run and"
    assert vocabulary.text([1, 5, 0, 4]) == "<bos> run <pad> jump"
    assert vocabulary.text([2]) == ""


def test_what_no_vocabulary_can_hold_is_named() -> None:
    vocabulary = Vocabulary.of(["jump run"])
    with pytest.raises(InputError, match="'walk' in 'jump walk' is not among the 2 words"):
        vocabulary.ids("jump walk")
    with pytest.raises(InputError, match="'<eos>' in 'jump <eos>' is not among"):
        vocabulary.ids("jump <eos>")
    with pytest.raises(InputError, match="the text ' ' has no words"):
        vocabulary.ids(" ")
    for i in (5, -1):
        with pytest.raises(InputError, match=f"id {i} lies outside a vocabulary of 5"):
            vocabulary.text([i])
    with pytest.raises(InputError, match="'<pad>' cannot be a word of the data"):
        Vocabulary.of(["jump <pad>"])
    with pytest.raises(InputError, match="'a b' cannot be a word"):
        Vocabulary(("a b",))
    with pytest.raises(InputError, match="'a' is a word of the vocabulary 2 times"):
        Vocabulary(("a", "a"))
