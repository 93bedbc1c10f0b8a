"""What is kept of a real model's runs, on small tables, by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import interp_compose as ic
from benchmarks import natural_outcomes
from benchmarks.cap_outcomes import by_example
from interp_compose.tasks.natural import read

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
