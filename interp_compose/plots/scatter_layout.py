"""How much room a scatter needs, the same for both backends; lengths in pixels (:mod:`.canvas`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from interp_compose.plots.canvas import WIDTH, Head, check_room, head_of
from interp_compose.plots.chart import short
from interp_compose.plots.scatter import LONGEST_NAME, LONGEST_TITLE, Scatter

NARROWEST: Final = 300.0  # a panel, where no width is asked for
LEAST: Final = 110.0  # a panel, where one is
BESIDE: Final = 0.3  # of the width, for the legend right of the panels
USUAL_HEIGHT: Final = 340.0  # of a panel
TOP: Final = 84  # title and subtitle
PANEL_TITLE: Final = 26
BOTTOM: Final = 58
LEFT: Final = 76.0
GAP: Final = 54.0  # between panels: the second one's numbers
MARGIN: Final = 24.0  # right of all
LINE: Final = 20.0  # of the legend
KEY: Final = 26.0  # from the panels to a legend's name
CHARACTER: Final = 7.6


@dataclass(frozen=True)
class ScatterLayout:
    """``panels`` are left, top, width and height of each; ``names`` are the legend's, with the
    places at which they begin: right of the panels, or, where that leaves no room, below."""

    head: Head
    width: float  # of the figure
    height: float  # of the figure
    right: float
    panels: list[tuple[float, float, float, float]]
    per_row: int
    titles: list[str]
    names: list[tuple[float, float, str]]

    @property
    def top(self) -> float:
        return self.panels[0][1]

    @property
    def bottom(self) -> float:
        """Under the last row of panels."""
        return self.panels[-1][1] + self.panels[-1][3]

    def domain(self, panel: int) -> tuple[float, float]:
        """A panel's two ends as shares of what all of them cover."""
        whole = self.width - LEFT - self.right
        start, across = self.panels[panel][0], self.panels[panel][2]
        return (start - LEFT) / whole, min((start - LEFT + across) / whole, 1.0)


def lay_out(scatter: Scatter, width: float | None = None) -> ScatterLayout:
    """Panels fill the usual width, and from three on the figure grows; where a width is given, they
    stand in as many rows as they need."""
    usual, n = width is None, len(scatter.panels)
    names = [short(name, LONGEST_NAME) for name in scatter.legend]
    legend = KEY + CHARACTER * max(map(len, names)) if names else 0.0
    canvas = WIDTH if width is None else width
    beside = usual or legend <= BESIDE * canvas
    right = MARGIN + legend * beside
    room = canvas - LEFT - right
    per_row = n if usual else max(min(int((room + GAP) / (LEAST + GAP)), n), 1)
    per_row = -(-n // -(-n // per_row))  # rows as even as may be
    panel = max(NARROWEST if usual else 0.0, (room - (per_row - 1) * GAP) / per_row)
    check_room(LEFT + right + LEAST, LEFT + right + panel, "this scatter")
    canvas = LEFT + per_row * panel + (per_row - 1) * GAP + right
    head = head_of(scatter.title, scatter.subtitle, canvas)
    longest = LONGEST_TITLE if usual else min(LONGEST_TITLE, int((panel + 0.4 * GAP) / CHARACTER))
    titles = [short(one.heading, longest) for one in scatter.panels]
    top = TOP + head.more + PANEL_TITLE * any(titles)
    high = max(USUAL_HEIGHT, LINE * len(names)) if usual else min(panel, USUAL_HEIGHT)
    down = high + 36 + PANEL_TITLE * any(titles)
    panels = [
        (LEFT + (k % per_row) * (panel + GAP), top + (k // per_row) * down, panel, high)
        for k in range(n)
    ]
    bottom = panels[-1][1] + high + BOTTOM
    placed = _beside(names, canvas - right, top) if beside else _below(names, canvas, bottom)
    last = max((y for _, y, _ in placed), default=0.0) + LINE
    return ScatterLayout(
        head=head,
        width=canvas,
        height=bottom if usual else max(bottom, last),
        right=right,
        panels=panels,
        per_row=per_row,
        titles=titles,
        names=placed,
    )


def _beside(names: list[str], left: float, top: float) -> list[tuple[float, float, str]]:
    return [(left, top + LINE * (k + 0.5), name) for k, name in enumerate(names)]


def _below(names: list[str], width: float, top: float) -> list[tuple[float, float, str]]:
    """In columns of one width."""
    wide = KEY + CHARACTER * max(map(len, names)) + 6
    columns = max(int((width - MARGIN) / wide), 1)
    return [
        (MARGIN / 2 + (k % columns) * wide, top + LINE * (k // columns + 0.5), name)
        for k, name in enumerate(names)
    ]
