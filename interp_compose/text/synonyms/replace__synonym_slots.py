"""The words of a prompt that a synonym may replace, and how it is written in their place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from interp_compose.errors import InputError
from interp_compose.text.spacy_words import english
from interp_compose.text.synonyms.sources import is_content_word

_ARTICLE = re.compile(r"\b(an?)\s+$", re.IGNORECASE)
_VOWEL = re.compile(  # sounds where letters mislead: a unit, a euro, an hour
    r"(?!eu|ewe|once|u(?:s|t|ni(?![mn])))[aeiou]|hour|hono|honest|heir", re.IGNORECASE
)


@dataclass(frozen=True)
class Surroundings:
    """What stands around the text of a prompt: a template's literal head and tail."""

    head: str
    tail: str

    @classmethod
    def of(cls, template: str) -> Surroundings:
        """``InputError`` unless the template has exactly one ``{}``."""
        head, *tails = template.split("{}")
        if len(tails) != 1:
            raise InputError(
                f"template {template!r} has {len(tails)} places for a text; expected one {{}}, as "
                "in task.template"
            )
        return cls(head, tails[0])

    def text(self, prompt: str, row: int) -> str:
        """What stands between head and tail; ``InputError`` for a prompt that does not fit."""
        text = prompt.removeprefix(self.head)
        fits = prompt.startswith(self.head) and text.endswith(self.tail)
        text = text.removesuffix(self.tail)
        if not fits or not text.strip():
            raise InputError(
                f"example {row} has the prompt {prompt!r}, which is not {self.head!r}, a text and "
                f"{self.tail!r}; pass the template that its prompts were made with (task.template)"
            )
        return text


class Word(NamedTuple):
    """A word of a text and the character at which it begins."""

    start: int
    text: str


def words_of(text: str) -> list[Word]:
    """The words and marks of ``text`` by spaCy's rules, from left to right."""
    return [Word(token.idx, token.text) for token in english()(text)]


def count_words(text: str) -> int:
    """How many words ``text`` has: strings between blanks that hold a letter or a digit.

    This is what a share of the words is taken of. The released code splits at blanks as well, and
    so counts *daughter's* and *well-made* as one word each.
    """
    return sum(any(letter.isalnum() for letter in word) for word in text.split())


def content_words(text: str, words: Sequence[Word]) -> list[Word]:
    """Those of its words that carry meaning.

    Part of a compound with hyphens (*well-made*) is none: compounds do not take synonyms by part.
    """
    return [
        word
        for word in words
        if is_content_word(word.text)
        and text[: word.start][-1:] != "-"
        and text[word.start + len(word.text) :][:1] != "-"
    ]


def written_like(replacement: str, original: str) -> str:
    """The replacement in the original's case: UPPER, Capitalised, or as it is."""
    if original.isupper() and len(original) > 1:
        return replacement.upper()
    if original[:1].isupper() and original[1:] == original[1:].lower():
        return replacement[:1].upper() + replacement[1:]
    return replacement


def rewritten(text: str, replacements: Sequence[tuple[Word, str]]) -> str:
    """``text`` with each word replaced, ``a`` or ``an`` before it after what follows now.

    ``an`` stands before a, e, i, o and u, but for *u* and *eu* as in *unit*, *user* and *euro*,
    and before a silent h.
    """
    pieces, done = [], 0
    for word, replacement in sorted(replacements):
        pieces.append(_with_article(text[done : word.start], word.text, replacement))
        pieces.append(replacement)
        done = word.start + len(word.text)
    return "".join(pieces) + text[done:]


def _with_article(before: str, old: str, new: str) -> str:
    found = _ARTICLE.search(before)
    if not found:
        return before
    vowel = bool(_VOWEL.match(new))
    letter = before[found.start(1)]
    n = "N" if letter == "A" and old.isupper() else "n"
    return before[: found.start(1)] + letter + n * vowel + before[found.end(1) :]
