"""Words of a text → positions of its tokens, from token ids alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from interp_compose.errors import AlignmentError, PositionError, SpanError
from interp_compose.text.units import TokenizedPrompt, Unit, tokenize_prompts


@dataclass(frozen=True, eq=False)
class ReadBack:
    """A text that was read back from its token ids.

    Attributes:
        prompt: the text in units, encoded again.
        first: how many special tokens are before it.
        groups: the unit of each of its tokens.
    """

    prompt: TokenizedPrompt
    first: int
    groups: Sequence[int]

    def units_at(self, length: int) -> list[int]:
        """The unit of each of ``length`` ids, -1 for special tokens at either end."""
        after = length - self.first - len(self.groups)
        return [-1] * self.first + list(self.groups) + [-1] * after


def read_back(
    tokenizer: Any, ids: Sequence[int], *, row: int, remedy: str, unit: Unit = "word"
) -> ReadBack:
    """Token ids as the text that they encode. Special tokens at either end belong to no unit.

    Raises:
        AlignmentError: no text, or one that encodes to other ids.
    """
    special = set(tokenizer.all_special_ids)
    first, stop = 0, len(ids)
    while first < stop and ids[first] in special:
        first += 1
    while stop > first and ids[stop - 1] in special:
        stop -= 1
    inner = [int(token) for token in ids[first:stop]]
    text = tokenizer.decode(inner, clean_up_tokenization_spaces=False)
    if not text.strip():
        raise AlignmentError(f"row {row} holds no text, only special tokens; {remedy}.")
    prompt = tokenize_prompts(tokenizer, [text], unit=unit)[0]
    encoded = [int(token) for token in prompt.ids[prompt.groups >= 0]]
    if encoded != inner:
        raise AlignmentError(
            f"row {row} decodes to {text[:60]!r}, which this tokenizer encodes to other tokens, so "
            f"its words cannot be found with certainty; {remedy}."
        )
    return ReadBack(prompt, first, prompt.groups[prompt.groups >= 0].tolist())


def word_positions(
    tokenizer: Any,
    ids: Sequence[int],
    words: Sequence[str],
    *,
    row: int = 0,
    remedy: str = "pass positions as numbers instead",
) -> list[int]:
    """Positions in ``ids`` of the tokens of each word, every occurrence, ascending.

    A word is a unit ``"word"`` of ``units.py``, or several in a row ("water body"). Upper and lower
    case differ, unless the tokenizer drops the difference. Special tokens at either end belong to
    no word. The decoded text has to encode to the same ids again.

    Args:
        ids: one text without padding.
        row: its index in a batch, for messages.
        remedy: what else may be passed, for messages.

    Raises:
        AlignmentError: the decoded text encodes to other ids.
        PositionError: a word that the text does not have.
    """
    text = read_back(tokenizer, ids, row=row, remedy=remedy)
    units = {
        unit
        for occurrence in _occurrences(tokenizer, text, words, row=row, remedy=remedy)
        for unit in occurrence
    }
    return [position for position, unit in enumerate(text.units_at(len(ids))) if unit in units]


def word_groups(
    tokenizer: Any,
    ids: Sequence[int],
    words: Sequence[str],
    *,
    row: int = 0,
    remedy: str = "pass groups as a tensor instead",
) -> list[int]:
    """A number for each occurrence of a word, at its tokens, and -1 at all others; words, arguments
    and refusals as of :func:`word_positions`.

    Raises:
        AlignmentError, PositionError: see there.
        SpanError: occurrences that share a token.
    """
    text = read_back(tokenizer, ids, row=row, remedy=remedy)
    occurrences = sorted(_occurrences(tokenizer, text, words, row=row, remedy=remedy), key=min)
    for one, other in pairwise(occurrences):
        if max(one) >= min(other):
            raise SpanError(
                f"row {row}: of {', '.join(map(repr, words))} two share a word of "
                f"{text.prompt.text[:60]!r}, and a token is pooled once; name one of them."
            )
    number = {unit: index for index, occurrence in enumerate(occurrences) for unit in occurrence}
    return [number.get(unit, -1) for unit in text.units_at(len(ids))]


def _occurrences(
    tokenizer: Any, text: ReadBack, words: Sequence[str], *, row: int, remedy: str
) -> list[range]:
    """The units of every occurrence of each word, each range once.

    Raises:
        PositionError: a word that the text does not have.
    """
    prompt, occurrences = text.prompt, dict[range, None]()
    for word in words:
        here = _covered(prompt, {_plain(word), _plain(_as_read(tokenizer, word))} - {""})
        if not here:
            known = ", ".join(prompt.group_text(i) for i in range(prompt.n_groups))
            raise PositionError(
                f"row {row} has no word {word!r}; its words are {known[:200]}. Name one of these, "
                f"or {remedy}."
            )
        occurrences |= dict.fromkeys(here)
    return list(occurrences)


def _covered(prompt: TokenizedPrompt, spellings: set[str]) -> list[range]:
    """The units that one of ``spellings`` covers from edge to edge, at every occurrence."""
    edges = [prompt.offsets[prompt.groups == unit] for unit in range(prompt.n_groups)]
    longest = max(map(len, spellings), default=0)
    covered: list[range] = []
    for start in range(prompt.n_groups):
        for stop in range(start, prompt.n_groups):
            text = _plain(prompt.text[edges[start][:, 0].min() : edges[stop][:, 1].max()])
            if text in spellings:
                covered.append(range(start, stop + 1))
            if len(text) >= longest:
                break
    return covered


def _plain(text: str) -> str:
    """The text with single blanks between words."""
    return " ".join(text.split())


def _as_read(tokenizer: Any, word: str) -> str:
    """The word as the tokenizer reads it, such as "don ' t" for "Don't" in an uncased BERT."""
    ids = tokenizer(word, add_special_tokens=False)["input_ids"]
    if tokenizer.unk_token_id in ids:
        return word  # unknown words are all read alike
    text: str = tokenizer.decode(ids, clean_up_tokenization_spaces=False)
    return text
