"""What decides a verdict: the values of both sides of a comparison, and the rules.

:func:`read_side` is the one function that reads what is compared, :func:`compared` the one that
decides a comparison.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isnan, nan
from statistics import fmean, stdev
from typing import Any, Final

from scipy.optimize import brentq
from scipy.stats import nct, t as t_distribution, ttest_ind_from_stats

from docs import measured
from docs.phase_results import share
from interp_compose.stats.seeds import holm, paired_difference

REPRODUCED: Final = "reproduced"
NOT: Final = "not reproduced"
UNDECIDED: Final = "undecided"
UNTESTED: Final = "untested"
VERDICTS: Final = (REPRODUCED, NOT, UNDECIDED, UNTESTED)
LEVEL: Final = 0.05
POWER: Final = 0.8
MOST_SEEDS: Final = 200
STALE: Final = "to be judged again"
BREAK: Final = "<br>"
"""Ends a line inside a cell."""

RULES: Final = """\
1. **Values by seed.** A t test of the two sides: paired where one side has all the other's seeds
   (by these), else Welch's (as where a file has mean and both ends of three seeds, and so their
   values); of one side where the other is a bound; of the difference over seeds where a file has
   that instead (CARMA, CAT; of two tasks Welch's); where all differences are equal, a sign test. p
   is by Holm over all comparisons of the row, those shown beside a language model's apart. That one
   side is larger is reproduced where p < 0.05, not reproduced where p < 0.05 the other way round,
   else undecided. One seed decides nothing. A claim that holds if it holds at some layer needs one
   p < 0.05 in its direction and none in the other. The row names what takes no part: comparisons
   with both sides at the **floor** (of shares: 2 % or less) or the **ceiling** (98 %; R² 0.95), and
   runs that did not fit their training data.
2. **Ranges**, where a file has nothing else: from the smallest to the largest value, as of all
   cells of a phase diagram that are in a phase. Sides differ where these do not overlap.
   **Intervals** of 95 % over pairs of phrases or over words: undecided where one contains the value
   of no effect, or two overlap.
3. **Several comparisons.** A claim about several tasks, models, depths, measures, splits or
   subsets must hold on each, and is undecided where they differ; what is decided is named. A claim
   that itself names several *parts*, or has to hold against several baselines, is not reproduced
   where one of them is not. One that explains or presupposes another, and does not test it itself,
   is undecided while that one is not reproduced. **Power**: an undecided row says which
   differences its tests would find in 80 % of cases, and how many seeds it takes to find one as
   large as that found, each at 0.05 over the number of the row's comparisons (Bonferroni, at most
   Holm's), or why that is not known.
4. **Counts** of cells, layers or models: reproduced where all are as claimed, not reproduced where
   none is, else undecided; a bound in the row decides. **Orders** are as claimed or not (neighbours
   may be equal, the ends not), and undecided where there is nothing to order.
5. **Architectures** (complexity control). Where a row judges both, the claim must hold on each; one
   without a run in the phase that the claim is about decides nothing, and the other does, as the
   row says. A row of one has that for which the paper draws the claim: pre-LN for Figs 3 and 5C,
   post-LN for Figs 4 and 5A.
6. **Models.** Claims about language models are judged on one that others trained, where one was
   measured (CARMA's, on SmolLM2-135M with definitions; its training on sentiment was stopped after
   a tenth of an epoch and is not judged); toys are shown with the verdict that they alone would
   give.
7. **By hand**, marked †: the deciding numbers are in the row, and a test fails once they
   change sides.
"""

Cell = tuple[str, str]
"""What was measured, and the verdict."""
Row = Mapping[str, Any]
RUN: Final = ("model", "init_rate", "weight_decay", "size", "seed")
"""What tells a run from others."""
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

    ``values`` are those of single rows (cells, runs) or seeds, where the file has them, and
    ``by_seed`` those of seeds, of two or more; ``unpaired`` are values of seeds of which the file
    does not say which is whose. ``test`` is the file's own of a mean over seeds against 0. A bound
    has one value and no rows.
    """

    rows: tuple[Row, ...]
    values: tuple[float, ...]
    mean: float
    low: float
    high: float
    by_seed: Mapping[int, float] = field(default_factory=dict)
    unpaired: tuple[float, ...] = ()
    test: TTest | None = None

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
    another; ``pooled`` over all rows of a seed, as a share or a mean; ``fitted``, of those runs
    alone), or, if ``value`` names three columns, those of one row: mean and ends (``of_three``
    seeds: their values, of the ``table`` and column that it names; where a file has no such table,
    the smallest and the largest, from which the third follows)."""
    rows = tuple(rows_of(query["file"], query["table"], query["rows"]))
    if "fitted" in query:
        runs = rows_of(query["file"], **query["fitted"])
        rows = tuple(row for row in rows if any(_same_run(row, run) for run in runs))
    columns = query.get("value", "")
    if isinstance(columns, list):
        (row,) = rows
        side = replace(side_of(row, *columns), test=of_file(row, columns[0]))
        return _of_seeds(side, query) if "of_three" in query and side.test is None else side
    if query.get("pooled"):
        pooled: dict[int, list[float]] = {}
        for row in rows:
            sums = pooled.setdefault(row["seed"], [0, 0])
            sums[0] += row[columns]
            sums[1] += row[query["of"]] if "of" in query else 1
        shares = {seed: right / n for seed, (right, n) in pooled.items()}
        return with_seeds(spread(shares.values(), rows), shares)
    side = spread(
        (
            (row[columns] - (row[query["less"]] if "less" in query else 0))
            / (row[query["of"]] if "of" in query else 1)
            for row in rows * bool(columns)
        ),
        rows,
    )
    seeds = [row.get("seed") for row in rows]
    if not columns or None in seeds or len({*seeds}) < len(seeds):
        return side
    return with_seeds(side, dict(zip(seeds, side.values, strict=True)))


def _of_seeds(side: Side, query: Mapping[str, Any]) -> Side:
    """With the values of its three seeds, by the table that the query names, or from the ends.

    Raises:
        ValueError: the table has several rows of a seed, or values of another mean.
    """
    table, column = query["of_three"].get("table"), query["of_three"].get("value")
    if table not in measured.read(query["file"]):
        return of_three(side)
    rows = rows_of(query["file"], table, {})
    where = {key: value for key, value in query["rows"].items() if key in rows[0]}
    own = rows_of(query["file"], table, where)
    by_seed = {row["seed"]: row[column] for row in own}
    if len(by_seed) < len(own) or abs(fmean(by_seed.values()) - side.mean) > 1e-4:  # rounded
        raise ValueError(f"{table}: {len(own)} rows of {where} are not those of {side.rows[0]}")
    return with_seeds(side, by_seed)


def _same_run(row: Row, run: Row) -> bool:
    return all(row[key] == run[key] for key in RUN if key in row and key in run)


def with_seeds(side: Side, values: Mapping[int, float]) -> Side:
    """The side of values by seed, if there are two or more."""
    return replace(side, by_seed=values) if len(values) > 1 else side


def side_of(row: Row, *columns: str) -> Side:
    """Mean and ends by their columns; NaN where one was not reached."""
    mean, low, high = (Number("nan" if row[name] is None else row[name]) for name in columns)
    return Side((row,), (), mean, low, high)


def of_three(side: Side) -> Side:
    """With the values of three seeds, from their mean, the smallest and the largest.

    Raises:
        ValueError: the row is of another number of seeds, or its mean is not between the ends.
    """
    (row,) = side.rows
    middle = 3 * side.mean - side.low - side.high
    between = isnan(middle) or side.low - 1e-3 <= middle <= side.high + 1e-3  # of rounded numbers
    if row.get("n_seeds", row.get("n", 3)) != 3 or not between:
        raise ValueError(f"not the mean and the ends of three seeds: {row}")
    return side if isnan(middle) else replace(side, unpaired=(side.low, middle, side.high))


def spread(values: Iterable[float], rows: tuple[Row, ...] = ()) -> Side:
    """Mean, smallest and largest of values; each is NaN where there are none."""
    each = tuple(values)
    ends = (fmean(each), min(each), max(each)) if each else [float("nan")] * 3
    return Side(rows, each, *map(Number, ends))


def exactly(value: float) -> Side:
    """A bound that a side is compared with."""
    return spread([float(value)])


def compared(smaller: Side, larger: Side) -> str:
    """Rules 1 and 2: the second side lies above the first, and nothing else is compared."""
    return decided([(smaller, larger)])[0]


def decided(pairs: Sequence[tuple[Side, Side]]) -> list[str]:
    """Rules 1 and 2, of a row's pairs: the second of each lies above the first."""
    return [by_pair(*pair, test) for pair, test in zip(pairs, t_tests(pairs), strict=True)]


