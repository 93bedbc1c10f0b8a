"""Pairs of prompts between which a phrase is exchanged, from a file, from rows, or a shipped task.

A pair says what the model should answer if the source's phrase stood in the target's place. The
``composed`` prompt says the same as text, where it is known: there the phrase has been exchanged
before the model reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from interp_compose._public import public
from interp_compose.errors import DataFormatError, OptionError, SpanError
from interp_compose.tasks.load import HasTokenizer
from interp_compose.tasks.prompts import prompt_for
from interp_compose.tasks.rows import Keys, Row, Source, cell, read_all, shown, unknown_task
from interp_compose.tasks.table import names_of, row_of
from interp_compose.types import Span


@public
@dataclass(frozen=True)
class TransplantPair:
    """Two prompts, a phrase of each, and two answers.

    ``source_span`` and ``target_span`` are character ranges ``[start, end)`` of the phrases.
    ``expected`` is the exact text that should follow the target if it had the source's phrase,
    ``answer`` the one that follows it as it is, leading spaces included: one token each or, where
    :func:`transplant` allows them, several. ``composed``, which may be
    left out, is the prompt in which the phrase is exchanged as text. ``source_type`` and
    ``target_type`` say what kind of phrase each is, such as NP or head, in words of your own; they
    have to be the same. ``source_answer``, which may be left out, is the source's own answer,
    another one than the expected: a model that gives it has remembered what the phrase was read
    with.
    """

    source: str
    source_span: Span
    target: str
    target_span: Span
    expected: str
    answer: str
    composed: str = ""
    source_type: str = ""
    target_type: str = ""
    source_answer: str = ""

    @property
    def source_phrase(self) -> str:
        """The text that is taken."""
        return self.source[slice(*self.source_span)]

    @property
    def target_phrase(self) -> str:
        """The text that is replaced."""
        return self.target[slice(*self.target_span)]


KEYS: Final = Keys(
    ("source", "source_span", "target", "target_span", "expected", "answer"),
    ("composed", "source_type", "target_type", "source_answer"),
    no_texts=("source_span", "target_span"),
)
TransplantRow = TransplantPair | Row
EXPECTED: Final = "give [start, end], a character range of the prompt, end not included"


def read_transplants(source: Source) -> tuple[TransplantPair, ...]:
    """Pairs from a JSONL file (UTF-8, one object a line, blank lines skipped) or from rows.

    A row has the fields of :class:`TransplantPair`.

    Raises:
        MissingDataError: there is no such file.
        DataFormatError: a garbled row, which it names (the line of a file, counted from 1).
        SpanError: a span that is empty, holds only blanks or leaves its prompt; a pair whose
            phrases have different types.
    """
    pairs = tuple(read_all(source, read_transplant, row="pair", first=0))
    if not pairs:
        raise DataFormatError(
            f"{source if isinstance(source, str | Path) else 'the list of pairs'} is empty; "
            f"expected rows with {', '.join(KEYS.needed)}"
        )
    return pairs


def read_transplant(row: Any, where: str) -> TransplantPair:
    """One row; ``where`` names it in messages."""
    pair = row if isinstance(row, TransplantPair) else _pair(row, where)
    _check(pair, where)
    return pair


def _pair(row: Any, where: str) -> TransplantPair:
    """The fields of a row, of their types."""
    given = KEYS.row(row, where, "a TransplantPair (ic.load_transplants)")
    spans = {f"{side}_span": _span(given, side, where) for side in ("source", "target")}
    return TransplantPair(**{**given, **spans})


def _span(row: Mapping[str, Any], side: str, where: str) -> Span:
    span = row.get(f"{side}_span")
    if not isinstance(span, list) or [type(bound) for bound in span] != [int, int]:
        raise DataFormatError(f"{where} has {cell(row, f'{side}_span')}; {EXPECTED}")
    return span[0], span[1]


def _check(pair: TransplantPair, where: str) -> None:
    for side in ("source", "target"):
        prompt, (low, high) = getattr(pair, side), getattr(pair, f"{side}_span")
        if not 0 <= low < high <= len(prompt):
            raise SpanError(
                f"{where}: the span ({low}, {high}) is empty or leaves its {side} prompt of "
                f"{len(prompt)} characters; {EXPECTED}"
            )
        if prompt[low:high].isspace():
            raise SpanError(
                f"{where}: the span ({low}, {high}) of its {side} prompt {shown(prompt)} holds "
                f"only blanks; {EXPECTED}"
            )
    if pair.source_type != pair.target_type:
        raise SpanError(
            f"{where}: its source phrase {shown(pair.source_phrase)} is of the type "
            f"{pair.source_type!r} and the target's {shown(pair.target_phrase)} of the type "
            f"{pair.target_type!r}, where only phrases of that type fit; choose one, or leave both "
            "types out"
        )


@public
def load_transplants(
    name: str | Path, model: HasTokenizer, *, seed: int = 42, multi_token_answers: bool = False
) -> tuple[TransplantPair, ...]:
    """Pairs for one model.

    Args:
        name: the shipped ``"mini-idm"``; ``"anchors"``, sequences with test keys of the anchor
            task as it is by default; ``"scan"``, commands whose verb phrases or primitives are
            exchanged, 400 pairs each; or the path of a ``.jsonl`` file of
            your own, whose rows have the fields of :class:`TransplantPair`.
        model: read for its ``tokenizer`` (which answers are one token) and its ``architecture``
            (which chooses the prompt of ``mini-idm``).
        seed: orders the shipped pairs, and draws those of ``"anchors"`` and ``"scan"``; a file
            keeps its order.
        multi_token_answers: of the shipped pairs, keep those with answers of several tokens too.

    Raises:
        OptionError: an unknown name, or a model without a tokenizer.
        MissingDataError: there is no such file.
        DataFormatError, SpanError: a garbled row; names the line.
        AnswerError: the answers are not single tokens for this model.
    """
    name = str(name)
    pairs = check_pairs(name)
    if pairs is not None:
        return pairs
    row = row_of("transplants", name)
    assert row is not None
    given = {"seed": seed, "several": multi_token_answers}
    if "tokenizer" not in row.takes:
        drawn: tuple[TransplantPair, ...] = row.load(**given)
        return drawn
    if model.tokenizer is None:
        raise OptionError(
            f"the model {model.name!r} has no tokenizer, which the pairs {name!r} need; "
            "load the model with tokenizer=..."
        )
    prompt = prompt_for(model.architecture, name.removeprefix("mini-"))
    shipped: tuple[TransplantPair, ...] = row.load(
        tokenizer=model.tokenizer, prompt=prompt, **given
    )
    return shipped


def check_pairs(name: str) -> tuple[TransplantPair, ...] | None:
    """Refuse what :func:`load_transplants` refuses of a task without its model; the pairs of a
    file."""
    if name.endswith(".jsonl"):
        return read_transplants(name)
    if row_of("transplants", name) is None:
        subject = f"pairs {name!r} are"
        raise unknown_task(subject, name, names_of("transplants"), KEYS, "transplant", (".jsonl",))
    return None
