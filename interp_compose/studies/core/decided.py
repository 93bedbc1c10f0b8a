"""Paired differences, decided and in words: which way one lies, that it lies within a margin, or
that it is open, and how many examples would decide it.

A difference that is not significant is never called none: that takes its whole interval within
:attr:`Measure.margin`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil, floor, isnan, log2
from typing import Any, Final

import pandas as pd
from scipy.special import stdtr, stdtrit

from interp_compose.stats.paired_shares import paired_shares
from interp_compose.stats.seeds import holm, paired_difference, sign_test
from interp_compose.studies.core.text import counted, decimal, probability

BELOW, ABOVE, NEAR, OPEN = "below", "above", "near", "open"
LEVEL: Final = 0.05
FAMILY: Final = ("kind", "task", "compared")
"""Columns in which the rows agree that one correction is over, where a table has them."""
Row = Mapping[str, Any]
"""Of a difference: difference, ci_low, ci_high, p_holm, n."""
Places = Callable[[Sequence[Row]], str]
"""Where these rows are, in words."""


@dataclass(frozen=True)
class Measure:
    """What is compared, in words.

    Attributes:
        unit: of a difference, such as "points".
        margin: within which a difference is called none.
        scale: what numbers are multiplied by.
    """

    unit: str
    margin: float
    scale: float = 1.0

    def number(self, value: float) -> str:
        """In whole points, or one decimal below 10; others with one, or two below 10, and more
        where these would be 0."""
        scaled = self.scale * value
        if self.scale != 1.0:
            return f"{scaled:.0f}" if abs(scaled) >= 10 else decimal(scaled, 1).removesuffix(".0")
        return decimal(scaled, 1 if abs(scaled) >= 10 else 2)

    def amount(self, value: float) -> str:
        """``5 points`` of accuracy, ``0.10 nats an answer``."""
        return f"{self.number(value)} {self.unit}".rstrip()

    @property
    def limit(self) -> str:
        """The margin: ``5 points``, ``1 epoch``."""
        margin = self.scale * self.margin
        return f"{margin:g} {self.unit if margin != 1 else self.unit.removesuffix('s')}".rstrip()

    def between(self, low: float, high: float) -> str:
        """An interval of differences: ``between 4 points less and 2 more``; of equal ends
        ``4 points less``."""
        if low == high:
            way = "more" if low > 0 else "less"
            return f"{self.amount(abs(low))} {way}" if low else "no more and no less"
        ends = [self.number(abs(end)) for end in (low, high)]
        if low < 0 < high:
            return f"between {ends[0]} {self.unit} less and {ends[1]} more".replace("  ", " ")
        more, ends = ("more", ends) if low >= 0 else ("less", ends[::-1])
        return f"between {ends[0]} and {ends[1]} {self.unit} {more}".replace("  ", " ")

    def change(self, row: Row) -> str:
        """A difference and its interval without their sign: ``by 20 points [18, 23]``."""
        if row["ci_low"] == row["ci_high"]:
            return f"by {self.amount(abs(row['difference']))}"
        ends = sorted((abs(row["ci_low"]), abs(row["ci_high"])))
        low, high = map(self.number, ends)
        return f"by {self.amount(abs(row['difference']))} [{low}, {high}]"


ACCURACY: Final = Measure("points", 0.05, 100.0)
NATS: Final = Measure("nats an answer", 0.1)
PLAIN: Final = Measure("", 0.05)
"""Of correlations and areas, and of shares that are not in per cent."""


def paired(rows: Sequence[tuple[Row, pd.Series[Any], pd.Series[Any]]]) -> pd.DataFrame:
    """Two columns of right and wrong, or of numbers, paired by example, at each place; Holm over
    all of them. Of right and wrong :func:`.paired_shares`, else the paired t test."""
    records = []
    for place, one, other in rows:
        first, second = one.to_numpy(), other.to_numpy()
        if first.dtype == bool:
            records.append({**place, **asdict(paired_shares(first, second))})
            continue
        change = paired_difference(first, second)
        records.append(
            {
                **place,
                "difference": change.difference,
                "ci_low": change.ci_low,
                "ci_high": change.ci_high,
                "only_first": int((first > second).sum()),
                "only_second": int((first < second).sum()),
                "p": change.p,
                "n": change.n,
            }
        )
    table = pd.DataFrame(records)
    n = table.pop("n")
    return table.assign(p_holm=holm(table["p"].tolist()), n=n)


def bootstrapped(frame: pd.DataFrame) -> list[Row]:
    """Differences that have a bootstrap's interval and no p, with p_holm over all of them.

    Here t = difference / ((high − low) / 2 t₀.₉₇₅) and p = 2 P(T < −|t|), n − 1 degrees of freedom,
    as of normal errors (Altman and Bland 2011); of an interval without a width the sign test's.
    """
    p_values = []
    for row in records(frame):
        freedom, half = row["n"] - 1, (row["ci_high"] - row["ci_low"]) / 2
        none = 1.0 if row["difference"] == 0 else sign_test(row["n"])
        t = abs(row["difference"]) / half * stdtrit(freedom, 1 - LEVEL / 2) if half > 0 else 0.0
        p_values.append(2 * float(stdtr(freedom, -t)) if half > 0 else none)
    return records(frame.assign(p_holm=holm(p_values)))


def records(frame: pd.DataFrame) -> list[Row]:
    """A frame's rows."""
    return [{str(name): cell for name, cell in row.items()} for row in frame.to_dict("records")]


