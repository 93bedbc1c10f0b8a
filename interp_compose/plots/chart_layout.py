"""How much room a line chart needs in a picture; lengths in pixels (:mod:`.canvas`)."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Final

from interp_compose.plots.canvas import WIDTH, Head, check_room, head_of
from interp_compose.plots.chart import Chart, short
from interp_compose.plots.theme import Style

MORE: Final = 229.0  # wider with each further panel, where no width is asked for
HEIGHTS: Final = (130.0, 335.0)  # of a panel
NARROWEST: Final = 110.0  # a panel
FLATNESS: Final = 0.62  # a panel's height, of its width
BESIDE: Final = 0.34  # of the width, for labels beside the last panel
GAP: Final = 23.0  # between panels
EDGE: Final = 14.0  # right of the last panel
TICK: Final = 7.3  # the width of a letter of a tick's text
TITLE: Final = 7.6  # of an axis' or a panel's title
LETTER: Final = 7.0  # of a long title of the axis
NAME: Final = 7.4  # of a legend's name
LINE: Final = 17.0  # the height of a line of text
LABEL: Final = 16.8  # the same, of labels beside the panel
KEY: Final = 30.0  # from a legend's sample to its name


@dataclass(frozen=True)
class Key:
    """A sample of a legend: where it begins, how far down, and what it is of."""

    x: float
    y: float
    style: Style
    name: str
    is_level: bool


@dataclass(frozen=True)
class ChartLayout:
    """``panels`` are left, top, width and height of each; ``keys`` the legend under them, which
    there is where labels have no room beside the last one."""

    head: Head
    width: float
    height: float
    panels: list[tuple[float, float, float, float]]
    per_row: int
    keys: list[Key]
    x_title: list[str]
    y_title: list[str]
    panel_titles: list[list[str]]
    turned: bool  # texts under the ticks stand upright
    notes: float  # their height

    @property
    def label_share(self) -> float:
        """A label's height, of the axis."""
        return LABEL / self.panels[0][3]


def lay_out(chart: Chart, width: float | None) -> ChartLayout:
    """Panels side by side; where a width is given, in as many rows as they need."""
    n = len(chart.panels)
    usual = width is None
    width = WIDTH + MORE * (n - 1) if width is None else width
    head = head_of(chart.title, chart.told, width)
    left = 74.0 if chart.y_is_share else 87.0
    labels = 35 + 8.3 * chart.label_length
    beside = usual or labels <= BESIDE * width
    right = labels if beside else EDGE
    per_row = n
    if not usual:
        left = min(left, 80.0)
        per_row = _fitting(width - left - right, n)
        if beside and per_row < n:
            beside, right = False, EDGE
            per_row = _fitting(width - left - right, n)
    check_room(left + right + NARROWEST, width, "this chart")
    across = (width - left - right - (per_row - 1) * GAP) / per_row
    titles = [textwrap.wrap(panel.title, int(across / TITLE)) for panel in chart.panels]
    high = HEIGHTS[1] - 19.0 * any(titles) if usual else 0.0
    high = high or min(max(FLATNESS * across, HEIGHTS[0]), HEIGHTS[1])
    y_title = textwrap.wrap(chart.y_title, int(1.15 * high / TITLE))
    left += LINE * (len(y_title) - 1)
    middle = (left + width - right) / 2
    x_title = textwrap.wrap(chart.x_title, int((2 * min(middle, width - middle) - 8) / LETTER))
    across = (width - left - right - (per_row - 1) * GAP) / per_row
    longest = max((len(text) for text in chart.x_notes), default=0)
    turned = bool(chart.x_is_category and TICK * longest * len(chart.x_notes) > 0.9 * across)
    notes = TICK * longest - LINE if turned else LINE * bool(chart.x_notes)
    notes = max(notes, 0.0)

    over = LINE * max(map(len, titles)) + 2
    top = 66 + head.more + (over if any(titles) else 0.0) + 18 * (not any(titles))
    down = high + 24 + notes + (over if any(titles) else 8.0)
    panels = [
        (left + (k % per_row) * (across + GAP), top + (k // per_row) * down, across, high)
        for k in range(n)
    ]
    bottom = panels[-1][1] + high + 30 + notes + LINE * len(x_title)
    keys = [] if beside else _legend(chart, left, width - EDGE, bottom + 10)
    height = max(bottom + 12, *(key.y + 16 for key in keys)) if keys else bottom + 12
    return ChartLayout(
        head=head,
        width=width,
        height=height,
        panels=panels,
        per_row=per_row,
        keys=keys,
        x_title=x_title,
        y_title=y_title,
        panel_titles=titles,
        turned=turned,
        notes=notes,
    )


def _fitting(room: float, n: int) -> int:
    """How many of ``n`` panels stand side by side, in rows as even as may be."""
    most = max(min(int((room + GAP) / (NARROWEST + GAP)), n), 1)
    n_rows = -(-n // most)
    return -(-n // n_rows)


def _legend(chart: Chart, left: float, right: float, top: float) -> list[Key]:
    """Samples and names of all lines and levels, in rows."""
    named = {line.label: (line.style, False) for panel in chart.panels for line in panel.lines}
    for panel in chart.panels:
        named |= {level.label: (level.style, True) for level in panel.levels if level.label}
    keys: list[Key] = []
    x, y = left, top + LINE / 2
    for name, (style, is_level) in named.items():
        text = short(name, int((right - left - KEY) / NAME))
        end = x + KEY + NAME * len(text)
        if x > left and end > right:
            x, y = left, y + LINE
            end = x + KEY + NAME * len(text)
        keys.append(Key(x, y, style, text, is_level))
        x = end + 14
    return keys
