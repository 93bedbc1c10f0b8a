"""How far a text answers a question, by SQuAD 1.1's own evaluation (Rajpurkar et al. 2016)."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable
from typing import Final

ARTICLES: Final = re.compile(r"\b(a|an|the)\b")
NO_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)


def normalized_answer(text: str) -> str:
    """The text in lower case, without ASCII's punctuation, then without the articles "a", "an" and
    "the"; single spaces between words."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(NO_PUNCTUATION)).split())


def exact_match(answer: str, right: Iterable[str]) -> float:
    """1 where the answer is one of the right ones, up to :func:`normalized_answer`, else 0."""
    return float(normalized_answer(answer) in {normalized_answer(one) for one in right})


def token_f1(answer: str, right: Iterable[str]) -> float:
    """The F1 of the answer's words, as a bag, and of those of the right answer that it is nearest
    to; 0 where no word is shared, so too where neither has a word left."""
    return max(_f1(normalized_answer(answer).split(), normalized_answer(one)) for one in right)


def _f1(words: list[str], right: str) -> float:
    shared = (Counter(words) & Counter(right.split())).total()
    return 2 * shared / (len(words) + len(right.split())) if shared else 0.0
