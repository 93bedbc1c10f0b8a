"""What a grid of similarity matrices says, apart from how it is drawn.

Sizes are found, and a scene is made, in :mod:`.matrices_layout`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from jaxtyping import Float

from interp_compose.errors import InputError
from interp_compose.plots.heatmap import GREY_MEANS, check_cells, with_notes
from interp_compose.plots.heatmap_scale import DIVERGING, Scale

SCALE: Final = Scale(
    low=-1.0,
    high=1.0,
    log=False,
    stops=DIVERGING,
    ticks=((-1.0, "−1"), (-0.5, "−0.5"), (0.0, "0"), (0.5, "0.5"), (1.0, "1")),
)
SLACK: Final = 1e-6  # beyond 1, by rounding


@dataclass(frozen=True, eq=False)
class MatrixPanel:
    """A matrix of cosines or the like, [n, n] between −1 and 1; NaN where nothing was measured.

    ``text`` is written under it. ``names`` are those of its rows, which are its columns' too, and
    ``blocks`` the rows that begin a further block. Names are written where each row has the room,
    and blocks parted by thin lines where they are large enough; the interactive figure's hover has
    the names in any case.
    """

    values: Float[np.ndarray, "..."]
    text: str = ""
    names: Sequence[str] = ()
    blocks: Sequence[int] = ()


@dataclass(frozen=True)
class MatrixGrid:
    """Square matrices in rows and columns, all in the colours from −1 to 1.

    ``columns`` are the titles above the grid and ``rows`` those left of it, from top to bottom;
    they may be empty texts. ``x_title`` and ``y_title`` say what they are. ``panels`` [rows,
    columns] hold None where there is no such matrix: a grey square, struck through.
    ``value_name`` is the title of the colour bar.

    Raises:
        InputError: no row or no column of panels; more or fewer panels than these have; a matrix
            that is not square or holds what is no cosine; more or fewer names than rows; blocks
            that do not rise within the matrix.
    """

    title: str
    subtitle: str
    x_title: str
    y_title: str
    columns: Sequence[str]
    rows: Sequence[str]
    panels: Sequence[Sequence[MatrixPanel | None]]
    value_name: str

    def __post_init__(self) -> None:
        check_cells("panels", self.panels, self.rows, self.columns)
        for i, row in enumerate(self.panels):
            for j, panel in enumerate(row):
                if panel is not None:
                    _check(panel, f"the matrix of row {i}, column {j}")

    def subheading(self, note: str = "") -> str:
        """The subtitle, short enough for the picture, with a note and what grey means."""
        return with_notes(self.subtitle, note, GREY_MEANS if self.has_gaps else "")

    @property
    def flat_panels(self) -> list[MatrixPanel | None]:
        """The panels, row by row; None also for a matrix without a number."""
        return [
            None if panel is None or np.isnan(panel.values).all() else panel
            for row in self.panels
            for panel in row
        ]

    @property
    def has_gaps(self) -> bool:
        return any(panel is None or np.isnan(panel.values).any() for panel in self.flat_panels)

    def panel_name(self, row: int, column: int) -> str:
        """Its two titles, each after what it is a title of."""
        titles = ((self.y_title, self.rows[row]), (self.x_title, self.columns[column]))
        return " · ".join(f"{axis} {title}".strip() for axis, title in titles if title)


def _check(panel: MatrixPanel, who: str) -> None:
    values, names, blocks = panel.values, panel.names, panel.blocks
    n = len(values) if values.ndim else 0
    if values.shape != (n, n) or not n:
        raise InputError(f"{who} has the shape {values.shape}; expected as many rows as columns")
    beyond = np.argwhere(np.abs(values) > 1 + SLACK)  # an infinite value is one of them
    if len(beyond):
        i, j = map(int, beyond[0])
        raise InputError(
            f"{who} holds {values[i, j]:.7g} at [{i}, {j}]; expected cosines, from −1 to 1, or NaN "
            "where nothing was measured"
        )
    if len(names) not in (0, n) or any(a >= b for a, b in itertools.pairwise([0, *blocks, n])):
        raise InputError(
            f"{who} has {n} rows, {len(names)} names and the blocks {list(blocks)}; expected a "
            "name for each row, or none, and the first rows of further blocks, rising"
        )
