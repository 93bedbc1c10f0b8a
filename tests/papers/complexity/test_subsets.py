"""Subsets that hold what training shows once, and what can be answered after them, pair by pair."""

from __future__ import annotations

import numpy as np
import pytest

from interp_compose.papers.complexity.grid.subsets import ceilings, single_exposures, subset
from interp_compose.tasks.sequences import SequencePair

TRAIN = [
    SequencePair("a b", "A B"),
    SequencePair("a", "A"),
    SequencePair("c a", "A A"),  # c once, as source
    SequencePair("b b", "B c"),  # c once, as target; b twice in one line, and in another
    SequencePair("a b", "A B"),
    SequencePair("b", "B"),
    SequencePair("d", "A"),
    SequencePair("d", "B"),
]
GEN = [
    SequencePair("c b", "A", "x"),
    SequencePair("a", "c", "x"),
    SequencePair("b a", "B", "x"),
    SequencePair("d d", "A A", "y"),
    SequencePair("a c", "C", "y"),  # C is never shown
]


def has_single(place: int) -> bool:
    """Each token of each side, against every other pair."""
    for side in ("source", "target"):
        for token in getattr(TRAIN[place], side).split():
            others = (getattr(pair, side) for i, pair in enumerate(TRAIN) if i != place)
            if not any(token in text.split() for text in others):
                return True
    return False


def test_pairs_with_a_token_that_no_other_has() -> None:
    expected = [has_single(i) for i in range(len(TRAIN))]
    assert single_exposures(TRAIN).tolist() == expected
    assert expected == [False, False, True, True, False, False, False, False]
    assert single_exposures([SequencePair("a", "A")] * 2).tolist() == [False, False]


@pytest.mark.parametrize("size", [2, 5, 8])
def test_subsets_hold_them_and_the_first_others_of_the_old_order(size: int) -> None:
    order = np.random.default_rng(0).permutation(len(TRAIN)).tolist()
    assert subset(TRAIN, size, kept=0).tolist() == order[:size]
    rare = [i for i in order if has_single(i)]
    others = [i for i in order if not has_single(i)]
    assert subset(TRAIN, size, kept=2).tolist() == [*rare, *others][:size]
    assert {2, 3} <= {*subset(TRAIN, size, kept=2).tolist()}


@pytest.mark.parametrize("places", [[0], [0, 2, 3], [1, 5, 6, 7], range(8)])
def test_ceilings_pair_by_pair(places: list[int]) -> None:
    chosen = [TRAIN[i] for i in places]
    expected: dict[tuple[str, str], list[int]] = {}
    for pair in GEN:
        counts = expected.setdefault(("gen", pair.kind), [0, 0])
        counts[1] += 1
        counts[0] += all(
            any(token in getattr(one, side).split() for one in chosen)
            for side in ("source", "target")
            for token in getattr(pair, side).split()
        )
    rows = ceilings({"train": TRAIN, "gen": GEN}, list(places))
    found = {(row["split"], row["kind"]): [row["n_known"], row["n"]] for row in rows}
    assert found == expected
