"""Tokens and characters: which tokens share a unit of the text.

All prompts of a batch are joined, one newline between them, so that every property of characters
(blank or not, start of a word, covered by a token) is one array over one character axis.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from interp_compose.errors import AlignmentError, PromptError
from interp_compose.types import Span

_BLANK = np.array([chr(code).isspace() for code in range(0x3001)])  # there is no blank above U+3000
_ACCENTS, _CONTROLS = ("Mn", "Me"), ("Cc", "Cf")
"""Unicode categories that a normaliser may drop without losing a word."""


@dataclass(frozen=True, eq=False)
class CharacterAxis:
    """A batch of prompts on one character axis.

    ``base`` is where each prompt starts, ``visible`` marks the characters that are not blank,
    and ``next`` / ``previous`` are the nearest visible position from any position on.
    """

    text: str
    prompts: Sequence[str]
    base: Int[np.ndarray, "prompt"]
    visible: Bool[np.ndarray, "char"]
    next: Int[np.ndarray, "char"]
    previous: Int[np.ndarray, "char"]

    def locate(self, char: int) -> tuple[int, int]:
        """The prompt a character belongs to, and its index in that prompt."""
        prompt = int(np.searchsorted(self.base, char, side="right")) - 1
        return prompt, char - int(self.base[prompt])


def refuse_empty(prompts: Sequence[str]) -> None:
    """``PromptError`` for the first prompt without a visible character."""
    for i, prompt in enumerate(prompts):
        if not prompt or prompt.isspace():
            raise PromptError(
                f"example {i}: the prompt {prompt!r} is empty; "
                "give it at least one character that is not blank, or leave it out"
            )


def lay_out(prompts: Sequence[str], first: int = 0) -> CharacterAxis:
    """Join ``prompts``, none of them empty; messages count them from ``first``."""
    text = "\n".join(prompts)
    try:
        raw = text.encode("utf-32-le")
    except UnicodeEncodeError as error:
        i = next(j for j, p in enumerate(prompts) if any("\ud800" <= c <= "\udfff" for c in p))
        raise PromptError(
            f"example {first + i}: the prompt {prompts[i]!r} holds half of a surrogate pair; "
            "decode the file it came from as UTF-8"
        ) from error
    codes = np.frombuffer(raw, dtype="<u4")
    visible = ~_BLANK[np.minimum(codes, _BLANK.size - 1)] | (codes >= _BLANK.size)
    lengths = np.fromiter(map(len, prompts), np.int64, len(prompts))
    base = np.concatenate([[0], np.cumsum(lengths + 1)[:-1]])
    index = np.arange(codes.size)
    # [char]: from the right the smallest visible index so far, from the left the largest
    after = np.minimum.accumulate(np.where(visible, index, codes.size)[::-1])[::-1]
    before = np.maximum.accumulate(np.where(visible, index, -1))
    return CharacterAxis(text, prompts, base, visible, after, before)


def group_tokens(
    axis: CharacterAxis,
    starts: Bool[np.ndarray, "char"],
    offsets: Int[np.ndarray, "token 2"],
    special: Bool[np.ndarray, "token"],
    prompt_of: Int[np.ndarray, "token"],
    *,
    spans: Sequence[Sequence[Span]] | None = None,
    first: int = 0,
) -> tuple[Int[np.ndarray, "token"], Int[np.ndarray, "token 2"]]:
    """Number the units of each prompt by the tokens that fall into them; specials get -1. And the
    ``offsets``, each token with the characters of :func:`_covering`.

    A unit begins at every character that ``starts`` marks. Blanks at a token's edges do not
    count. A token that spans several units makes them one; so do tokens that share a character,
    since a character is in one unit. A token of blanks alone (or of no width, such as a lone ``▁``)
    joins the next visible token, and at the end of the prompt the last one.

    Where a user's ``spans`` are given, a token across an edge of one is refused, and each token
    outside them is a unit alone, whatever it shares and even if it is blank. Refused is, always, a
    visible character that no token covers, except accents and control characters that a normaliser
    drops. ``offsets`` count from each prompt's own beginning.
    """
    begin = offsets[:, 0] + axis.base[prompt_of]
    end = offsets[:, 1] + axis.base[prompt_of]
    begin, end = _covering(axis, starts, begin, end, first)

    wide = np.flatnonzero(~special & (begin < end))
    left, right = axis.next[begin[wide]], axis.previous[end[wide] - 1]
    visible = left <= right
    shown, left, right = wide[visible], left[visible], right[visible]
    if np.any(np.diff(left) < 0):
        _refuse(axis, int(left[np.flatnonzero(np.diff(left) < 0)[0] + 1]), first, "runs backwards")
    joins = np.ones(shown.size, dtype=bool)  # whether a token may be one of several of a unit
    if spans is not None:
        edges, inside = _marks(axis, spans)
        joins = inside[left]
        crossed = np.cumsum(edges)
        cut = np.flatnonzero(crossed[right] > crossed[left])
        if cut.size:
            a, b = int(left[cut[0]]), int(right[cut[0]]) + 1
            i, char = axis.locate(a)
            raise AlignmentError(
                f"example {first + i}: an edge of a span cuts the token {axis.text[a:b]!r} at "
                f"characters {char} to {char + b - a} of {axis.prompts[i]!r}; "
                "move the edge to where a token begins or ends"
            )

    unit = np.cumsum(starts)  # [char]
    unit -= unit[0]
    n_units = int(unit[-1]) + 1
    # A token over units l … r opens l + 1 … r: each of these is one with the unit before it.
    opened = np.bincount(unit[left] + 1, minlength=n_units + 1)
    closed = np.bincount(unit[right] + 1, minlength=n_units + 1)
    joined = np.cumsum(opened - closed)[:n_units] > 0  # unit u is one with unit u - 1
    merged = np.cumsum(~joined)
    groups = _number(merged[unit[left]], joins, shown, special, prompt_of, axis, first)
    return groups, np.stack([begin, end], axis=1) - axis.base[prompt_of][:, None]


def _number(
    unit: Int[np.ndarray, "shown"],
    joins: Bool[np.ndarray, "shown"],
    shown: Int[np.ndarray, "shown"],
    special: Bool[np.ndarray, "token"],
    prompt_of: Int[np.ndarray, "token"],
    axis: CharacterAxis,
    first: int,
) -> Int[np.ndarray, "token"]:
    """Give blank tokens the units of the ``shown`` ones, then count 0, 1, … per prompt."""
    n_prompts = len(axis.prompts)
    bare = np.flatnonzero(np.bincount(prompt_of[shown], minlength=n_prompts) == 0)
    if bare.size:
        _refuse(axis, int(axis.base[bare[0]]), first, "gives no token at all")
    plain = np.flatnonzero(~special)
    after = np.searchsorted(shown, plain)  # the next shown token, in the same prompt …
    after_or_last = np.minimum(after, shown.size - 1)
    elsewhere = (after == shown.size) | (prompt_of[shown[after_or_last]] != prompt_of[plain])
    home = np.where(elsewhere, after - 1, after_or_last)  # … or else the last one
    fresh = ~joins[home]
    fresh[:1] = True
    fresh[1:] |= np.diff(unit[home]) != 0
    count = np.cumsum(fresh) - 1
    # [prompt]: the first plain token of each, from whose number its units count
    lead = np.searchsorted(prompt_of[plain], np.arange(n_prompts))
    groups = np.full(special.size, -1, dtype=np.int64)
    groups[plain] = count - count[lead][prompt_of[plain]]
    return groups


def _covering(
    axis: CharacterAxis,
    starts: Bool[np.ndarray, "char"],
    begin: Int[np.ndarray, "token"],
    end: Int[np.ndarray, "token"],
    first: int,
) -> tuple[Int[np.ndarray, "token"], Int[np.ndarray, "token"]]:
    """Where tokens begin and end, with the characters that a normaliser composes or drops: accents
    and what is composed with the letters before it (jamo) belong to the token before, a control
    character to the token before or after it in its unit."""
    size = axis.visible.size
    if end.size and (begin.min() < 0 or end.max() > size or np.any(begin > end)):
        raise AlignmentError("the tokenizer's offsets leave the text; use another tokenizer")
    # [char+1]: +1 where a token begins, -1 where one ends; 0 in the sum is in no token
    depth = np.bincount(begin, minlength=size + 1) - np.bincount(end, minlength=size + 1)
    left, joined = np.arange(size + 1), np.zeros(size + 1, dtype=bool)  # [char]: to the one before
    for char in np.flatnonzero(axis.visible & (np.cumsum(depth)[:size] == 0)).tolist():
        kind = unicodedata.category(axis.text[char])
        letters = (axis.text[char - n : char + 1] for n in (1, 2) if n <= char)
        composed = any(len(unicodedata.normalize("NFKC", letter)) == 1 for letter in letters)
        if not composed and kind not in (*_ACCENTS, *_CONTROLS):
            _refuse(axis, char, first, "is in no token")
        if char and axis.visible[char - 1] and (kind not in _CONTROLS or not starts[char]):
            joined[char] = True
        elif char + 1 < size and axis.visible[char + 1] and not starts[char + 1]:
            left[char + 1] = left[char]
    right = np.minimum.accumulate(np.where(joined, size, np.arange(size + 1))[::-1])[::-1]
    wide = begin < end
    return np.where(wide, left[begin], begin), np.where(wide, right[end], end)


def _refuse(axis: CharacterAxis, char: int, first: int, problem: str) -> None:
    i, place = axis.locate(char)
    prompt = axis.prompts[i]
    raise AlignmentError(
        f"example {first + i}: {prompt[place : place + 20]!r}, at character {place} of {prompt!r}, "
        f"{problem} when this tokenizer encodes it, so tokens cannot be matched to the text; "
        "remove that text from the prompt, or use a tokenizer that keeps it"
    )


def blocks(
    axis: CharacterAxis,
    starts: Bool[np.ndarray, "char"],
    spans: Sequence[Sequence[Span]],
) -> Bool[np.ndarray, "char"]:
    """Make each span one unit: ``starts`` with a mark at both edges of a span and none inside.

    Spans belong to their prompts, in order, and do not overlap. Returns the new ``starts``.
    """
    out = np.append(starts, False)  # one more, for the edge after the last character
    for low, high in _on_axis(axis, spans):
        out[low:high] = False
        out[low] = out[high] = True
    return out[:-1]


def _marks(
    axis: CharacterAxis, spans: Sequence[Sequence[Span]]
) -> tuple[Bool[np.ndarray, "char"], Bool[np.ndarray, "char"]]:
    """The characters at both edges of every span, which no token may cross, and those inside."""
    edges, inside = np.zeros((2, axis.visible.size + 1), dtype=bool)
    for low, high in _on_axis(axis, spans):
        edges[low] = edges[high] = True
        inside[low:high] = True
    return edges[:-1], inside[:-1]


def _on_axis(axis: CharacterAxis, spans: Sequence[Sequence[Span]]) -> list[Span]:
    """The spans on the common axis, in order, without blanks at their edges."""
    out = []
    for base, of_prompt in zip(axis.base.tolist(), spans, strict=True):
        for low, high in sorted(of_prompt):
            out.append((int(axis.next[base + low]), int(axis.previous[base + high - 1]) + 1))
    return out
