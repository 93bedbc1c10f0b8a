"""A user's own examples: JSON lines or dictionaries with ``prompt`` and ``answer``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from interp_compose._public import public
from interp_compose.errors import DataFormatError
from interp_compose.tasks.rows import Keys, Row, Source, Tables, cell, read_all, shown
from interp_compose.types import Example, Span

ExampleRow = Example | Row
"""What a study takes for an example; of two texts in a row the second is the answer."""
ExampleRows = Iterable[ExampleRow] | Tables
NAMED_ENDS = (["start", "end"], ["start", "stop"])
KEYS = Keys(("prompt", "answer"), ("spans", "tree", "target", "foil"), no_texts=("spans",))


@public
def read_examples(source: Source) -> tuple[Example, ...]:
    """Examples from a JSONL file (UTF-8, one object a line, blank lines skipped) or from rows: a
    list, or a table of pandas, polars, arrow or the hub.

    A row has ``prompt`` and ``answer`` (the exact text that follows, its leading space included),
    and may have ``spans``, a list of ``[start, end)`` character ranges of the prompt, ``tree``, a
    bracketing of its words, for encoder–decoders ``target``, with which the target begins, and
    ``foil``, a wrong alternative to the answer.

    Raises ``MissingDataError`` if there is no such file and ``DataFormatError`` for bad rows: it
    names the first 20 (the line of a file; counted from 1) and what is wrong with each.
    """

    def read(row: Any, where: str) -> Example:
        example = read_example(row, where)
        if not isinstance(source, str | Path):
            return example
        return replace(example, where=where.replace(str(source), Path(source).name, 1))

    examples = tuple(read_all(source, read))
    if not examples:
        raise DataFormatError(
            f"{source if isinstance(source, str | Path) else 'the list of examples'} is empty; "
            'expected rows like {"prompt": "a young cat is called a \\"", "answer": "kitten"}'
        )
    return examples


def read_example(row: Any, where: str) -> Example:
    """One row; ``where`` names it in the ``DataFormatError`` that a bad one raises.

    An ``Example`` is handed through; for other rows see :meth:`.rows.Keys.row`.
    """
    if isinstance(row, Example):
        return row
    row = KEYS.row(row, where, "an Example")
    return Example(**{**row, "spans": _spans(row, where)})


def _spans(row: Mapping[str, Any], where: str) -> tuple[Span, ...] | None:
    spans = row.get("spans")
    if spans is None:
        return None
    expected = "give a list of [start, end] character ranges of the prompt, end not included"
    if not isinstance(spans, list):
        raise DataFormatError(f"{where} has {cell(row, 'spans')}; {expected}")
    # Ends with names are read by them: of (start, length) the second is no end.
    spans = [
        [*span.values()] if isinstance(span, dict) and [*span] in NAMED_ENDS else span
        for span in spans
    ]
    for span in spans:
        whole = isinstance(span, list) and [type(bound) for bound in span] == [int, int]
        if not whole or not 0 <= span[0] < span[1] <= len(row["prompt"]):
            raise DataFormatError(
                f"{where} has the span {shown(span)} in a prompt of {len(row['prompt'])} "
                f"characters; {expected}"
            )
    ordered = sorted(tuple(span) for span in spans)
    for one, two in pairwise(ordered):
        if two[0] < one[1]:
            raise DataFormatError(f"{where} has the overlapping spans {one} and {two}; {expected}")
    return tuple((low, high) for low, high in spans)
