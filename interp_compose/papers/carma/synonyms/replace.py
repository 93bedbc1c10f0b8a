"""Synonym replacement (CARMA, appendix C.2): some words of a prompt, each by a synonym.

What is replaced depends on the prompt, the seed and the source alone: an example gives the same
result in any order and in any subset. Deviations from the paper are listed in ``sources.py`` and
:func:`replace_synonyms`.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd

from interp_compose._public import public, short
from interp_compose.errors import CapabilityError, InputError, InterventionError, OptionError
from interp_compose.papers.carma.synonyms.sources import Candidate, SynonymSource, is_content_word
from interp_compose.text.spacy_words import english, pipeline_name
from interp_compose.types import Example

_ARTICLE = re.compile(r"\b(an?)\s+$", re.IGNORECASE)
_VOWEL = re.compile(  # sounds where letters mislead: a unit, a euro, an hour
    r"(?!eu|ewe|once|u(?:s|t|ni(?![mn])))[aeiou]|hour|hono|honest|heir", re.IGNORECASE
)


@dataclass(frozen=True)
class Template:
    """A template's literal text before and after its ``{}``."""

    head: str
    tail: str

    @classmethod
    def of(cls, template: str) -> Template:
        """``InputError`` unless the template has exactly one ``{}``."""
        head, *tails = template.split("{}")
        if len(tails) != 1:
            raise InputError(
                f"template {template!r} has {len(tails)} places for a text; expected one {{}}, as "
                "in task.template"
            )
        return cls(head, tails[0])

    def text(self, prompt: str, row: int) -> str:
        """The text between head and tail; ``InputError`` for a prompt that does not fit."""
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

    The rate is a share of these. The released code splits at blanks as well, and so counts
    *daughter's* and *well-made* as one word each.
    """
    return sum(any(letter.isalnum() for letter in word) for word in text.split())


def content_words(text: str, words: Sequence[Word]) -> list[Word]:
    """Those of its words that carry meaning, except parts of hyphenated compounds (*well-made*),
    which take no synonyms of their own.
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
    """``text`` with each word replaced, and ``a`` or ``an`` before it adapted.

    ``an`` precedes a, e, i, o and u, except *u* and *eu* as in *unit*, *user* and *euro*, and a
    silent h.
    """
    pieces, end = [], 0
    for word, replacement in sorted(replacements):
        pieces.append(_with_article(text[end : word.start], word.text, replacement))
        pieces.append(replacement)
        end = word.start + len(word.text)
    return "".join(pieces) + text[end:]


def _with_article(gap: str, old: str, new: str) -> str:
    article = _ARTICLE.search(gap)
    if not article:
        return gap
    vowel = bool(_VOWEL.match(new))
    letter = gap[article.start(1)]
    n = "N" if letter == "A" and old.isupper() else "n"
    return gap[: article.start(1)] + letter + n * vowel + gap[article.end(1) :]


COLUMNS = ("example", "start", "original", "replacement", "similarity", "score", "n_eligible")


@dataclass(frozen=True)
class Replaced:
    """Examples after the replacement, in the order they came.

    ``frame`` has one row per replaced word: ``example`` (its index), ``start`` (the character of
    the *old* prompt), ``original``, ``replacement`` (as written), ``similarity``, ``score`` and
    ``n_eligible`` of its example. ``n_words``, ``n_eligible`` and ``n_wanted`` are per example: the
    words of its text, how many of them could be replaced, and the number that the rate gives.
    ``report`` holds the settings and counts, in JSON's types. An example without an eligible word
    is unchanged, and 0 in ``n_eligible``.
    """

    examples: tuple[Example, ...]
    frame: pd.DataFrame
    originals: tuple[Example, ...]
    n_words: tuple[int, ...]
    n_eligible: tuple[int, ...]
    n_wanted: tuple[int, ...]
    report: Mapping[str, Any]

    def sentences(self) -> pd.DataFrame:
        """One row per example: both prompts, how many words, and the dose reached.

        Columns: example, prompt, replaced; n_words, n_eligible, n_wanted (max(1, ⌊n_words · rate⌋),
        0 of no words) and n_replaced; dose (n_replaced / n_words, 0 for a text without words).
        """
        replaced = self.frame["example"].value_counts()
        rows = range(len(self.examples))
        n_replaced = [int(replaced.get(row, 0)) for row in rows]
        return pd.DataFrame(
            {
                "example": rows,
                "prompt": [one.prompt for one in self.originals],
                "replaced": [one.prompt for one in self.examples],
                "n_words": self.n_words,
                "n_eligible": self.n_eligible,
                "n_wanted": self.n_wanted,
                "n_replaced": n_replaced,
                "dose": [k / max(1, n) for k, n in zip(n_replaced, self.n_words, strict=True)],
            }
        )