def t_tests(pairs: Sequence[tuple[Side, Side]]) -> list[TTest | None]:
    """The t test of each of a row's pairs, p by Holm over all of them."""
    return as_family([t_test(*pair) for pair in pairs])


def as_family(tests: Sequence[TTest | None]) -> list[TTest | None]:
    """The tests with p by Holm over all of them."""
    p_values = [one.p for one in tests if one is not None]
    p_holm = iter(holm(p_values) if p_values else ())
    return [one and replace(one, p_holm=next(p_holm), family=len(p_values)) for one in tests]


def by_pair(smaller: Side, larger: Side, test: TTest | None) -> str:
    """Rule 1, and rule 2 where there is no test: the second side lies above the first."""
    if test is not None:
        sign = REPRODUCED if test.difference > 0 else NOT
        return sign if test.p_holm < LEVEL else UNDECIDED
    if _of_one_seed(smaller) or _of_one_seed(larger):
        return UNDECIDED  # one seed decides nothing
    return by_ranges((smaller.low, smaller.high), (larger.low, larger.high))


def _of_one_seed(side: Side) -> bool:
    return len({row.get("seed") for row in side.rows} - {None}) == 1


@dataclass(frozen=True)
class TTest:
    """A t test: the second side's mean less the first's, and p, two-sided; its pairs and the
    standard deviation of their differences, or of two ``groups`` (fewer where they vary
    differently) the values of the smaller and the root of the sum of both variances. ``ci`` are the
    ends of its interval of 95 %, NaN where they are not known; ``p_holm`` is p by Holm over a
    ``family`` of so many tests. ``of_both`` are the standard error and the degrees of freedom of
    two groups."""

    difference: float
    p: float
    n: int = 0
    sd: float = 0.0
    groups: float = 1
    ci: tuple[float, float] = (nan, nan)
    p_holm: float = nan
    family: int = 1
    of_both: tuple[float, float] | None = None

    def __str__(self) -> str:
        """Like "+0.49 [+0.42, +0.56], p 0.003"; by Holm, where it is one of several tests."""
        low, high = self.ci
        interval = "" if isnan(low) else f" [{low:+.2g}, {high:+.2g}]"
        p = self.p_holm if self.family > 1 else self.p
        shown = f"{p:.2g}" if p else "< 1e-6"  # files have six decimals
        return f"{self.difference:+.2g}{interval}, p {'by Holm ' * (self.family > 1)}{shown}"


