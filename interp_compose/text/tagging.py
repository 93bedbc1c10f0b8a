"""The kind of word of each unit: by a part-of-speech tagger, or by spaCy's word lists alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from interp_compose._public import short
from interp_compose.errors import MissingDataError, OptionError, did_you_mean
from interp_compose.text.parsers import load_spacy
from interp_compose.text.units import TokenizedPrompt

Tagged = tuple[int, int, str]
"""Character range of a text, and its tag."""

Tagger = Callable[[str], Sequence[Tagged]]
"""A text → its tagged ranges."""

KIND = "kind"
OTHER = "other"


def tagger_of(tagger: Any) -> Tagger:
    """A tagger from ``"kind"`` (content, function, number or punctuation, by spaCy's lists: no
    model needed), a spaCy pipeline or its name (its ``pos_``), or any :data:`Tagger`.

    Raises:
        OptionError: none of these.
        MissingDataError: spaCy has no such pipeline.
    """
    if isinstance(tagger, str):
        if tagger == KIND:
            return _kinds
        try:
            return _parts_of_speech(load_spacy(tagger))
        except MissingDataError as missing:
            raise MissingDataError(
                f"tagger={tagger!r} is no spaCy pipeline that is installed; expected {KIND!r}, "
                "which needs none, a function, or a pipeline's name: python -m spacy download "
                f"en_core_web_sm gets one{did_you_mean(tagger, [KIND])}"
            ) from missing
    if hasattr(tagger, "pipe_names"):
        return _parts_of_speech(tagger)
    if not callable(tagger):
        raise OptionError(
            f"tagger={short(tagger)}: expected 'kind', a spaCy pipeline or its name, or a function "
            "from a text to (start, end, tag) ranges."
        )
    function: Tagger = tagger
    return function


def unit_tags(prompt: TokenizedPrompt, tagger: Tagger) -> list[str]:
    """Each unit's tag: that of the tagged range with which it shares most characters, the earlier
    one of a tie, and ``"other"`` where it shares none.

    Raises:
        OptionError: the tagger returns something else than (start, end, tag), or a range outside
            the text.
    """
    ranges = _checked(tagger(prompt.text), prompt.text)
    tags = []
    for unit in range(prompt.n_groups):
        begin, end = prompt.offsets[prompt.groups == unit].T
        low, high = int(begin.min()), int(end.max())
        shared = [min(high, stop) - max(low, start) for start, stop, _ in ranges]
        best = max(range(len(ranges)), key=shared.__getitem__, default=-1)
        tags.append(ranges[best][2] if best >= 0 and shared[best] > 0 else OTHER)
    return tags


def _checked(tagged: Any, text: str) -> list[Tagged]:
    expected = "expected (start, end, tag) ranges of the text, the tag a string that is not empty"
    if isinstance(tagged, str) or not isinstance(tagged, Iterable):
        raise OptionError(f"the tagger gave {tagged!r} for {text[:60]!r}; {expected}")
    ranges = list(tagged)
    for each in ranges:
        if not (isinstance(each, tuple) and list(map(type, each)) == [int, int, str] and each[2]):
            raise OptionError(f"the tagger gave {each!r} for {text[:60]!r}; {expected}")
        if not 0 <= each[0] <= each[1] <= len(text):
            raise OptionError(
                f"the tagger gave {each!r} for {text[:60]!r}, which has {len(text)} characters; "
                f"{expected}"
            )
    return ranges


def _kinds(text: str) -> list[Tagged]:
    from interp_compose.text.spacy_words import english

    tagged = []
    for token in english()(text):
        kind = "content"
        if token.is_punct:
            kind = "punctuation"
        elif token.like_num:
            kind = "number"
        elif token.is_stop:
            kind = "function"
        if not token.is_space:
            tagged.append((token.idx, token.idx + len(token.text), kind))
    return tagged


def _parts_of_speech(pipeline: Any) -> Tagger:
    def tag(text: str) -> list[Tagged]:
        tokens = [token for token in pipeline(text) if not token.is_space]
        if tokens and not any(token.pos_ for token in tokens):
            raise OptionError(
                f"the spaCy pipeline {pipeline.meta.get('name', '')!r} gives no part of speech; it "
                f"has {pipeline.pipe_names}. Load one with a tagger, such as en_core_web_sm."
            )
        return [(t.idx, t.idx + len(t.text), t.pos_ or OTHER) for t in tokens]

    return tag
