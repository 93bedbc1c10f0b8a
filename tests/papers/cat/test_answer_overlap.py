"""Answers against those of people: SQuAD's evaluation, character by character."""

from __future__ import annotations

import random

import pytest

from interp_compose.papers.cat.stats.answer_overlap import exact_match, normalized_answer, token_f1

PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"


def slow_words(text: str) -> list[str]:
    """Lower case, no punctuation, no articles: one character after the other."""
    kept = [one for one in text.lower() if one not in PUNCTUATION]
    words, word = [], ""
    for one in [*kept, " "]:
        if one.isalnum():
            word += one
            continue
        words.append("" if word in ("a", "an", "the") else word)
        words.append(" " if one.isspace() else one)
        word = ""
    return "".join(words).split()


def slow_f1(answer: str, right: str) -> float:
    found, wanted = slow_words(answer), slow_words(right)
    left, shared = list(wanted), 0
    for word in found:
        if word in left:
            left.remove(word)
            shared += 1
    if shared == 0:
        return 0.0
    precision, recall = shared / len(found), shared / len(wanted)
    return 2 * precision * recall / (precision + recall)


def test_against_a_slow_reference() -> None:
    random_ = random.Random(0)
    parts = ["the", "An", "a", "than", "cat", "Cat,", "U.S.", "1,000", "–", "dogs'", "é", "(b)"]
    exact = partial = 0
    for _ in range(300):
        answer = " ".join(random_.choices(parts, k=random_.randrange(4)))
        right = [" ".join(random_.choices(parts, k=random_.randrange(1, 4))) for _ in range(2)]
        assert normalized_answer(answer).split() == slow_words(answer)
        same = max(slow_words(answer) == slow_words(one) for one in right)
        f1 = max(slow_f1(answer, one) for one in right)
        assert exact_match(answer, right) == float(same)
        assert token_f1(answer, right) == pytest.approx(f1)
        exact, partial = exact + same, partial + (0 < f1 < 1)
    assert exact > 10
    assert partial > 30


@pytest.mark.parametrize(
    ("answer", "right", "exact", "f1"),
    [
        ("The Broncos!", ["Denver Broncos", "broncos"], 1, 1),
        ("Denver", ["the Denver Broncos"], 0, 2 / 3),
        ("Broncos Denver", ["Denver Broncos"], 0, 1),
        ("no no no", ["no"], 0, 0.5),  # a word counts as often as both have it
        ("", ["Denver"], 0, 0),
        ("the", ["a"], 1, 0),  # nothing is left of either: 1.1 gives an F1 of 0, 2.0 one of 1
        ("theatre", ["atre"], 0, 0),
        ("well-known", ["wellknown"], 1, 1),
    ],
)
def test_by_hand(answer: str, right: list[str], exact: float, f1: float) -> None:
    assert exact_match(answer, right) == exact
    assert token_f1(answer, right) == pytest.approx(f1)
