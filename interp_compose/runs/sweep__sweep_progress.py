"""The progress bar of a sweep: how many runs are done, running and failed, and the time left."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Final

from tqdm.auto import tqdm

from interp_compose.runs.folder import Run

REDRAW: Final = 1.0
"""Seconds after which the bar is drawn though nothing happened."""


class Progress:
    """Counts the runs of a call, whoever finishes them.

    The bar's time left is that of the runs still to come at the pace of those finished since it
    began; runs that were done before do not count.
    """

    def __init__(self, runs: Sequence[Run], *, progress: bool) -> None:
        self._left = list(runs)
        self._counted = self._took = self._drawn = 0.0
        self._shown: dict[str, int] = {}
        self.done = self.failed = 0
        self._count()
        self._bar = tqdm(
            total=len(runs),
            initial=self.done + self.failed,
            desc="sweep",
            unit="run",
            smoothing=0,
            disable=not progress,
        )
        self.show(0)

    def show(self, running: int) -> None:
        """Look which runs are finished, if that takes a tenth of the time at most; draw the bar
        where a number changed, and once a second for the time."""
        before = self.done + self.failed
        if time.monotonic() - self._counted >= 10 * self._took:
            self._count()
        counts = {"done": self.done, "running": running, "failed": self.failed}
        if counts == self._shown and time.monotonic() - self._drawn < REDRAW:
            return
        self._shown, self._drawn = counts, time.monotonic()
        self._bar.set_postfix(counts, refresh=False)
        self._bar.update(self.done + self.failed - before)
        self._bar.refresh()

    def _count(self) -> None:
        began = time.monotonic()
        left = []
        for run in self._left:
            if run.is_done:
                self.done += 1
            elif run.has_failed:
                self.failed += 1
            else:
                left.append(run)
        self._left = left
        self._counted = time.monotonic()
        self._took = self._counted - began

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._took = 0
        self.show(0)
        self._bar.close()
