"""Which examples each optimiser step sees: by the settings, the seed and the step alone.

So a run resumes at any step without replaying those before it, and a model sees the same batches
alone and with others.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int

if TYPE_CHECKING:
    from interp_compose.training.config import TrainConfig


@runtime_checkable
class Order(Protocol):
    """Says which examples a step sees."""

    def at(self, step: int) -> Int[np.ndarray, "example"]:
        """Indices of the examples of step ``step``, counted from 0."""
        ...


class BatchOrder:
    """The batches of a run over examples of these ``lengths`` (tokens); each epoch is shuffled
    anew.

    With a budget of tokens, examples of about one length share a batch, and the batches come in a
    shuffled order: see :func:`token_batches`.
    """

    def __init__(self, lengths: Sequence[int], config: TrainConfig) -> None:
        self.steps_per_epoch = config.steps_per_epoch(len(lengths), lengths)
        self._lengths, self._config = lengths, config
        self._epoch, self._order = -1, np.arange(0)
        self._bounds: list[int] = []

    def at(self, step: int) -> Int[np.ndarray, "example"]:
        """Indices of the examples of step ``step``; the last batch of an epoch may be smaller."""
        epoch, place = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._shuffle(epoch)
        low, high = self._bounds[place : place + 2]
        return self._order[low:high]

    def _shuffle(self, epoch: int) -> None:
        # 1. All examples, shuffled by the seed and the epoch.
        random = np.random.default_rng([self._config.seed, epoch])
        n, budget = len(self._lengths), self._config.batch_tokens
        order = random.permutation(n)
        bounds = [*range(0, n, self._config.batch_size), n]
        if budget is not None:
            # 2. By length; those of one length stay shuffled, as the sort is stable.
            lengths = np.asarray(self._lengths)
            order = order[np.argsort(lengths[order], kind="stable")]
            # 3. Cut into batches, whose order is shuffled in turn.
            cuts = list(pairwise(token_batches(lengths[order].tolist(), budget)))
            shuffled = [cuts[i] for i in random.permutation(len(cuts))]
            order = np.concatenate([order[low:high] for low, high in shuffled])
            bounds = np.cumsum([0, *(high - low for low, high in shuffled)]).tolist()
        self._epoch, self._order, self._bounds = epoch, order, bounds


def token_batches(lengths: Sequence[int], budget: int) -> list[int]:
    """Where batches of at most ``budget`` tokens, padding included, begin among examples in
    ascending order of ``lengths``; the end of the last batch comes last.

    A longer example is a batch of its own. How many there are does not depend on the order of
    examples of one length.
    """
    bounds = [0]
    for place, length in enumerate(lengths):
        # Lengths ascend, so that this one is what the batch would be padded to.
        if place > bounds[-1] and (place + 1 - bounds[-1]) * length > budget:
            bounds.append(place)
    return [*bounds, len(lengths)]


def into_parts(indices: Int[np.ndarray, "example"], n_parts: int) -> list[Int[np.ndarray, "_"]]:
    """The batch in ``n_parts`` runs of neighbours whose sizes differ by at most one.

    A batch smaller than that (the last of an epoch) leaves parts empty.
    """
    bounds = [len(indices) * i // n_parts for i in range(n_parts + 1)]
    return [indices[low:high] for low, high in pairwise(bounds)]
