"""The tables in a summary's lines, found by where their columns are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from interp_compose.notebook import is_row

NUMBER: Final = re.compile(r"nan|[–-]|[−+<-]?\.?\d.{,30}")
"""A number, maybe with its interval, or what is in its place."""


class AlignedTable(NamedTuple):
    """Texts of a table: its heading, or none; rows of as many cells; which columns hold numbers."""

    head: list[str]
    rows: list[list[str]]
    numbers: list[bool]


def tables_of(lines: Iterable[str]) -> list[str | AlignedTable]:
    """Lines of text as they are, without blank ones, and in their place the tables between them.

    A table is two rows or more; a heading that begins as the first one does begins another.
    """
    parts: list[str | AlignedTable] = []
    for are_rows, group in groupby(lines, is_row):
        tables: list[list[str]] = []
        for line in group:
            if not (are_rows and tables) or _is_heading(line, tables[0][0]):
                tables.append([])
            tables[-1].append(line)
        for rows in tables:
            parts += [_table(rows)] if len(rows) > 1 else [line for line in rows if line.strip()]
    return parts


def _table(lines: Sequence[str]) -> AlignedTable:
    """1. Where columns part: blank in all lines, and two characters wide in all, or in all but the
    heading. 2. A column without a cell below its heading is a part of the next one's heading, and
    the last one of that before. 3. The first line is a heading if its first cell is blank, or one
    above numbers is none."""
    width = max(map(len, lines))
    padded = [line.ljust(width) for line in lines]
    starts = [0]
    ink = "".join(" " if set(at) == {" "} else "x" for at in zip(*padded, strict=True))
    for gap in re.finditer(" +", ink):
        is_wide = gap.end() - gap.start() > 1
        if gap.start() > 0 and (is_wide or all(_blanks(line, gap.start()) for line in padded[1:])):
            starts.append(gap.end())
    ends = [*starts[1:], width]
    for k in range(len(starts) - 1, -1, -1):
        if len(starts) > 1 and not any(line[starts[k] : ends[k]].strip() for line in padded[1:]):
            parting = min(k, len(starts) - 2)
            del starts[parting + 1], ends[parting]
    cells = [[line[a:b].strip() for a, b in zip(starts, ends, strict=True)] for line in padded]
    head, rows = cells[0], cells[1:]
    columns = list(zip(*rows, strict=True))
    numbers = [all(_is_number(cell) for cell in column if cell) for column in columns]
    above = [cell for cell, is_number in zip(head, numbers, strict=True) if is_number]
    if head[0] and all(_is_number(cell) for cell in above):
        head, rows = [], cells
    return AlignedTable(head, rows, numbers)


def _is_heading(line: str, first: str) -> bool:
    """Whether it begins as the first heading does; headings hold no digit."""
    is_without = not re.search(r"\d", line + first)
    return is_without and line.split()[0] == first.split()[0]


def _blanks(line: str, place: int) -> bool:
    """Whether two or more blanks are side by side here."""
    return "  " in line[max(place - 1, 0) : place + 2] and line[place] == " "


def _is_number(cell: str) -> bool:
    return NUMBER.fullmatch(cell) is not None
