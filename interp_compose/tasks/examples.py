"""A user's own examples: JSON lines or dictionaries with ``prompt`` and ``answer``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from interp_compose._public import public
from interp_compose.errors import DataFormatError
from interp_compose.tasks.rows import Keys, cell, mapping_of, read_all, shown
from interp_compose.types import Example, Span

ExampleRow = Example | Mapping[str, Any] | tuple[Any, Any]
"""What a study takes for an example; of a pair of texts the second is the answer."""
KEYS = Keys(("prompt", "answer"), ("spans", "tree", "target"))


@public
def read_examples(source: str | Path | Iterable[Any]) -> tuple[Example, ...]:
    """Examples from a JSONL file (UTF-8, one object a line, blank lines skipped) or from rows.

    A row has ``prompt`` and ``answer`` (the exact text that follows, its leading space included),
    and may have ``spans``, a list of ``[start, end)`` character ranges of the prompt, ``tree``, a
    bracketing of its words, and, for encoder–decoders, ``target``, with which the target begins.

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

    An ``Example`` is handed through, a tuple of two texts is a prompt and its answer; NaN,
    pandas' sign for nothing, counts as absent.
    """
    if isinstance(row, Example):
        return row
    if isinstance(row, tuple) and len(row) == 2:
        row = dict(zip(("prompt", "answer"), row, strict=True))
    alone = "; a single example goes into a list" * isinstance(row, str)
    fits = f"an Example, (prompt, answer) or an object with these two{alone}"
    row = mapping_of(row, where, fits)
    row = {key: value for key, value in row.items() if value == value}
    KEYS.check(row, where)
    KEYS.check_texts(row, ("prompt", "answer"), where)
    tree = row.get("tree")
    if tree is not None and not isinstance(tree, str):
        raise DataFormatError(
            f"{where} has {cell(row, 'tree')}; give a bracketing such as "
            "'(NP (DT the) (NN dog))', or leave it out"
        )
    target = row.get("target") or ""
    if not isinstance(target, str):
        raise DataFormatError(
            f"{where} has {cell(row, 'target')}; give the text before the answer in the target, or "
            "leave it out"
        )
    return Example(row["prompt"], row["answer"], _spans(row, where), tree, target)


def _spans(row: Mapping[str, Any], where: str) -> tuple[Span, ...] | None:
    spans = row.get("spans")
    if spans is None:
        return None
    expected = "give a list of [start, end] character ranges of the prompt, end not included"
    if not isinstance(spans, list | tuple):
        raise DataFormatError(f"{where} has {cell(row, 'spans')}; {expected}")
    for span in spans:
        whole = isinstance(span, list | tuple) and [type(bound) for bound in span] == [int, int]
        if not whole or not 0 <= span[0] < span[1] <= len(row["prompt"]):
            raise DataFormatError(
                f"{where} has the span {shown(span)} in a prompt of {len(row['prompt'])} "
                f"characters; {expected}"
            )
    ordered = sorted(tuple(span) for span in spans)
    for one, two in pairwise(ordered):
        if two[0] < one[1]:
            raise DataFormatError(f"{where} has the overlapping spans {one} and {two}; {expected}")
    return tuple((int(low), int(high)) for low, high in spans)
