"""Which phrases of reviews are knocked out, and which reviews are transplanted."""

from __future__ import annotations

import re
from dataclasses import replace

import pandas as pd
import pytest

import interp_compose as ic
from benchmarks.cap_outcomes import answers_given, without_prompts
from benchmarks.natural_phrases import ELSEWHERE, WHOLE, pairs_of
from benchmarks.review_phrases import (
    DECIDES,
    KEPT,
    OTHER,
    Review,
    beside,
    items_of,
    review,
    without_text,
)
from interp_compose.tasks.sst import FEW_SHOT

GOOD = "(4 (2 A) (4 gem))"
PLAIN = "(2 (2 of) (2 (2 a) (2 town)))"
BETTER = "(3 (2 of) (2 (2 a) (2 city)))"


def example(tree: str, text: str, answer: str) -> ic.Example:
    return ic.Example(FEW_SHOT(text), answer, tree=tree)


@pytest.mark.parametrize(
    ("tree", "text", "answer", "phrases"),
    [
        (
            f"(4 {GOOD} {PLAIN})",
            "A gem of a town",
            " positive",
            {DECIDES: "A gem", OTHER: "of a town"},
        ),
        (  # full stops and dashes are no phrases
            f"(4 (2 --) (4 (4 {PLAIN} {BETTER}) (2 .)))",
            "-- of a town of a city .",
            " positive",
            {DECIDES: "of a city", OTHER: "of a town"},
        ),
        (f"(4 {GOOD} (3 fine))", "A gem fine", " positive", {}),  # both have it
        (f"(1 {GOOD} {PLAIN})", "A gem of a town", " negative", {}),  # neither has it
        ("(4 (4 (4 A) (4 true)) (2 town))", "A true town", " positive", {}),  # it is the longer
        (f"(2 {GOOD} {PLAIN})", "A gem of a town", " neutral", {}),
        ("(3 fine)", "fine", " positive", {}),
    ],
)
def test_the_phrase_that_alone_has_a_review_s_sentiment_decides(
    tree: str, text: str, answer: str, phrases: dict[str, str]
) -> None:
    one = example(tree, text, answer)
    found = review(one)
    shown = {tag: one.prompt[low:high] for low, high, tag in found.phrases} if found else {}
    assert shown == phrases


def test_the_case_is_which_phrase_comes_first() -> None:
    last = review(example(f"(4 {PLAIN} {GOOD})", "of a town A gem", " positive"))
    first = review(
        example(
            f"(4 {GOOD} {PLAIN.replace('(2 (2 of', '(0 (2 of')})", "A gem of a town", " positive"
        )
    )
    assert last
    assert first
    assert (last.case, last.other) == ("its phrase last", "neutral")
    assert (first.case, first.other) == ("its phrase first", "negative")


@pytest.mark.parametrize("n", [1, 5, 12, 15])
def test_as_many_words_of_one_demonstrated_review_are_the_control(n: int) -> None:
    one = example("(2 whole)", "whole", " positive")
    start = one.prompt.index("whole")
    one = replace(one, spans=((start, start + len("whole")),))
    own = one.prompt.index("a dull , lifeless mess")
    phrase = (own, own + len(" ".join(one.prompt[own:].split(" ")[:n])), DECIDES)
    shown = re.findall(r"Review: (.*)\n", FEW_SHOT.template)[:3]
    found = set()
    for seed in range(60):
        (low, high, elsewhere), whole = beside(Review(one, [phrase], "neutral"), seed)
        assert elsewhere == ELSEWHERE
        assert whole == (start, start + len("whole"), WHOLE)
        text = one.prompt[low:high]
        assert len(text.split()) == min(n, 12)
        assert any(text in each for each in shown)
        found.add((low, high))
    assert len(found) > (0 if n >= 12 else 5)
    assert beside(Review(one, [phrase], "neutral"), 3) == beside(Review(one, [phrase], ""), 3)


def test_whole_reviews_are_transplanted_into_those_of_the_other_sentiment() -> None:
    texts = {
        " positive": ["A gem", "So [very] fine"],
        " negative": ["So dull", "Bad"],
        " neutral": ["So"],
    }
    examples = []
    for answer, of in texts.items():
        for text in of:
            start = FEW_SHOT.template.index("{}")
            span = (start, start + len(text))
            examples.append(ic.Example(FEW_SHOT(text), answer, spans=(span,)))
    items = items_of(examples, 4, 0)
    assert sorted(item.text for item in items) == ["[A gem]", "[Bad]", "[So dull]"]
    assert len(items_of(examples, 2, 0)) == 2
    for pair in pairs_of(FEW_SHOT.template, items, 0):
        assert pair.expected != pair.answer
        assert pair.source_phrase in texts[pair.expected]
        assert pair.target_phrase in texts[pair.answer]
        assert pair.composed == pair.source


def test_no_text_is_kept() -> None:
    row = {name: 1 for names in KEPT.values() for name in names}
    for table, names in KEPT.items():
        (kept,) = without_text(table, [{**row, "prompt": "A gem", "source_phrase": "A gem"}])
        assert list(kept) == names


def test_of_texts_that_are_not_shipped_answers_alone_are_kept() -> None:
    clean = pd.DataFrame(
        {
            "prompt": ["A gem", "Bad", "So dull"],
            "answer": [" positive", " negative", " negative"],
            "prediction_text": [" positive", " positive", " negative"],
        }
    )
    assert all("prompt" not in row for row in without_prompts(clean))
    assert answers_given(clean) == [
        {"answer": " negative", "prediction_text": " negative", "n": 1},
        {"answer": " negative", "prediction_text": " positive", "n": 1},
        {"answer": " positive", "prediction_text": " positive", "n": 1},
    ]
