"""Examples that cannot be measured: all are named at once, or left out and counted."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from interp_compose.errors import (
    AlignmentError,
    AnswerError,
    DataFormatError,
    InputError,
    PromptError,
    SpanError,
    together,
)
from interp_compose.studies.core.options import OnBad
from interp_compose.types import Example

T = TypeVar("T")
ALONE: Final = re.compile(r"\b(?:(example|pair) 0|(row) 1)\b")
"""How a message names an example that was checked alone; rows are counted from 1."""
REASONS: Final[Mapping[type[InputError], str]] = {
    AnswerError: "answer",
    PromptError: "prompt",
    SpanError: "spans or tree",
    AlignmentError: "tokens",
    DataFormatError: "row",
}
"""What of an example cannot be used, by what is raised."""
REMEDY: Final = 'correct them, or pass on_bad="skip" (--on-bad skip), which leaves them out'
BY_HAND: Final = "correct them, or leave them out"
NONE_LEFT: Final = "none is left; correct them"


def sound(
    rows: Sequence[Any],
    prepared: Callable[[Sequence[Any]], list[T]],
    on_bad: OnBad | None,
    what: str = "examples",
) -> tuple[list[T], dict[str, int]]:
    """What ``prepared`` makes of ``rows``, each with its place as its ``index``; and, where bad
    ones were left out, how many for which reason.

    If ``prepared`` refuses the rows, each is tried alone, to find all that are bad. What is wrong
    with all of them together, and no single one, is raised as it is. ``on_bad`` is None where it
    cannot be asked for.

    Raises:
        InputError: rows are bad and none may be left out, or all are bad; names the first 20, each
            with its place and, of a file, its line. Of the class of what is wrong with them, where
            that is the same for all.
    """
    try:
        return prepared(rows), {}
    except InputError:
        bad = dict(_problems(rows, prepared))
        if not bad:
            raise
    if on_bad != "skip" or len(bad) == len(rows):
        remedy = REMEDY if on_bad == "refuse" and len(bad) < len(rows) else BY_HAND
        remedy = NONE_LEFT if on_bad == "skip" else remedy
        raise together(list(bad.values()), len(rows), what, remedy)
    places = [place for place in range(len(rows)) if place not in bad]
    kept = prepared([rows[place] for place in places])
    items: list[Any] = [replace(one, index=at) for one, at in zip(kept, places, strict=True)]  # type: ignore[type-var]
    counts = Counter(REASONS.get(type(one), "other") for one in bad.values())
    return items, dict(counts.most_common())


def _problems(
    rows: Sequence[Any], prepared: Callable[[Sequence[Any]], object]
) -> list[tuple[int, InputError]]:
    problems = []
    for place, row in enumerate(rows):
        try:
            with warnings.catch_warnings(action="ignore"):  # which are of all rows together
                prepared([row])
        except InputError as problem:
            if ALONE.search(str(problem)) is None:
                continue
            line = row.where if isinstance(row, Example) else ""
            more = f" ({line})" if line else ""
            text = ALONE.sub(
                lambda name: f"{name[1]} {place}{more}" if name[1] else f"row {place + 1}{more}",  # noqa: B023
                str(problem),
                count=1,
            )
            problems.append((place, type(problem)(text)))
    return problems