@public
def replace_synonyms(
    examples: Sequence[Example],
    source: SynonymSource,
    *,
    rate: float,
    seed: int,
    template: str = "{}",
    top_n: int = 5,
    tagger: Any | None = None,
) -> Replaced:
    """Replaces max(1, ⌊words of the text · rate⌋) words of each example, drawn at random.

    The words of the text are all those inside the template (its own are not counted), stop words
    among them: the paper replaces a share "of prompt words", and its released code rounds that
    share as here. Where fewer words are eligible than the rate gives, all of them are replaced,
    and the example falls short of the rate (:meth:`Replaced.sentences`).

    Eligible are the words inside the template (its own words are never replaced) that consist of
    at least three letters, are no stop words and no part of a hyphenated compound, and have a
    candidate that is neither in the text nor the answer. Each drawn word becomes one of its
    ``top_n`` best candidates, at random, in its own case; no two become the same word, and where
    that leaves a word without a candidate the next word drawn is replaced instead. ``a`` and ``an``
    are adapted. With the same seed a higher rate makes the same replacements, and maybe more.
    ``spans`` and ``tree`` of a changed example are dropped, since they describe the old text.

    Args:
        examples: prompts and answers.
        source: of candidates; it caches the words that it has looked up.
        rate: share of the text's words, in (0, 1]; the paper's are 0.25 and 0.4.
        seed: draws words and candidates, together with the prompt's text.
        template: the prompt around the text, with one ``{}``; ``task.template``.
        top_n: candidates that are drawn from, the best first.
        tagger: a spaCy pipeline that reads each word's part of speech in its sentence, as in the
            paper. Without it the source takes a word's most usual one.

    Raises:
        InputError: a rate outside (0, 1], ``top_n`` below 1, a template without exactly one
            ``{}``, no examples, or a prompt that does not fit the template.
        CapabilityError: ``tagger`` gives no part of speech.
        OptionError: ``tagger`` is no pipeline, nor the name of one.
        InterventionError: no example has an eligible word.
    """
    if not 0 < rate <= 1:
        raise InputError(f"rate is {rate}; expected a share of the words in (0, 1], e.g. 0.25")
    if top_n < 1:
        raise InputError(f"top_n is {top_n}; expected at least 1 candidate to draw from, e.g. 5")
    if not examples:
        raise InputError("there are no examples to replace words in; pass e.g. task.test")
    parts = Template.of(template)
    texts = [parts.text(one.prompt, row) for row, one in enumerate(examples)]
    tags = _tags(texts, tagger)

    replaced: list[Example] = []
    rows: list[tuple[Any, ...]] = []
    n_words = [count_words(text) for text in texts]
    # as in the released code; 29 % of 100 is 29, not 28
    n_wanted = [max(1, int(n * rate + 1e-9)) if n else 0 for n in n_words]
    n_eligible: list[int] = []
    doses: list[float] = []
    for row, (example, text) in enumerate(zip(examples, texts, strict=True)):
        words = words_of(text)
        used_words = {word.text.casefold() for word in words} | {example.answer.strip().casefold()}
        eligible = []
        for word in content_words(text, words):
            candidates = source.candidates(word.text.lower(), tags[row].get(word.start))
            if _free(candidates, used_words):
                eligible.append((word, candidates))
        rng = _rng(seed, example.prompt)
        drawn = _draw(eligible, n_wanted[row], used_words, top_n, rng)
        n_eligible.append(len(eligible))
        doses.append(len(drawn) / max(1, n_words[row]))
        replaced.append(_changed(example, parts, text, drawn) if drawn else example)
        rows += [
            (
                row,
                len(parts.head) + word.start,
                word.text,
                written_like(new.word, word.text),
                new.similarity,
                new.score,
                len(eligible),
            )
            for word, new in drawn
        ]
    if not rows:
        raise InterventionError(
            f"none of {len(examples)} examples has a word with a synonym in {source.name!r}, so "
            f"nothing was replaced; the first text is {texts[0]!r}. Give another source, or one "
            "with a lower frequency threshold"
        )
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    report = {
        "source": source.settings,
        "rate": rate,
        "seed": seed,
        "top_n": top_n,
        "template": template,
        "tagger": None if tagger is None else pipeline_name(tagger),
        "examples": len(replaced),
        "unchanged": n_eligible.count(0),
        "words": sum(n_words),
        "eligible_words": sum(n_eligible),
        "wanted_words": sum(n_wanted),
        "replaced_words": len(rows),
        "mean_dose": sum(doses) / len(doses),
    }
    counts = (tuple(n_words), tuple(n_eligible), tuple(n_wanted))
    return Replaced(tuple(replaced), frame, tuple(examples), *counts, report)


