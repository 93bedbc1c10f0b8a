"""The sentiment of single words, by TextBlob's lexicon.

TextBlob comes with ``pip install 'interp-compose[synonyms]'``. A word that the
lexicon lacks has polarity 0, like one that is neutral.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

from interp_compose.errors import MissingPackageError

NEUTRAL = 0.05
"""Polarities in [−0.05, 0.05] are neutral."""


@cache
def polarity(word: str) -> float:
    """TextBlob's polarity of a word on its own, in [−1, 1]; ``MissingPackageError`` without it."""
    return float(textblob().TextBlob(word).sentiment.polarity)


def same_sentiment(one: str, two: str) -> bool:
    """Whether two words are both negative, both neutral, or both positive."""
    return _class(polarity(one)) == _class(polarity(two))


def _class(value: float) -> int:
    return (value > NEUTRAL) - (value < -NEUTRAL)


@cache
def textblob() -> Any:
    """The package; ``MissingPackageError`` says how to get it."""
    try:
        return importlib.import_module("textblob")
    except ImportError as error:
        raise MissingPackageError(
            "textblob, which tells the sentiment of a word, is not installed; get it with: "
            "pip install 'interp-compose[synonyms]'"
        ) from error
