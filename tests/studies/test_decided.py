"""Differences in words: what is changed, within the margin, and open; of ablations, sentences of
tables made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from interp_compose.stats.seeds import holm
from interp_compose.studies.ablation.reading import answers, differences
from interp_compose.studies.ablation.result import AblationCurve
from interp_compose.studies.core.decided import (
    ACCURACY,
    NATS,
    Measure,
    apart,
    bootstrapped,
    changed,
    examples_needed,
    within,
)

NAN = float("nan")


def row(low: float, high: float, p: float, layer: int = 0, n: int = 100) -> dict[str, Any]:
    middle = (low + high) / 2
    return {
        **{"layer": layer, "difference": middle, "ci_low": low, "ci_high": high},
        **{"p_holm": p, "n": n},
    }


LOWER, RAISED = (-0.3, -0.1, 0.001), (0.2, 0.4, 0.001)
SAME, OPEN = (-0.02, 0.03, 0.9), (-0.2, 0.11, 0.6)
SMALL = (-0.04, -0.01, 0.001)  # below clean, and within the margin
UNCORRECTED = (-0.3, -0.1, 0.06)  # its interval alone would decide it
START = "Knocking out a word"
CASES = [
    (
        [LOWER],
        f"{START} lowers the number at layer 0, by 20 points [10, 30] (95 %).",
    ),
    (
        [LOWER, LOWER, SAME, SAME, SAME],
        f"{START} lowers the number at layers 0 and 1, most at layer 0, by 20 points [10, 30] "
        "(95 %); it changes it at layers 2 to 4 by no more than 5 points.",
    ),
    (
        [LOWER, RAISED],
        f"{START} lowers the number at layer 0, by 20 points [10, 30] (95 %); it raises it at "
        "layer 1, by 30 points [20, 40] (95 %).",
    ),
    (
        [SAME, SMALL],
        f"{START} changes the number nowhere by more than 5 points: most at layer 1, where it is "
        "between 1 and 4 points less than clean (95 %).",
    ),
    (
        [OPEN],
        "Whether knocking out a word changes the number is open at layer 0: between 20 points less "
        "and 11 more than clean (95 %); about 1200 examples would decide it, were it as measured.",
    ),
    (
        [LOWER, UNCORRECTED, OPEN],
        f"{START} lowers the number at layer 0, by 20 points [10, 30] (95 %); it is open at layers "
        "1 and 2, where the interval is widest at layer 2: between 20 points less and 11 more than "
        "clean (95 %); about 1200 examples would decide it, were it as measured.",
    ),
    (
        [(NAN, NAN, NAN)],
        "Whether knocking out a word changes the number is not known: there is no interval of 100 "
        "examples.",
    ),
]


@pytest.mark.parametrize(("states", "sentence"), CASES)
def test_a_change_in_words(states: list[tuple[float, float, float]], sentence: str) -> None:
    rows = [row(*state, layer=layer) for layer, state in enumerate(states)]
    assert changed(rows, ACCURACY, act=START, what="the number") == sentence


def test_the_digits_fit_the_number() -> None:
    assert [NATS.number(value) for value in (12.34, 1.234, 0.0034, -0.5, 0.0)] == [
        *("12.3", "1.23", "0.0034", "−0.50", "0.00")
    ]
    assert [ACCURACY.number(value) for value in (0.123, 0.05, 0.042, 0.0)] == [
        "12",
        "5",
        "4.2",
        "0",
    ]
    assert Measure("", 0.05).amount(0.1) == "0.10"
    assert Measure("", 0.05).between(-0.1, 0.2) == "between 0.10 less and 0.20 more"
    assert within(row(*SMALL), 0.05)
    assert not within(row(*OPEN), 0.05)


# ---- differences of settings, over seeds ---


def seeds(*states: tuple[float, float, float]) -> pd.DataFrame:
    rows = [row(*state) | {"setting": f"s{i}", "n_seeds": 5} for i, state in enumerate(states)]
    return pd.DataFrame(rows).drop(columns="n").assign(other="base")


APART = {
    "one established": (
        [RAISED],
        "s0 is above base, paired by seed, by 30 points [20, 40] (95 %, p by Holm 0.0010), which "
        "is established.",
    ),
    "some established": (
        [SAME, LOWER, RAISED, OPEN],
        "s2 is above base, paired by seed, by 30 points [20, 40] (95 %, p by Holm 0.0010), the "
        "largest of 2 that are established; of 4 differences, 1 within 5 points and 1 open.",
    ),
    "undecided": (
        [SAME, UNCORRECTED],
        "No difference to base, paired by seed, is established: the largest, of s1, is between 10 "
        "and 30 points less than base (95 %, p by Holm 0.0600); about 6 seeds would decide it, "
        "were it as measured; 1 within 5 points.",
    ),
    "within the margin": (
        [SAME],
        "No difference to base, paired by seed, is larger than 5 points: that of s0 is between 2 "
        "points less and 3 more than base (95 %).",
    ),
    "the same in all, few": (
        [(0.2, 0.2, 0.0625)],
        "No difference to base, paired by seed, is established: the largest, of s0, is 20 points "
        "more than base (the same in all 5 seeds, p by Holm 0.0625); about 6 seeds would decide "
        "it, were it as measured.",
    ),
    "the same in all, of two comparisons": (
        [(0.2, 0.2, 0.125), SAME],
        "No difference to base, paired by seed, is established: the largest, of s0, is 20 points "
        "more than base (the same in all 5 seeds, p by Holm 0.1250); about 7 seeds would decide "
        "it, were it as measured; 1 within 5 points.",
    ),
    "the same in all, of twenty": (
        [(0.2, 0.2, 1.0), *[SAME] * 19],
        "No difference to base, paired by seed, is established: the largest, of s0, is 20 points "
        "more than base (the same in all 5 seeds, p by Holm 1.0000); about 10 seeds would decide "
        "it, were it as measured; 19 within 5 points.",
    ),
    "the same in all, enough": (
        [(-0.2, -0.2, 0.016)],
        "s0 is below base, paired by seed, by 20 points (the same in all 5 seeds, p by Holm "
        "0.0160), which is established.",
    ),
    "equal": (
        [(0.0, 0.0, 1.0)],
        "No difference to base, paired by seed, is larger than 5 points: that of s0 is no more and "
        "no less than base (the same in all 5 seeds).",
    ),
    "one seed": (
        [(0.1, 0.3, NAN)],
        "Whether there is a difference to base is not known, of one seed: the largest in it, of "
        "s0, is 20 points more than base.",
    ),
}


@pytest.mark.parametrize("case", APART)
def test_settings_apart(case: str) -> None:
    states, sentence = APART[case]
    assert apart(seeds(*states), "setting", ACCURACY) == [sentence]
    assert apart(seeds(*states)[:0], "setting", ACCURACY) == []


def test_the_family_of_a_correction_is_larger_than_the_place_that_is_read() -> None:
    """Of 3 seeds p is .25, of 5 or more comparisons 1 by Holm: how many there are tells."""
    here = seeds((0.2, 0.2, 1.0)).assign(n_seeds=3, kind="all")
    table = pd.concat([here] * 12 + [here.assign(kind="long")] * 30 + [here.assign(p_holm=NAN)])
    assert "about 9 seeds would" in apart(here, "setting", ACCURACY, table)[0]  # 12 · 2⁻⁸ < .05
    assert "about 8 seeds would" in apart(here, "setting", ACCURACY, table[:6])[0]


@pytest.mark.parametrize("n_compared", [1, 2, 5, 12, 40])
@pytest.mark.parametrize("n", [2, 3, 5])
def test_so_many_alike_are_decided_and_one_fewer_is_not(n: int, n_compared: int) -> None:
    """Holm's correction of the sign test, where all that are compared are alike in all of n."""

    def corrected(n: int) -> float:
        return holm([2 / 2**n] * n_compared)[0]

    alike = {"difference": 0.2, "ci_low": 0.2, "ci_high": 0.2, "n": n, "p_holm": corrected(n)}
    needed = examples_needed(alike, 0.05, n_compared)
    assert corrected(needed) < 0.05 <= corrected(needed - 1)
    rows = [alike | {"layer": layer} for layer in range(n_compared)]
    sentence = changed(rows, ACCURACY, act=START, what="the number", of="seeds")
    assert f"about {needed} seeds would decide it" in sentence
    told = [one | {"n_compared": 100, "p_holm": 1.0} for one in rows]
    sentence = changed(told, ACCURACY, act=START, what="the number", of="seeds")
    assert "about 12 seeds would decide it" in sentence  # 100 · 2⁻¹¹ < .05


