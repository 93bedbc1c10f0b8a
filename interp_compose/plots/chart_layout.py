"""A line chart as a scene, with the room that it needs; lengths in pixels (:mod:`.canvas`)."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Final, Literal, NamedTuple

from interp_compose.plots.canvas import (
    MARGIN,
    WIDTH,
    check_room,
    head_of,
    legend_is_beside,
    lines_of,
    literal,
)
from interp_compose.plots.chart import BAR_STEP, Chart, Panel, short_each
from interp_compose.plots.panels import Panels, above, below, in_rows, per_row_of
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
)
from interp_compose.plots.theme import Style

MORE: Final = 229.0  # wider with each further panel in a row, where no width is given
IN_A_ROW: Final = 3  # panels at most, where no width is given
HEIGHTS: Final = (130.0, 335.0)  # of a panel
NARROWEST: Final = 110.0  # a panel
FLATNESS: Final = 0.62  # a panel's height, of its width
GAP: Final = 23.0  # between panels
EDGE: Final = 18.0  # right of the last panel
TICK: Final = 7.3  # the width of a letter of a tick's text
TITLE: Final = 7.6  # of an axis' or a panel's title
NAME: Final = 7.4  # of a legend's name
LINE: Final = 17.0  # the height of a line of text
LABEL: Final = 16.8  # the same, of labels next to the panel
BAR: Final = 3.4  # from one line's bars to the next one's, at least
PANEL_TITLE: Final = 13.7
VALUE: Final = re.compile(r" [0-9.]+%$")
"""The per cent at the end of a level's name."""
KEY: Final = 30.0  # from a legend's sample to its name


def scene_of(chart: Chart, fixed_width: float | None) -> Scene:
    """Panels in rows of three or, where a width is given, in as many rows as they need; names
    next to the last one, or, where they leave it no room, in a legend below."""
    n = len(chart.panels)
    usual = per_row_of(n, IN_A_ROW)
    width = WIDTH + MORE * (usual - 1) if fixed_width is None else fixed_width
    head = head_of(chart.title, chart.subheading, width)
    # where the last row is not full, labels are in what it leaves blank
    right = EDGE if fixed_width is None and n % usual else 35 + 8.3 * chart.label_length
    room = _room(chart, width - right, fixed_width)
    one_row = fixed_width is None or room.per_row == n
    beside = one_row and legend_is_beside(n * room.across, fixed_width)
    if not beside:
        right = EDGE
        room = _room(chart, width - right, fixed_width)
    left, across, per_row, high, y_title = room
    more_lines = LINE * (len(y_title) - 1)  # which may narrow a panel further
    check_room(left - more_lines + right + _least(chart), width, "this chart")
    titles = [lines_of(panel.title, int(across / TITLE)) for panel in chart.panels]
    middle = (left + width - right) / 2
    x_title = lines_of(chart.x_title, int((2 * min(middle, width - middle) - 8) / TITLE), even=True)
    names = chart.categories
    longest = max((len(line) for name in names for line in name.split("\n")), default=0)
    turned = TICK * longest * len(names) > 0.9 * across
    notes = max(TICK * longest - LINE if turned else LINE * bool(names or chart.x_notes), 0.0)

    over = LINE * max(map(len, titles)) + 2
    top = 84 + head.more + over * any(titles)
    down = high + 30 + notes + (over if any(titles) else 8.0)
    panels = Panels(n, per_row, (left, top), (across, high), (across + GAP, down))
    bottom = panels.ends[1] + 30 + notes + LINE * len(x_title)
    keys = [] if beside else _legend(chart, width, bottom + 10)
    x_axis = _x_axis(chart, across, turned)
    return Scene(
        width=width,
        height=max([bottom + 12, *(key.y + 16 for key in keys)]),
        head=head,
        axes=[
            Axes(
                box,
                x_axis if n > 1 else replace(x_axis, title=x_title),
                _y_axis(chart, high, y_title if k % per_row == 0 else None),
                _items(chart, panel, across),
            )
            for k, (panel, box) in enumerate(zip(chart.panels, panels.boxes, strict=True))
        ],
        texts=[
            *above(titles, PANEL_TITLE, LINE),
            *below(x_title if n > 1 else (), 27 + notes, PANEL_TITLE, LINE),
        ],
        labels=_labels(chart, LABEL / high) if beside else [],
        keys=keys,
        follows=n > 1,
        unified=chart.is_unified,
    )


class _PanelRoom(NamedTuple):
    """A panel's sizes in pixels; ``left`` is where the first one begins."""

    left: float
    across: float
    per_row: int
    high: float
    y_title: list[str]