def of_file(row: Row, mean: str) -> TTest | None:
    """The t test against 0 of a mean over seeds: of a paired ``difference`` by the file's p (before
    any correction), of another mean by its standard deviation ``sd``. None where the file has
    neither, or is of one seed."""
    n, p = row.get("n_seeds", row.get("n")), row.get("p")
    if mean == "difference" and mean in row and p is not None:
        # Half of a Student interval of 95 % is t's quantile times s / √n.
        ci = row["ci_low"], row["ci_high"]
        half = (ci[1] - ci[0]) / 2
        return TTest(row[mean], p, int(n), half / t_distribution.ppf(0.975, n - 1) * n**0.5, ci=ci)
    if mean != "mean" or not row.get("sd"):
        return None
    error = row["sd"] / n**0.5
    half = float(t_distribution.ppf(0.975, n - 1)) * error
    p = 2 * float(t_distribution.sf(abs(row[mean] / error), n - 1))
    return TTest(row[mean], p, n, row["sd"], ci=(row[mean] - half, row[mean] + half))


def t_test(smaller: Side, larger: Side) -> TTest | None:
    """Rule 1's test, where both sides have values by seed, or one has and the other is a bound; or
    where the file has the test of a mean, and the other is a bound, or of both, of other models."""
    one, two = smaller.by_seed, larger.by_seed
    values = [[*side.by_seed.values()] or [*side.unpaired] for side in (smaller, larger)]
    vary = any(each and max(each) - min(each) > 1e-9 for each in values)  # beyond rounding
    bounds = [s.values[0] for s in (smaller, larger) if not s.rows and len(s.values) == 1]
    both = [seed for seed in one if seed in two]
    if both and len(both) == min(len(one), len(two)):
        first, second = [two[seed] for seed in both], [one[seed] for seed in both]
    elif all(values) and vary:
        return welch(*((fmean(each), stdev(each), len(each)) for each in values))
    elif values[1] and bounds:
        first, second = values[1], bounds * len(values[1])
    elif values[0] and bounds:
        first, second = bounds * len(values[0]), values[0]
    elif bounds and larger.test:
        return beyond(larger.test, *bounds)
    elif bounds and smaller.test:
        test = beyond(smaller.test, *bounds)
        return replace(test, difference=-test.difference, ci=(-test.ci[1], -test.ci[0]))
    elif smaller.test and larger.test:
        return welch(*((one.difference, one.sd, one.n) for one in (smaller.test, larger.test)))
    else:
        return None
    paired = paired_difference(first, second)
    sd, ci = paired.standard_error * paired.n**0.5, (paired.ci_low, paired.ci_high)
    return TTest(paired.difference, paired.p, paired.n, sd, ci=ci)


