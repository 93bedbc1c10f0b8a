"""What is kept of a real model's runs, on small tables, by hand."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import interp_compose as ic
from benchmarks import natural_outcomes, natural_phrases
from benchmarks.cap_outcomes import by_example
from interp_compose.tasks.natural import Item, read

RIGHT = {  # by layer and kind of word, of four examples
    (0, "head"): [0, 0, 0, 1],
    (0, "noun"): [1, 1, 1, 1],
    (1, "head"): [1, 1, 0, 1],
    (1, "noun"): [1, 1, 1, 0],
}


@pytest.fixture(scope="module")
def curve() -> ic.AblationCurve:
    """Two words of four examples at two layers; the clean model is right in the first three."""
    outcomes = pd.DataFrame(
        [
            (example, layer, int(word == "noun"), 7 * right, bool(right), -1.5 - example, 1)
            for (layer, word), each in RIGHT.items()
            for example, right in enumerate(each)
        ],
        columns=[
            *("example", "layer", "unit", "prediction", "correct"),
            *("target_logprob", "target_rank"),
        ],
    )
    clean = pd.DataFrame(
        {
            "example": range(4),
            "prompt": "x",
            "answer": [" is", " are", " is", " are"],
            "n_tokens": 2,
            "prediction": 7,
            "prediction_text": "x",
            "correct": [True, True, True, False],
            "target_logprob": [-1.0, -2.0, -2.5, -3.5],
            "target_rank": 1,
        }
    )
    cells = pd.DataFrame(
        [(e, unit, text, text) for e in range(4) for unit, text in enumerate(("head", "noun"))],
        columns=["example", "unit", "text", "group"],
    )
    return ic.AblationCurve.from_outcomes(outcomes, clean, cells, {}, n_layers=2)


def test_knock_outs_are_compared_with_the_clean_model_example_by_example(
    curve: ic.AblationCurve,
) -> None:
    rows = {(row["layer"], row["group"]): row for row in natural_outcomes.against_clean(curve)}
    assert rows.keys() == RIGHT.keys()
    clean = [1, 1, 1, 0]
    for place, right in RIGHT.items():
        gained = sum(a > b for a, b in zip(right, clean, strict=True))
        lost = sum(a < b for a, b in zip(right, clean, strict=True))
        assert (rows[place]["only_first"], rows[place]["only_second"]) == (gained, lost)
        assert rows[place]["difference"] == pytest.approx((gained - lost) / 4)
        n = gained + lost
        p = stats.binomtest(gained, n).pvalue if n else 1.0
        assert rows[place]["p"] == pytest.approx(p)
        assert rows[place]["p_holm"] == 1
    shares = {
        (row["layer"], row["group"], row["answer"]): row["accuracy"]
        for row in natural_outcomes.by_answer(curve)
    }
    assert shares[0, "head", " is"] == 0
    assert shares[0, "head", " are"] == 0.5
    assert shares[1, "head", " is"] == 0.5
    rows_of = curve.outcomes.merge(curve.cells, on=["example", "unit"])
    kept = by_example(rows_of, ("layer", "group"))
    digits = {(row["layer"], row["group"]): row["correct"] for row in kept}
    assert digits == {place: "".join(map(str, each)) for place, each in RIGHT.items()}


def test_heads_are_paired_by_example_and_corrected_over_all(curve: ic.AblationCurve) -> None:
    rows = natural_outcomes.heads(curve)
    changes = np.array([-0.5, -0.5, -1.0, -1.0])
    assert [(row["layer"], row["head"]) for row in rows] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    for row in rows:
        assert row["changes"] == changes.tolist()
        assert row["difference"] == pytest.approx(-0.75)
        assert row["p"] == pytest.approx(stats.ttest_1samp(changes, 0).pvalue)
        assert row["p_holm"] == pytest.approx(4 * row["p"])
    assert [row["accuracy"] for row in rows] == [0.25, 1, 0.75, 0.75]


def test_the_words_of_every_prompt_are_found() -> None:
    template, items, _ = read("agreement")
    for item in items:
        prompt = item.example(template).prompt
        _, head, _, _, _, nearer = item.text.strip("[]").split()
        texts = {word: prompt[low:high] for low, high, word in natural_outcomes.words_of(prompt)}
        assert texts == {
            "noun of a demonstration": "baker",
            "head": head,
            "nearer noun": nearer,
        }
        for low, _, word in natural_outcomes.words_of(prompt):
            assert word == "noun of a demonstration" or low > len(template) - len("{}, of course,")
    with pytest.raises(ValueError, match="does not end in a subject"):
        natural_outcomes.words_of("The baker is here.")


def test_pairs_differ_in_number_and_in_where_the_phrase_was_read() -> None:
    pairs = natural_outcomes.transplant_pairs(0)
    template, items, _ = read("agreement")
    number = {" ".join(item.text.strip("[]").split()[-2:]): item.foil for item in items}
    n = len(items)
    assert len(pairs) == 2 * n
    for inside, alone in zip(pairs[:n], pairs[n:], strict=True):
        phrase = inside.source_phrase
        assert (phrase, inside.target) == (alone.source_phrase, alone.target)
        assert inside.expected == alone.expected == number[phrase]
        assert inside.answer == alone.answer == number[inside.target_phrase] != inside.expected
        assert inside.source_answer == inside.answer
        assert not alone.source_answer
        assert alone.source == alone.composed == inside.composed
        assert inside.composed == inside.target.replace(inside.target_phrase, phrase)
        assert inside.source.endswith(f" the {phrase}, of course,")
        assert alone.source == template.replace("{}", f"The {phrase}")


def test_a_phrase_is_knocked_out_in_two_parts_and_whole_and_as_many_words_elsewhere() -> None:
    for task in natural_phrases.TASKS:
        template, items, _ = read(task)
        end = natural_phrases.demonstrations(template)
        shown = template[:end].split()
        assert template[end:].index("{}") < 20  # the query's own words
        places = Counter[int]()
        for number, item in enumerate(items):
            example = item.example(template)
            (low, high), prompt, words = example.spans[0], example.prompt, item.parts[1].split()
            if len(words) == 1:
                continue
            parts = {tag: prompt[a:b].split() for a, b, tag in natural_phrases.parts(example)}
            assert parts == {"other words": words[:-1], "last word": words[-1:]}
            (start, stop, tag), whole = natural_phrases.beside(
                example, end, n=len(words) - 1, seed=(0, number)
            )
            assert (tag, whole) == ("words elsewhere", (low, high, "whole phrase"))
            control = prompt[start:stop].split()
            assert len(control) == min(len(words) - 1, len(shown))
            assert f" {' '.join(control)} " in f" {' '.join(shown)} "
            places[start] += 1
        if task != "definitions":  # whose phrases are nearly as long as the demonstrations
            assert len(places) > 0.7 * len(shown)


def test_what_decides_an_item() -> None:
    cases = {
        ("opposites", "[a bad dream] is a", "good"): "deciding word before a noun",
        ("opposites", "[very hot] is very", "cold"): "deciding word mostly the last",
        ("compounds", "A [claw hammer]", "hammer"): "last word is the answer",
        ("compounds", "A [corn dog]", "food"): "last word is the foil",
        ("compounds", "A [sea horse]", "fish"): "last word is neither",
        ("compounds", "A [jellyfish]", "animal"): "one word",
        ("materials", "a [brass bed]", "brass"): "",
    }
    for (task, text, answer), case in cases.items():
        assert natural_phrases.case_of(task, Item(text, f" {answer}", " dog")) == case


def test_a_phrase_takes_the_place_of_one_with_another_answer_and_the_same_text_around() -> None:
    for task in natural_phrases.TASKS:
        template, items, _ = read(task)
        pairs = natural_phrases.pairs_of(template, items, 0)
        by_prompt = {item.example(template).prompt: item for item in items}
        assert len(pairs) >= 0.85 * len(items)
        for pair in pairs:
            source, target = by_prompt[pair.source], by_prompt[pair.target]
            assert (pair.expected, pair.answer) == (source.answer, target.answer)
            assert pair.expected != pair.answer
            exchanged = pair.target[: pair.target_span[0]] + pair.source_phrase
            assert exchanged + pair.target[pair.target_span[1] :] == pair.composed == pair.source
            assert pair.source_phrase == source.parts[1]
        most = max(Counter(pair.target for pair in pairs).values())
        assert most <= (3 if task == "continents" else 1)


def test_knock_outs_of_a_case_are_compared_with_the_clean_model_and_with_each_other() -> None:
    right = {"last word": [0, 0, 0, 1], "other words": [1, 1, 0, 0]}
    rows = pd.DataFrame(
        [
            (example, 2, group, bool(one))
            for group, each in right.items()
            for example, one in enumerate(each)
        ],
        columns=["example", "layer", "group", "correct"],
    )
    clean = pd.DataFrame({"example": range(4), "correct": [True, True, True, False]})
    cases = ["x", "x", "x", "y"]
    table = {row["group"]: row for row in natural_phrases.of_case(rows, clean, cases, "x")}
    assert table["last word"]["accuracy"] == 0
    assert table["last word"]["clean"] == 1
    assert (table["last word"]["n"], table["last word"]["only_second"]) == (3, 3)
    assert table["last word"]["p_holm"] == pytest.approx(2 * 0.25)
    assert table["other words"]["difference"] == pytest.approx(-1 / 3)
    (row,) = natural_phrases.between_groups(rows, cases, "x")
    assert (row["first"], row["second"], row["layer"]) == ("last word", "other words", 2)
    assert (row["only_first"], row["only_second"], row["p"]) == (0, 2, 0.5)
    (row,) = natural_phrases.between_groups(rows, cases, "y")
    assert (row["n"], row["difference"]) == (1, 1)


def test_the_expected_answer_is_compared_with_the_untouched_pair_by_pair() -> None:
    logprobs = {  # of the expected answer, of the untouched, in the order of three pairs
        "transplant": ([-1.0, -1.0, -3.0], [-2.0, -1.5, -2.0]),
        "own": ([-3.0, -3.0, -3.0], [-1.0, -1.0, -1.0]),
        "random phrase": ([-1.0, -2.0, -2.0], [-1.0, -1.0, -1.0]),
        "last word": ([-1.0, -2.0, -1.0], [-2.0, -1.0, -2.0]),
    }
    rows = pd.DataFrame(
        [
            (pair, 4, vector, expected[pair], untouched[pair], expected[pair] > -1.5)
            for vector, (expected, untouched) in logprobs.items()
            for pair in (2, 0, 1)
        ],
        columns=[
            *("pair", "layer", "vector", "expected_logprob", "answer_logprob"),
            "expected_right",
        ],
    )
    kept = natural_phrases.preferred(rows)
    brought = {
        vector: part["preferred"].tolist() for vector, part in kept.groupby("vector", sort=False)
    }
    assert brought == {
        "transplant": [True, True, False],
        "own": [False] * 3,
        "random phrase": [False] * 3,  # a tie is no preference
        "last word": [True, False, True],
    }
    donors = pd.DataFrame(
        {"pair": [0, 1, 2], "expected": list("abc"), "answer": list("bcd"), "donor": [2, 0, 1]}
    )
    other = natural_phrases.with_another_answer(donors)
    assert other == {0, 1, 2}
    for pair, answer in ((0, "c"), (1, "a")):  # the random phrase's: expected, or untouched
        same = donors.assign(answer=donors["answer"].mask(donors["pair"] == pair, answer))
        assert natural_phrases.with_another_answer(same) == {0, 1, 2} - {pair}
    # Of two answers, every other one is the untouched one.
    two = pd.DataFrame(
        {"pair": [0, 1, 2], "expected": list("aba"), "answer": list("bab"), "donor": [2, 0, 1]}
    )
    assert natural_phrases.with_another_answer(two) == {1, 2}
    less = {
        (row["measure"], row["against"]): row
        for row in natural_phrases.mean_less(kept, frozenset({0, 2}))
    }
    row = less["preferred", "last word"]
    assert (row["only_first"], row["only_second"], row["difference"]) == (1, 1, 0)
    assert less["preferred", "own"]["difference"] == pytest.approx(2 / 3)
    assert less["preferred", "random phrase"]["n"] == 2
    assert {row["layer"] for row in less.values()} == {4}


def test_log_odds_of_two_answers_are_the_difference_of_their_logits() -> None:
    differences = np.array([-40.0, -3.0, 0.0, 2.5, 9.0])
    logprobs = pd.Series(-np.logaddexp(0, -differences))
    assert natural_phrases.log_odds(logprobs).tolist() == pytest.approx(differences.tolist())
    certain = pd.Series([0.0, -1e-9])
    limit = natural_phrases.MOST_ODDS
    assert natural_phrases.log_odds(certain).tolist() == pytest.approx([limit, limit])


def test_words_of_several_tokens_are_those_of_the_phrase_alone() -> None:
    def tokenizer(text: str, **_: bool) -> dict[str, list[tuple[int, int]]]:
        pieces = re.finditer(r" ?\w{1,5}|[^\w\s]", text)
        return {"offset_mapping": [piece.span() for piece in pieces]}

    example = ic.Example("A fisherman saw a sea anemone there", " x", spans=((12, 29),))
    spans = natural_phrases.several_tokens(tokenizer, example)
    assert [example.prompt[low:high] for low, high in spans] == ["anemone"]


def test_heads_are_compared_by_log_odds_where_the_clean_model_is_not_certain(
    curve: ic.AblationCurve,
) -> None:
    clean = curve.clean.assign(target_logprob=[-1.0, -2.0, -0.5, -1e-7])  # the last is certain
    certain = ic.AblationCurve.from_outcomes(curve.outcomes, clean, curve.cells, {}, n_layers=2)
    after = np.array([-1.5, -2.5, -3.5])
    before = np.array([-1.0, -2.0, -0.5])
    changes = [a - np.log(1 - np.exp(a)) for a in after] - (before - np.log(1 - np.exp(before)))
    rows = natural_phrases.heads(certain)
    assert len(rows) == 4
    for row in rows:
        assert row["changes"] == pytest.approx(changes.tolist(), abs=1e-4)
        assert row["difference"] == pytest.approx(changes.mean())
