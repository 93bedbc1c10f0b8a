"""A scatter as a scene, with the room that it needs; lengths in pixels (:mod:`.canvas`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from interp_compose.plots.canvas import (
    SMALLEST,
    WIDTH,
    check_room,
    head_of,
    legend_is_beside,
    literal,
)
from interp_compose.plots.chart import short, short_each
from interp_compose.plots.heatmap import NOT_MEASURED, with_notes
from interp_compose.plots.panels import Panels, above, below, in_rows, per_row_of
from interp_compose.plots.scatter import LONGEST_NAME, LONGEST_TITLE, Group, Scatter, ScatterPanel
from interp_compose.plots.scene import Axes, Axis, Hover, Item, Key, Marks, Scene, Text, Words
from interp_compose.plots.theme import MUTED

NARROWEST: Final = 300.0  # a panel, where no width is given
LEAST: Final = 110.0  # a panel, where one is
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
TEXT: Final = (6.7, 11.0)  # the width of a letter of a point's text, and its height
DOT: Final = 3.0  # the diameter of a point whose text has no room
DOTS_MEAN: Final = "dots: points whose text has no room"


def scene_of(scatter: Scatter, fixed_width: float | None) -> Scene:
    """Panels fill the usual width, and from three on the figure grows; where a width is given,
    they fill as many rows as they need. The legend is right of them or, where that leaves no
    room, below."""
    usual, n = fixed_width is None, len(scatter.panels)
    names = short_each(list(scatter.legend), LONGEST_NAME)
    wide = KEY + CHARACTER * max(map(len, names)) if names else 0.0
    width = WIDTH if fixed_width is None else fixed_width
    beside = legend_is_beside(width - LEFT - MARGIN - wide, fixed_width)
    right = MARGIN + wide * beside
    room = width - LEFT - right
    per_row = per_row_of(n, n if usual else max(int((room + GAP) / (LEAST + GAP)), 1))
    across = max(NARROWEST if usual else 0.0, (room - (per_row - 1) * GAP) / per_row)
    check_room(LEFT + right + LEAST, LEFT + right + across, "this scatter")
    width = LEFT + per_row * across + (per_row - 1) * GAP + right
    high = max(USUAL_HEIGHT, LINE * len(names)) if usual else min(across, USUAL_HEIGHT)
    shown = [_with_room(panel, across, high) for panel in scatter.panels]
    texts = sum(
        bool(text) for one in scatter.panels for group in one.groups for *_, text in group.measured
    )
    dots = DOTS_MEAN if sum(sum(map(sum, one)) for one in shown) < texts else ""
    head = head_of(scatter.title, with_notes(scatter.subtitle, dots), width)
    longest = LONGEST_TITLE if usual else min(LONGEST_TITLE, int((across + 0.4 * GAP) / CHARACTER))
    titles = [[title] if (title := short(one.heading, longest)) else [] for one in scatter.panels]
    over = PANEL_TITLE * any(titles)
    top = TOP + head.more + over
    panels = Panels(n, per_row, (LEFT, top), (across, high), (across + GAP, high + 36 + over))
    bottom = panels.ends[1] + BOTTOM
    if beside:
        places = [(width - right, top + LINE * (k + 0.5)) for k in range(len(names))]
    else:
        left = MARGIN / 2
        rows = in_rows([wide + 6] * len(names), left, width - left, 0.0)
        places = [(x, bottom + LINE * (row + 0.5)) for x, row in rows]
    end = max((y for _, y in places), default=0.0) + LINE
    return Scene(
        width=width,
        height=bottom if usual else max(bottom, end),
        head=head,
        axes=[
            _axes(panel, box, [scatter.y_title] if k % per_row == 0 else [], has_room)
            for k, (panel, box, has_room) in enumerate(
                zip(scatter.panels, panels.boxes, shown, strict=True)
            )
        ],
        texts=[
            *above(titles, 13.2),
            *(
                Text(NOT_MEASURED, (0.5, 0.5), panel=k, size=13.2, colour=MUTED)
                for k, panel in enumerate(scatter.panels)
                if not panel.n_measured
            ),
            *below([scatter.x_title], 30.0, 13.2),
        ],
        keys=[
            Key(text, style, *place, group=name)
            for text, place, (name, style) in zip(
                names, places, scatter.legend.items(), strict=True
            )
        ],
    )


def _axes(
    panel: ScatterPanel,
    box: tuple[float, float, float, float],
    title: list[str],
    shown: list[list[bool]],
) -> Axes:
    """``shown``: of each group, whether a point has room for its text."""
    has_points = bool(panel.n_measured)
    look: dict[str, Any] = {"ticks": None if has_points else (), "labels": has_points}
    look["is_scientific"] = True
    return Axes(
        box,
        Axis(*panel.x_range, most=max(2, min(5, int(box[2] / 45))), **look),
        Axis(*panel.y_range, list(filter(None, title)), most=6, **look),
        [
            item
            for group, has_room in zip(panel.groups, shown, strict=True)
            for item in _points(group, has_room, panel)
        ],
    )


def _with_room(panel: ScatterPanel, across: float, high: float) -> list[list[bool]]:
    """Of two texts that would cover each other, the first has room."""
    (left, right), (low, top) = panel.x_range, panel.y_range
    wide, line = TEXT
    placed: list[tuple[float, float, float]] = []  # the middle, and half of the width
    have_room = []
    for group in panel.groups:
        group_has_room = []
        for x, y, text in group.measured:
            x, y = across * (x - left) / (right - left), high * (y - low) / (top - low)
            half = wide * len(text) / 2
            free = all(abs(x - a) > half + b or abs(y - c) > line for a, c, b in placed)
            group_has_room.append(bool(text) and free)
            placed += [(x, y, half)] if group_has_room[-1] else []
        have_room.append(group_has_room)
    return have_room


def _points(group: Group, shown: Sequence[bool], panel: ScatterPanel) -> list[Item]:
    """The group's markers, its texts, and a dot where a text has no room; five digits, so that a
    figure stays small."""
    name = literal(group.name)
    where = "({x:.3g}, {y:.3g})"
    kinds: dict[str, list[tuple[float, float, str]]] = {"marker": [], "dot": [], "text": []}
    for (x, y, text), is_shown in zip(group.measured, shown, strict=True):
        kind = "text" if is_shown else "dot" if text else "marker"
        kinds[kind].append((float(f"{x:.5g}"), float(f"{y:.5g}"), text))
    items: list[Item] = []
    for kind, points in kinds.items():
        if not points:
            continue
        xs, ys, texts = (list(part) for part in zip(*points, strict=True))
        if kind == "text":
            hover = Hover(f"{{text}} {name}\n{where}")
            items.append(Words(xs, ys, texts, group.style.text_colour, SMALLEST, hover, group.name))
            continue
        hover = Hover(f"{name}\n{where}" if name else where)
        size, marker, opacity = panel.point, group.style.marker, 0.85
        if kind == "dot":
            hover = Hover(f"{{0}} {name}\n{where}", [[text] for text in texts])
            size, marker, opacity = DOT, "circle", 0.5
        look = (size, marker, group.style.colour)
        items.append(Marks(xs, ys, *look, opacity=opacity, hover=hover, group=group.name))
    return items
