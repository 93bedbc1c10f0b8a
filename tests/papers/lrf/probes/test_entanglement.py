"""A label across values of another: against probes fitted by hand, and on vectors that are one sum
of parts, or of pairs alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from interp_compose.papers.lrf.probes.entanglement import DRAW, cross_probe


def labels(n: int, seed: int, n_labels: int = 3, n_other: int = 8) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    return random.integers(n_labels, size=n), random.integers(n_other, size=n)


def test_against_probes_fitted_by_hand() -> None:
    """Value by value of each part, with scikit-learn itself; six values in four parts."""
    y, z = labels(90, 0, n_other=6)
    test_y, test_z = labels(40, 1, n_labels=4, n_other=7)  # a label and a value that are not fitted
    random = np.random.default_rng(2)
    train, test = random.normal(size=(90, 5)) + y[:, None], random.normal(size=(40, 5))
    test += test_y[:, None]
    found = cross_probe(train, y, z, test, test_y, test_z)
    assert found is not None

    draws = np.random.default_rng(DRAW)
    values = draws.permutation(6).tolist()
    right, n, sizes = np.zeros(3), 0, []
    for k in range(4):
        left_out = [value for place, value in enumerate(values) if place % 4 == k]
        without = [i for i in range(90) if z[i] not in left_out]
        with_all = draws.choice(90, size=len(without), replace=False).tolist()
        known = {*y[without]} & {*y[with_all]}
        tested = [i for i in range(40) if test_z[i] in left_out and test_y[i] in known]
        for column, fitted in enumerate((with_all, without)):
            mean, deviation = train[fitted].mean(axis=0), train[fitted].std(axis=0)
            probe = LogisticRegression(C=1.0, max_iter=1000)
            probe.fit((train[fitted] - mean) / deviation, y[fitted])
            predicted = probe.predict((test[tested] - mean) / deviation)
            right[column] += (predicted == test_y[tested]).sum()
        common = max(sorted({*y[without]}), key=lambda label: (y[without] == label).sum())
        right[2] += (test_y[tested] == common).sum()
        sizes.append(len(without))
        n += len(tested)
    assert n < 40  # those of the label and of the value that training lacks are left out
    assert (found.within, found.across, found.majority) == pytest.approx(tuple(right / n))
    assert (found.n, found.n_train) == (n, round(sum(sizes) / 4))


def parts(seed: int, *, entangled: bool) -> Any:
    """Vectors of 400 and 200 tokens: a part for the label and one for the value, or a vector for
    each pair of both."""
    random = np.random.default_rng(7)
    sizes = ((3, 40), (8, 40), (3, 8, 40))
    of_label, of_value, of_pair = (random.normal(size=size) for size in sizes)
    made = []
    for n, own in ((400, seed), (200, seed + 1)):
        y, z = labels(n, own)
        vectors = of_pair[y, z] if entangled else of_label[y] + of_value[z]
        made += [vectors + 0.05 * np.random.default_rng(own).normal(size=vectors.shape), y, z]
    return made


def test_a_sum_of_parts_is_not_entangled_and_pairs_are() -> None:
    apart = cross_probe(*parts(0, entangled=False))
    assert apart is not None
    assert apart.within == apart.across == 1.0
    entangled = cross_probe(*parts(0, entangled=True))
    assert entangled is not None
    assert entangled.within == 1.0  # both can be read: that alone says nothing
    assert entangled.across < 0.6


def test_one_value_has_nothing_across() -> None:
    y, _ = labels(20, 0)
    vectors = np.random.default_rng(0).normal(size=(20, 4))
    same = np.zeros(20, dtype=int)
    assert cross_probe(vectors, y, same, vectors, y, same) is None
    _, z = labels(20, 3)
    assert cross_probe(vectors, y, z, vectors, y + 10, z) is None  # no label that was fitted


def test_the_other_label_may_have_fewer_values_than_parts() -> None:
    y, z = labels(60, 4, n_other=2)
    vectors = np.random.default_rng(5).normal(size=(60, 4))
    found = cross_probe(vectors, y, z, vectors, y, z)
    assert found is not None
    assert (found.n, found.n_train) == (60, 30)
