"""Tags of units: by word lists, by spaCy pipelines, by functions; and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
import spacy
from hypothesis import given, strategies as st
from spacy.language import Language
from spacy.tokens import Doc

from interp_compose.errors import MissingDataError, OptionError
from interp_compose.text.tagging import OTHER, tagger_of, unit_tags
from interp_compose.text.units import TokenizedPrompt


def units(text: str, *bounds: int) -> TokenizedPrompt:
    """One token a unit, the text cut at ``bounds``; a special token in front."""
    ends = [*bounds, len(text)]
    offsets = [(0, 0), *zip([0, *bounds], ends, strict=True)]
    n = len(offsets)
    return TokenizedPrompt(text, np.arange(n), np.arange(n) - 1, np.array(offsets))


@pytest.fixture(scope="module")
def pipeline() -> Callable[..., Language]:
    """Blank English with a component that gives parts of speech by ``of`` a word."""

    def make(of: Callable[[str], str], name: str) -> Language:
        def tag(doc: Doc) -> Doc:
            for token in doc:
                token.pos_ = of(token.text)
            return doc

        Language.component(name, func=tag)
        nlp = spacy.blank("en")
        nlp.add_pipe(name)
        return nlp

    return make


def test_kinds_of_words_without_a_model() -> None:
    prompt = units("the 7 young cats, not three", 3, 5, 11, 16, 17, 21)
    assert [prompt.group_text(i) for i in range(7)] == [
        "the", "7", "young", "cats", ",", "not", "three",
    ]  # fmt: skip
    assert unit_tags(prompt, tagger_of("kind")) == [
        "function", "number", "content", "content", "punctuation", "function", "number",
    ]  # fmt: skip


def test_parts_of_speech_of_a_pipeline(pipeline: Callable[..., Language]) -> None:
    nlp = pipeline(lambda word: "NOUN" if word in ("cat", "dogs") else "X", "nouns")
    prompt = units("a cat  sees dogs", 1, 5, 11)
    assert unit_tags(prompt, tagger_of(nlp)) == ["X", "NOUN", "X", "NOUN"]


def test_a_token_without_a_part_of_speech_is_other(pipeline: Callable[..., Language]) -> None:
    nlp = pipeline(lambda word: "NOUN" if word == "cat" else "", "only_cats")
    assert unit_tags(units("a cat", 1), tagger_of(nlp)) == [OTHER, "NOUN"]


def test_a_pipeline_without_a_tagger_is_refused() -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    with pytest.raises(
        OptionError, match=r"gives no part of speech; it has \['sentencizer'\]\. Load one with a"
    ):
        unit_tags(units("a cat", 1), tagger_of(nlp))


def test_a_pipeline_that_is_not_there_is_named_with_its_command() -> None:
    with pytest.raises(
        MissingDataError, match="'xx_no' is no spaCy pipeline .*spacy download en_core_web_sm"
    ):
        tagger_of("xx_no")


def test_the_range_that_shares_most_gives_the_tag() -> None:
    prompt = units("abcdefgh", 3, 6)

    def by(*ranges: tuple[int, int, str]) -> list[str]:
        return unit_tags(prompt, tagger_of(lambda text: ranges))

    assert by((0, 2, "a"), (2, 8, "b")) == ["a", "b", "b"]
    assert by((0, 4, "a"), (4, 6, "b"), (6, 6, "c")) == ["a", "b", OTHER]
    assert by((3, 4, "late"), (4, 5, "later")) == [OTHER, "late", OTHER]  # the earlier of two alike
    assert by() == [OTHER] * 3


def test_a_unit_of_several_tokens_has_one_tag() -> None:
    prompt = TokenizedPrompt(
        "unhappy cat",
        np.arange(4),
        np.array([0, 0, 1, 1]),
        np.array([(0, 2), (2, 7), (7, 9), (9, 11)]),
    )
    tagger = tagger_of(lambda text: [(0, 2, "PREFIX"), (2, 7, "ADJ"), (8, 11, "NOUN")])
    assert unit_tags(prompt, tagger) == ["ADJ", "NOUN"]


@given(st.lists(st.integers(1, 11), max_size=5, unique=True), st.data())
def test_tags_equal_a_count_of_characters(bounds: list[int], data: st.DataObject) -> None:
    prompt = units("abcdefghijkl", *sorted(bounds))
    cuts = sorted(data.draw(st.lists(st.integers(0, 12), min_size=2, max_size=6, unique=True)))
    ranges = [(a, b, f"{a}") for a, b in pairwise(cuts)]
    found = unit_tags(prompt, tagger_of(lambda text: ranges))
    for unit, (low, high) in enumerate(prompt.offsets[1:].tolist()):
        of_character = {at: tag for a, b, tag in ranges for at in range(a, b)}
        inside = [of_character[at] for at in range(low, high) if at in of_character]
        counts = {tag: inside.count(tag) for tag in inside}  # in reading order
        expected = max(counts, key=lambda tag: counts[tag]) if counts else OTHER
        assert found[unit] == expected


@pytest.mark.parametrize(
    ("gives", "message"),
    [
        ([(0, 2)], r"gave \(0, 2\) for 'a cat'; expected \(start, end, tag\)"),
        ([(0, 2, "")], r"gave \(0, 2, ''\)"),
        ([(0, 2, 3)], r"gave \(0, 2, 3\)"),
        ([(0.0, 2, "N")], r"gave \(0\.0, 2, 'N'\)"),
        ([[0, 2, "N"]], r"gave \[0, 2, 'N'\]"),
        ([(0, 9, "N")], r"gave \(0, 9, 'N'\) for 'a cat', which has 5 characters"),
        ([(3, 2, "N")], r"gave \(3, 2, 'N'\)"),
        ([(-1, 2, "N")], r"gave \(-1, 2, 'N'\)"),
        (None, r"gave None for 'a cat'; expected"),
        ("N", r"gave 'N' for 'a cat'; expected"),
    ],
)
def test_what_a_function_gives_is_checked(gives: Any, message: str) -> None:
    def tagger(text):  # untyped, as a user's may be
        return gives

    with pytest.raises(OptionError, match=message):
        unit_tags(units("a cat", 1), tagger)


def test_a_word_near_kind_is_asked_back() -> None:
    with pytest.raises(MissingDataError, match=r"'kinds' is no spaCy .*; did you mean 'kind'\?$"):
        tagger_of("kinds")


@pytest.mark.parametrize("given_", [3, ["kind"], {"a": "N"}, pd.Series([0], ["mean"])])
def test_other_things_are_no_tagger(given_: Any) -> None:
    with pytest.raises(OptionError, match=r"tagger=.*: expected 'kind', a spaCy pipeline or its"):
        tagger_of(given_)
