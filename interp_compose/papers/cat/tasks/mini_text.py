"""A small text of our own and the sememes of its words, to try pre-training on without data.

A document is about one animal. A word's sememes show in what is said around it: a ram (sheep, male,
adult) bleats, eats clover, is called *he* and guards the lamb. So there is something to learn for a
model that decomposes words into sememes, also of words whose sememes it is not shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

from interp_compose.papers.cat.tasks.sememes import Sememes

NAME: Final = "mini"
"""What calls for it in place of a file."""
VOCABULARY: Final = 380
"""Entries of its tokenizer."""
N_DOCUMENTS: Final = 900
KINDS: Final = {
    "sheep": "ram ewe lamb bleats fold clover",
    "pig": "boar sow piglet grunts sty acorns",
    "horse": "stallion mare foal neighs stable oats",
    "cattle": "bull cow calf moos byre hay",
    "goose": "gander goose gosling hisses pond weeds",
    "chicken": "rooster hen chick clucks coop grain",
    "deer": "stag doe fawn roars forest leaves",
    "duck": "drake duck duckling quacks lake snails",
    "cat": "tomcat queen kitten purrs house mice",
    "swan": "cob pen cygnet hoots river reeds",
    "goat": "billy nanny kid stamps hill thistles",
    "fox": "tod vixen cub yelps den berries",
    "lion": "lion lioness whelp growls plain zebras",
    "ferret": "hob jill kit chatters burrow eggs",
    "kangaroo": "boomer flyer joey coughs bush grass",
    "peafowl": "peacock peahen peachick screams garden seeds",
    "human": "man woman child sings village bread",
}
"""Of each kind: he, she, the young one; what it does, where it lives, what it eats."""
ROLES: Final = (
    ("male", "adult"),
    ("female", "adult"),
    ("young",),
    ("sound",),
    ("place",),
    ("food",),
)
"""The sememes of each column of :data:`KINDS`, besides the kind."""
BIRDS: Final = ("goose", "chicken", "duck", "swan", "peafowl")
OF_ALL: Final = (
    "in the {place} the {who} {sound}",
    "the {who} lives in the {place}",
    "{he} eats {food} {when}",
    "{when} {he} looks for {food} near the {place}",
    "{he} {moves} to the {place} {when}",
    "{when} {he} {sound} for {food}",
)
OF_ROLE: Final = {
    "male": ("he guards the {young} {when}", "{when} he is strong and leads the others"),
    "female": ("she feeds the {young} {when}", "{when} she is gentle and calls the {young}"),
    "young": ("it follows the {female} {when}", "{when} it is small and plays"),
}
WHEN: Final = ("at dawn", "at noon", "at night", "in spring", "in winter", "every day")


def mini_sememes() -> Sememes:
    """The sememes of the words that :data:`KINDS` has."""
    words: dict[str, list[str]] = {}
    for kind, row in KINDS.items():
        groups = ["bird"] if kind in BIRDS else [] if kind == "human" else ["beast"]
        for word, role in zip(row.split(), ROLES, strict=True):
            words[word] = [kind, *groups, *role]
    return Sememes.of(words)


def mini_documents() -> Iterator[str]:
    """Documents of three to five sentences, a sentence a line, always the same ones."""
    random = Random(0)

    def one_of(values: tuple[str, ...]) -> str:
        return values[int(random.random() * len(values))]

    for _ in range(N_DOCUMENTS):
        kind = one_of(tuple(KINDS))
        male, female, young, sound, place, food = KINDS[kind].split()
        role = one_of(tuple(OF_ROLE))
        names = {
            "who": {"male": male, "female": female, "young": young}[role],
            "he": {"male": "he", "female": "she", "young": "it"}[role],
            "moves": "flies" if kind in BIRDS else "runs",
            **{"female": female, "young": young, "sound": sound, "place": place, "food": food},
        }
        patterns = [one_of(OF_ALL[:2])]  # the first sentence names the animal
        left: tuple[str, ...] = (*OF_ALL[2:], *OF_ROLE[role])
        for _ in range(2 + int(random.random() * 3)):
            patterns.append(one_of(left))
            left = tuple(each for each in left if each != patterns[-1])
        yield "\n".join(each.format(**names, when=one_of(WHEN)) + " ." for each in patterns)
