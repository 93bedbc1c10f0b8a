"""How much room a scatter needs, the same for both backends; lengths in pixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from interp_compose.plots.chart import short
from interp_compose.plots.scatter import LONGEST_NAME, Scatter

WIDTH: Final = 874  # of a figure with one or two panels
NARROWEST: Final = 300.0  # a panel
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
    """``names`` is the legend; it stands right of the panels."""

    width: float  # of the figure
    height: float  # of the figure
    top: int
    right: float
    panel: float  # a panel's width
    names: list[str]

    @property
    def panel_height(self) -> float:
        return self.height - self.top - BOTTOM

    def left(self, panel: int) -> float:
        """Where a panel begins."""
        return LEFT + panel * (self.panel + GAP)

    def domain(self, panel: int) -> tuple[float, float]:
        """A panel's two ends as shares of what all of them cover."""
        whole = self.width - LEFT - self.right
        start = (self.left(panel) - LEFT) / whole
        return start, min(start + self.panel / whole, 1.0)


def lay_out(scatter: Scatter) -> ScatterLayout:
    """Panels fill the usual width; from three on the figure grows."""
    names = [short(name, LONGEST_NAME) for name in scatter.legend]
    legend = KEY + CHARACTER * max(map(len, names)) if names else 0.0
    right = MARGIN + legend
    n = len(scatter.panels)
    panel = max(NARROWEST, (WIDTH - LEFT - right - (n - 1) * GAP) / n)
    titled = any(panel.heading for panel in scatter.panels)
    top = TOP + PANEL_TITLE * titled
    return ScatterLayout(
        width=LEFT + n * panel + (n - 1) * GAP + right,
        height=top + max(USUAL_HEIGHT, LINE * len(names)) + BOTTOM,
        top=top,
        right=right,
        panel=panel,
        names=names,
    )
