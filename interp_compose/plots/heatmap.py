"""What a heat map says, apart from how it is drawn.

Colours are chosen in :mod:`.heatmap_scale`; it is laid out in :mod:`.heatmap_layout`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, TypeGuard

from interp_compose.errors import InputError
from interp_compose.plots.canvas import LONGEST
from interp_compose.plots.chart import short, short_each, subtitle_of

LONGEST_ROW: Final = 54  # characters of a label
LONGEST_COLUMN: Final = 16
MOST_DECIMALS: Final = 4
NOT_MEASURED: Final = "not measured"
GREY_MEANS: Final = f"grey: {NOT_MEASURED}"


def with_notes(subtitle: str, *notes: str) -> str:
    """A subtitle, short enough for the picture, and behind it the notes that are not empty."""
    note = subtitle_of(*notes)
    return subtitle_of(short(subtitle, LONGEST - len(note) - 3 * bool(note)), note)


def is_measured(value: float | None) -> TypeGuard[float]:
    """Whether there is a number."""
    return value is not None and not math.isnan(value)


def check_cells(
    name: str, table: Sequence[Sequence[object]], rows: Sequence[str], columns: Sequence[str]
) -> None:
    """Refuse a table that is not a cell for each row and column.

    Raises:
        InputError: no row, no column, or more or fewer cells.
    """
    if not (rows and columns):
        raise InputError(f"{len(rows)} rows and {len(columns)} columns; pass some of each")
    lengths = [len(row) for row in table]
    if lengths != [len(columns)] * len(rows):
        raise InputError(
            f"{name}: {len(table)} rows, of lengths {short(str(lengths))}; expected {len(rows)} "
            f"rows of {len(columns)}, a cell for each label (None where nothing was measured)"
        )


def fitting(largest: float, spread: float) -> str:
    """A format for numbers of at most this size: two digits of their spread, or of the numbers
    where they do not differ, and three of the largest as far as that is two decimals. More than
    :data:`MOST_DECIMALS`, and six digits before the point, are powers of ten."""
    if not largest:
        return ".2f"
    # A little more, or rounding would make 0.1 smaller than itself.
    size, step = (math.floor(math.log10(one) + 1e-9) for one in (largest, spread or largest))
    decimals = max(1 - step, min(2 - size, 2), 0)
    if size >= 6 or (decimals > MOST_DECIMALS and size < -2):
        return f".{min(max(size - step, 0) + 1, MOST_DECIMALS)}e"
    return f".{min(decimals, MOST_DECIMALS)}f"


@dataclass(frozen=True)
class HeatMap:
    """A number for each row and column; rows are drawn from top to bottom in the order given.

    ``values`` [rows, columns] hold None or NaN where there is no number: a grey cell, struck
    through, which means ``gap_name``. ``value_name`` is the title of the colour bar;
    ``value_format`` how a number is written, as :func:`format` knows it, by default in as many
    digits as tell the map's numbers apart (:func:`fitting`). ``diverging`` centres the
    colours on 0; ``log`` spreads them over the values' logarithms. ``limits`` are the ends of the
    colours where not the smallest and the largest value should be; what lies beyond has an end's
    colour. ``marked`` cells (row, column) get a ``mark``, which means ``mark_name``; ``hatched``
    cells are hatched, which means ``hatch_name``. ``hover`` [rows, columns] is a further line for
    the interactive figure; an empty text is left out.

    Raises:
        InputError: no row or no column; more or fewer cells than these have; an infinite value;
            several of ``log``, ``diverging`` and ``limits``; ``limits`` that are no interval;
            ``log`` with a value that is not positive; a mark or hatching that has no name, no
            cell or no number.
    """

    title: str
    subtitle: str
    x_title: str
    y_title: str
    columns: Sequence[str]
    rows: Sequence[str]
    values: Sequence[Sequence[float | None]]
    value_name: str
    diverging: bool = False
    log: bool = False
    value_format: str = ""
    marked: Sequence[tuple[int, int]] = ()
    mark_name: str = ""
    hover: Sequence[Sequence[str]] = ()
    mark: Literal["dot", "triangle"] = "dot"
    hatched: Sequence[tuple[int, int]] = ()
    hatch_name: str = ""
    limits: tuple[float, float] | None = None
    gap_name: str = NOT_MEASURED

    def __post_init__(self) -> None:
        check_cells("values", self.values, self.rows, self.columns)
        if self.hover:
            check_cells("hover", self.hover, self.rows, self.columns)
        if self.log + self.diverging + (self.limits is not None) > 1:
            raise InputError(
                f"log={self.log}, diverging={self.diverging} and limits={self.limits} exclude one "
                "another; pass one of them"
            )
        if self.limits is not None and not -math.inf < self.limits[0] < self.limits[1] < math.inf:
            raise InputError(f"limits={self.limits}; expected two finite numbers, the lower first")
        for i, j, value in self.measured:
            where = f"row {short(self.rows[i])!r}, column {short(self.columns[j])!r} is {value}"
            if math.isinf(value):
                raise InputError(
                    f"{where}; expected a finite number, or None where nothing was measured"
                )
            if self.log and value <= 0:
                raise InputError(f"{where}, which has no logarithm; pass log=False")
        measured = {(i, j) for i, j, _ in self.measured}
        for cells, name in ((self.marked, "mark_name"), (self.hatched, "hatch_name")):
            if cells and not getattr(self, name):
                raise InputError(f"the cells {list(cells)} have no {name}; say what it means")
            if empty := set(cells) - measured:
                raise InputError(
                    f"{name}: the cells {sorted(empty)} hold no number; expected measured ones in "
                    f"rows 0 … {len(self.rows) - 1} and columns 0 … {len(self.columns) - 1}"
                )

    @property
    def subheading(self) -> str:
        """The subtitle, short enough for the picture, and what marks and grey cells mean."""
        hatched = f"hatched: {short(self.hatch_name, 40)}" if self.hatched else ""
        marked = f"{self.mark}: {short(self.mark_name, 40)}" if self.marked else ""
        return with_notes(
            self.subtitle, hatched, marked, f"grey: {self.gap_name}" if self.gaps else ""
        )

    @property
    def row_labels(self) -> list[str]:
        return short_each(self.rows, LONGEST_ROW)

    @property
    def column_labels(self) -> list[str]:
        return short_each(self.columns, LONGEST_COLUMN)

    @property
    def measured(self) -> list[tuple[int, int, float]]:
        """Row, column and number of each cell that has one."""
        return [
            (i, j, value)
            for i, row in enumerate(self.values)
            for j, value in enumerate(row)
            if is_measured(value)
        ]

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """Row and column of each cell without a number."""
        return [
            (i, j)
            for i, row in enumerate(self.values)
            for j, value in enumerate(row)
            if not is_measured(value)
        ]

    @cached_property
    def _number_format(self) -> str:
        """``value_format``, or what fits what colours span: the limits, else the numbers, and 0
        where it is their middle; of logarithms, the smallest number."""
        if self.value_format:
            return self.value_format
        shown = [value for _, _, value in self.measured]
        shown += [0.0] * self.diverging + [*(self.limits or ())]
        smallest, largest = min(shown, default=0.0), max(shown, default=0.0)
        return fitting(max(-smallest, largest), smallest if self.log else largest - smallest)

    def text(self, row: int, column: int) -> str:
        """A cell's number as it is written, or what it means that there is none."""
        value = self.values[row][column]
        if not is_measured(value):
            return self.gap_name
        text = format(value, self._number_format)
        if not any(digit in text for digit in "123456789"):
            text = format(0.0, self._number_format)  # no "-0.00"
        return text.replace("-", "\N{MINUS SIGN}")
