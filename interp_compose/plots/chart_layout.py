"""How much room a line chart needs in a picture; lengths in pixels (:mod:`.canvas`)."""

from __future__ import annotations

import math
import re
import textwrap
from dataclasses import dataclass
from typing import Final

from interp_compose.plots.canvas import WIDTH, Head, check_room, head_of
from interp_compose.plots.chart import BAR_STEP, Chart, Panel, short
from interp_compose.plots.scene import (
    Axes,
    Axis,
    Band,
    Curve,
    Hover,
    Item,
    Key,
    Label,
    Rule,
    Scene,
    Strokes,
    Text,
    said,
)

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
BAR: Final = 3.4  # from one line's bars to the next one's, at least
PANEL_TITLE: Final = 13.7
VALUE: Final = re.compile(r" [0-9.]+%$")
"""At the end of a level's name."""
KEY: Final = 30.0  # from a legend's sample to its name


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
    top = 84 + head.more + over * any(titles)
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
        keys.append(Key(text, style, x, y, "plain" if is_level else "marked"))
        x = end + 14
    return keys


def scene_of(chart: Chart, width: float | None) -> Scene:
    """Panels with their lines, names beside them or in a legend below."""
    layout, n = lay_out(chart, width), len(chart.panels)
    texts = [
        Text(text, (0.0, 1.0), 0.0, -6 - LINE * (len(lines) - 1 - i), k, PANEL_TITLE,
             across="left", down="bottom")
        for k, lines in enumerate(layout.panel_titles)
        for i, text in enumerate(lines)
    ]  # fmt: skip
    below = 27 + layout.notes
    texts += [
        Text(text, (0.5, 0.0), 0.0, below + LINE * i, size=PANEL_TITLE, down="top")
        for i, text in enumerate(layout.x_title if n > 1 else ())
    ]
    return Scene(
        width=layout.width,
        height=layout.height,
        head=layout.head,
        axes=[
            Axes(
                box,
                _x_axis(chart, layout),
                _y_axis(chart, layout, k),
                _items(chart, panel, box[2]),
            )
            for k, (panel, box) in enumerate(zip(chart.panels, layout.panels, strict=True))
        ],
        texts=texts,
        labels=[] if layout.keys else _labels(chart, layout),
        keys=layout.keys,
        follows=n > 1,
        unified=not chart.has_one_layer,
    )


def _x_axis(chart: Chart, layout: ChartLayout) -> Axis:
    across = layout.panels[0][2]
    most = min(16, max(2, int(across / 24)))
    name = chart.x_name or ("depth" if chart.x_is_share else "layer")
    hover = said(name) + (" {x:.0%}" if chart.x_is_share else " {x}")
    ticks = None
    if chart.x_ticks:
        every = 1 if chart.x_is_category else _every(chart, across)
        texts = chart.tick_texts if chart.x_notes else [_number(x) for x in chart.x_ticks]
        ticks = list(zip(chart.x_ticks, texts, strict=True))[::every]
    if chart.x_notes:
        hover = said(name) + ("" if chart.x_is_category else " {x:~g}")
    return Axis(
        *chart.x_range,
        title=layout.x_title if len(chart.panels) == 1 else (),
        ticks=ticks,
        most=min(6, most - 1) if chart.x_is_share else most,
        is_share=chart.x_is_share,
        whole=not chart.x_is_share,
        turned=layout.turned,
        hover=hover,
    )


def _number(value: float) -> str:
    return f"{value:,g}" if abs(value) < 1e6 else f"{value:g}"


def _y_axis(chart: Chart, layout: ChartLayout, panel: int) -> Axis:
    first = panel % layout.per_row == 0
    return Axis(
        *chart.y_range,
        title=layout.y_title if first else (),
        most=min(7, int(layout.panels[0][3] / 32)),
        is_share=chart.y_is_share,
        labels=first,
    )


def _every(chart: Chart, across: float) -> int:
    """1, or k where only every k-th of the given ticks has room for its text."""
    texts = [*(f"{tick:g}" for tick in chart.x_ticks), *chart.x_notes]
    room = (TICK * max(map(len, texts)) + 6) * len(chart.x_ticks)
    return max(1, math.ceil(room / (1.1 * across)))


def _items(chart: Chart, panel: Panel, across: float) -> list[Item]:
    """Bands, then bars, then lines and levels."""
    items: list[Item] = [
        Band(line.x, line.low, line.high, line.style.colour) for line in panel.banded
    ]
    share = max(BAR_STEP, BAR / across)
    for line, xs in chart.bar_places(panel, share):
        if len(xs) > 1:
            ends = [((x, a), (x, b)) for x, a, b in zip(xs, line.low, line.high, strict=True)]
            items.append(Strokes(ends, line.style.colour, 1.3))
    how = ".1%" if chart.y_is_share else ".3f"
    says = f"{{y:{how}}}  [{{0:{how}}}, {{1:{how}}}]  n = {{2}}"
    for line in panel.lines:
        rows = [list(row) for row in zip(line.low, line.high, line.n, strict=True)]
        ends_of = (line.low, line.high) if len(line.x) == 1 else None
        hover = Hover(says, rows, among=True)
        items.append(Curve(line.label, line.style, line.x, line.y, hover, ends_of))
    at = [] if chart.has_one_layer else sorted({x for line in panel.lines for x in line.x})
    for level in panel.levels:
        name = VALUE.sub("", level.label) if at else ""
        items.append(Rule(level.y, level.style, level.band, name, at, f"{{y:{how}}}"))
    return items


def _labels(chart: Chart, layout: ChartLayout) -> list[Label]:
    right, panel = chart.x_range[1], chart.panels[-1]
    named = [(line.label, line.x[-1], line.y[-1], line.style) for line in panel.lines]
    named += [(level.label, right, level.y, level.style) for level in panel.levels if level.label]
    heights = chart.label_heights(layout.label_share)
    return [
        Label(short(text), x, y, height, style.text_colour)
        for (text, x, y, style), height in zip(named, heights, strict=True)
    ]
