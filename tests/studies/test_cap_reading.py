"""What a CAP curve says in sentences: each pattern of the table, and what stays open."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest

from interp_compose.studies.cap.reading import EDGES, FIRST, LAST, READINGS, WORD, reading
from interp_compose.studies.cap.result import CONTROLS, CapCurve
from interp_compose.studies.core.decided import (
    ABOVE,
    ACCURACY,
    BELOW,
    NATS,
    NEAR,
    OPEN,
    examples_needed,
    layers_named,
    relation,
)

MARGIN = 0.05
ENDS = {BELOW: (-0.2, -0.06), NEAR: (-0.03, 0.03), ABOVE: (0.06, 0.2), OPEN: (-0.2, 0.2)}


def row(state: str) -> dict[str, float]:
    """A paired difference in this state."""
    low, high = ENDS[state]
    p = 0.01 if state in (BELOW, ABOVE) else 0.5
    return {"difference": (low + high) / 2, "ci_low": low, "ci_high": high, "p_holm": p, "n": 100}


def rows(mean: str, last: str, first: str, spans: str, kept: str) -> dict[str, dict[str, float]]:
    states = {"mean": mean, "last": last, "first": first, "spans": spans}
    differences = dict.fromkeys(("mean − last", "mean − first"), kept)
    return {name: row(state) for name, state in (states | differences).items()}


def test_a_relation_is_decided_by_interval_and_corrected_p() -> None:
    assert [relation(row(state), MARGIN) for state in ENDS] == [*ENDS]
    assert relation(row(BELOW) | {"p_holm": 0.05}, MARGIN) == OPEN
    assert relation(row(NEAR) | {"ci_high": 0.051}, MARGIN) == OPEN
    assert relation({"ci_low": 0.01, "ci_high": 0.02, "p_holm": 0.001}, MARGIN) == ABOVE
    assert relation({"ci_low": 0.0, "ci_high": 0.0, "p_holm": 1.0}, MARGIN) == NEAR


def test_decided_states_meet_a_reading_and_open_ones_that_matter_none() -> None:
    decided = (BELOW, NEAR, ABOVE)
    met = {states: reading(rows(*states), MARGIN) for states in product((*decided, OPEN), repeat=5)}
    assert all(met[states] for states in product(decided, repeat=5))
    assert {one.meaning for one in READINGS if "which" not in one.meaning} <= {
        one.meaning for one in met.values() if one
    }
    for (mean, last, first, spans, kept), one in met.items():
        word = mean in (NEAR, ABOVE) and last == first == spans == BELOW and kept == ABOVE
        edges = mean == last == first == spans == BELOW
        assert (one is not None and one.shows == WORD) == word, (mean, last, first, spans, kept)
        assert (one is not None and one.shows == EDGES) == edges
        if OPEN in (mean, spans) or {last, first} == {BELOW, OPEN}:
            assert one is None or spans == ABOVE or not one.spans
    for one_token, states in ((LAST, (NEAR, BELOW)), (FIRST, (BELOW, NEAR))):
        held = met[(BELOW, *states, NEAR, NEAR)]
        assert held is not None
        assert held.meaning.startswith(f"{one_token} alone holds")


def test_examples_needed_decide_a_difference_that_stays_as_it_is() -> None:
    wide = {"difference": 0.01, "ci_low": -0.09, "ci_high": 0.06, "n": 100, "p_holm": 1.0}
    needed = examples_needed(wide, MARGIN)
    assert needed == 625
    assert 0.01 + 0.1 * (100 / needed) ** 0.5 == pytest.approx(MARGIN)
    # a difference beyond half the margin is decided where the interval no longer holds 0
    apart = {"difference": -0.04, "ci_low": -0.10, "ci_high": 0.02, "n": 100, "p_holm": 0.2}
    needed = examples_needed(apart, MARGIN)
    assert -0.04 + 0.06 * (100 / needed) ** 0.5 == pytest.approx(0, abs=1e-3)
    # what is open at n is not decided by fewer
    assert examples_needed(apart | {"ci_low": -0.06, "ci_high": -0.01}, MARGIN) > 100


def test_an_interval_in_words() -> None:
    assert ACCURACY.between(-0.042, 0.02) == "between 4.2 points less and 2 more"
    assert ACCURACY.between(0.1, 0.255) == "between 10 and 26 points more"
    assert ACCURACY.between(-0.3, -0.05) == "between 5 and 30 points less"
    assert NATS.between(-0.1, 0.25) == "between 0.10 nats an answer less and 0.25 more"


def test_layers_in_words() -> None:
    assert layers_named([3]) == "layer 3"
    assert layers_named([0, 1]) == "layers 0 and 1"
    assert layers_named([0, 1, 3, 5, 6, 7]) == "layers 0, 1, 3 and 5 to 7"


def curve(n: int, **right: float) -> CapCurve:
    """A curve of one layer, in which each pooling keeps this share of the right answers."""
    return curve_of(
        n,
        {
            (0, pooling): (np.arange(n) + place * n // 7) % n < share * n  # not the same ones
            for place, (pooling, share) in enumerate(right.items())
        },
    )


def curve_of(
    n: int,
    kept: Mapping[tuple[int, str], Any],
    logprob: Mapping[tuple[int, str], Any] | None = None,
    clean_correct: Any = True,
    **config: Any,
) -> CapCurve:
    """A curve in which these examples are right at a layer after a pooling."""
    clean = pd.DataFrame(
        {
            **{"example": np.arange(n), "prompt": "the", "answer": " a", "prediction": 1},
            **{"prediction_text": " a", "correct": clean_correct, "target_logprob": -0.1},
            **{"target_rank": 1, "affected": True, "n_tokens": 9, "n_groups": 6},
        }
    )
    clean["target_rank"] = np.where(clean["correct"], 1, 2)
    clean["prediction"] = clean["target_rank"]
    parts = []
    for (layer, pooling), keeps in kept.items():
        one = clean[["example"]].assign(
            layer=layer, pooling=pooling, prediction=np.where(keeps, 1, 2), correct=keeps
        )
        value = -0.1 if logprob is None else logprob[layer, pooling]
        parts.append(one.assign(target_rank=np.where(keeps, 1, 2), target_logprob=value))
    config = {"model": "tiny", "unit": "word", "seed": 0, **config}
    n_layers = 1 + max(layer for layer, _ in kept)
    return CapCurve.from_outcomes(pd.concat(parts), clean, config, n_layers=n_layers)


def shares(mean: float, last: float, first: float, spans: float) -> dict[str, float]:
    return dict(zip(("mean", *CONTROLS), (mean, last, first, spans, spans), strict=True))


def test_sentences_of_a_curve() -> None:
    word = curve(1000, **shares(0.995, 0.5, 0.4, 0.6))
    assert word.sentences()[0].startswith(
        "Pooling words by mean costs no more than 5 points: at layer 0, where least is left, "
    )
    assert word.sentences()[1].startswith(
        "One vector per word suffices at layer 0: mean stays within 5 points of clean"
    )
    assert word.sentences()[1] in word.summary()
    edges = curve(1000, **shares(0.8, 0.4, 0.3, 0.5)).sentences()
    assert edges[1].startswith("At layer 0 a word's edges matter, and it is not yet one vector")
    assert "costs most at layer 0: 20 points [18, 23]" in edges[0]
    redundant = curve(1000, **shares(0.8, 0.4, 1.0, 0.79)).sentences()
    assert redundant[1] == (
        "No evidence of one vector per word: at layer 0, the first token alone holds the word, and "
        "pooling it with the others destroys that."
    )


def test_few_examples_leave_it_open_and_say_how_many_would_do() -> None:
    few = curve(40, **shares(0.8, 0.4, 0.4, 0.75)).sentences()
    assert (
        curve(40, **shares(0.95, 0.4, 0.4, 0.75))
        .sentences()[0]
        .startswith(
            "No cost of pooling words by mean is established: at layer 0, where least is left"
        )
    )
    assert few[1].startswith("Nothing can be said about one vector per word; open at layer 0")
    assert "examples would decide it" in few[1]


def test_without_controls_only_the_cost_is_told() -> None:
    assert len(curve(100, mean=0.5).sentences()) == 2
    assert "spans" not in curve(100, mean=0.5).sentences()[0]


def wrong_at(n: int, *places: int) -> Any:
    return ~np.isin(np.arange(n), places)


def test_the_cost_is_said_of_all_layers() -> None:
    n = 400
    # Layer 0 loses 2 %, one way; layer 1 loses 1.5 % in net, with an interval beyond 5 points.
    half = np.arange(n) < n // 2
    clean = ~half
    even = clean.copy()
    even[n // 2 : n // 2 + 8] = False
    shuffled = clean.copy()
    shuffled[n // 2 : n // 2 + 66] = False
    shuffled[:60] = True
    both = curve_of(n, {(0, "max"): even, (1, "max"): shuffled}, clean_correct=clean)
    rows = both.differences("max").set_index("layer")
    assert rows["ci_low"][1] < -0.05 < rows["ci_low"][0] < rows["ci_high"][0] < 0
    assert rows["difference"][0] < rows["difference"][1]
    assert both.sentences()[0].startswith("Pooling words by max costs most at layer 0: 2 points")

    # Where least is left the cost is within 5 points; at another layer it may be more.
    few = clean.copy()
    few[n // 2 : n // 2 + 3] = False
    few[:1] = True
    open_ = curve_of(n, {(0, "max"): few, (1, "max"): clean}, clean_correct=clean)
    assert "costs no more than 5 points" in open_.sentences()[0]
    less = clean.copy()
    less[n // 2 : n // 2 + 60] = False
    less[:60] = True
    mixed = curve_of(n, {(0, "max"): few, (1, "max"): less}, clean_correct=clean)
    sentence = mixed.sentences()[0]
    assert sentence.startswith("No cost of pooling words by max is established: at layer 1")

    # Where least is left nothing is established; at another layer less is lost, and certainly.
    wild = clean.copy()
    wild[n // 2 : n // 2 + 90] = False
    wild[:75] = True
    certain = clean.copy()
    certain[n // 2 : n // 2 + 12] = False
    hidden = curve_of(n, {(0, "max"): wild, (1, "max"): certain}, clean_correct=clean)
    rows = hidden.differences("max").set_index("layer")
    assert relation(rows.loc[0].to_dict(), MARGIN) == OPEN
    assert relation(rows.loc[1].to_dict(), MARGIN) == BELOW
    assert rows["difference"][0] < rows["difference"][1]
    assert hidden.sentences()[0] == (
        "Pooling words by max costs most, where a cost is established, at layer 1"
        f": 3 points [{-100 * rows['ci_high'][1]:.1f}, {-100 * rows['ci_low'][1]:.1f}]."
    )


def test_of_few_right_answers_nothing_is_concluded() -> None:
    n = 2000
    clean = np.arange(n) < 60
    names = ("mean", *CONTROLS)
    floor = curve_of(n, {(0, name): np.zeros(n, bool) for name in names}, clean_correct=clean)
    assert "costs most at layer 0: 3 points" in floor.sentences()[0]
    kept = curve_of(n, {(0, name): clean & (np.arange(n) > 0) for name in names}, None, clean)
    for one in (floor, kept):
        assert not any("hardly reads" in sentence for sentence in one.sentences())
        assert not any("costs no more" in sentence for sentence in one.sentences())
        assert any("3 % of the examples" in sentence for sentence in one.sentences())


def test_sentences_name_what_was_compared() -> None:
    n = 400
    right = np.zeros(n, bool)
    rng = np.random.default_rng(0)
    values = {(0, name): rng.normal(-2.0, 0.1, n) for name in ("mean", *CONTROLS)}
    nats = curve_of(n, dict.fromkeys(values, right), values, clean_correct=right)
    assert nats._value == "target_logprob"
    assert "losing positions costs something" in nats.sentences()[1]
    assert not any("accuracy" in sentence for sentence in nats.sentences()[:2])

    # Without straddling nothing is said of edges.
    def without(mean: float, last: float, first: float, spans: float) -> CapCurve:
        right = {"mean": mean, "last": last, "first": first, "shuffled": spans}
        return curve(1000, **right)

    for one in (without(0.995, 0.5, 0.4, 0.6), without(0.8, 0.4, 0.3, 0.5)):
        assert "edges" not in one.sentences()[1]
        assert "spans elsewhere" in one.sentences()[1]

    # Broadcasting loses no position.
    kept = shares(0.5, 0.5, 0.5, 0.5)
    places = {
        (0, name): (np.arange(1000) + i) % 1000 < share * 1000
        for i, (name, share) in enumerate(kept.items())
    }
    for mode, word in (("broadcast", "overwriting"), ("collapse", "losing")):
        said = curve_of(1000, places, mode=mode).sentences()[1]
        assert f"{word} positions costs something" in said

    # Pooling may gain.
    clean = np.arange(1000) < 500
    gains = {"mean": 0.9, "last": 0.3, "first": 0.3, "straddling": 0.3, "shuffled": 0.3}
    places = {(0, name): np.arange(1000) < share * 1000 for name, share in gains.items()}
    gain = curve_of(1000, places, clean_correct=clean).sentences()[1]
    assert "One vector per word suffices" in gain
    assert "stays within" not in gain
    assert "mean keeps more than clean" in gain
