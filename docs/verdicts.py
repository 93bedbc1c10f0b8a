"""Every testable claim of the four papers with a verdict: ``docs/verdicts.md``.

A claim is its words, where the paper makes it, the runs that test it, and a function that reads
their files in ``benchmarks/results/`` and returns what was measured and a verdict. A verdict
follows from the numbers by a rule of :data:`RULES`; where none fits it is :func:`judged` by hand,
with the condition on the numbers under which it holds. A file that no longer meets the condition
makes it :data:`STALE`, and a test fails.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

REPRODUCED: Final = "reproduced"
NOT: Final = "not reproduced"
UNDECIDED: Final = "undecided"
UNTESTED: Final = "untested"
VERDICTS: Final = (REPRODUCED, NOT, UNDECIDED, UNTESTED)
STALE: Final = "to be judged again"
BREAK: Final = "<br>"
"""Ends a line inside a cell."""

RULES: Final = """\
1. **Paired differences over seeds** (CARMA minus plain fine-tuning): reproduced where one in the
   claimed direction has p < 0.05 after Holm's correction and none in the other has; not reproduced
   where it is the other way; else undecided. A claim about several tasks, models or depths must
   hold on each, and is undecided where they differ, as where several measures, splits or subsets
   do. A claim that itself names several *parts*, or has to hold against several baselines, is not
   reproduced where one of them is not.
2. **Intervals** of 95 %: undecided where they overlap, or where one holds the value of no effect.
   A row that gives both intervals and a count of layers is decided by the intervals.
3. **Ranges from smallest to largest** seed or cell (complexity control, LRF and CAT; two to five
   seeds): that one is larger is reproduced where the ranges do not overlap, not reproduced where
   they do not overlap the other way round, else undecided. One seed decides nothing.
4. **Counts** of cells, layers or models: reproduced where all are as claimed, not reproduced where
   none is, else undecided; where a row names a bound, that decides. **Orders** are as claimed or
   they are not.
5. **Architectures** (complexity control; a row says pre-LN or post-LN, or its run does: `pre`,
   `post`). A claim is
   judged on the architecture for which the paper draws it: pre-LN for Figs 3 and 5C, post-LN for
   Figs 4, 5A, 5B and 8. Where a row has numbers of both, it must hold on each; an architecture of
   which no run is in the phase that the claim is about decides nothing, and the other one does.
6. **By hand**, marked †: the deciding numbers are in the row, and a test fails once they
   change sides.
"""

Found = tuple[str, str]
"""What was measured, and the verdict."""


@dataclass(frozen=True)
class Claim:
    """A paper's claim, its place in the paper, and the verdict here."""

    words: str
    where: str
    runs: tuple[str, ...]
    find: Callable[[], Found]


class Claims(list[Claim]):
    """The claims of one paper, in its order."""

    def number(self, words: str) -> int:
        """The row of the claim that begins with these words."""
        (found,) = (n for n, one in enumerate(self, 1) if one.words.startswith(words))
        return found

    def add(
        self, words: str, where: str, *runs: str
    ) -> Callable[[Callable[[], Found]], Callable[[], Found]]:
        """Decorates the function that finds a claim's verdict."""

        def register(find: Callable[[], Found]) -> Callable[[], Found]:
            self.append(Claim(words, where, runs, find))
            return find

        return register

    def untested(self, words: str, where: str, why: str) -> None:
        """A claim that nothing here tests."""
        self.append(Claim(words, where, (), lambda: (why, UNTESTED)))

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Heads and rows, numbered."""
        rows = []
        for number, one in enumerate(self, 1):
            measured, verdict = one.find()
            runs = ", ".join(f"[{run}](#run-{run})" for run in one.runs)
            rows.append([str(number), one.words, one.where, measured, runs, f"**{verdict}**"])
        return ["", "claim", "in the paper", "measured here", "run", "verdict"], rows

    def counts(self) -> Counter[str]:
        """How many have which verdict."""
        return Counter(one.find()[1].removesuffix(" †") for one in self)


def judged(verdict: str, holds: bool) -> str:
    """A verdict by hand, which holds while its condition on the numbers does."""
    return f"{verdict} †" if holds else STALE


def sure(row: Mapping[str, Any]) -> bool:
    """A difference beyond chance after the correction; one seed decides nothing."""
    return row["p_holm"] is not None and row["p_holm"] < 0.05


def by_tests(rows: Iterable[Mapping[str, Any]]) -> str:
    """Rule 1, of the differences of one task: they are above 0."""
    found = [row["difference"] for row in rows if sure(row)]
    up, down = any(d > 0 for d in found), any(d < 0 for d in found)
    return UNDECIDED if up == down else REPRODUCED if up else NOT


def by_ranges(
    smaller: tuple[float | None, float | None], larger: tuple[float | None, float | None]
) -> str:
    """Rules 2 and 3: the second lies above the first; an end that was not reached is undecided."""
    if None in (*smaller, *larger):
        return UNDECIDED
    if smaller[1] < larger[0]:
        return REPRODUCED
    return NOT if larger[1] < smaller[0] else UNDECIDED


def agreed(verdicts: Iterable[str]) -> str:
    """The one verdict of all, else undecided."""
    first, *others = set(verdicts)
    return UNDECIDED if others else first
