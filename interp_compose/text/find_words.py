"""Words of a text → positions of its tokens, from token ids alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from interp_compose.errors import AlignmentError, PositionError
from interp_compose.text.units import TokenizedPrompt, tokenize_prompts
from interp_compose.types import Example


def word_positions(
    tokenizer: Any, ids: Sequence[int], words: Sequence[str], *, row: int = 0
) -> list[int]:
    """Positions in ``ids`` of the tokens of each word, every occurrence, ascending.

    A word is a unit ``"word"`` of ``units.py``, or several in a row ("water body"). Upper and lower
    case differ, unless the tokenizer drops the difference. Special tokens at either end belong to
    no word. The decoded text has to encode to the same ids again.

    Args:
        ids: one text without padding.
        row: its index in a batch, for messages.

    Raises:
        AlignmentError: the decoded text encodes to other ids.
        PositionError: a word that the text does not have.
    """
    special = set(tokenizer.all_special_ids)
    first, stop = 0, len(ids)
    while first < stop and ids[first] in special:
        first += 1
    while stop > first and ids[stop - 1] in special:
        stop -= 1
    inner = [int(token) for token in ids[first:stop]]
    text = tokenizer.decode(inner, clean_up_tokenization_spaces=False)
    remedy = "pass positions as numbers instead"
    if not text.strip():
        raise AlignmentError(f"row {row} holds no text, only special tokens; {remedy}.")
    prompt = tokenize_prompts(tokenizer, [Example(text, "")])[0]
    encoded = [int(token) for token in prompt.ids[prompt.groups >= 0]]
    if encoded != inner:
        raise AlignmentError(
            f"row {row} decodes to {text[:60]!r}, which this tokenizer encodes to other tokens, so "
            f"its words cannot be found with certainty; {remedy}."
        )
    groups = prompt.groups[prompt.groups >= 0]
    positions: set[int] = set()
    for word in words:
        units = _occurrences(prompt, {_plain(word), _plain(_as_read(tokenizer, word))} - {""})
        if not units:
            known = ", ".join(prompt.group_text(i) for i in range(prompt.n_groups))
            raise PositionError(
                f"row {row} has no word {word!r}; its words are {known[:200]}. Name one of these, "
                f"or {remedy}."
            )
        positions |= {first + at for at, unit in enumerate(groups) if int(unit) in units}
    return sorted(positions)


def _occurrences(prompt: TokenizedPrompt, spellings: set[str]) -> set[int]:
    """The units that one of ``spellings`` covers from edge to edge, at every occurrence."""
    edges = [prompt.offsets[prompt.groups == unit] for unit in range(prompt.n_groups)]
    longest = max(map(len, spellings), default=0)
    units: set[int] = set()
    for start in range(prompt.n_groups):
        for stop in range(start, prompt.n_groups):
            text = _plain(prompt.text[edges[start][:, 0].min() : edges[stop][:, 1].max()])
            if text in spellings:
                units |= set(range(start, stop + 1))
            if len(text) >= longest:
                break
    return units


def _plain(text: str) -> str:
    """With single blanks between words."""
    return " ".join(text.split())


def _as_read(tokenizer: Any, word: str) -> str:
    """The word as the tokenizer reads it, such as "don ' t" for "Don't" in an uncased BERT."""
    ids = tokenizer(word, add_special_tokens=False)["input_ids"]
    if tokenizer.unk_token_id in ids:
        return word  # unknown words are all read alike
    text: str = tokenizer.decode(ids, clean_up_tokenization_spaces=False)
    return text
