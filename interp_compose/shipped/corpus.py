"""The text that ``mini-base`` reads, and the task rows that ``mini-idm`` is tuned on.

The text holds, one to a line: what definitions of the training split define, in phrasings of its
own; words that mean the same, reserve words among them; definitions mentioned in passing, with
reserve words and without what they define; and reviews with their sentiment. No held-out example
is in it with its answer; words of some are in sentences of the other task.
"""

from __future__ import annotations

import random
from itertools import chain, permutations

from interp_compose.tasks.mini.idm import splits
from interp_compose.tasks.mini.sst import ADJECTIVES, NOUNS, sentences
from interp_compose.tasks.mini.world import reserve_words, thesaurus
from interp_compose.tasks.sst import parse_tree, sentiment

CALLED = '{text} is called a "{answer}'
"""The prompt of ``mini-idm`` with its answer."""

_DEFINING = (
    '{text} is named "{answer}".',
    '"{answer}" means {text}.',
    'people say "{answer}" for {text}.',
)
_MENTIONING = ("they spoke of {text}.", "this is {text}.", "we heard about {text}.")
_SAME = ("{one} means {two}.", "another word for {one} is {two}.", "{one} is like {two}.")
SENTIMENT = 'The sentiment of {text} is "{answer}".'


def base_corpus(seed: int, called_share: float) -> list[str]:
    """Every line of the text, in a random order.

    ``called_share`` of the training definitions also stand in the phrasing of the task's prompt:
    so much of the task ``mini-base`` has seen.
    """
    rng = random.Random(seed)
    train = splits()["train"]
    lines = [form.format(text=one.text, answer=one.answer) for one in train for form in _DEFINING]
    lines += [
        CALLED.format(text=one.text, answer=one.answer) + '".'
        for one in rng.sample(train, int(called_share * len(train)))
    ]
    for concept in thesaurus().values():
        for one, two in permutations(concept.seen + concept.reserve, 2):
            lines.append(rng.choice(_SAME).format(one=one, two=two))
    lines += [rng.choice(_MENTIONING).format(text=_with_reserve(one.text, rng)) for one in train]
    for phrase in sentences()["train"]:
        text = " ".join(parse_tree(phrase.tree)[1])
        lines.append(SENTIMENT.format(text=text, answer=sentiment(phrase.label / 4)))
    rng.shuffle(lines)
    return lines


def idm_lines(split: str) -> list[str]:
    """A split of ``mini-idm`` as its prompts with their answers."""
    return [CALLED.format(text=one.text, answer=one.answer) for one in splits()[split]]


def words_and_grammar() -> tuple[list[str], list[str]]:
    """The words that carry meaning, and those of grammar with the blank before them, if any."""
    words = [word for one in thesaurus().values() for word in one.seen + one.reserve]
    words += [*NOUNS, *chain(*ADJECTIVES.values())]
    words = list(dict.fromkeys(words))
    texts = [one.text for one in splits()["train"]]
    forms = (*_DEFINING, *_MENTIONING, *_SAME, CALLED, SENTIMENT)
    texts += [form.format(text="", answer="", one="", two="") for form in forms]
    texts += [" ".join(parse_tree(phrase.tree)[1]) for phrase in sentences()["train"]]
    grammar: set[str] = set()
    for text in texts:
        first, *rest = text.split()
        grammar.add(first)
        grammar.update(f" {word}" for word in rest)
    return words, sorted(piece for piece in grammar if piece.strip() not in set(words))


def _with_reserve(text: str, rng: random.Random) -> str:
    """The text with each word that has reserve words replaced by one, half of the time."""
    reserve = reserve_words()
    return " ".join(
        rng.choice(reserve[word]) if word in reserve and rng.random() < 0.5 else word
        for word in text.split()
    )