def beyond(test: TTest, bound: float) -> TTest:
    """The test of a mean against 0 as one against a bound."""
    difference, (low, high) = test.difference - bound, test.ci
    p = test.p
    if bound:
        p = 2 * float(t_distribution.sf(abs(difference) / (test.sd / test.n**0.5), test.n - 1))
    return replace(test, difference=difference, p=p, ci=(low - bound, high - bound))


def welch(smaller: tuple[float, float, int], larger: tuple[float, float, int]) -> TTest:
    """Of two groups of seeds, by the mean, the standard deviation and the size of each."""
    difference = larger[0] - smaller[0]
    p = float(ttest_ind_from_stats(*larger, *smaller, equal_var=False).pvalue)
    n = min(smaller[2], larger[2])
    squares = [sd**2 / size for _, sd, size in (smaller, larger)]
    error = sum(squares) ** 0.5
    sizes = (smaller[2], larger[2])
    # Satterthwaite: (s₁²/n₁ + s₂²/n₂)² / Σ (sᵢ²/nᵢ)² / (nᵢ − 1); of equal n, n − 1 as many times as
    # there are groups.
    freedom = error**4 / sum(one**2 / (size - 1) for one, size in zip(squares, sizes, strict=True))
    variances = smaller[1] ** 2, larger[1] ** 2
    groups = sum(variances) ** 2 / sum(one**2 for one in variances)
    half = float(t_distribution.ppf(0.975, freedom)) * error
    ci = difference - half, difference + half
    return TTest(difference, p, n, sum(variances) ** 0.5, groups, ci=ci, of_both=(error, freedom))


def seen(test: TTest) -> float:
    """The least difference that such a test, of its family, finds in 80 % of cases."""
    error, freedom = test.of_both or (test.sd / test.n**0.5, test.groups * (test.n - 1))

    def short(errors: float) -> float:
        return power(errors, freedom, LEVEL / test.family) - POWER

    return float(brentq(short, 1e-9, 1e5)) * error


def seeds_needed(test: TTest) -> int | None:
    """How many seeds (of two groups, in each) find a difference as large as the one found in 80 %
    of cases, in a family of as many tests; None if more than :data:`MOST_SEEDS`."""
    effect, level = abs(test.difference) / test.sd, LEVEL / test.family

    def found(n: int) -> float:
        return power(effect * n**0.5, test.groups * (n - 1), level)

    return next((n for n in range(2, MOST_SEEDS + 1) if found(n) >= POWER), None)


def power(errors: float, freedom: float, level: float = LEVEL) -> float:
    """Of a t test, two-sided at a ``level``, where the true difference is so many of its standard
    errors: of the noncentral t distribution with so many degrees of freedom."""
    bound = t_distribution.ppf(1 - level / 2, freedom)
    beyond = nct.sf([bound, -bound], freedom, errors)
    return float(beyond[0] + 1 - beyond[1])


def judged(verdict: str, holds: bool) -> str:
    """A verdict by hand, which holds while its condition on the numbers does."""
    return f"{verdict} †" if holds else STALE


def with_holm(sides: Sequence[Side]) -> list[Side]:
    """Sides of paired differences, of which ``p_holm`` is by Holm over all of theirs together, a
    ``family`` of so many; the file's is over another family."""
    p_values = [row["p"] for side in sides for row in side.rows if row["p"] is not None]
    p_holm = iter(holm(p_values) if p_values else ())

    def corrected(row: Row) -> Row:
        own = None if row["p"] is None else next(p_holm)
        return {**row, "p_holm": own, "family": len(p_values)}

    return [replace(side, rows=tuple(map(corrected, side.rows))) for side in sides]


def of_family(row: Row) -> TTest | None:
    """The t test of a row of :func:`with_holm`."""
    test = of_file(row, "difference")
    return test and replace(test, p_holm=row["p_holm"], family=row["family"])


def sure(row: Row) -> bool:
    """A difference beyond chance after the correction; one seed decides nothing."""
    return row["p_holm"] is not None and row["p_holm"] < LEVEL


def by_tests(rows: Iterable[Row]) -> str:
    """Rule 1, of the differences of one task: they are above 0."""
    differences = [row["difference"] for row in rows if sure(row)]
    up, down = any(d > 0 for d in differences), any(d < 0 for d in differences)
    return UNDECIDED if up == down else REPRODUCED if up else NOT


def by_ranges(
    smaller: tuple[float | None, float | None], larger: tuple[float | None, float | None]
) -> str:
    """Rule 2: the second lies above the first; an end that was not reached is undecided."""
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


if __name__ == "__main__":
    from docs.verdict_page import main  # which imports this file

    main()