def relation(row: Row, margin: float) -> str:
    """How the first of a paired difference lies to the second: below or above it where p after
    Holm's correction is below .05 and the interval does not hold 0, near it where the interval lies
    within ``margin`` on both sides, else open."""
    low, high = row["ci_low"], row["ci_high"]
    if row["p_holm"] < LEVEL and not low <= 0 <= high:
        return ABOVE if low > 0 else BELOW
    return NEAR if within(row, margin) else OPEN


def within(row: Row, margin: float) -> bool:
    """The whole interval lies within ``margin`` on both sides of 0."""
    return bool(-margin <= row["ci_low"] and row["ci_high"] <= margin)


def examples_needed(row: Row, margin: float, n_compared: int = 1) -> int:
    """So many examples decide an open difference if it stays as it is: the interval, whose sides
    shrink with √n, then ends at 0, or at the margin where that takes fewer. More than there are,
    since Holm's correction may leave open what its interval alone would decide.

    Where none differs from the others, the fewest n for which the sign test's 2 / 2ⁿ, times what
    Holm's correction multiplies it by, is below .05: p_holm / p, or where p_holm is 1 and hides
    that, ``n_compared``, the differences that it is over.
    """
    n = int(row["n"])
    if row["ci_low"] == row["ci_high"]:
        times = row["p_holm"] / sign_test(n) if row["p_holm"] < 1 else n_compared
        return max(floor(log2(2 * times / LEVEL)) + 1, n + 1)
    difference: float = row["difference"]
    wider: float = max(difference - row["ci_low"], row["ci_high"] - difference)
    side = max(abs(difference), margin - abs(difference))
    return max(ceil(n * (wider / side) ** 2), n + 1)


def would_decide(
    rows: Sequence[Row], margin: float, of: str = "examples", n_compared: int = 1
) -> str:
    """How many examples, in hundreds, or seeds would decide all of these open differences, of
    ``n_compared``."""
    needed = max(examples_needed(row, margin, n_compared) for row in rows)
    several = needed if of == "seeds" else 100 * ceil(needed / 100)
    return f"about {counted(several, of)} would decide it, were it as measured"


@dataclass(frozen=True)
class Saying:
    """How it is said where one number lies to another; ``{it}`` is the other, ``{subject}`` the
    one, ``{at}`` the places, ``{margin}`` the margin.

    Attributes:
        below, above: where it is decided.
        near: where the interval lies within the margin.
        nowhere: where it does so at all places.
        open: whether the one differs from the other, in a question.
    """

    below: str
    above: str
    near: str
    nowhere: str
    open: str


