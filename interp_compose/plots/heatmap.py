"""What a heat map says, apart from how it is drawn.

Colours are chosen in :mod:`.heatmap_scale`, sizes and ticks in :mod:`.heatmap_layout`; it is a
scene in :mod:`.heatmap_scene`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeGuard

from interp_compose.errors import InputError
from interp_compose.plots.canvas import LONGEST
from interp_compose.plots.chart import short, short_each

LONGEST_ROW: Final = 54  # characters of a label
LONGEST_COLUMN: Final = 16
NOT_MEASURED: Final = "not measured"
GREY_MEANS: Final = f"grey: {NOT_MEASURED}"


def with_notes(subtitle: str, *notes: str) -> str:
    """A subtitle, short enough for the picture, and behind it the notes that are not empty."""
    told = " · ".join(filter(None, notes))
    if not (subtitle and told):
        return told or short(subtitle, LONGEST)
    return f"{short(subtitle, LONGEST - len(told) - 3)} · {told}"


def is_measured(value: float | None) -> TypeGuard[float]:
    """Whether there is a number."""
    return value is not None and not math.isnan(value)


@dataclass(frozen=True)
class HeatMap:
    """A number for each row and column; rows are drawn from top to bottom in the order given.

    ``values`` [rows, columns] hold None or NaN where there is no number: a grey cell, struck
    through, which means ``gap_name``. ``value_name`` is the title of the colour bar;
    ``value_format`` how a number is written, as :func:`format` knows it. ``diverging`` centres the
    colours on 0; ``log`` spreads them over the values' logarithms. ``limits`` are the ends of the
    colours where not the smallest and the largest value should be; what lies beyond has an end's
    colour. ``marked`` cells (row, column) get a ``mark``, which means ``mark_name``; ``hatched``
    cells are hatched, which means ``hatch_name``. ``hover`` [rows, columns] is a further line for
    the interactive figure; an empty text is left out.

    Raises:
        InputError: no row or no column; rows of another length; an infinite value; ``log`` with
            a value that is not positive, or with ``diverging``; ``limits`` that are no interval
            or come with one of these two; a mark or hatching that has no name, no cell or no
            number.
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
    value_format: str = ".2f"
    marked: Sequence[tuple[int, int]] = ()
    mark_name: str = ""
    hover: Sequence[Sequence[str]] = ()
    mark: Literal["dot", "triangle"] = "dot"
    hatched: Sequence[tuple[int, int]] = ()
    hatch_name: str = ""
    limits: tuple[float, float] | None = None
    gap_name: str = NOT_MEASURED

    def __post_init__(self) -> None:
        if not self.rows or not self.columns:
            raise InputError(
                f"a heat map of {len(self.rows)} rows and {len(self.columns)} columns; pass at "
                "least one of each"
            )
        self._check_shape("values", self.values)
        if self.hover:
            self._check_shape("hover", self.hover)
        self._check_values()
        self._check_marks("marked", self.marked, "mark_name", f"{self.mark}s")
        self._check_marks("hatched", self.hatched, "hatch_name", "lines")

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

    def text(self, row: int, column: int) -> str:
        """A cell's number as it is written, or what it means that there is none."""
        value = self.values[row][column]
        if not is_measured(value):
            return self.gap_name
        text = format(value, self.value_format)
        if not any(digit in text for digit in "123456789"):
            text = format(0.0, self.value_format)  # no "-0.00"
        return text.replace("-", "\N{MINUS SIGN}")

    def _check_shape(self, name: str, table: Sequence[Sequence[object]]) -> None:
        if len(table) != len(self.rows):
            raise InputError(
                f"{name} have {len(table)} rows; expected {len(self.rows)}, one for each label"
            )
        for label, row in zip(self.rows, table, strict=True):
            if len(row) != len(self.columns):
                raise InputError(
                    f"{name} of row {short(label)!r} are {len(row)}; expected "
                    f"{len(self.columns)}, one for each column (None where nothing was measured)"
                )

    def _check_values(self) -> None:
        if self.log and self.diverging:
            raise InputError("log=True and diverging=True: a logarithm has no 0 to centre on")
        if self.limits is not None and (self.log or self.diverging):
            raise InputError(
                f"limits={self.limits} with log=True or diverging=True; pass limits with neither"
            )
        if self.limits is not None and not -math.inf < self.limits[0] < self.limits[1] < math.inf:
            raise InputError(f"limits={self.limits}; expected two finite numbers, the lower first")
        for label, row in zip(self.rows, self.values, strict=True):
            for column, value in zip(self.columns, row, strict=True):
                if not is_measured(value):
                    continue
                where = f"row {short(label)!r}, column {short(column)!r}"
                if math.isinf(value):
                    raise InputError(
                        f"{where} is {value}; expected a finite number, or None where nothing "
                        "was measured"
                    )
                if self.log and value <= 0:
                    raise InputError(f"{where} is {value}, which has no logarithm; pass log=False")

    def _check_marks(
        self, what: str, cells: Sequence[tuple[int, int]], name: str, signs: str
    ) -> None:
        if cells and not getattr(self, name):
            raise InputError(f"{what} cells have no {name}; say what the {signs} mean")
        for row, column in cells:
            inside = 0 <= row < len(self.rows) and 0 <= column < len(self.columns)
            if not inside or not is_measured(self.values[row][column]):
                raise InputError(
                    f"{what} has row {row}, column {column}, which holds no number; expected "
                    f"rows 0 … {len(self.rows) - 1} and columns 0 … {len(self.columns) - 1} that "
                    "were measured"
                )
