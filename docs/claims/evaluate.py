"""The claims of ``docs/claims/*.toml``: what was measured of each, and its verdict.

What a claim states:

- ``words``, ``where`` the paper makes it, the ``runs`` that test it (if none are stated, those of
  its lines); a ``name``, if a text gives its ``{number[name]}``; and ``untested``, the claims that
  follow it in the paper and ``why`` nothing tests them.
- ``query``: the ``table`` of a run's file (``run``; the first of ``runs`` if none is stated), the
  conditions ``rows`` on its rows, and the columns ``value`` (also ``less``, ``of``, ``pooled``,
  ``fitted`` and ``of_three``; see :func:`docs.verdicts.read_side`).
- ``sides``: what is compared, by name: more conditions, and what else of the query differs.
- ``rely``: what the page ``says`` of it at its top, ``when`` its verdict is this.
- The cell: ``head``, then the ``text`` of each line after its ``label``, then ``foot``; ``between``
  two lines is a line break if nothing is stated. Texts show sides as ``{name:form}``, in a form of
  :data:`docs.verdicts.SHOWN` or of Python, and whatever a line states.
- ``lines``: tables that replace what the claim states, or add conditions, and fill in the strings
  of its sides; or names of ``groups`` of such tables, of which each combination is a line.
  ``each`` makes one of each value of a column.
- ``use``: a table of ``shared``, which the claim completes.

What decides, one of:

- ``rises``: sides (also of ``names``, or numbers) from the smallest claimed to the largest; those
  at the same one of two ``bounds`` are left out.
- ``called``: how the page names sides, where only some of a line's comparisons are decided.
- ``as_claimed``: of a claim whose verdict is a function, that its ``rises`` are what it claims.
- ``tests``: sides whose differences are tested together against 0; their ``p_holm`` is over all
  that the claim tests.
- ``count``: all values of a ``side`` are at ``least`` a bound or ``below`` it; or ``more`` than a
  share of them are.

All lines must agree; of lines of different ``part``, each part must hold. Lines that are
``second``, as those of a toy where a language model was measured, are shown with the verdict that
they alone would give, and decide nothing.

What fits none of it is a function of ``special.py``: ``only``, whether there is such a line;
``names``, what else its text shows, and as ``verdict`` its verdict, or as ``p``, which is corrected
over the claim's lines, and ``way`` what it is if p < 0.05; ``verdict``, the claim's. What
was ``judged`` by hand has a condition on the numbers under which it ``holds``.

An undecided claim says which of its lines are decided, and what its undecided comparisons (or, of
``names``, those that are ``open``) would have found; else why that cannot be said (``no_power``),
or what a function ``power`` returns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import chain, compress, islice, pairwise, product
from operator import not_
from pathlib import Path
from typing import Any, Final, TypeVar

from docs.claims.runs import RUNS
from docs.verdicts import (
    BREAK,
    LEVEL,
    MOST_SEEDS,
    NOT,
    REPRODUCED,
    UNDECIDED,
    UNTESTED,
    Cell,
    Row,
    Side,
    TTest,
    agreed,
    by_count,
    by_pair,
    by_tests,
    exactly,
    judged,
    of_family,
    of_file,
    of_parts,
    read_side,
    rows_of,
    seeds_needed,
    seen,
    sure,
    t_tests,
    with_holm,
)
from interp_compose.settings import read_toml
from interp_compose.stats.seeds import holm

FOLDER: Final = Path(__file__).parent
QUERY: Final = ("run", "table", "value", "less", "of", "pooled", "fitted", "of_three")
Query = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True)
class Line:
    """One line of a cell: what it states, its sides, and what else its text names."""

    stated: Query
    sides: Mapping[str, Side]
    names: dict[str, Any]
    tests: list[TTest | None] = field(default_factory=list)
    """The t test of each of :meth:`pairs`, once all of the claim are compared; None where ranges
    decide."""

    @property
    def decided(self) -> list[str]:
        """The verdict of each of :meth:`pairs`."""
        each = zip(self.pairs(), self.tests, strict=True)
        return [by_pair(*pair, test) for pair, test in each]

    def show(self, key: str, **names: Any) -> str:
        """A text with what it names filled in."""
        every = {**self.stated, **self.stated["rows"], **self.sides, **self.names, **names}
        return str(self.stated.get(key, "")).format(**every)

    def text(self) -> str:
        """What the cell says of it."""
        n, total = self.counted() if "count" in self.stated else (0, 0)
        text = self.show("text", **{"n": n, "total": total, **self.names})
        if bound := self.at_bound([*self.sides.values()]):
            text += f" (at the {bound}: not judged)"
        return ": ".join(filter(None, (self.show("label"), text)))

    def verdicts(self) -> list[str]:
        """Of each comparison; one of tests, and of a count."""
        if "verdict" in self.names:
            return [self.names["verdict"]]
        if "count" in self.stated:
            return [by_count(*self.counted(), self.stated["count"].get("more"))]
        if "tests" in self.stated:
            groups = ([self.sides[name] for name in group] for group in self.stated["tests"])
            return [by_tests(row for side in group for row in side.rows) for group in groups]
        return self.decided

    def compared(self) -> dict[str, tuple[Side, Side]]:
        """What is compared, by the names of both; what is claimed to be the larger comes last."""
        if {"count", "tests"} & self.stated.keys() or "verdict" in self.names:
            return {}
        chains = self.stated.get("rises", [])
        pairs = {
            f"{one} → {two}": (self.side(one), self.side(two))
            for chain in chains
            for one, two in pairwise(chain)
        }
        return {names: pair for names, pair in pairs.items() if not self.at_bound(pair)}

    def each_decided(self) -> Iterator[tuple[str, str]]:
        """The line and its verdict; or, where its comparisons differ, each of them and its own."""
        label, verdicts = self.show("label"), self.verdicts()
        if len({*verdicts}) < 2:
            yield from ((label, verdict) for verdict in verdicts[:1])
            return
        called = {**self.stated.get("called", {}), **self.names.get("called", {})}
        for names, verdict in zip(self.compared(), verdicts, strict=True):
            smaller, larger = (called.get(name, name) for name in names.split(" → "))
            yield ", ".join(filter(None, (label, f"{smaller} below {larger}"))), verdict

    def pairs(self) -> list[tuple[Side, Side]]:
        """What is compared, without names."""
        return [*self.compared().values()]

    def open_tests(self) -> Iterator[TTest | None]:
        """Of the comparisons that are not decided; None for one without values by seed."""
        each = zip(self.tests, self.decided, strict=True)
        yield from (test for test, verdict in each if verdict == UNDECIDED)
        for name in _tested(self.stated):
            yield from (of_family(row) for row in self.sides[name].rows if not sure(row))

    def by_seed(self) -> Iterator[tuple[str, str]]:
        """Each side that is compared (all, where a function decides), and its values by seed, the
        file's tests over seeds, or how many rows of seeds are counted; else an empty text."""
        compared = chain(*self.stated.get("rises", []), _tested(self.stated))
        names = [name for name in compared if isinstance(name, str)] or [*self.sides]
        for name in dict.fromkeys(names):
            side = self.side(name)
            values = [f"{seed}={value:.4g}" for seed, value in side.by_seed.items()]
            values += [f"{value:.4g}" for value in side.unpaired]
            of_rows = of_family if name in _tested(self.stated) else _of_difference
            tests = filter(None, [side.test or of_rows(row) for row in side.rows])
            given = [f"{test}, {test.n} seeds" for test in tests]
            seeds = {row.get("seed") for row in side.rows} - {None}
            counted = f"{len(side.rows)} rows of {len(seeds)} seeds" * bool(seeds)
            where = " ".join(filter(None, (self.show("label"), name)))
            yield where, " ".join(values) or "; ".join(given) or counted
        for names, test, verdict in zip(self.compared(), self.tests, self.decided, strict=True):
            where = " ".join(filter(None, (self.show("label"), names)))
            yield where, f"{test or 'by ranges'}: {verdict}"

    def at_bound(self, pair: Sequence[Side]) -> str:
        """``"floor"`` or ``"ceiling"``: where both sides are, by the ``bounds`` that are stated."""
        if "bounds" not in self.stated:
            return ""
        floor, ceiling = self.stated["bounds"]
        means = [side.mean for side in pair]
        return "floor" if max(means) <= floor else "ceiling" if min(means) >= ceiling else ""

    def side(self, name: str | float) -> Side:
        """The side of that name, or a number."""
        return {**self.names, **self.sides}[name] if isinstance(name, str) else exactly(name)

    def counted(self) -> tuple[int, int]:
        """How many values are as claimed, and of how many."""
        rule = self.stated["count"]
        values = self.sides[rule["side"]].values
        least, below = rule.get("least", float("-inf")), rule.get("below", float("inf"))
        return sum(least <= value < below for value in values), len(values)


