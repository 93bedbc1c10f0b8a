"""How much room a scatter needs, the same for both backends; lengths in pixels (:mod:`.canvas`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from interp_compose.plots.canvas import (
    SMALLEST,
    WIDTH,
    Head,
    check_room,
    head_of,
    legend_is_beside,
    per_row_of,
)
from interp_compose.plots.chart import short, short_each
from interp_compose.plots.heatmap import NOT_MEASURED, with_notes
from interp_compose.plots.heatmap_scene import LONGEST_HOVER
from interp_compose.plots.scatter import (
    LONGEST_NAME,
    LONGEST_TITLE,
    Group,
    Scatter,
    ScatterPanel,
)
from interp_compose.plots.scene import Axes, Axis, Hover, Item, Key, Marks, Scene, Text, Words, said
from interp_compose.plots.theme import MUTED

NARROWEST: Final = 300.0  # a panel, where no width is asked for
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
    shown: list[list[list[bool]]]  # of each panel's groups, whether a point has room for its text


def lay_out(scatter: Scatter, width: float | None = None) -> ScatterLayout:
    """Panels fill the usual width, and from three on the figure grows; where a width is given, they
    stand in as many rows as they need."""
    usual, n = width is None, len(scatter.panels)
    names = short_each(list(scatter.legend), LONGEST_NAME)
    legend = KEY + CHARACTER * max(map(len, names)) if names else 0.0
    canvas = WIDTH if width is None else width
    beside = legend_is_beside(canvas - LEFT - MARGIN - legend, width)
    right = MARGIN + legend * beside
    room = canvas - LEFT - right
    per_row = per_row_of(n, n if usual else max(int((room + GAP) / (LEAST + GAP)), 1))
    panel = max(NARROWEST if usual else 0.0, (room - (per_row - 1) * GAP) / per_row)
    check_room(LEFT + right + LEAST, LEFT + right + panel, "this scatter")
    canvas = LEFT + per_row * panel + (per_row - 1) * GAP + right
    high = max(USUAL_HEIGHT, LINE * len(names)) if usual else min(panel, USUAL_HEIGHT)
    shown = [_with_room(one, panel, high) for one in scatter.panels]
    texts = sum(bool(text) for one in scatter.panels for g in one.groups for *_, text in g.measured)
    dots = DOTS_MEAN if sum(sum(map(sum, one)) for one in shown) < texts else ""
    head = head_of(scatter.title, with_notes(scatter.subtitle, dots), canvas)
    longest = LONGEST_TITLE if usual else min(LONGEST_TITLE, int((panel + 0.4 * GAP) / CHARACTER))
    titles = [short(one.heading, longest) for one in scatter.panels]
    top = TOP + head.more + PANEL_TITLE * any(titles)
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
        shown=shown,
    )


def _with_room(panel: ScatterPanel, across: float, high: float) -> list[list[bool]]:
    """Of two texts that would cover each other, the first has room."""
    (left, right), (low, top) = panel.x_range, panel.y_range
    wide, line = TEXT
    placed: list[tuple[float, float, float]] = []  # the middle, and half of the width
    found = []
    for group in panel.groups:
        own = []
        for x, y, text in group.measured:
            x, y = across * (x - left) / (right - left), high * (y - low) / (top - low)
            half = wide * len(text) / 2
            free = all(abs(x - a) > half + b or abs(y - c) > line for a, c, b in placed)
            own.append(bool(text) and free)
            placed += [(x, y, half)] if own[-1] else []
        found.append(own)
    return found


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


def scene_of(scatter: Scatter, width: float | None) -> Scene:
    """Panels of points, and one legend."""
    layout = lay_out(scatter, width)
    texts = [
        Text(title, (0.0, 1.0), 0.0, -6.0, i, 13.2, across="left", down="bottom")
        for i, title in enumerate(layout.titles)
        if title
    ]
    empty = [not panel.n_measured for panel in scatter.panels]
    texts += [
        Text(NOT_MEASURED, (0.5, 0.5), panel=i, size=13.2, colour=MUTED)
        for i, nothing in enumerate(empty)
        if nothing
    ]
    texts.append(Text(scatter.x_title, (0.5, 0.0), 0.0, 30.0, size=13.2, down="top"))
    axes = []
    for i, (panel, box) in enumerate(zip(scatter.panels, layout.panels, strict=True)):
        none = () if empty[i] else None
        how: dict[str, Any] = {"ticks": none, "labels": not empty[i], "is_scientific": True}
        first = [scatter.y_title] if i % layout.per_row == 0 and scatter.y_title else []
        axes.append(
            Axes(
                box,
                Axis(*panel.x_range, most=max(2, min(5, int(box[2] / 45))), **how),
                Axis(*panel.y_range, first, most=6, **how),
                [
                    item
                    for group, shown in zip(panel.groups, layout.shown[i], strict=True)
                    for item in _points(group, shown, panel)
                ],
            )
        )
    keys = zip(layout.names, scatter.legend.items(), strict=True)
    return Scene(
        width=layout.width,
        height=layout.height,
        head=layout.head,
        axes=axes,
        texts=texts,
        keys=[Key(text, style, x, y, group=name) for (x, y, text), (name, style) in keys],
    )


def _points(group: Group, shown: Sequence[bool], panel: ScatterPanel) -> list[Item]:
    """The group's markers, its texts, and a dot where a text has no room; five digits, so that a
    figure stays small."""
    name = said(short(group.name, LONGEST_HOVER))
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