def test_a_bootstrap_without_a_width_decides_by_the_sign_test() -> None:
    frame = pd.DataFrame([{"difference": d, "ci_low": d, "ci_high": d, "n": 4} for d in (0.2, 0.0)])
    assert [one["p_holm"] for one in bootstrapped(frame)] == [2 * 0.125, 1.0]


# ---- ablations ------------------------------------------------------------------------------


def ablation(changes: dict[tuple[int, int], Any], what: str, n: int = 60) -> AblationCurve:
    """A curve whose log-probabilities differ from the clean model's by this, at (layer, unit)."""
    clean = pd.DataFrame(
        {
            **{"example": np.arange(n), "prompt": "the", "answer": " a", "n_tokens": 3},
            **{"prediction": 1, "prediction_text": " a", "correct": True},
            **{"target_logprob": -1.0, "target_rank": 1},
        }
    )
    parts = [
        clean[["example", "prediction", "correct", "target_rank"]].assign(
            layer=layer, unit=unit, target_logprob=-1.0 + change
        )
        for (layer, unit), change in changes.items()
    ]
    units = sorted({unit for _, unit in changes})
    cells = [{"example": -1, "unit": u, "text": f"h{u}", "group": f"h{u}"} for u in units]
    config = {"model": "tiny", "what": what, "reach": "at" if what == "heads" else "from"}
    return AblationCurve.from_outcomes(
        pd.concat(parts), clean, pd.DataFrame(cells), config, n_layers=4
    )


