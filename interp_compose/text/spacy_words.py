"""spaCy's rule-based words, about as fast as a tokenizer.

spaCy's rules work on runs of characters without a blank, and runs recur: each distinct run is split
once and cached. (spaCy itself, given a whole text, also matches
emoticons *across* a blank and then drops the match together with any it overlaps, so that
``( :(`` loses its ``:(``; run by run it is found.)
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
from jaxtyping import Bool

_MAX_CACHED = 2**18  # distinct runs, some 50 MB, after which the cache is emptied
_inner_starts: dict[str, tuple[int, ...]] = {}


@cache
def english() -> Any:
    """The tokenizer of ``spacy.blank("en")``."""
    import spacy

    return spacy.blank("en").tokenizer


def pipeline_name(nlp: Any) -> str:
    """A pipeline's language, name and version: ``"en_core_web_md-3.8.0"``."""
    return "{lang}_{name}-{version}".format(**nlp.meta)


def forget() -> None:
    """Empty the cache, as in a new process."""
    _inner_starts.clear()
    english.cache_clear()


def word_starts(text: str, visible: Bool[np.ndarray, "char"]) -> Bool[np.ndarray, "char"]:
    """Marks the characters of ``text`` at which a word begins.

    ``visible`` marks the characters that are not blank.
    """
    starts = visible.copy()
    starts[1:] &= ~visible[:-1]
    runs = text.split()
    _split(runs)
    inner = [_inner_starts[run] for run in runs]
    counts = np.fromiter(map(len, inner), np.int64, len(inner))
    # [inner start]: where the run of each begins
    begins = np.repeat(np.flatnonzero(starts), counts)
    starts[begins + np.fromiter(chain.from_iterable(inner), np.int64, begins.size)] = True
    return starts


def _split(runs: Iterable[str]) -> None:
    """Split and cache new runs, in one call; a newline separates each from its neighbours."""
    if len(_inner_starts) > _MAX_CACHED:
        _inner_starts.clear()
    fresh = [run for run in dict.fromkeys(runs) if run not in _inner_starts]
    indices = english()("\n".join(fresh)).to_array("IDX").astype(np.int64)
    lengths = np.fromiter(map(len, fresh), np.int64, len(fresh))
    ends = np.cumsum(lengths + 1)
    cuts = np.searchsorted(indices, ends)
    rows = indices.tolist()
    low = 0
    for run, begin, end, cut in zip(
        fresh, (ends - lengths - 1).tolist(), (ends - 1).tolist(), cuts.tolist(), strict=True
    ):
        _inner_starts[run] = tuple(index - begin for index in rows[low:cut] if begin < index < end)
        low = cut