@dataclass(frozen=True)
class Claim:
    """A paper's claim, its place in the paper, the runs that test it, and how."""

    claims: Claims
    words: str
    where: str
    runs: tuple[str, ...]
    stated: Query

    def find(self) -> Cell:
        """What was measured, and the verdict."""
        if "why" in self.stated:
            return self.stated["why"], UNTESTED
        lines = self.decided_lines()
        deciding = [line for line in lines if "second" not in line.stated]
        verdict, text = self._verdict(deciding), self._text(lines)
        if verdict.removesuffix(" †") == UNDECIDED:
            text = BREAK.join(filter(None, [text, self._decided(deciding), self._power(deciding)]))
        return text, verdict

    def row(self, number: int) -> list[str]:
        """Of the page's table."""
        measured, verdict = self.find()
        runs = ", ".join(f"[{run}](#run-{run})" for run in self.runs)
        return [str(number), self.words, self.where, measured, runs, f"**{verdict}**"]

    def by_seed(self) -> list[str]:
        """What the verdict rests on, of each side, by seed; and which sides have no such values."""
        if "why" in self.stated:
            return []
        sides = [each for line in self.decided_lines() for each in line.by_seed()]
        without = ", ".join(where for where, values in sides if not values)
        rests = [f"{where}: {values}" for where, values in sides if values]
        return [*rests, *[f"no values by seed: {without}"] * bool(without)]

    def decided_lines(self) -> list[Line]:
        """The lines of the cell, with the test of each of their pairs."""
        lines = self.lines()
        for family in _families(lines, lambda line: line.stated):
            tests = iter(t_tests([pair for line in family for pair in line.pairs()]))
            for line in family:
                line.tests.extend(islice(tests, len(line.pairs())))
        return lines

    def _decided(self, lines: list[Line]) -> str:
        """The comparisons of an undecided row that are decided, one way or the other."""
        if {"verdict", "judged"} & self.stated.keys() and "as_claimed" not in self.stated:
            return ""  # its comparisons need not be what is claimed
        every = [one for line in lines for one in line.each_decided()]
        ways = {NOT: "against the claim", REPRODUCED: "for the claim"}
        told = [
            f"decided {way}: {'; '.join(where)}"
            for verdict, way in ways.items()
            if (where := [names for names, each in every if each == verdict and names])
        ]
        return BREAK.join(told) if len(every) > 1 else ""

    def _power(self, lines: list[Line]) -> str:
        """What the undecided comparisons would have found, and what it takes to decide them; or why
        that cannot be said."""
        if "power" in self.stated:
            return str(_special(self.stated["power"], lines))
        every = [test for line in lines for test in line.open_tests()]
        against = sum(test.difference < 0 for test in every if test and test.sd)
        every += t_tests([pair for line in lines for pair in line.names.get("open", [])])
        tests = [test for test in every if test and test.sd]
        if "no_power" in self.stated or not tests:
            return f"power: not known, {self.stated.get('no_power') or _why(lines, every)}"
        sides = [side for line in lines for side in line.sides.values()]
        by_seed = [value for side in sides for value in side.by_seed.values()]
        shares = bool(by_seed) and all(0 <= value <= 1 for value in by_seed)
        percent = shares and all(":percent" in line.stated.get("text", "") for line in lines)
        scale, unit = (100, " points") if percent else (1, "")
        every_found = [seen(test) for test in tests]
        found = [one for one in every_found if one <= 1 or not shares]  # shares are at most 1 apart
        told = (
            dict.fromkeys(_short(scale * end) for end in (min(found), max(found))) if found else ()
        )
        ends = f"differences of {' to '.join(told)}{unit}" if found else "no difference"
        if found and (never := len(every_found) - len(found)):
            ends += f" (of {never} of {len(tests)} none)"
        needed = [seeds_needed(test) for test in tests]
        counts = sorted(n for n in needed if n is not None)
        many = f"more than {MOST_SEEDS}" if None in needed else ""
        seeds = " to ".join(dict.fromkeys([*map(str, counts[:1]), many or str(counts[-1])]))
        without = f" ({every.count(None)} of {len(every)} have no values by seed)"
        alike = len(every) - len(tests) - every.count(None)
        same = f"; {alike} more: equal in all seeds, too few for a sign test" * bool(alike)
        which = f", {against} of {len(tests)} against the claim," if against else ""
        return (
            f"power: of what is undecided, {ends} would be found in 80 % of cases; those found "
            f"here{which} take {seeds} seeds{without * (None in every)}{same}"
        )

    def lines(self) -> list[Line]:
        """The lines of the cell, with their sides read."""
        lines = self.stated.get("lines", [{}])
        groups = [self.claims.groups[each] for each in lines if isinstance(each, str)] or [lines]
        read: list[tuple[Query, dict[str, Side]]] = []
        for places in product(*groups):
            for stated in _of_each(_merged(self.stated, *places)):
                sides = {name: _read(stated, side) for name, side in stated["sides"].items()}
                if "only" not in stated or _special(stated["only"], sides):
                    read.append((stated, sides))
        # Of differences that are tested together, p is corrected over all lines.
        for family in _families(read, lambda line: line[0]):
            places_of = [(sides, name) for stated, sides in family for name in _tested(stated)]
            corrected = with_holm([sides[name] for sides, name in places_of])
            for (sides, name), side in zip(places_of, corrected, strict=True):
                sides[name] = side
        found = [
            Line(stated, sides, _special(stated["names"], sides) if "names" in stated else {})
            for stated, sides in read
        ]
        # Of p-values that functions give, too.
        for family in _families(found, lambda line: line.stated):
            own = [line.names for line in family if "p" in line.names]
            corrected = holm([names["p"] for names in own]) if own else ()
            for names, p in zip(own, corrected, strict=True):
                names.update(p=p, verdict=names["way"] if p < LEVEL else UNDECIDED)
        return found

    def _text(self, lines: list[Line]) -> str:
        """The cell, where ``{undecided}`` names the lines that are, of those that decide."""
        deciding = [line for line in lines if "second" not in line.stated]
        open_lines = [line.show("label") for line in deciding if UNDECIDED in line.verdicts()]
        undecided = f" (undecided at {' and '.join(open_lines)})" if open_lines else ""
        blocks: dict[str, list[str]] = {}
        for line in lines:
            text = line.text()
            own = not {"verdict", "judged"} & self.stated.keys()
            if "second" in line.stated and own and (verdicts := line.verdicts()):  # none at a bound
                text += f" (alone: {agreed(verdicts)})"
            blocks.setdefault(line.show("head", undecided=undecided), []).append(text)
        between = self.stated.get("between", BREAK)
        after = BREAK if between == BREAK else " "
        texts = [f"{head}{after * bool(head)}{between.join(each)}" for head, each in blocks.items()]
        foot = lines[0].show("foot", number=self.claims.numbers)
        return BREAK.join([*texts, *[foot] * bool(foot)])

    def _verdict(self, lines: list[Line]) -> str:
        if "judged" in self.stated:
            return judged(self.stated["judged"], _special(self.stated["holds"], self, lines))
        if "verdict" in self.stated:
            return str(_special(self.stated["verdict"], self, lines))
        parts: dict[str, list[str]] = {}
        for line in lines:
            parts.setdefault(line.show("part"), []).extend(line.verdicts())
        each = [agreed(verdicts) for verdicts in parts.values() if verdicts]
        if not each:  # all at a floor or a ceiling
            return UNDECIDED
        return of_parts(each) if len(parts) > 1 else each[0]


