"""A heat map drawn as bubbles: the colour says one thing, the size another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from interp_compose.errors import InputError
from interp_compose.plots.chart import short, short_each
from interp_compose.plots.heatmap import HeatMap, check_cells
from interp_compose.plots.panels import in_rows

SMALLEST: Final = 0.34  # of the largest bubble's diameter
LARGEST: Final = 38.0  # pixels
MARGIN: Final = 5.0  # pixels between two of the largest
LEGEND: Final = 40  # pixels of height
LONGEST_NAME: Final = 32
EDGE: Final = "#888888"  # around every bubble: the lightest colours are nearly white
LETTER: Final = 6.7  # the width of one at 12 pixels


class BubbleKey(NamedTuple):
    """A bubble of the legend: its row, its middle and where its name begins, in pixels from the
    left; no diameter where there is but a text."""

    row: int
    x: float
    diameter: float
    text_x: float
    text: str

    @property
    def end(self) -> float:
        """Where the name ends, with a margin."""
        return self.text_x + LETTER * len(self.text) + 16


@dataclass(frozen=True)
class Bubbles(HeatMap):
    """A heat map whose cells are circles.

    ``sizes`` [rows, columns] are places in ``size_names``, which go from the smallest circle to
    the largest; where nothing was measured they mean nothing. ``size_title`` is before the
    legend.

    Raises:
        InputError: as a heat map; sizes that have no name; marks or hatching, which have no room.
    """

    sizes: Sequence[Sequence[int]] = ()
    size_names: Sequence[str] = ()
    size_title: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_cells("sizes", self.sizes, self.rows, self.columns)
        if self.marked or self.hatched:
            raise InputError("bubbles with marks or hatching; pass neither, or a HeatMap")
        for i, j, _ in self.measured:
            if not 0 <= self.sizes[i][j] < len(self.size_names):
                raise InputError(
                    f"row {short(self.rows[i])!r}, column {short(self.columns[j])!r} has size "
                    f"{self.sizes[i][j]}; expected 0 … {len(self.size_names) - 1}, one for each "
                    "of size_names"
                )

    def diameters(self, cell: float) -> list[float]:
        """The diameter of each size in pixels; ``cell`` is a cell's shorter side."""
        largest = min(cell - MARGIN, LARGEST)
        steps = max(len(self.size_names) - 1, 1)
        shares = [SMALLEST + (1 - SMALLEST) * k / steps for k in range(len(self.size_names))]
        return [largest * share for share in shares]

    def legend(self, cell: float, left: float, right: float) -> list[BubbleKey]:
        """What sizes mean, and every size with its name, in rows from ``left`` to ``right``."""
        title = short(self.size_title, LONGEST_NAME)
        names = short_each(self.size_names, LONGEST_NAME)
        keys = [BubbleKey(0, left, 0.0, left, title)] if title else []
        sizes = self.diameters(cell)
        widths = [size + 6 + LETTER * len(text) for size, text in zip(sizes, names, strict=True)]
        places = in_rows(widths, left, right, 20.0, LETTER * len(title) + 14 * bool(title))
        return keys + [
            BubbleKey(row, x + size / 2, size, x + size + 6, text)
            for size, text, (x, row) in zip(sizes, names, places, strict=True)
        ]