CHANGES: Final = Saying(
    below="lowers {it}",
    above="raises {it}",
    near="changes {it} {at} by no more than {margin}",
    nowhere="changes {it} nowhere by more than {margin}",
    open="{subject} changes {it}",
)
"""Of an act, such as "Pooling words by mean", and a number."""
LIES: Final = Saying(
    below="is below {it}",
    above="is above {it}",
    near="is within {margin} of {it} {at}",
    nowhere="is nowhere further than {margin} from {it}",
    open="{subject} differs from {it}",
)
"""Of two numbers, such as "the accuracy of a" and "that of b"."""


def changed(
    rows: Sequence[Row],
    measure: Measure,
    *,
    act: str,
    what: str,
    places: Places | None = None,
    of: str = "examples",
    than: str = "clean",
    saying: Saying = CHANGES,
) -> str:
    """Where one number lies to another, in a sentence: where an act lowers and raises a number,
    where it leaves it within the margin, and where that is open.

    Args:
        rows: the difference, to the clean model or to another number, a row for each place; Holm
            over them.
        measure: of the number.
        act: such as "Pooling words by mean".
        what: the number, such as "the accuracy".
        places: of rows in words; by default of their layers.
        of: what ``n`` counts.
        than: what the number is compared with.
        saying: the verbs.
    """
    at = places or (lambda some: f"at {layers_named([row['layer'] for row in some])}")
    margin = measure.limit
    whether = "whether " + saying.open.format(subject=lowered(act), it=what)
    if any(isnan(row["ci_low"]) for row in rows):
        text = f"{whether} is not known: there is no interval of"
        return f"{raised(text)} {counted(int(rows[0]['n']), of)}."
    kinds: dict[str, list[Row]] = {BELOW: [], ABOVE: [], NEAR: [], OPEN: []}
    for row in rows:
        state = NEAR if within(row, measure.margin) else relation(row, measure.margin)
        kinds[state].append(row)
    parts: list[str] = []
    for state, verb, worst in ((BELOW, saying.below, min), (ABOVE, saying.above, max)):
        if some := kinds[state]:
            most = worst(some, key=lambda row: float(row["difference"]))
            where = f" {at(some)}, most" if len(some) > 1 else ""
            subject, it = ("it", "it") if parts else (act, what)
            change = measure.change(most)
            at_most = f"{where} {at([most])}, {change}{_level(most)}"
            parts.append(f"{subject} {verb.format(it=it)}{at_most}")
    if some := kinds[NEAR]:
        whole = len(some) == len(rows)
        subject, it = ("it", "it") if parts else (act, what)
        verb = saying.nowhere if whole else saying.near
        parts.append(f"{subject} {verb.format(it=it, at=at(some), margin=margin)}")
        if whole:
            most = max(some, key=lambda row: max(-row["ci_low"], row["ci_high"]))
            change = measure.between(most["ci_low"], most["ci_high"])
            parts[-1] += f": most {at([most])}, where it is {change} than {than}{_level(most)}"
    if some := kinds[OPEN]:
        widest = max(some, key=lambda row: float(row["ci_high"] - row["ci_low"]))
        change = measure.between(widest["ci_low"], widest["ci_high"])
        where = f"{at(some)}, where the interval is widest {at([widest])}" if some[1:] else at(some)
        n_compared = int(some[0].get("n_compared", len(rows)))
        needed = would_decide(some, measure.margin, of, n_compared)
        start = "it is" if parts else f"{whether} is"
        parts.append(f"{start} open {where}: {change} than {than}{_level(widest)}; {needed}")
    return f"{raised('; '.join(parts))}."


def _level(row: Row) -> str:
    """Of an interval, where there is one."""
    return " (95 %)" if row["ci_low"] < row["ci_high"] else ""


