"""What a comparison of two CAP curves says in a sentence, of tables made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from interp_compose.studies.cap.result import CapCurve
from interp_compose.studies.core.text import FLOOR
from interp_compose.studies.saved.compare import paired
from interp_compose.studies.saved.reading import UNTESTED, answers
from tests.studies.test_cap_reading import curve_of


def curve(n: int, mean: float, clean: float = 1.0) -> CapCurve:
    """One layer; the first examples are right."""
    right = np.arange(n)
    return curve_of(n, {(0, "mean"): right < mean * n}, clean_correct=right < clean * n)


ABOVE, BELOW = (0.2, 0.4, 0.001), (-0.4, -0.2, 0.001)
NEAR, OPEN = (-0.02, 0.03, 0.9), (-0.2, 0.11, 0.6)
UNCORRECTED = (0.06, 0.2, 0.06)  # its interval alone would decide it
AT_MARGIN, ACROSS = (-0.05, 0.05, 1.0), (-0.0501, 0.05, 1.0)


def table(*states: tuple[float, float, float], n: int = 100, second: str = "b") -> pd.DataFrame:
    """Of clean, and of mean from layer 0 on; another pooling is not in the sentence."""
    places = [("clean", -1), *(("mean", layer) for layer in range(len(states) - 1)), ("max", 0)]
    rows: list[dict[str, Any]] = [
        {
            **{"first": "a", "second": second, "pooling": pooling, "layer": layer, "n": n},
            **{"difference": (low + high) / 2, "ci_low": low, "ci_high": high, "p_holm": p},
        }
        for (pooling, layer), (low, high, p) in zip(places, [*states, BELOW], strict=True)
    ]
    return pd.DataFrame(rows)


IT = "The accuracy of a"
CASES = {
    "above everywhere": (
        table(ABOVE, ABOVE, ABOVE),
        f"{IT} is above that of b in clean runs and when pooled by mean at layers 0 and 1, most "
        "in clean runs, by 30 points [20, 40] (95 %).",
    ),
    "below, above, near and open": (
        table(NEAR, BELOW, ABOVE, OPEN),
        f"{IT} is below that of b when pooled by mean at layer 0, by 30 points [20, 40] (95 %); "
        "it is above it when pooled by mean at layer 1, by 30 points [20, 40] (95 %); it is "
        "within 5 points of it in clean runs; it is open when pooled by mean at layer 2: "
        "between 20 points less and 11 more than that of b (95 %); about 1200 examples would "
        "decide it, were it as measured.",
    ),
    "at the margin": (
        table(NEAR, AT_MARGIN),
        f"{IT} is nowhere further than 5 points from that of b: most when pooled by mean at "
        "layer 0, where it is between 5 points less and 5 more than that of b (95 %).",
    ),
    "across the margin": (
        table(NEAR, ACROSS),
        f"{IT} is within 5 points of that of b in clean runs; it is open when pooled by mean at "
        "layer 0: between 5 points less and 5 more than that of b (95 %); about 200 examples "
        "would decide it, were it as measured.",
    ),
    "not after Holm's correction": (
        table(UNCORRECTED, ABOVE),
        f"{IT} is above that of b when pooled by mean at layer 0, by 30 points [20, 40] (95 %); "
        "it is open in clean runs: between 6 and 20 points more than that of b (95 %); about "
        "200 examples would decide it, were it as measured.",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_sentences(case: str) -> None:
    pairs, sentence = CASES[case]
    assert answers({}, pairs) == [sentence]


def test_a_sentence_for_each_pair() -> None:
    pairs = pd.concat([table(NEAR, NEAR), table(ABOVE, ABOVE, second="c")])
    first, second = answers({}, pairs)
    assert "nowhere further than 5 points from that of b" in first
    assert second.startswith(f"{IT} is above that of c in clean runs")


def test_numbers_are_those_of_the_table() -> None:
    n = 200
    results = {"a": curve(n, mean=0.9, clean=0.95), "b": curve(n, mean=0.5, clean=0.55)}
    pairs, notes = paired(results)
    assert not notes
    (sentence,) = answers(results, pairs)
    most = pairs.loc[pairs[pairs["pooling"].isin(["clean", "mean"])]["difference"].idxmax()]
    low, high = (f"{100 * most[end]:.0f}" for end in ("ci_low", "ci_high"))
    assert f"by {100 * most['difference']:.0f} points [{low}, {high}]" in sentence


def test_of_one_example_all_is_open() -> None:
    results = {"a": curve(1, mean=1.0), "b": curve(1, mean=1.0)}
    (sentence,) = answers(results, paired(results)[0])
    assert sentence.startswith("Whether the accuracy of a differs from that of b is open in clean")
    assert "between 79 points less and 79 more" in sentence


def test_where_nothing_is_right_and_where_nothing_is_paired() -> None:
    wrong = {"a": curve(50, mean=0.0, clean=0.0), "b": curve(50, mean=0.0, clean=0.0)}
    (sentence,) = answers(wrong, paired(wrong)[0])
    assert sentence == (
        f"Whether accuracies differ cannot be told: {FLOOR} in any of these results."
    )
    assert answers(wrong, pd.DataFrame()) == [UNTESTED]
    assert np.all(paired(wrong)[0]["p_holm"] == 1)
