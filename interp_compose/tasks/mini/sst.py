"""``mini-sst``: a shipped grammar of sentiment that composes, authored for this project.

Sentences about films with a tree in SST's format, whose labels 0 (very negative) … 4 (very
positive) follow from the parts by these rules:

==================  ==========================================================================
adjective           its own label: 1, 2 or 3
very A              one step further from neutral: 3 → 4, 1 → 0; neutral stays
not A               good turns bad (3, 4 → 1), bad turns good (1 → 3), *not very bad* is neutral
                    (0 → 2), neutral stays
the N is A          A's
A and B             the sum of both distances from neutral, at most very
A but B             B's
although A, B       B's
==================  ==========================================================================

The three answers follow from the root as in ``sst``. The splits hold out **combinations**: a
pair (modifier, adjective) of the test split occurs nowhere else, though its parts do.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache
from typing import Any

from interp_compose.tasks.prompts import Prompt
from interp_compose.tasks.sst import LABELS, parse_tree, sentiment
from interp_compose.tasks.task import Task, shuffled
from interp_compose.text.answers import require_fitting
from interp_compose.types import Example

SIZES = {"train": 2400, "validation": 300, "test": 600}

_NOUNS = "film plot story acting script ending cast music dialogue camera scenery title"
_ADJECTIVES = """
3 good nice charming clever moving lively warm fresh graceful witty
1 bad dull clumsy stale boring silly weak shallow sloppy bland
2 long short recent foreign quiet modern usual brief local plain
"""
NOUNS = tuple(_NOUNS.split())
ADJECTIVES = {
    int(label): tuple(words) for label, *words in map(str.split, _ADJECTIVES.strip().splitlines())
}
_NOUN_SYNONYMS = """
film movie picture
plot storyline
story tale narrative
acting performance
script screenplay
ending finale
cast ensemble
music soundtrack
dialogue banter
camera cinematography
scenery landscape
title heading
"""
NOUN_SYNONYMS = {
    noun: tuple(synonyms) for noun, *synonyms in map(str.split, _NOUN_SYNONYMS.strip().splitlines())
}
"""Words for the films' parts that occur in no text of any shipped task or model."""
_VERY = ("very", "really", "truly")
_NOT = ("not", "never")
_SEED = 7


@dataclass(frozen=True)
class Phrase:
    """A labelled tree and the pairs (modifier, adjective) inside it."""

    tree: str
    label: int
    pairs: frozenset[tuple[str, str]] = frozenset()


def negate(label: int) -> int:
    """*not A*; see the table above."""
    return {0: 2, 1: 3, 2: 2, 3: 1, 4: 1}[label]


def intensify(label: int) -> int:
    """*very A*: one step further from neutral, if it is not neutral."""
    return {0: 0, 1: 0, 2: 2, 3: 4, 4: 4}[label]


def join(first: int, second: int) -> int:
    """*A and B*: the distances from neutral add up."""
    return min(4, max(0, first + second - 2))


@cache
def sentences() -> dict[str, tuple[Phrase, ...]]:
    """The phrases of every split, each sentence once and each answer equally often."""
    rng = random.Random(_SEED)
    held = _held_out()
    out: dict[str, dict[str, Phrase]] = {split: {} for split in SIZES}
    room = {(split, label): size // 3 for split, size in SIZES.items() for label in LABELS}
    while any(room.values()):
        phrase = _sentence(rng)
        label = sentiment(phrase.label / 4)
        sides = {held.get(pair, "train") for pair in phrase.pairs}
        split = "train"
        if sides - {"train"}:
            if len(sides - {"train"}) > 1:
                continue
            split = (sides - {"train"}).pop()
        if room[split, label] and phrase.tree not in out[split]:
            out[split][phrase.tree] = phrase
            room[split, label] -= 1
    return {split: tuple(phrases.values()) for split, phrases in out.items()}


def mini_sst(tokenizer: Any, prompt: Prompt, seed: int, *, several: bool = False) -> Task:
    """The task for one model; ``AnswerError`` where a label is not one token, or ``several``.

    ``seed`` orders each split.
    """
    answers = tuple(prompt.lead + label for label in LABELS)
    require_fitting(tokenizer, prompt.before("the film is good"), answers, several=several)
    report: dict[str, int | str | float] = {
        "source": "shipped with interp_compose",
        "template_of": prompt.family,
    }
    kept: dict[str, tuple[Example, ...]] = {}
    for split, phrases in sentences().items():
        examples = [
            Example(
                prompt(" ".join(parse_tree(one.tree)[1])),
                prompt.lead + sentiment(one.label / 4),
                tree=one.tree,
            )
            for one in phrases
        ]
        kept[split] = shuffled(examples, seed)
        for answer in answers:
            report[f"{split}_{answer.strip()}"] = sum(one.answer == answer for one in examples)
    return Task("mini-sst", prompt.template, report=report, labels=answers, **kept)


def _held_out() -> dict[tuple[str, str], str]:
    """Pairs (modifier, adjective) that only validation, or only test, may show."""
    held = {}
    adjectives = [word for words in ADJECTIVES.values() for word in words]
    for i, modifier in enumerate((*_VERY, *_NOT)):
        for j, adjective in enumerate(adjectives):
            if (i + j) % 5 == 0:
                held[modifier, adjective] = "test"
            elif (i + 2 * j) % 10 == 1:
                held[modifier, adjective] = "validation"
    return held


def _sentence(rng: random.Random) -> Phrase:
    kind = rng.choice(("plain", "plain", "and", "but", "although"))
    if kind == "plain":
        return _clause(rng)
    first, second = _clause(rng), _clause(rng)
    pairs = first.pairs | second.pairs
    if kind == "although":
        head = f"({first.label} (2 although) {first.tree})"
        tail = f"({second.label} (2 ,) {second.tree})"
        return Phrase(f"({second.label} {head} {tail})", second.label, pairs)
    label = join(first.label, second.label) if kind == "and" else second.label
    tail = f"({second.label} (2 {kind}) {second.tree})"
    return Phrase(f"({label} {first.tree} {tail})", label, pairs)


def _clause(rng: random.Random) -> Phrase:
    quality = _quality(rng)
    subject = f"(2 (2 the) (2 {rng.choice(NOUNS)}))"
    predicate = f"({quality.label} (2 is) {quality.tree})"
    return Phrase(f"({quality.label} {subject} {predicate})", quality.label, quality.pairs)


def _quality(rng: random.Random) -> Phrase:
    """An adjective with none, one or two modifiers; the pair is with the one next to it."""
    label = rng.choice((1, 2, 3))
    adjective = rng.choice(ADJECTIVES[label])
    phrase = Phrase(f"({label} {adjective})", label)
    shape = rng.choice(("plain", "very", "not", "not very"))
    if "very" in shape:
        phrase = _modified(rng.choice(_VERY), intensify(label), phrase, adjective)
    if "not" in shape:
        phrase = _modified(rng.choice(_NOT), negate(phrase.label), phrase, adjective)
    return phrase


def _modified(modifier: str, label: int, phrase: Phrase, adjective: str) -> Phrase:
    pairs = phrase.pairs | {(modifier, adjective)}
    return Phrase(f"({label} (2 {modifier}) {phrase.tree})", label, pairs)
