"""How often a watcher may look: what its looks take stays a share of what training takes.

With T the seconds of training so far, without all that the watcher did, W the seconds of the
watcher so far, c those of its last look, and b the budget, a look is taken where

    W + c ≤ b · T.

The first look is always taken, since what one takes is not known before. A look that takes longer
than the one before it is paid for before the next. At any time, then, W is at most the largest of
the first look's seconds and of b · T + e, where e is how much longer the last look took than the
one before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class Budget:
    """The seconds of a training and of its watcher.

    Attributes:
        share: b, or None for no bound.
        clock: seconds, from any origin.
        watching: W.
        last: c; None before the first look.
    """

    share: float | None
    clock: Callable[[], float]
    watching: float = 0.0
    last: float | None = None
    _began: float = 0.0

    def begin(
        self, *, training: float = 0.0, watching: float = 0.0, last: float | None = None
    ) -> None:
        """Training starts now, after so many seconds of an earlier process."""
        self.watching, self.last = watching, last
        self._began = self.clock() - training - watching

    @property
    def training(self) -> float:
        """T: seconds since the start, without those of watching."""
        return self.clock() - self._began - self.watching

    def allows(self, training: float) -> bool:
        """Whether the next look fits, T being ``training``."""
        if self.share is None or self.last is None:
            return True
        return self.watching + self.last <= self.share * training