def _room(chart: Chart, end: float, fixed_width: float | None) -> _PanelRoom:
    """Sizes of the panels between the left edge and ``end``."""
    n = len(chart.panels)
    left = 74.0 if chart.y_is_share else 87.0
    high = HEIGHTS[1] - 19.0 * any(panel.title for panel in chart.panels)
    most = IN_A_ROW
    if fixed_width is not None:
        left = min(left, 80.0)
        most = max(int((end - left + GAP) / (_least(chart) + GAP)), 1)
    per_row = per_row_of(n, most)
    across = (end - left - (per_row - 1) * GAP) / per_row
    if fixed_width is not None:
        high = min(max(FLATNESS * across, HEIGHTS[0]), HEIGHTS[1])
    y_title = lines_of(chart.y_title, int(1.15 * high / TITLE), even=True)
    more = LINE * (len(y_title) - 1)
    return _PanelRoom(left + more, across - more / per_row, per_row, high, y_title)


def _least(chart: Chart) -> float:
    """A panel's width, in which texts under its ticks, upright if need be, do not touch."""
    return max(NARROWEST, LINE * sum(name.count("\n") + 1 for name in chart.categories))


def _legend(chart: Chart, width: float, top: float) -> list[Key]:
    """Samples and names of all lines and levels, in rows."""
    named: dict[str, tuple[Style, Literal["plain", "marked"]]] = {
        line.label: (line.style, "marked") for panel in chart.panels for line in panel.lines
    }
    for panel in chart.panels:
        named |= {level.label: (level.style, "plain") for level in panel.levels if level.label}
    left, right = MARGIN, width - MARGIN
    texts = short_each(list(named), int((right - left - KEY) / NAME))
    places = in_rows([KEY + NAME * len(text) for text in texts], left, right, 14.0)
    return [
        Key(text, style, x, top + LINE * (row + 0.5), sample)
        for text, (style, sample), (x, row) in zip(texts, named.values(), places, strict=True)
    ]


def _x_axis(chart: Chart, across: float, turned: bool) -> Axis:
    most = min(16, max(2, int(across / 24)))
    name = literal(chart.x_name or ("depth" if chart.x_is_share else "layer"))
    hover = name + (" {x:.0%}" if chart.x_is_share else " {x}")
    if chart.categories:
        hover = ""  # the text under the tick, by itself
    elif chart.x_notes:
        hover = name + " {x:~g}"
    return Axis(
        *chart.x_range,
        ticks=chart.ticks[:: _every(chart, across)] or None,
        most=min(6, most - 1) if chart.x_is_share else most,
        is_share=chart.x_is_share,
        whole=not chart.x_is_share,
        turned=turned,
        hover=hover,
    )


def _y_axis(chart: Chart, high: float, title: list[str] | None) -> Axis:
    """Without a title its numbers are those of the row's first panel."""
    return Axis(
        *chart.y_range,
        title=title or (),
        most=min(7, int(high / 32)),
        is_share=chart.y_is_share,
        labels=title is not None,
    )


def _every(chart: Chart, across: float) -> int:
    """1, or k where only every k-th of the given ticks has room for its text."""
    texts = [*(f"{tick:g}" for tick in chart.x_ticks), *chart.x_notes]
    room = (TICK * max(map(len, texts), default=0) + 6) * len(chart.x_ticks)
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
    spec = ".1%" if chart.y_is_share else ".3f"
    for line in panel.lines:
        interval = f"  [{{0:{spec}}}, {{1:{spec}}}]" * line.is_wide  # of one example there is none
        says = f"{{y:{spec}}}{interval}  n = {{2}}"
        rows = [list(row) for row in zip(line.low, line.high, line.n, strict=True)]
        ends_of = (line.low, line.high) if len(line.x) == 1 else None
        hover = Hover(says, rows, among=True)
        items.append(Curve(line.label, line.style, line.x, line.y, hover, ends_of))
    places = [] if chart.has_one_layer else sorted({x for line in panel.lines for x in line.x})
    for level in panel.levels:
        name = VALUE.sub("", level.label) if places else ""
        items.append(Rule(level.y, level.style, name, places, f"{{y:{spec}}}"))
    return items


def _labels(chart: Chart, share: float) -> list[Label]:
    """Names next to the last panel; ``share``: a label's height, of the axis."""
    right, panel = chart.x_range[1], chart.panels[-1]
    named = [(line.label, line.x[-1], line.y[-1], line.style) for line in panel.lines]
    named += [(level.label, right, level.y, level.style) for level in panel.levels if level.label]
    heights = chart.label_heights(share)
    texts = short_each([text for text, *_ in named])
    return [
        Label(text, x, y, height, style.text_colour)
        for text, (_, x, y, style), height in zip(texts, named, heights, strict=True)
    ]
