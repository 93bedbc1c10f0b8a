"""Subsets of a training split: which lines they hold, and what can be answered after them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from interp_compose.tasks.sequences import SequencePair

DRAW = 0
"""Seed of the order of the training lines, the same for every run."""


def single_exposures(pairs: Sequence[SequencePair]) -> Bool[np.ndarray, "pair"]:
    """Which pairs hold a token that no other pair holds on the same side."""
    tokens = [_tokens(pair) for pair in pairs]
    counts = Counter(token for each in tokens for token in each)
    return np.array([any(counts[token] == 1 for token in each) for each in tokens], dtype=bool)


def subset(pairs: Sequence[SequencePair], size: int, *, kept: int) -> Int[np.ndarray, "_"]:
    """The places of the first ``size`` pairs of a random order; where ``kept`` is not 0, those of
    :func:`single_exposures`, of which there are so many, come first in it."""
    order = np.random.default_rng(DRAW).permutation(len(pairs))
    if kept:
        first = single_exposures(pairs)[order]
        order = np.concatenate([order[first], order[~first]])
    return order[:size]


def ceilings(
    splits: Mapping[str, Sequence[SequencePair]], places: Sequence[int]
) -> Iterator[dict[str, Any]]:
    """For each evaluation split and kind, how many of its ``n`` pairs hold no token (on its side)
    that the training pairs at ``places`` lack, ``n_known``: others cannot be learned from these."""
    train = splits["train"]
    known = {token for place in places for token in _tokens(train[place])}
    for split, pairs in splits.items():
        counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for pair in pairs if split != "train" else ():
            counts[pair.kind][0] += known.issuperset(_tokens(pair))
            counts[pair.kind][1] += 1
        for kind, (n_known, n) in sorted(counts.items()):
            yield {"split": split, "kind": kind, "n_known": n_known, "n": n}


def _tokens(pair: SequencePair) -> set[tuple[bool, str]]:
    """The tokens of a pair, each with whether it is the target's."""
    sides = ((False, pair.source), (True, pair.target))
    return {(is_target, token) for is_target, text in sides for token in text.split()}
