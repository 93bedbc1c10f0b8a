"""PrOntoQA: does a statement follow from rules about made-up concepts? ``prontoqa``.

After Saparov and He (2023), "Language models are greedy reasoners": their sentences, about an
ontology of our own that leaves no answer to be read from the surface. There are two chains of
concepts, as long as each other, and the entity is in one of them. Both have a rule about the
property that is asked about, at the same level, and one of these two is negated: put into the other
chain, the entity turns the answer into the other one. Each of the two is followed by a rule about
another property, of a concept in no chain, that is negated where the first is not. So both together
have the same number of words, and where a concept is does not show what is negated before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import factorial, perm, prod
from typing import Final

import numpy as np
from jaxtyping import Int

from interp_compose._public import public
from interp_compose.errors import OptionError
from interp_compose.tasks.sequences import SequencePair, SequenceTask, generated_pair

ENTITIES: Final = ("fae", "polly", "rex", "sally")
CONCEPTS: Final = (
    *("brimpus", "dumpus", "gorpus", "grimpus", "jompus", "lempus", "lorpus", "numpus"),
    *("rompus", "shumpus", "sterpus", "tumpus", "vumpus", "wumpus", "yumpus", "zumpus"),
)
PROPERTIES: Final = (
    *("bitter", "blue", "bright", "cold", "dull", "earthy", "floral", "happy"),
    *("kind", "liquid", "loud", "opaque", "shy", "small", "sweet", "wooden"),
)
MOST: Final = 10_000_000
"""Examples of a split, at most."""


def named_prontoqa(name: str) -> SequenceTask:
    """``"prontoqa"``, ``"prontoqa-answers"``, or ``"prontoqa-1"``: one hop, and no longer ones."""
    hops = name.rpartition("-")[2]
    if hops.isdecimal():
        n = int(hops)
        return prontoqa(hops=n, longer=0, n_concepts=max(8, 2 * n + 2))
    return prontoqa(derivation=name == "prontoqa")


@public
def prontoqa(
    *,
    hops: int = 2,
    longer: int = 1,
    n_train: int = 20_000,
    n_test: int = 2_000,
    n_concepts: int = 8,
    n_properties: int = 8,
    derivation: bool = True,
    seed: int = 0,
) -> SequenceTask:
    """Rules, a fact and a statement: ``each wumpus is a tumpus . every tumpus is not bitter . …
    fae is a wumpus . true or false : fae is bitter``; the target is the derivation and the answer:
    ``fae is a wumpus . each wumpus is a tumpus . fae is a tumpus . every tumpus is not bitter .
    fae is not bitter . False``.

    The splits are ``"train"`` and ``"test"``, of 1 to ``hops`` hops, and ``"longer"``, of more. A
    hop is the use of a rule; the kind of a pair is their number, such as ``"2 hops"``. Of each kind
    as many statements are true as false (one more or less), and no source occurs twice. Chains have
    as many concepts as there are hops, or more, up to ``hops + longer``, in equal shares.

    Theirs has one rule as the distractor: it negates the property for a concept that no other rule
    has.

    Args:
        hops: the largest number of them in training.
        longer: how many hops more the split ``"longer"`` has at most; 0: no such split.
        n_train: pairs.
        n_test: pairs of ``"test"``, and of ``"longer"``.
        n_concepts: different names, of which a pair has those of two chains and two more.
        n_properties: different ones, of which a pair has two.
        derivation: whether the target has it, the fact and for each hop the rule and what follows;
            if not, it is the answer alone, which small decoders do not learn.
        seed: draws everything.

    Raises:
        OptionError: a number that cannot be; more pairs than there are different ones.
    """
    _check(hops, longer, n_train, n_test, n_concepts, n_properties, seed)
    sentences = Statements(ENTITIES, CONCEPTS[:n_concepts], PROPERTIES[:n_properties])
    deepest = hops + longer
    sizes = {"train": n_train, "test": n_test}
    shares = [_shares(sizes, range(1, hops + 1), deepest)]
    if longer:
        shares.append(_shares({"longer": n_test}, range(hops + 1, deepest + 1), deepest))
    for share in shares:
        for place, numbers in share.items():
            sentences.check_enough(*place, sum(map(sum, numbers.values())))
    random = np.random.default_rng(seed)
    splits = {
        split: tuple(pairs)
        for share in shares
        for split, pairs in _pairs(sentences, share, derivation, random).items()
    }
    report: dict[str, int | str | float] = {
        "source": f"{'' if hops == 1 else '1 to '}{_number(hops, 'hop')}, {n_concepts} concepts, "
        f"{n_properties} properties, seed {seed}"
    }
    report |= {f"{split}_all": len(pairs) for split, pairs in splits.items()}
    return SequenceTask(
        f"prontoqa{'' if longer else f'-{hops}'}{'' if derivation else '-answers'}", splits, report
    )


Numbers = Int[np.ndarray, "problem"]
Place = tuple[int, int]
"""Hops, and the concepts of a chain."""
Share = dict[Place, dict[str, list[int]]]
"""How many examples there are of each place and split: of false statements, and of true ones."""


def _shares(sizes: dict[str, int], hops: Sequence[int], deepest: int) -> Share:
    """As many of each number of hops, and of these of each length of chains; half of them true."""
    shares: Share = {}
    for split, size in sizes.items():
        done = 0
        for n_hops, n_of_hops in zip(hops, _equal(size, len(hops)), strict=True):
            depths = range(n_hops, deepest + 1)
            for depth, n in zip(depths, _equal(n_of_hops, len(depths)), strict=True):
                n_true = (done + n) // 2 - done // 2
                shares.setdefault((n_hops, depth), {})[split] = [n - n_true, n_true]
                done += n
    return shares


def _equal(n: int, parts: int) -> list[int]:
    return [n // parts + (i < n % parts) for i in range(parts)]


def _number(n: int, what: str) -> str:
    return f"{n} {what}{'s' * (n > 1)}"


def _pairs(
    sentences: Statements, share: Share, derivation: bool, random: np.random.Generator
) -> dict[str, list[SequencePair]]:
    """The pairs of each split, in random order."""
    pairs: dict[str, list[SequencePair]] = {}
    texts = sentences.texts
    for (hops, depth), numbers in share.items():
        kind = _number(hops, "hop")
        for true in (False, True):
            wanted = {split: each[true] for split, each in numbers.items()}
            rows = sentences.different(sum(wanted.values()), hops, depth, true, random).tolist()
            for split, n in wanted.items():
                taken, rows = rows[:n], rows[n:]
                pairs.setdefault(split, []).extend(
                    generated_pair(
                        " ".join([texts[i] for i in row[: 2 * depth + 4]]),
                        " ".join(
                            [*(texts[i] for i in row[2 * depth + 4 :] if derivation), str(true)]
                        ),
                        kind,
                    )
                    for row in taken
                )
    return {
        split: [each[i] for i in random.permutation(len(each)).tolist()]
        for split, each in pairs.items()
    }


@dataclass(frozen=True)
class Statements:
    """All sentences. Each has a number; a problem is a row of them: 2 · depth + 2 rules, a fact,
    the statement, and the derivation: the fact, and for each hop a rule and what follows."""

    entities: Sequence[str]
    concepts: Sequence[str]
    properties: Sequence[str]

    @cached_property
    def texts(self) -> list[str]:
        """By number: rules of concepts, rules of properties, facts, statements, conclusions."""
        every, no = ("each", "every"), ("", "not ")
        names, kinds, traits = self.entities, self.concepts, self.properties
        return [
            *(f"{q} {x} is a {y} ." for q, x, y in product(every, kinds, kinds)),
            *(f"{q} {x} is {n}{p} ." for q, x, n, p in product(every, kinds, no, traits)),
            *(f"{e} is a {x} ." for e, x in product(names, kinds)),
            *(f"true or false : {e} is {n}{p}" for e, n, p in product(names, no, traits)),
            *(f"{e} is {n}{p} ." for e, n, p in product(names, no, traits)),
        ]

    def different(
        self, n: int, hops: int, depth: int, true: bool, random: np.random.Generator
    ) -> Int[np.ndarray, "problem sentence"]:
        """So many problems, no two alike; :meth:`count` says whether there are as many."""
        rows = self.draw(n, hops, depth, true, random)
        while True:
            # as they were drawn: np.unique sorts, and the first ones are those of training
            firsts = np.sort(np.unique(rows, axis=0, return_index=True)[1])
            if len(firsts) >= n:
                return rows[firsts[:n]]
            rows = np.concatenate([rows[firsts], self.draw(n, hops, depth, true, random)])

    def draw(
        self, n: int, hops: int, depth: int, true: bool, random: np.random.Generator
    ) -> Int[np.ndarray, "problem sentence"]:
        """Problems, some of which may be alike.

        The entity is at the lowest level of chain 0. A rule about property 0, which is asked about,
        is followed by one about property 1 and a concept of no chain, with a "not" if the first has
        none.
        """
        n_e, n_c, n_p = len(self.entities), len(self.concepts), len(self.properties)
        traits = 2 * n_c**2  # the number of the first rule of a property
        facts = traits + 4 * n_c * n_p
        statements = facts + n_e * n_c
        entity = random.integers(n_e, size=n)
        concepts = random.random((n, n_c)).argsort(axis=1)
        chains = concepts[:, : 2 * depth].reshape(n, 2, depth)
        others = concepts[:, 2 * depth : 2 * depth + 2]
        properties = random.random((n, n_p)).argsort(axis=1)[:, :2]
        negated = random.integers(2, size=n)  # property 0 of chain 0

        def rule(concept: Numbers, no: Numbers, which: int) -> Numbers:
            number: Numbers = traits + (concept * 2 + no) * n_p + properties[:, which]
            return number

        parts, levels = [], []
        for chain in (0, 1):
            for low in range(depth - 1):
                parts.append(chains[:, chain, low] * n_c + chains[:, chain, low + 1])
                levels.append(low)
            parts.append(rule(chains[:, chain, hops - 1], negated ^ chain, 0))
            levels.append(hops - 1)
        for chain in (0, 1):
            parts.append(rule(others[:, chain], negated ^ chain ^ 1, 1))
        rules = np.stack(parts, axis=1)
        every = random.integers(2, size=rules.shape)
        rules += every * np.where(rules < traits, n_c**2, 2 * n_c * n_p)
        direction = random.choice((-1, 1), size=(n, 1))
        place = np.array(levels) * direction + random.random((n, 2 * depth))
        followers = np.nextafter(place[:, [depth - 1, -1]], np.inf)
        order = np.concatenate([place, followers], axis=1).argsort(axis=1, kind="stable")
        proved = list((facts + entity[:, None] * n_c + chains[:, 0, :hops]).T)
        statement = statements + (entity * 2 + (negated ^ (not true))) * n_p + properties[:, 0]
        conclusion = statements + ((n_e + entity) * 2 + negated) * n_p + properties[:, 0]
        used = [*rules[:, : hops - 1].T, rules[:, depth - 1]]  # of chain 0
        steps = zip(used, [*proved[1:], conclusion], strict=True)
        shuffled = np.take_along_axis(rules, order, axis=1)
        derived = [sentence for step in steps for sentence in step]
        return np.column_stack([shuffled, proved[0], statement, proved[0], *derived])

    def count(self, hops: int, depth: int) -> int:
        """How many different problems there are; half of them are true."""
        named = len(self.entities) * perm(len(self.concepts), 2 * depth + 2)
        named *= perm(len(self.properties), 2)
        coins: int = 2 ** (2 * depth + 2) * 2 * 2  # each or every; negated: the rule, the statement
        levels = Counter([*range(depth - 1), hops - 1])  # rules of each chain by level
        orders = prod(factorial(2 * n) for n in levels.values()) * (2 if len(levels) > 1 else 1)
        return named * coins * orders

    def check_enough(self, hops: int, depth: int, n: int) -> None:
        """``OptionError`` where there are not as many problems."""
        most = self.count(hops, depth)
        if n > most - n % 2:  # an odd number has more of one answer
            raise OptionError(
                f"{n:,} pairs of {_number(hops, 'hop')} in chains of {_number(depth, 'concept')}: "
                f"there are {most:,} different ones; take fewer pairs, or a larger n_concepts or "
                "n_properties"
            )


def _check(
    hops: int,
    longer: int,
    n_train: int,
    n_test: int,
    n_concepts: int,
    n_properties: int,
    seed: int,
) -> None:
    """``OptionError`` for numbers that cannot be."""
    half = len(CONCEPTS) // 2 - 1  # two are in no chain
    limits = {
        "hops": (hops, 1, half),
        "longer": (longer, 0, half - hops),
        "n_concepts": (n_concepts, 2 * (hops + longer) + 2, len(CONCEPTS)),
        "n_properties": (n_properties, 2, len(PROPERTIES)),
        "n_train": (n_train, 2 * hops, MOST),
        "n_test": (n_test, 2 * max(hops, longer), MOST),
    }
    for name, (value, least, most) in limits.items():
        if not least <= value <= most:
            raise OptionError(f"{name}={value!r}: expected a whole number from {least} to {most}")
    if seed < 0:
        raise OptionError(f"seed={seed!r}: expected a whole number, 0 or more")