def around(middle: float, spread: float, n: int = 60) -> Any:
    """Numbers with this mean, half of them as far above as the others are below."""
    return middle + spread * np.where(np.arange(n) % 2, 1.0, -1.0)


def test_blocks_of_a_model_in_a_sentence() -> None:
    curve = ablation(
        {(0, 0): around(-2.0, 0.5), (1, 0): around(-0.1, 1.5), (2, 0): around(0.01, 0.1)}, "layers"
    )
    rows = {each["layer"]: each for each in differences(curve)}
    frame = curve.frame.set_index("layer")  # whose interval is the same one
    for layer, each in rows.items():
        assert each["ci_low"] == pytest.approx(frame["logprob_change_low"][layer])
        assert each["difference"] == pytest.approx(frame["logprob_change"][layer])
    assert answers(curve) == [
        "Ablating a block from a layer on lowers the answer's log-probability at layer 0, by 2.00 "
        "nats an answer [1.87, 2.13] (95 %); it changes it at layer 2 by no more than 0.1 nats an "
        "answer; it is open at layer 1: between 0.49 nats an answer less and 0.29 more than clean "
        "(95 %); about 1000 examples would decide it, were it as measured."
    ]
    assert curve.sentences()[0] == answers(curve)[0]
    assert curve.summary().splitlines()[1] == answers(curve)[0]


def test_heads_are_corrected_for_their_number_and_counted() -> None:
    weak = around(-0.31, 1.0)  # p = .02, of twelve tests not decided
    changes = {(layer, head): around(0.0, 0.1) for layer in range(2) for head in range(6)}
    alone = answers(ablation({(0, 0): weak}, "heads"))
    assert alone[0].startswith("Ablating a head lowers the answer's log-probability for head h0 of")
    several = answers(ablation(changes | {(0, 0): weak, (1, 3): around(-1.0, 0.5)}, "heads"))
    assert several[0].startswith(
        "Ablating a head lowers the answer's log-probability for head h3 of layer 1, by 1.00 nats "
        "an answer [0.87, 1.13] (95 %); it changes it for 10 of 12 heads by no more than 0.1 nats "
        "an answer; it is open for head h0 of layer 0: between "
    )


def test_of_one_example_nothing_is_said() -> None:
    one = ablation({(0, 0): -3.0, (1, 0): -1.0}, "mlp", n=1)
    assert answers(one) == [
        "Whether ablating the MLP from a layer on changes the answer's log-probability is not "
        "known: there is no interval of 1 example."
    ]
