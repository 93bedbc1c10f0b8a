"""Replacing words by synonyms: what is eligible, what it becomes, and that it is repeatable."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import spacy
from hypothesis import given, strategies as st

from interp_compose.errors import CapabilityError, InputError, InterventionError
from interp_compose.papers.carma.synonyms.replace import Replaced, replace_synonyms
from interp_compose.papers.carma.synonyms.sources import Candidate, ThesaurusSource
from interp_compose.tasks.mini.idm import splits
from interp_compose.tasks.mini.world import reserve_words
from interp_compose.types import Example

CALLED = '{} is called a "'
WORDS = {"young": ["infant", "early"], "cat": ["kitty"], "film": ["movie"], "brave": ["bold"]}
SOURCE = ThesaurusSource(WORDS)


def example(text: str, answer: str = "x", template: str = CALLED) -> Example:
    return Example(template.format(text), answer)


def replaced(texts: Sequence[str], source: Any = SOURCE, **options: Any) -> Replaced:
    given_options = {"rate": 1.0, "seed": 0, "template": CALLED} | options
    return replace_synonyms([example(text) for text in texts], source, **given_options)


def one_text(text: str, **options: Any) -> str:
    """The text after the replacement, without its template."""
    (after,) = replaced([text], **options).examples
    return after.prompt.removesuffix(CALLED[2:])


def test_frame_and_sentences_by_hand() -> None:
    got = replaced(["a young cat", "nothing here", "the film of a brave dog"])
    assert got.examples[0].prompt in (
        'an infant kitty is called a "',
        'an early kitty is called a "',
    )
    assert got.examples[1].prompt == 'nothing here is called a "'
    assert got.examples[2].prompt == 'the movie of a bold dog is called a "'
    frame = got.frame
    assert list(frame["example"]) == [0, 0, 2, 2]
    assert list(frame["start"]) == [2, 8, 4, 14]
    assert list(frame["original"]) == ["young", "cat", "film", "brave"]
    assert list(frame["replacement"])[1:] == ["kitty", "movie", "bold"]
    assert list(frame["n_eligible"]) == [2, 2, 2, 2]
    assert set(frame["similarity"]) == {1.0}
    sentences = got.sentences()
    assert list(sentences["n_words"]) == [3, 2, 6]
    assert list(sentences["n_eligible"]) == [2, 0, 2]
    assert list(sentences["n_wanted"]) == [3, 2, 6]
    assert list(sentences["n_replaced"]) == [2, 0, 2]
    assert list(sentences["dose"]) == [2 / 3, 0.0, 2 / 6]
    assert list(sentences["prompt"]) == [one.prompt for one in got.originals]
    assert list(sentences["replaced"]) == [one.prompt for one in got.examples]
    assert got.report["unchanged"] == 1
    assert got.report["eligible_words"] == got.report["replaced_words"] == 4
    assert (got.report["words"], got.report["wanted_words"]) == (11, 11)
    assert got.report["mean_dose"] == pytest.approx((2 / 3 + 0 + 2 / 6) / 3, abs=1e-15)
    assert got.report["source"] == {"name": "thesaurus", "words": 4, "check_sentiment": False}
    assert json.loads(json.dumps(got.report)) == got.report


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Cat", "Kitty"),
        ("CAT", "KITTY"),
        ("cAT", "kitty"),
        ("the cat's paw", "the kitty's paw"),
        ("a film, a cat.", "a movie, a kitty."),
        ("well-cat cat-like film", "well-cat cat-like movie"),
        ("brave-hearted film", "brave-hearted movie"),
        ("  film\n", "  movie\n"),
    ],
)
def test_case_and_neighbours_are_kept(text: str, expected: str) -> None:
    assert one_text(text) == expected


@pytest.mark.parametrize(
    ("text", "to", "expected"),
    [
        ("a film", "image", "an image"),
        ("an  film", "movie", "a  movie"),
        ("an historic", "human", "a human"),
        ("A film", "image", "An image"),
        ("A FILM", "image", "AN IMAGE"),
        ("a film", "unit", "a unit"),
        ("a film", "unimportance", "an unimportance"),
        ("a film", "user", "a user"),
        ("a film", "euro", "a euro"),
        ("a film", "uncle", "an uncle"),
        ("a film", "hour", "an hour"),
        ("a film", "house", "a house"),
        ("a big film", "image", "a big image"),
        ("plaza film", "image", "plaza image"),
        ("vitamin a. film", "image", "vitamin a. image"),
    ],
)
def test_articles_follow(text: str, to: str, expected: str) -> None:
    assert one_text(text, source=ThesaurusSource({"film": [to], "historic": [to]})) == expected


@pytest.mark.parametrize(
    "mapping",
    [
        {"very": ["awfully"]},  # a stop word
        {"ox": ["bull"]},  # two letters
        {"b2b": ["bull"]},  # not letters only
        {"called": ["named"]},  # occurs in the template only
        {"steer": ["Answer"]},  # the answer
        {"cattle": ["COW"]},  # in the text already
        {"cattle": ["Cattle"]},  # the word itself
    ],
)
def test_what_is_not_eligible(mapping: dict[str, list[str]]) -> None:
    rows = [Example('ox very b2b steer cattle cow is called a "', " answer")]
    with pytest.raises(InterventionError, match="none of 1 examples has a word with a synonym in"):
        replace_synonyms(rows, ThesaurusSource(mapping), rate=1.0, seed=0, template=CALLED)


def test_the_templates_own_words_stay() -> None:
    template = "Say if the film was good: {} film ="
    rows = [Example(template.format("a brave film"), "x")]
    got = replace_synonyms(rows, SOURCE, rate=1.0, seed=0, template=template)
    assert got.examples[0].prompt == template.format("a bold movie")
    start = int(got.frame["start"][0])
    assert rows[0].prompt[start:].startswith("brave")


def test_no_two_words_become_the_same() -> None:
    source = ThesaurusSource({"film": ["movie"], "picture": ["movie"]})
    got = replaced(["film and picture"], source)
    assert got.n_eligible == (2,)
    assert len(got.frame) == 1
    assert got.examples[0].prompt.count("movie") == 1


def test_the_next_word_takes_the_turn_of_one_without_a_candidate() -> None:
    source = ThesaurusSource({"film": ["movie"], "picture": ["movie"], "brave": ["bold"]})
    for seed in range(20):
        got = replaced(["brave film picture"], source, rate=0.7, seed=seed)
        assert len(got.frame) == 2
        assert set(got.frame["replacement"]) == {"movie", "bold"}


DEFINITIONS = (  # in WordNet's manner
    "a young domestic cat",
    "a piece of furniture having a smooth flat surface that is usually supported by vertical legs",
    "a building in which people live; usually larger than a cottage",
    "an instrument that is used to cut well-made cloth, as in a tailor's shop",
    "run fast by using one's feet",
    "an official document",
)
COMMON = "young cat furniture surface legs building people cottage instrument cloth run fast feet"
COMMON += " document"
DISTINCT = ThesaurusSource({word: [f"{word}like"] for word in COMMON.split()})


def slow_counts(text: str, rate: float) -> tuple[int, int, int]:
    """Words, those asked for, and those replaced, from the formula; every synonym is unique."""
    words = [word for word in text.split(" ") if any(c.isalpha() for c in word)]
    wanted = 1
    while (wanted + 1) / len(words) <= rate + 1e-9:
        wanted += 1
    eligible = sum(word.strip(",;") in COMMON.split() for word in words)
    return len(words), wanted, min(wanted, eligible)


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.25, 0.29, 0.3, 0.4, 0.75, 0.99, 1.0])
def test_the_dose_is_of_the_texts_words(rate: float) -> None:
    got = replaced(DEFINITIONS, DISTINCT, rate=rate).sentences()
    counts = got[["n_words", "n_wanted", "n_replaced"]].itertuples(index=False, name=None)
    assert list(counts) == [slow_counts(text, rate) for text in DEFINITIONS]
    assert list(got["dose"]) == list(got["n_replaced"] / got["n_words"])


@given(
    texts=st.lists(
        st.lists(st.sampled_from([*COMMON.split(), "the", "of", "rock", ",", "well-made", "7"]))
        .map(" ".join)
        .filter(lambda text: text.strip()),
        min_size=1,
        max_size=4,
    ),
    rates=st.tuples(st.floats(0.01, 1), st.floats(0.01, 1)).map(sorted),
    seed=st.integers(0, 9),
)
def test_never_more_than_asked_never_the_template_never_fewer_at_a_higher_rate(
    texts: list[str], rates: list[float], seed: int
) -> None:
    template = "people said: {} = a young cat"
    rows = [Example(template.format(text), "x") for text in texts]
    rows.append(Example(template.format("a cat"), "x"))  # so that something is replaced
    low, high, again = (
        replace_synonyms(rows, DISTINCT, rate=rate, seed=seed, template=template)
        for rate in (*rates, rates[1])
    )
    assert high.examples == again.examples
    for one in (low, high):
        table = one.sentences()
        assert (table["n_replaced"] <= table["n_wanted"]).all()
        assert (table["n_replaced"] <= table["n_eligible"]).all()
        assert all(
            after.prompt.startswith("people said: ") and after.prompt.endswith(" = a young cat")
            for after in one.examples
        )
    assert (low.sentences()["n_replaced"] <= high.sentences()["n_replaced"]).all()


def test_only_the_top_n_are_drawn() -> None:
    class Ten:
        name = "ten"
        settings: dict[str, Any] = {}  # noqa: RUF012

        def candidates(self, word: str, pos: str | None) -> list[Candidate]:
            return [Candidate(f"new{c}", 0.9, 0.9) for c in "abcdefghij"] if word == "film" else []

    drawn = {one_text("film", source=Ten(), top_n=3, seed=seed) for seed in range(60)}
    assert drawn == {"newa", "newb", "newc"}
    # one that may not be used gives its place to the next
    drawn = {one_text("newb film", source=Ten(), top_n=3, seed=seed) for seed in range(60)}
    assert drawn == {"newb newa", "newb newc", "newb newd"}


def test_an_example_is_replaced_alike_in_any_order_and_subset() -> None:
    rows = [example(one.text, one.answer) for one in splits()["test"][:60]]
    source = ThesaurusSource(reserve_words())
    options: dict[str, Any] = {"rate": 0.4, "template": CALLED}
    whole = replace_synonyms(rows, source, seed=3, **options).examples
    back = replace_synonyms(rows[::-1], source, seed=3, **options).examples[::-1]
    assert whole == back
    assert whole[20:40] == replace_synonyms(rows[20:40], source, seed=3, **options).examples
    other = replace_synonyms(rows, source, seed=4, **options).examples
    assert 0 < sum(a != b for a, b in zip(whole, other, strict=True)) < len(rows)


def test_seeds_draw_what_they_always_drew() -> None:
    """Golden: the draw depends on SHA-256 and ``random`` alone, in every process and release."""
    text = "a young brave cat in a film"
    assert [one_text(text, rate=0.3, seed=seed) for seed in range(4)] == GOLDEN


GOLDEN = [
    "an early bold cat in a film",
    "an early brave kitty in a film",
    "an infant bold cat in a film",
    "a young brave kitty in a movie",
]


@given(seed=st.integers(0, 50), low=st.floats(0.01, 1), high=st.floats(0.01, 1))
def test_a_higher_rate_replaces_the_same_words_and_more(seed: int, low: float, high: float) -> None:
    low, high = sorted((low, high))
    few, many = (
        {
            tuple(row)
            for row in replaced(["a young cat in a brave film"], rate=rate, seed=seed)
            .frame[["start", "replacement"]]
            .itertuples(index=False)
        }
        for rate in (low, high)
    )
    assert few <= many


@given(st.text("ab -'.\nE", max_size=30), st.integers(0, 5))
def test_undoing_the_frame_gives_the_old_text(filler: str, seed: int) -> None:
    """Nothing but the rows of the frame changes (no articles are in the way)."""
    source = ThesaurusSource({"film": ["movie"], "brave": ["bold"], "cat": ["kitty", "tom"]})
    text = f"brave film {filler} cat film"
    got = replaced([text], source, seed=seed, rate=0.7)
    prompt = got.originals[0].prompt
    for row in reversed(list(got.frame.itertuples())):
        assert prompt[row.start :].startswith(row.original)
        prompt = prompt[: row.start] + row.replacement + prompt[row.start + len(row.original) :]
    assert prompt == got.examples[0].prompt


def test_spans_and_tree_go_with_the_old_text_and_the_foil_stays() -> None:
    rows = [
        Example('cat is called a "', "x", spans=((0, 3),), tree="(X cat)", foil="y"),
        Example('stone is called a "', "x", spans=((0, 5),), tree="(X stone)"),
    ]
    got = replace_synonyms(rows, SOURCE, rate=1.0, seed=0, template=CALLED)
    assert got.examples == (Example('kitty is called a "', "x", foil="y"), rows[1])


class Tagger:
    """What a spaCy pipeline shows of itself: ``pipe`` and ``meta``."""

    meta = {"lang": "en", "name": "toy", "version": "1"}  # noqa: RUF012

    def __init__(self, tags: dict[str, str]) -> None:
        self.tags = tags
        self.blank = spacy.blank("en")

    def pipe(self, texts: Sequence[str]) -> list[Any]:
        return [
            [SimpleNamespace(idx=w.idx, pos_=self.tags.get(w.text, "")) for w in self.blank(text)]
            for text in texts
        ]


def test_a_tagger_tells_the_part_of_speech_in_the_sentence() -> None:
    asked = []

    class Listening(ThesaurusSource):
        def candidates(self, word: str, pos: str | None) -> tuple[Candidate, ...]:
            asked.append((word, pos))
            return super().candidates(word, pos)

    got = replaced(["a brave film"], Listening(WORDS), tagger=Tagger({"film": "NOUN"}))
    assert asked == [("brave", ""), ("film", "NOUN")]
    assert got.report["tagger"] == "en_toy-1"
    asked.clear()
    replaced(["a brave film"], Listening(WORDS))
    assert asked == [("brave", None), ("film", None)]
    with pytest.raises(CapabilityError, match="the tagger 'en_toy-1' gives no word a part of"):
        replaced(["a brave film"], tagger=Tagger({}))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": 0.0}, "rate is 0.0; expected a share of the words in"),
        ({"rate": 1.01}, "rate is 1.01; expected a share"),
        ({"rate": float("nan")}, "rate is nan; expected a share"),
        ({"top_n": 0}, "top_n is 0; expected at least 1 candidate"),
        ({"template": "is called"}, "template 'is called' has 0 places for a text; expected one"),
        ({"template": "{} {}"}, "template '{} {}' has 2 places"),
        ({"template": "The {}"}, "example 0 has the prompt 'a cat is called a \"', which is not"),
        ({"template": "{} ="}, "example 0 has the prompt"),
        ({"template": 'a cat is called a "{}'}, "example 0 has the prompt"),
    ],
)
def test_bad_input_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        replaced(["a cat"], **options)


def test_no_examples_are_refused() -> None:
    with pytest.raises(InputError, match="there are no examples to replace words in"):
        replaced([])


def test_mini_idm_with_its_reserve_words() -> None:
    """Every replacement is a reserve word of the concept; most examples have one."""
    rows = [example(one.text, one.answer) for one in splits()["test"]]
    got = replace_synonyms(
        rows, ThesaurusSource(reserve_words()), rate=0.4, seed=0, template=CALLED
    )
    for row in got.frame.itertuples():
        assert row.replacement in reserve_words()[row.original]
    assert got.report["unchanged"] < 0.05 * len(rows)
    for one in got.examples:
        assert not re.search(r"\ba [aeio]|\ban [^aeiou8\s]", one.prompt)
