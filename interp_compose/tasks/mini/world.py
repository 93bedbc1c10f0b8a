"""The words of the shipped miniature world, authored for this project.

A *concept* is a set of words that may replace each other in the world's definitions. Its *seen*
words occur in the training split of ``mini-idm``; its *reserve* words occur in no split of any
shipped task, so that putting a reserve word for a seen one is a substitution that the task's
training never showed. Every word belongs to one concept only; a concept is named by its first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

WORDS: Final = Path(__file__).with_name("world.txt")
"""One concept a line: seen words | reserve words."""


@dataclass(frozen=True)
class Synonyms:
    """The words of one concept: those of the training data, and those kept from it."""

    seen: tuple[str, ...]
    reserve: tuple[str, ...]


@cache
def thesaurus() -> Mapping[str, Synonyms]:
    """Every concept of the shipped world, by its name.

    Numbers and a few animals have no reserve word: English has none that would be understood.
    """
    table: dict[str, Synonyms] = {}
    for line in WORDS.read_text(encoding="utf-8").splitlines():
        seen, _, reserve = line.partition("|")
        words = seen.split()
        table[words[0]] = Synonyms(tuple(words), tuple(reserve.split()))
    return MappingProxyType(table)


@cache
def reserve_words() -> Mapping[str, tuple[str, ...]]:
    """Seen word → the reserve words that may replace it; words without any are left out."""
    concepts = thesaurus().values()
    return MappingProxyType(
        {word: one.reserve for one in concepts for word in one.seen if one.reserve}
    )
