"""Tables of the pages from ``benchmarks/results/``: a frame of a file, its rows and its columns.

A column is a heading and a template of the frame's columns, as in ``"{mean:.2f} ({n:,})"``.
:func:`table` has a row for each row of the frame. :func:`pivot` moves values of the frame's columns
into headings. :func:`over` puts rows that differ in their seed alone into one, whose cells are
written "mean (smallest–largest)". A cell that lacks a number is a dash.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from string import Formatter
from typing import Any, Final

import pandas as pd

from interp_compose.papers.carma.differences import percent

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
Row = dict[str, Any]
Cell = str | Callable[[Row], str]
Columns = Mapping[str, Cell]
Table = tuple[list[str], list[list[str]]]
"""Headings, and the cells of each row."""
ABSENT: Final = "–"
RIGHT: Final = "{mean:.1points} ({smallest:.1points}–{largest:.1points})"
"""Per cent over seeds."""
DIFFERENCE: Final = "{difference:+.1points} ({ci_low:+.1points} to {ci_high:+.1points})"
"""In points, with the ends of its interval."""
APART: Final = ["difference", "ci_low", "ci_high", "p_holm"]


def read(name: str) -> dict[str, Any]:
    """The file of that name in ``benchmarks/results/``."""
    contents: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return contents


def frame(name: str, key: str) -> pd.DataFrame:
    """A frame of the file of that name."""
    return pd.DataFrame(read(name)[key])


def compared(name: str, place: Sequence[str]) -> pd.DataFrame:
    """The shares of a file, with their differences to the first model's or setting's."""
    differences = frame(name, "differences")[[*place, *APART]]
    return frame(name, "summary").merge(differences, on=list(place), how="left")


def table(rows: pd.DataFrame, columns: Columns | Sequence[tuple[str, Cell]]) -> Table:
    """A row for each row of a frame."""
    pairs = list(columns.items() if isinstance(columns, Mapping) else columns)
    cells = [[cell(template, row) for _, template in pairs] for row in records(rows)]
    return [head for head, _ in pairs], cells


def listed(rows: Sequence[Mapping[str, object]]) -> Table:
    """Rows whose keys are the headings."""
    return [*rows[0]], [[str(value) for value in row.values()] for row in rows]


def pivot(rows: pd.DataFrame, by: Columns, over: Sequence[str], columns: Columns) -> Table:
    """A row for each place that ``by`` writes, with columns for each value of ``over``.

    Rows and columns are in the order in which they first come; a column without any number is left
    out.

    Args:
        rows: at most one for each place and value.
        by: the first columns.
        over: columns of the frame whose values come into the headings.
        columns: templates of headings, and of the cells below them.

    Raises:
        ValueError: two rows have the same place and value.
    """
    heads: dict[tuple[Any, ...], str] = {}
    cells: dict[tuple[str, ...], dict[tuple[Any, ...], str]] = {}
    for row in records(rows):
        place = tuple(cell(template, row) for template in by.values())
        cells_here = cells.setdefault(place, {})
        for head, template in columns.items():
            value = (*(row[name] for name in over), head)
            heads.setdefault(value, cell(head, row))
            if value in cells_here:
                raise ValueError(f"two rows for {place} and {value}")
            cells_here[value] = cell(template, row)
    shown = [
        value
        for value in heads
        if any(here.get(value, ABSENT) != ABSENT for here in cells.values())
    ]
    return [*by, *(heads[value] for value in shown)], [
        [*place, *(here.get(value, ABSENT) for value in shown)] for place, here in cells.items()
    ]


def beside(first: Table, second: Table) -> Table:
    """Two tables of the same first column as one."""
    (heads, rows), (more_heads, more) = first, second
    return heads + more_heads[1:], [a + b[1:] for a, b in zip(rows, more, strict=True)]


def over(rows: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """One row for those that agree in the keys; every other column has the list of their values."""
    return rows.groupby(list(keys), sort=False, dropna=False).agg(list).reset_index()


def together(rows: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """Rows of equal values next to each other, values in the order in which they first come."""
    places = rows[list(columns)].apply(lambda column: pd.factorize(column)[0])
    return rows.loc[places.sort_values(list(columns), kind="stable").index]


def chosen(rows: pd.DataFrame, columns: Sequence[str], values: Iterable[Any]) -> pd.DataFrame:
    """The rows with these values in the columns, in the order of the values."""
    return pd.DataFrame(list(values), columns=list(columns)).merge(rows, on=list(columns))


def records(rows: pd.DataFrame) -> list[Row]:
    """Each row by column."""
    return [{str(name): value for name, value in row.items()} for row in rows.to_dict("records")]


def cell(template: Cell, row: Row) -> str:
    """What a template writes of a row."""
    if not isinstance(template, str):
        return template(row)
    fields = [field for _, field, _, _ in FORMATTER.parse(template) if field]
    if any(_missing(row[field.partition("[")[0]]) for field in fields):
        return ABSENT
    return FORMATTER.vformat(template, (), row)


def _missing(value: Any) -> bool:
    if isinstance(value, list):
        return not value or any(map(_missing, value))
    return value is None or value != value


class _Formatter(Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        return written(value, format_spec)


FORMATTER: Final = _Formatter()


def written(value: Any, style: str) -> str:
    """A value in one of :data:`STYLES`, in per cent where the style ends in "points", or as Python
    formats it; numbers below 0 with a minus; of a list, its spread."""
    if isinstance(value, list):
        return spread(value, style)
    if style.endswith("points"):
        text = format(100 * value, style.replace("points", "f"))
    else:
        text = STYLES[style](value) if style in STYLES else format(value, style)
    return text if isinstance(value, str) else text.replace("-", "−")


def spread(values: Sequence[float], style: str) -> str:
    """Like "12.3 (10.1–14.0)": the mean, the smallest and the largest; of one value itself."""
    middle, low, high = (written(of(values), style) for of in (fmean, min, max))
    between = " to " if style.startswith("+") or min(values) < 0 else "–"
    return middle if len(values) == 1 else f"{middle} ({low}{between}{high})"


def each(name: str, style: str = "", between: str = ", ") -> Cell:
    """All values of a column of lists."""
    return lambda row: between.join(written(value, style) for value in row[name])


def ranged(name: str, style: str) -> str:
    """The template of a column and of the two that end in ``_low`` and ``_high``."""
    return f"{{{name}:{style}}} ({{{name}_low:{style}}}–{{{name}_high:{style}}})"


def merged(template: str) -> Cell:
    """The template; where it writes the same for both ends of a range, the mean alone."""
    return lambda row: re.sub(r"(\S+) \((\S+)–\2\)", r"\1", cell(template, row))


def points(share: float) -> str:
    """In per cent."""
    return f"{100 * share:.1f}"


def hundredths(value: float) -> float:
    """Rounded to two decimals, as percentages in the figures are."""
    return float(f"{100 * value:.0f}") / 100


def share(value: float) -> str:
    """Like ".97", "1.00", "−.02"."""
    text = f"{abs(hundredths(value)):.2f}"
    return "−" * (hundredths(value) < 0) + text.removeprefix("0")


STYLES: Final[Mapping[str, Callable[[float], str]]] = {
    "percent": percent,
    "share": share,
    "hundredths": lambda value: f"{hundredths(value):.2f}",
    "p": lambda value: "< 0.001" if value < 0.001 else f"{value:.3f}",
}
"""What templates know besides Python's formats and points."""


def markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; numbers below 0 with a minus, and with "to" in a range."""
    lines = [heads, ["---"] * len(heads), *([_signed(text) for text in row] for row in rows)]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _signed(text: str) -> str:
    return re.sub(r"(−[\d.]+)–", r"\1 to ", re.sub(r"(?<![\w-])-(?=\d)", "−", text))
