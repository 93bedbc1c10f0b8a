"""Which phrases of reviews are knocked out, and which reviews are transplanted."""

from __future__ import annotations

import pytest

import interp_compose as ic
from benchmarks.natural_phrases import beside, demonstrations, pairs_of
from benchmarks.review_phrases import DECIDES, OTHER, items_of, review
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


def test_as_many_words_of_the_demonstrations_are_the_control() -> None:
    prompt = FEW_SHOT("A gem of a town")
    start = prompt.index("A gem of")
    one = ic.Example(prompt, " positive", spans=((start, start + len("A gem of a town")),))
    end = demonstrations(FEW_SHOT.template)
    for seed in range(20):
        (low, high, _), (*whole, _) = beside(one, end, n=3, seed=(seed, 0))
        assert len(prompt[low:high].split()) == 3
        assert high <= end <= start
        assert tuple(whole) == one.spans[0] if one.spans else None


def test_whole_reviews_are_transplanted_into_those_of_other_labels() -> None:
    texts = {" positive": ["A gem", "So [very] fine"], " negative": ["So dull", "Bad"]}
    examples = []
    for answer, of in texts.items():
        for text in of:
            start = FEW_SHOT.template.index("{}")
            span = (start, start + len(text))
            examples.append(ic.Example(FEW_SHOT(text), answer, spans=(span,)))
    items = [item for answer in texts for item in items_of(examples, answer)]
    assert [item.text for item in items] == ["[A gem]", "[So dull]", "[Bad]"]
    for pair in pairs_of(FEW_SHOT.template, items, 0):
        assert pair.expected != pair.answer
        assert pair.source_phrase in texts[pair.expected]
        assert pair.target_phrase in texts[pair.answer]
        assert pair.composed == pair.source
