"""What a CAP curve says in sentences: each pattern of the table, and what stays open."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest

from interp_compose.studies.cap.reading import (
    ABOVE,
    BELOW,
    EDGES,
    FIRST,
    LAST,
    NEAR,
    OPEN,
    READINGS,
    WORD,
    _places,
    between,
    examples_needed,
    reading,
    relation,
)
from interp_compose.studies.cap.result import CONTROLS, CapCurve

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
        word = mean in (NEAR, ABOVE) and last == first == spans == BELOW
        edges = mean == last == first == spans == BELOW
        assert (one is not None and one.shows == WORD) == word, (mean, last, first, spans, kept)
        assert (one is not None and one.shows == EDGES) == edges
        if OPEN in (mean, spans) or {last, first} == {BELOW, OPEN}:
            assert one is None or spans == ABOVE
    for one_token, states in ((LAST, (NEAR, BELOW)), (FIRST, (BELOW, NEAR))):
        held = met[(BELOW, *states, NEAR, NEAR)]
        assert held is not None
        assert held.meaning.startswith(f"{one_token} alone holds")


def test_examples_needed_bring_the_wider_side_to_the_margin() -> None:
    wide = {"difference": 0.01, "ci_low": -0.09, "ci_high": 0.06, "n": 100, "p_holm": 1.0}
    needed = examples_needed(wide, MARGIN)
    assert needed == 400
    assert 0.1 * (100 / needed) ** 0.5 == pytest.approx(MARGIN)


def test_an_interval_in_words() -> None:
    assert between(-0.042, 0.02, "accuracy") == "between 4.2 points less and 2 more"
    assert between(0.1, 0.255, "accuracy") == "between 10 and 26 points more"
    assert between(-0.3, -0.05, "accuracy") == "between 5 and 30 points less"
    assert between(-0.1, 0.25, "target_logprob") == "between 0.10 nats an answer less and 0.25 more"


def test_layers_in_words() -> None:
    assert _places([3]) == "layer 3"
    assert _places([0, 1]) == "layers 0 and 1"
    assert _places([0, 1, 3, 5, 6, 7]) == "layers 0, 1, 3 and 5 to 7"


def curve(n: int, **right: float) -> CapCurve:
    """A curve of one layer, in which each pooling keeps this share of the right answers."""
    clean = pd.DataFrame(
        {
            **{"example": np.arange(n), "prompt": "the", "answer": " a", "prediction": 1},
            **{"prediction_text": " a", "correct": True, "target_logprob": -0.1},
            **{"target_rank": 1, "affected": True, "n_tokens": 9, "n_groups": 6},
        }
    )
    parts = []
    for place, (pooling, share) in enumerate(right.items()):
        keeps = (np.arange(n) + place * n // 7) % n < share * n  # not the same ones
        one = clean[["example", "target_logprob"]].assign(
            layer=0, pooling=pooling, prediction=np.where(keeps, 1, 2), correct=keeps
        )
        parts.append(one.assign(target_rank=np.where(keeps, 1, 2)))
    config = {"model": "tiny", "unit": "word", "seed": 0}
    return CapCurve.from_outcomes(pd.concat(parts), clean, config, n_layers=1)


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
    assert few[1].startswith("Nothing can be said of one vector per word; open at layer 0")
    assert "examples would narrow it to that." in few[1]


def test_without_controls_only_the_cost_is_told() -> None:
    assert len(curve(100, mean=0.5).sentences()) == 2
    assert "spans" not in curve(100, mean=0.5).sentences()[0]
