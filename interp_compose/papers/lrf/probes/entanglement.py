"""Whether two labels of vectors are kept apart: a linear probe of one, across values of the other.

A probe of the label y is fitted on vectors whose other label z has some values, and tested on those
with other values of z (*cross-condition generalisation*; Bernardi et al. 2020, "The Geometry of
Abstraction in the Hippocampus and Prefrontal Cortex"). Where each vector is the sum of one part for
y and one for z, the probe is as good there as on values that it was fitted on; where a vector
belongs to the pair (y, z) alone, it is at chance, however well both can be read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from jaxtyping import Float, Int

from interp_compose.papers.lrf.probes.linear import linear_probe

FOLDS: Final = 4
"""Parts of the other label's values, each left out of the fit in its turn; fewer where there are
fewer values."""
DRAW: Final = 0
"""Seed of the parts and of the vectors that are fitted on, the same for every model and layer."""


@dataclass(frozen=True)
class CrossProbed:
    """What probes of a label get right, over all parts of the other label's values.

    Attributes:
        within: of probes that were fitted on as many vectors, with all values of the other label
            among them.
        across: of probes that were fitted without the values that they are tested on.
        majority: of always naming the commonest label that these were fitted on.
        n_train: vectors that a probe was fitted on, a mean over the parts.
        n: vectors that were tested, the same ones for both. Those whose label one of the two probes
            was not fitted on are left out.

    ``within`` − ``across`` is the entanglement: what the reading of one label owes to the other.
    """

    within: float
    across: float
    majority: float
    n_train: int
    n: int


def cross_probe(
    train: Float[np.ndarray, "train d_model"],
    labels: Int[np.ndarray, "train"],
    other: Int[np.ndarray, "train"],
    test: Float[np.ndarray, "test d_model"],
    test_labels: Int[np.ndarray, "test"],
    test_other: Int[np.ndarray, "test"],
) -> CrossProbed | None:
    """Probes of ``labels`` across values of ``other``; None where it has one value, or where no
    vector can be tested."""
    random = np.random.default_rng(DRAW)
    values = random.permutation(np.unique(other))
    n_folds = min(FOLDS, len(values))
    sums, n_train, n = np.zeros(3), [], 0
    for fold in range(n_folds if n_folds > 1 else 0):
        # 1. Fitted on the other values alone, and on as many vectors of all values.
        left_out = values[fold::n_folds]
        without = np.flatnonzero(~np.isin(other, left_out))
        with_all = random.choice(len(other), size=len(without), replace=False)
        # 2. Both are tested on the values that were left out, on labels that both know.
        known = np.intersect1d(labels[without], labels[with_all])
        tested = np.isin(test_other, left_out) & np.isin(test_labels, known)
        n_tested = int(tested.sum())
        if not n_tested:
            continue
        within, across = (
            linear_probe(train[fitted], labels[fitted], test[tested], test_labels[tested])
            for fitted in (with_all, without)
        )
        # 3. Sums over the parts, so that each tested vector counts once.
        sums += n_tested * np.array([within.accuracy, across.accuracy, across.majority])
        n_train.append(len(without))
        n += n_tested
    if not n:
        return None
    within_all, across_all, majority = (sums / n).tolist()
    mean_train = round(float(np.mean(n_train)))
    return CrossProbed(within_all, across_all, majority, n_train=mean_train, n=n)