class Claims(list[Claim]):
    """The claims of one paper, in its order; ``numbers`` are the rows of those with a name."""

    def __init__(self, paper: str) -> None:
        data = read_toml(FOLDER / f"{paper}.toml")
        self.name: str = data["name"]
        self.about: str = data["about"]
        self.groups: dict[str, list[Query]] = data.get("groups", {})
        self.numbers: dict[str, int] = {}
        for claim in data["claims"]:
            tested = _merged(data.get("shared", {}).get(claim.get("use"), {}), claim)
            for each in (tested, *tested.get("untested", [])):
                runs = each.get("runs") or self._runs(each.get("lines", []))
                stated = {"run": runs[0], **each} if runs else each
                self.append(Claim(self, each["words"], each["where"], tuple(runs), stated))
                if "name" in each:
                    self.numbers[each["name"]] = len(self)

    def _runs(self, lines: list[str | Query]) -> list[str]:
        groups = [self.groups[each] if isinstance(each, str) else [each] for each in lines]
        every = [line for group in groups for line in group]
        return list(dict.fromkeys(line["run"] for line in every if "run" in line))

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Heads and rows, numbered."""
        heads = ["", "claim", "in the paper", "measured here", "run", "verdict"]
        return heads, [claim.row(number) for number, claim in enumerate(self, 1)]

    def rely(self) -> list[str]:
        """What readers can rely on: sentences of claims, with their verdict.

        Raises:
            ValueError: a claim has another verdict than its sentence is for.
        """
        sentences = []
        for number, claim in enumerate(self, 1):
            if "rely" not in claim.stated:
                continue
            verdict = claim.find()[1].removesuffix(" †")
            if verdict != claim.stated["rely"]["when"]:
                raise ValueError(f"{claim.words}: {verdict}; its sentence is for another verdict")
            sentences.append(f"{claim.stated['rely']['says']} (claim {number}: {verdict})")
        return sentences

    def counts(self) -> Counter[str]:
        """How many have which verdict."""
        return Counter(claim.find()[1].removesuffix(" †") for claim in self)


def _families(lines: Sequence[T], stated: Callable[[T], Query]) -> list[list[T]]:
    """The lines that decide, and those that do not: p is corrected within each."""
    decides = ["second" not in stated(line) for line in lines]
    return [[*compress(lines, decides)], [*compress(lines, map(not_, decides))]]


def _short(number: float) -> str:
    return f"{number:.0f}" if number >= 10 else f"{number:.2g}"


def _of_difference(row: Row) -> TTest | None:
    return of_file(row, "difference")


def _tested(stated: Query) -> list[str]:
    return list(chain(*stated.get("tests", [])))


def _why(lines: list[Line], undecided: list[TTest | None]) -> str:
    """No test has a power, of the lines of an undecided claim."""
    if any("count" in line.stated for line in lines):
        return "a count"
    if undecided:
        return "the file has no values by seed"
    if any(line.decided for line in lines):
        return "all comparisons are decided, and differ"
    return "all is at the floor or the ceiling"


def _special(name: str, *arguments: Any) -> Any:
    special = import_module("docs.claims.special")  # which imports this file
    return getattr(special, name)(*arguments)


def _merged(*parts: Query) -> Query:
    """Later entries replace earlier ones; conditions on rows add up."""
    merged: Query = {"rows": {}}
    for part in parts:
        stated = {**part, **part.get("query", {})}
        merged |= {**stated, "rows": {**merged["rows"], **stated.get("rows", {})}}
        merged.pop("query", None)
    return merged


def _of_each(stated: Query) -> list[Query]:
    """A line, or one of each value of a column."""
    column = stated.get("each")
    if not column:
        return [stated]
    rows = rows_of(RUNS[stated["run"]].file, stated["table"], stated["rows"])
    return [_merged(stated, {"rows": {column: v}}) for v in sorted({row[column] for row in rows})]


def _read(line: Query, side: Query) -> Side:
    """One side of a line."""
    rows = {key: value for key, value in side.items() if key not in QUERY}
    query = _merged(line, {key: side[key] for key in QUERY if key in side}, {"rows": rows})
    filled = {k: v.format(**line) for k, v in query["rows"].items() if isinstance(v, str)}
    return read_side({"file": RUNS[query["run"]].file, **_merged(query, {"rows": filled})})