def _draw(
    eligible: Sequence[tuple[Word, Sequence[Candidate]]],
    n_wanted: int,
    used_words: set[str],
    top_n: int,
    rng: random.Random,
) -> list[tuple[Word, Candidate]]:
    """The words to replace, from left to right, each with what it becomes."""
    used_words = set(used_words)
    drawn: list[tuple[Word, Candidate]] = []
    for word, candidates in rng.sample(eligible, len(eligible)):
        free = _free(candidates, used_words)[:top_n]
        if free and len(drawn) < n_wanted:
            chosen = rng.choice(free)
            used_words.add(chosen.word.casefold())
            drawn.append((word, chosen))
    return sorted(drawn)


def _free(candidates: Sequence[Candidate], used_words: set[str]) -> list[Candidate]:
    return [one for one in candidates if one.word.casefold() not in used_words]


def _changed(
    example: Example, parts: Template, text: str, drawn: Sequence[tuple[Word, Candidate]]
) -> Example:
    new = rewritten(text, [(word, written_like(one.word, word.text)) for word, one in drawn])
    return Example(parts.head + new + parts.tail, example.answer, foil=example.foil)


def _rng(seed: int, prompt: str) -> random.Random:
    """Seeded by SHA-256, since Python's hash differs from run to run."""
    digest = hashlib.sha256(f"{seed}\n{prompt}".encode()).digest()
    return random.Random(int.from_bytes(digest, "big"))


def _tags(texts: Sequence[str], tagger: Any | None) -> list[dict[int, str]]:
    """Of each text: the character at which a word begins → its part of speech."""
    if tagger is None:
        return [{} for _ in texts]
    if not (hasattr(tagger, "pipe") and hasattr(tagger, "meta")):  # a DataFrame has .pipe as well
        raise OptionError(f"tagger={short(tagger)}: expected a spaCy pipeline, or None")
    tags = [{word.idx: word.pos_ for word in doc} for doc in tagger.pipe(texts)]
    if not any(pos for of_text in tags for pos in of_text.values()):
        raise CapabilityError(
            f"the tagger {pipeline_name(tagger)!r} gives no word a part of speech; load a "
            "pipeline with a tagger, such as en_core_web_md, or pass none"
        )
    return tags
