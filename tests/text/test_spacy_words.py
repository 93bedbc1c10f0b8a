"""Words are spaCy's words."""

from __future__ import annotations

import numpy as np
import pytest
import spacy
from hypothesis import given, settings, strategies as st

from interp_compose.text import spacy_words
from interp_compose.text.spacy_words import word_starts

NLP = spacy.blank("en")
RUNS = [
    "don't",
    "U.S.",
    "e.g.",
    '"stop."',
    "(a)",
    "10km",
    "well-known",
    "x@y.com",
    "🙂🙂",
    "I'm",
    ":)",
]


def starts_of(text: str) -> list[int]:
    visible = np.array([not char.isspace() for char in text], dtype=bool)
    return np.flatnonzero(word_starts(text, visible)).tolist()


@settings(max_examples=150, derandomize=True)
@given(
    st.one_of(
        st.text("abcIm'. \n\t-,", max_size=30),
        st.lists(st.sampled_from([*RUNS, " ", "\n", "the", "\u00a0"]), max_size=12).map(" ".join),
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters=":;=()"), max_size=20),
    )
)
def test_the_words_are_those_of_spacy(text: str) -> None:
    expected = [word.idx for word in NLP.make_doc(text) if not word.is_space]
    assert starts_of(text) == expected


def test_an_emoticon_beside_a_lone_bracket_is_still_found() -> None:
    """The one place where we differ: spaCy loses it to a match across the blank."""
    assert [word.text for word in NLP.make_doc("x :(")] == ["x", ":("]
    assert [word.text for word in NLP.make_doc("( :(3")] == ["(", ":", "(", "3"]
    assert starts_of("( :(3") == [0, 2, 4]


def test_the_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spacy_words, "_MAX_CACHED", 3)
    monkeypatch.setattr(spacy_words, "_inner_starts", {})
    for n in range(5):
        assert starts_of(f"({n}) don't") == [0, 1, 2, 4, 6]
        assert len(spacy_words._inner_starts) <= 3 + 2  # the bound, and one text's runs
    assert starts_of("don't") == [0, 2]
