"""Pairs of ``mini-idm`` between which a word is exchanged: the head of a definition or a modifier.

The target is a definition of the test split. One of its words is replaced by a word of another
concept, so that the text is another definition of the world, in any split: the *composed* one,
whose answer is expected. The source is a definition of the test split in which that word has the
same role, and whose own answer is neither: a model that repeats what the source defines answers
neither as expected nor as untouched.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final, Literal

from interp_compose.errors import AnswerError
from interp_compose.tasks.mini.idm import Definition, definitions, splits
from interp_compose.tasks.mini.world import thesaurus
from interp_compose.tasks.prompts import Prompt
from interp_compose.tasks.transplants import TransplantPair
from interp_compose.text.answers import fitting

Role = Literal["head", "modifier"]
Exchange = tuple[Definition, int, Definition, Definition, int, Role]
"""Target, the word's place in it, what is composed, source, the word's place in that, role."""
_SEED: Final = 20240
_LEAF: Final = re.compile(r"\(X ([^\s()]+)\)")


@cache
def exchanges() -> tuple[Exchange, ...]:
    """One exchange of each word of each test definition that has one, in a fixed order."""
    return tuple(_all())


def head_place(tree: str) -> int:
    """The place among the words of the head of a definition's tree.

    The first part that is a phrase of the same kind has the head; else it is the last word before
    the first phrase.
    """
    first, rest = re.match(r"\((\w+) (.*)\)$", tree, re.DOTALL).groups()  # type: ignore[union-attr]
    if rest.startswith(f"({first} "):
        return head_place(_first_part(rest))
    words = re.match(r"(\(X [^\s()]+\)\s?)*", rest)
    return len(_LEAF.findall(words[0] if words else "")) - 1


def _first_part(text: str) -> str:
    """Up to the bracket that closes the first one."""
    depth = 0
    for i, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return text[: i + 1]
    raise ValueError(f"the brackets of {text!r} are not closed")


def _all() -> Iterator[Exchange]:
    rng = random.Random(_SEED)
    concept_of = {word: name for name, one in thesaurus().items() for word in one.seen}
    around: dict[tuple[str, ...], list[tuple[str, Definition]]] = defaultdict(list)
    for one in definitions():
        words = one.text.split()
        for place, word in enumerate(words):
            if word in one.words:
                around[_without(words, place)].append((word, one))
    sources: dict[tuple[str, Role], list[tuple[Definition, int]]] = defaultdict(list)
    tests = splits()["test"]
    for one in tests:
        for place, word, role in _slots(one):
            sources[word, role].append((one, place))
    for target in tests:
        for place, word, role in _slots(target):
            fits = [
                (composed, source, source_place)
                for other, composed in around[_without(target.text.split(), place)]
                if concept_of[other] != concept_of[word] and composed.answer != target.answer
                for source, source_place in sources[other, role]
                if source.answer not in (composed.answer, target.answer)
            ]
            if fits:
                composed, source, source_place = rng.choice(fits)
                yield target, place, composed, source, source_place, role


def _slots(one: Definition) -> Iterator[tuple[int, str, Role]]:
    """Place, word and role of each word that names a concept."""
    head = head_place(one.tree)
    for place, word in enumerate(one.text.split()):
        if word in one.words:
            yield place, word, "head" if place == head else "modifier"


def _without(words: Sequence[str], place: int) -> tuple[str, ...]:
    """The words with an empty one at ``place``."""
    return (*words[:place], "", *words[place + 1 :])


def mini_idm_transplants(
    tokenizer: Any, prompt: Prompt, seed: int, *, several: bool = False
) -> tuple[TransplantPair, ...]:
    """The pairs for one model: in its template, answers that are one token for it, or ``several``,
    ordered by ``seed``.

    Raises:
        AnswerError: no pair has answers that are.
    """
    lead = prompt.template.index("{}")
    pairs = [
        TransplantPair(
            prompt(source.text),
            _span(source.text, source_place, lead),
            prompt(target.text),
            _span(target.text, place, lead),
            prompt.lead + composed.answer,
            prompt.lead + target.answer,
            prompt(composed.text),
            role,
            role,
            prompt.lead + source.answer,
        )
        for target, place, composed, source, source_place, role in exchanges()
    ]
    texts = [
        (pair.target, answer)
        for pair in pairs
        for answer in (pair.expected, pair.answer, pair.source_answer)
    ]
    fits = fitting(tokenizer, texts, several=several).tolist()
    kept = [pair for i, pair in enumerate(pairs) if all(fits[3 * i : 3 * i + 3])]
    if not kept:
        raise AnswerError(
            f"the answers of not one of {len(pairs)} pairs are {'known' if several else 'single'} "
            "tokens for this tokenizer "
            f"(the first are {pairs[0].expected!r} and {pairs[0].answer!r}); use a tokenizer with "
            "whole words, or your own pairs"
        )
    random.Random(seed).shuffle(kept)
    return tuple(kept)


def _span(text: str, place: int, lead: int) -> tuple[int, int]:
    """The characters of a word, behind what the template has before the text."""
    words = text.split(" ")
    start = lead + len(" ".join(words[:place])) + (place > 0)
    return start, start + len(words[place])
