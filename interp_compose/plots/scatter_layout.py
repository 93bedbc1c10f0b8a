"""How much room a scatter needs, the same for both backends; lengths in pixels (:mod:`.canvas`)."""

from __future__ import annotations

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
from interp_compose.plots.chart import short
from interp_compose.plots.heatmap import NOT_MEASURED
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


def lay_out(scatter: Scatter, width: float | None = None) -> ScatterLayout:
    """Panels fill the usual width, and from three on the figure grows; where a width is given, they
    stand in as many rows as they need."""
    usual, n = width is None, len(scatter.panels)
    names = [short(name, LONGEST_NAME) for name in scatter.legend]
    legend = KEY + CHARACTER * max(map(len, names)) if names else 0.0
    canvas = WIDTH if width is None else width
    beside = legend_is_beside(canvas - LEFT - MARGIN - legend, width)
    right = MARGIN + legend * beside
    room = canvas - LEFT - right
    per_row = per_row_of(n, n if usual else max(int((room + GAP) / (LEAST + GAP)), 1))
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
                [item for group in panel.groups for item in _points(group, panel)],
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


def _points(group: Group, panel: ScatterPanel) -> list[Item]:
    """The group's markers, and its texts; five digits, so that a figure stays small."""
    name = said(short(group.name, LONGEST_HOVER))
    where = "({x:.3g}, {y:.3g})"
    items: list[Item] = []
    for is_text in (False, True):
        points = [point for point in group.measured if bool(point[2]) == is_text]
        if not points:
            continue
        x, y = ([float(f"{point[k]:.5g}") for point in points] for k in (0, 1))
        if is_text:
            hover = Hover(f"{{text}} {name}\n{where}")
            texts, ink = [text for _, _, text in points], group.style.text_colour
            items.append(Words(x, y, texts, ink, SMALLEST, hover, group.name))
        else:
            hover = Hover(f"{name}\n{where}" if name else where)
            look = (panel.point, group.style.marker, group.style.colour)
            items.append(Marks(x, y, *look, opacity=0.85, hover=hover, group=group.name))
    return items