def apart(
    differences: pd.DataFrame, by: str, measure: Measure, table: pd.DataFrame | None = None
) -> list[str]:
    """Whether what ``by`` names differs from ``other``, paired by seed, in a sentence: the largest
    difference that is established, and how many are not. None without a difference.

    Args:
        differences: paired, with the columns ``by``, other, difference, ci_low, ci_high, p_holm
            (NaN of one seed) and maybe n_seeds.
        by: the column of what is compared.
        measure: of the differences.
        table: all that p_holm is over, in families (:data:`FAMILY`), if these are not all.
    """
    rows = records(differences[differences["difference"].notna()])
    if not rows:
        return []
    others = list(dict.fromkeys(row["other"] for row in rows))
    to = f" to {others[0]}" if len(others) == 1 else ""
    most = max(rows, key=lambda row: abs(float(row["difference"])))
    tested = [row for row in rows if not isnan(row["p_holm"])]
    if not tested:
        way = "more" if most["difference"] > 0 else "less"
        return [
            f"Whether there is a difference{to} is not known, of one seed: the largest in it, of "
            f"{most[by]}, is {measure.amount(abs(most['difference']))} {way} than {most['other']}."
        ]
    rows, states = tested, [relation(row, measure.margin) for row in tested]
    established = [row for row, one in zip(rows, states, strict=True) if one in (BELOW, ABOVE)]
    n_open, n_near = states.count(OPEN), states.count(NEAR)
    rest = [f"{n_near} within {measure.limit}"] if n_near else []
    rest += [f"{n_open} open"] if n_open else []
    if established:
        most = max(established, key=lambda row: abs(float(row["difference"])))
        way = "above" if most["difference"] > 0 else "below"
        count = f", the largest of {len(established)} that are" if established[1:] else ", which is"
        others_are = f"; of {len(rows)} differences, {' and '.join(rest)}" if rest else ""
        return [
            f"{most[by]} is {way} {most['other']}, paired by seed, {measure.change(most)} "
            f"({_spread(most)}, p by Holm {probability(most['p_holm'])}){count} "
            f"established{others_are}."
        ]
    widest = max(rows, key=lambda row: max(-row["ci_low"], row["ci_high"]))
    change = measure.between(widest["ci_low"], widest["ci_high"])
    at = f"that of {widest[by]} is {change} than {widest['other']} ({_spread(widest)})"
    if not n_open:
        margin = measure.limit
        return [f"No difference{to}, paired by seed, is larger than {margin}: {at}."]
    undecided = [row for row, one in zip(rows, states, strict=True) if one == OPEN]
    largest = max(undecided, key=lambda row: abs(float(row["difference"])))
    change = measure.between(largest["ci_low"], largest["ci_high"])
    needed = ""
    if "n_seeds" in largest:
        family = differences if table is None else table
        family = family[family["p_holm"].notna()]
        for name in {*FAMILY} & {*family}:
            family = family[family[name] == largest[name]]
        row = {**largest, "n": largest["n_seeds"]}
        needed = f"; {would_decide([row], measure.margin, 'seeds', len(family))}"
    within_it = f"; {rest[0]}" if n_near else ""
    return [
        f"No difference{to}, paired by seed, is established: the largest, of {largest[by]}, is "
        f"{change} than {largest['other']} ({_spread(largest)}, "
        f"p by Holm {probability(largest['p_holm'])})"
        f"{needed}{within_it}."
    ]


def _spread(row: Row) -> str:
    """What an interval over seeds is, or that there is none: all seeds differ by the same."""
    if row["ci_low"] < row["ci_high"]:
        return "95 %"
    return (
        f"the same in all {row['n_seeds']} seeds" if "n_seeds" in row else "the same in all seeds"
    )


def lowered(text: str) -> str:
    """A sentence's start inside another sentence."""
    return text[0].lower() + text[1:]


def raised(text: str) -> str:
    """A clause as a sentence's start."""
    return text[0].upper() + text[1:]


def layers_named(layers: Sequence[int]) -> str:
    """``layer 3``, ``layers 0, 1 and 4 to 8``."""
    runs: list[list[int]] = []
    for layer in layers:
        if runs and layer == runs[-1][-1] + 1:
            runs[-1].append(layer)
        else:
            runs.append([layer])
    texts: list[str] = []
    for run in runs:
        texts += map(str, run) if len(run) < 3 else [f"{run[0]} to {run[-1]}"]
    whole = " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))
    return f"layer{'s' * (len(layers) > 1)} {whole}"
