"""A user's own examples: JSON lines or dictionaries with ``prompt`` and ``answer``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from interp_compose._public import public
from interp_compose.errors import DataFormatError, MissingDataError
from interp_compose.runs.files import json_value
from interp_compose.types import Example, Span

KEYS = ("prompt", "answer", "spans", "tree")


@public
def read_examples(source: str | Path | Iterable[Any]) -> tuple[Example, ...]:
    """Examples from a JSONL file (UTF-8, one object a line, blank lines skipped) or from rows.

    A row has ``prompt`` and ``answer`` (the exact text that follows, its leading space included),
    and may have ``spans``, a list of ``[start, end)`` character ranges of the prompt, and
    ``tree``, a bracketing of its words.

    Raises ``MissingDataError`` if there is no such file and ``DataFormatError`` for a bad row: it
    names the row (the line of a file; counted from 1) and what is wrong with it.
    """
    if isinstance(source, str | Path):
        rows, where = _lines(Path(source)), f"{source}, line"
    else:
        rows, where = enumerate(source, start=1), "row"
    examples = tuple(read_example(row, f"{where} {number}") for number, row in rows)
    if not examples:
        raise DataFormatError(
            f"{source if isinstance(source, str | Path) else 'the list of examples'} is empty; "
            'expected rows like {"prompt": "a young cat is called a \\"", "answer": "kitten"}'
        )
    return examples


def _lines(path: Path) -> Iterator[tuple[int, Any]]:
    if not path.is_file():
        raise MissingDataError(
            f"there is no file {path}; expected JSON lines, one object with prompt and answer each"
        )
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        if not line.strip():
            continue
        try:
            yield number, json_value(line.decode("utf-8-sig" if number == 1 else "utf-8"))
        except ValueError as error:
            raise DataFormatError(
                f"{path}, line {number} is not JSON ({error}): {line[:80]!r}; "
                "write one object a line, in UTF-8"
            ) from error


def read_example(row: Any, where: str) -> Example:
    """One row; ``where`` names it in the ``DataFormatError`` that a bad one raises.

    An ``Example`` is handed through; NaN, pandas' sign for nothing, counts as absent.
    """
    if isinstance(row, Example):
        return row
    if not isinstance(row, Mapping):
        raise DataFormatError(
            f"{where} is {_shown(row)}; expected an Example or an object with prompt and answer "
            '(of a pandas frame: frame.to_dict("records"))'
        )
    row = {key: value for key, value in row.items() if value == value}
    unknown = [key for key in row if key not in KEYS]
    if unknown:
        raise DataFormatError(
            f"{where} has the unknown key {unknown[0]!r}; the keys are {', '.join(KEYS)}"
        )
    for key in ("prompt", "answer"):
        value = row.get(key)
        if not isinstance(value, str) or not value.strip():
            came = f"{_shown(value)} as its {key}" if key in row else f"no {key}"
            raise DataFormatError(f"{where} has {came}; give a text that is not blank")
    tree = row.get("tree")
    if tree is not None and not isinstance(tree, str):
        raise DataFormatError(
            f"{where} has {_shown(tree)} as its tree; give a bracketing such as "
            "'(NP (DT the) (NN dog))', or leave it out"
        )
    return Example(row["prompt"], row["answer"], _spans(row, where), tree)


def _spans(row: Mapping[str, Any], where: str) -> tuple[Span, ...] | None:
    spans = row.get("spans")
    if spans is None:
        return None
    expected = "give a list of [start, end] character ranges of the prompt, end not included"
    if not isinstance(spans, list | tuple):
        raise DataFormatError(f"{where} has {_shown(spans)} as its spans; {expected}")
    for span in spans:
        whole = isinstance(span, list | tuple) and [type(bound) for bound in span] == [int, int]
        if not whole or not 0 <= span[0] < span[1] <= len(row["prompt"]):
            raise DataFormatError(
                f"{where} has the span {_shown(span)} in a prompt of {len(row['prompt'])} "
                f"characters; {expected}"
            )
    ordered = sorted(tuple(span) for span in spans)
    for one, two in pairwise(ordered):
        if two[0] < one[1]:
            raise DataFormatError(f"{where} has the overlapping spans {one} and {two}; {expected}")
    return tuple((int(low), int(high)) for low, high in spans)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
