"""What decides a verdict: the values of both sides of a comparison, and the rules.

:func:`read_side` is the one function that reads what is compared, :func:`compared` the one that
decides a comparison.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf, isnan
from statistics import fmean
from typing import Any, Final

from docs import measured
from docs.phase_results import share

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

Cell = tuple[str, str]
"""What was measured, and the verdict."""
Row = Mapping[str, Any]
SHOWN: Final = {
    "share": ("{mean:share} ({low:share} to {high:share})", "{mean:share}"),
    "shares": ("{low:share} to {high:share}",) * 2,
    "seeds": ("{mean:share} [{low:share}–{high:share}]", "{mean:share}"),
    "ends": ("{mean:share} [{low:share}–{high:share}]",) * 2,
    "percent": ("{mean:percent} % ({low:percent}–{high:percent})",) * 2,
    "steps": ("{low:,.0f}–{high:,.0f}", "{low:,.0f}"),
    "epochs": ("{mean:.1f} ({low:g}–{high:g})",) * 2,
    "tenths": ("{mean:.1f} ({low:.1f} to {high:.1f})",) * 2,
}
"""How a side is shown: where its ends differ, and where they are equal (``share``: as shown). It is
also shown as the ``points`` of a difference, the ``n`` of its rows, and the ``layers`` that differ
beyond chance."""


class Number(float):
    """A float that can be shown as a ``share`` (".97") and in ``percent`` ("97.0")."""

    def __format__(self, form: str) -> str:
        if form == "percent":
            return f"{100 * self:.1f}"
        return share(self) if form == "share" else super().__format__(form)


@dataclass(frozen=True)
class Side:
    """One side of a comparison: mean, smallest and largest, or an interval and its middle.

    ``values`` are those of single rows (seeds, cells, runs), where the file has them.
    """

    rows: tuple[Row, ...]
    values: tuple[float, ...]
    mean: float
    low: float
    high: float

    def __getitem__(self, column: str) -> Any:
        """Of the one row, what a column holds."""
        (row,) = self.rows
        return row[column]

    def __format__(self, form: str) -> str:
        if form == "points":
            (row,) = self.rows
            return points(row)
        if form == "n":
            return str(len(self.rows))
        if form == "layers":
            return " and ".join(f"{row['layer']:.0f}" for row in self.rows if sure(row)) or "none"
        differ, equal = SHOWN.get(form, (f"{{mean:{form}}}",) * 2)
        same = self.low == self.high or (form == "share" and share(self.low) == share(self.high))
        return (equal if same else differ).format(mean=self.mean, low=self.low, high=self.high)


def points(row: Row) -> str:
    """A difference like "+4.39 ± 0.64"."""
    return f"{row['difference']:+.2f} ± {row['standard_error']:.2f}"


def rows_of(file: str, table: str | list[str], where: Mapping[str, Any]) -> list[Row]:
    """The rows of a table of a file in ``benchmarks/results/`` that meet conditions.

    A condition is a value, a list of those allowed, ``over`` or ``below`` a bound, or ``known`` or
    not. A table inside others is named by all their names.
    """
    content: Any = measured.read(file)
    for name in [table] if isinstance(table, str) else table:
        content = content[name]
    rows = content if isinstance(content, list) else [content]
    return [row for row in rows if all(_meets(row[key], where[key]) for key in where)]


def _meets(value: Any, condition: Any) -> bool:
    if not isinstance(condition, dict):
        return value in condition if isinstance(condition, list) else bool(value == condition)
    if "known" in condition:
        return (value is not None) == condition["known"]
    return bool(condition.get("over", -inf) < value < condition.get("below", inf))


def read_side(query: Mapping[str, Any]) -> Side:
    """What a query reads: the ``value`` of each row (``less`` another column, as a share ``of``
    another), or, if ``value`` names three columns, those of one row: mean and ends."""
    rows = tuple(rows_of(query["file"], query["table"], query["rows"]))
    columns = query.get("value", "")
    if isinstance(columns, list):
        (row,) = rows
        return side_of(row, *columns)
    return spread(
        (
            (row[columns] - (row[query["less"]] if "less" in query else 0))
            / (row[query["of"]] if "of" in query else 1)
            for row in rows * bool(columns)
        ),
        rows,
    )


def side_of(row: Row, *columns: str) -> Side:
    """Mean and ends by their columns; NaN where one was not reached."""
    mean, low, high = (Number("nan" if row[name] is None else row[name]) for name in columns)
    return Side((row,), (), mean, low, high)


def spread(values: Iterable[float], rows: tuple[Row, ...] = ()) -> Side:
    """Mean, smallest and largest of values; each is NaN where there are none."""
    each = tuple(values)
    ends = (fmean(each), min(each), max(each)) if each else [float("nan")] * 3
    return Side(rows, each, *map(Number, ends))


def exactly(value: float) -> Side:
    """A bound that a side is compared with."""
    return spread([value])


def compared(smaller: Side, larger: Side) -> str:
    """Rules 2 and 3: the second side lies above the first; one seed decides nothing."""
    for side in (smaller, larger):
        if len({row["seed"] for row in side.rows if "seed" in row}) == 1:
            return UNDECIDED
    return by_ranges((smaller.low, smaller.high), (larger.low, larger.high))


def judged(verdict: str, holds: bool) -> str:
    """A verdict by hand, which holds while its condition on the numbers does."""
    return f"{verdict} †" if holds else STALE


def sure(row: Row) -> bool:
    """A difference beyond chance after the correction; one seed decides nothing."""
    return row["p_holm"] is not None and row["p_holm"] < 0.05


def by_tests(rows: Iterable[Row]) -> str:
    """Rule 1, of the differences of one task: they are above 0."""
    differences = [row["difference"] for row in rows if sure(row)]
    up, down = any(d > 0 for d in differences), any(d < 0 for d in differences)
    return UNDECIDED if up == down else REPRODUCED if up else NOT


def by_ranges(
    smaller: tuple[float | None, float | None], larger: tuple[float | None, float | None]
) -> str:
    """Rules 2 and 3: the second lies above the first; an end that was not reached is undecided."""
    if any(end is None or isnan(end) for end in (*smaller, *larger)):
        return UNDECIDED
    if smaller[1] < larger[0]:
        return REPRODUCED
    return NOT if larger[1] < smaller[0] else UNDECIDED


def by_count(n: int, of: int, over: float | None = None) -> str:
    """Rule 4: all are as claimed, or none; where a share is given, more than that share or not."""
    if over is not None:
        return REPRODUCED if n > over * of else NOT
    return REPRODUCED if n == of else UNDECIDED if n else NOT


def agreed(verdicts: Iterable[str]) -> str:
    """The one verdict of all, else undecided."""
    first, *others = set(verdicts)
    return UNDECIDED if others else first


def of_parts(verdicts: Iterable[str]) -> str:
    """The verdict of a claim of several parts, each of which must hold."""
    each = list(verdicts)
    return NOT if NOT in each else agreed(each)
