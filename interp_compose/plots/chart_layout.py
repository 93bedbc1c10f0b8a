"""How much room a line chart needs in a picture; lengths in pixels (:mod:`.canvas`)."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from interp_compose.plots.canvas import (
    MARGIN,
    WIDTH,
    Head,
    check_room,
    head_of,
    legend_is_beside,
    lines_of,
    per_row_of,
)
from interp_compose.plots.chart import BAR_STEP, Chart, Panel, short_each
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

MORE: Final = 229.0  # wider with each further panel in a row, where no width is asked for
IN_A_ROW: Final = 3  # panels at most, where no width is asked for
HEIGHTS: Final = (130.0, 335.0)  # of a panel
NARROWEST: Final = 110.0  # a panel
FLATNESS: Final = 0.62  # a panel's height, of its width
GAP: Final = 23.0  # between panels
EDGE: Final = 18.0  # right of the last panel
TICK: Final = 7.3  # the width of a letter of a tick's text
TITLE: Final = 7.6  # of an axis' or a panel's title
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
    """Panels in rows of three; where a width is given, in as many rows as they need."""
    n, asked = len(chart.panels), width
    usual = per_row_of(n, IN_A_ROW)
    width = WIDTH + MORE * (usual - 1) if asked is None else asked
    head = head_of(chart.title, chart.told, width)
    # where the last row is not full, labels stand in what it leaves blank
    right = EDGE if asked is None and n % usual else 35 + 8.3 * chart.label_length
    room = _room(chart, width - right, asked)
    beside = asked is None or (room.per_row == n and legend_is_beside(n * room.across, asked))
    if not beside:
        right = EDGE
        room = _room(chart, width - right, asked)
    left, across, per_row, high, y_title = room
    more_lines = LINE * (len(y_title) - 1)  # which may narrow a panel further
    check_room(left - more_lines + right + _least(chart), width, "this chart")
    titles = [lines_of(panel.title, int(across / TITLE)) for panel in chart.panels]
    middle = (left + width - right) / 2
    x_title = lines_of(chart.x_title, int((2 * min(middle, width - middle) - 8) / TITLE), even=True)
    longest = max((len(line) for note in chart.x_notes for line in note.split("\n")), default=0)
    turned = bool(chart.x_is_category and TICK * longest * len(chart.x_notes) > 0.9 * across)
    notes = TICK * longest - LINE if turned else LINE * bool(chart.x_notes)
    notes = max(notes, 0.0)

    over = LINE * max(map(len, titles)) + 2
    top = 84 + head.more + over * any(titles)
    down = high + 30 + notes + (over if any(titles) else 8.0)
    panels = [
        (left + (k % per_row) * (across + GAP), top + (k // per_row) * down, across, high)
        for k in range(n)
    ]
    bottom = panels[-1][1] + high + 30 + notes + LINE * len(x_title)
    keys = [] if beside else _legend(chart, MARGIN, width - MARGIN, bottom + 10)
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


class _Room(NamedTuple):
    """Of a panel; ``left`` is where the first one begins."""

    left: float
    across: float
    per_row: int
    high: float
    y_title: list[str]


def _room(chart: Chart, end: float, asked: float | None) -> _Room:
    """Panels from their titles' left to ``end``."""
    n = len(chart.panels)
    left = 74.0 if chart.y_is_share else 87.0
    high = HEIGHTS[1] - 19.0 * any(panel.title for panel in chart.panels)
    most = IN_A_ROW
    if asked is not None:
        left = min(left, 80.0)
        most = max(int((end - left + GAP) / (_least(chart) + GAP)), 1)
    per_row = per_row_of(n, most)
    across = (end - left - (per_row - 1) * GAP) / per_row
    if asked is not None:
        high = min(max(FLATNESS * across, HEIGHTS[0]), HEIGHTS[1])
    y_title = lines_of(chart.y_title, int(1.15 * high / TITLE), even=True)
    more = LINE * (len(y_title) - 1)
    return _Room(left + more, across - more / per_row, per_row, high, y_title)


def _least(chart: Chart) -> float:
    """A panel's width, in which texts under its ticks, upright if need be, do not touch."""
    lines = sum(note.count("\n") + 1 for note in chart.x_notes)
    return max(NARROWEST, LINE * lines * chart.x_is_category)


def _legend(chart: Chart, left: float, right: float, top: float) -> list[Key]:
    """Samples and names of all lines and levels, in rows."""
    named = {line.label: (line.style, False) for panel in chart.panels for line in panel.lines}
    for panel in chart.panels:
        named |= {level.label: (level.style, True) for level in panel.levels if level.label}
    keys: list[Key] = []
    x, y = left, top + LINE / 2
    texts = short_each(list(named), int((right - left - KEY) / NAME))
    for text, (style, is_level) in zip(texts, named.values(), strict=True):
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
    texts = short_each([text for text, *_ in named])
    return [
        Label(text, x, y, height, style.text_colour)
        for text, (_, x, y, style), height in zip(texts, named, heights, strict=True)
    ]
