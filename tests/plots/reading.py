"""What tests read of figures: the texts of a picture, the tags of a page, names full of markup."""

from __future__ import annotations

from html.parser import HTMLParser

from matplotlib.figure import Figure
from matplotlib.text import Text

from interp_compose.plots.describe import Described, scene_of
from interp_compose.plots.static import painted, picture

HOSTILE = [
    "</script><script>alert(1)</script>",
    '<a href="javascript:alert(1)">click</a>',
    "<b>bold</b><br>%{y} $\\frac{1}{$ &amp; \u2028 ]]> <!--",
    "_underscored_ 한국어 🙂\x00\x1b[31m",
]


def visible_texts(picture: Figure) -> list[Text]:
    """Every text but tick labels beyond the axes' limits, which exist and are not drawn."""
    axes = [axis for one in picture.axes for axis in (one.xaxis, one.yaxis)]
    beyond = {
        label
        for axis in axes
        for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]
        for label in (tick.label1, tick.label2)
        if not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
    }
    texts = [text for text in picture.findobj(Text) if text.get_visible() and text.get_text()]
    return [text for text in texts if text not in beyond]


def png_bytes(described: Described) -> bytes:
    return picture(scene_of(described), "png")


def paint(described: Described, dpi: int = 160, width: float | None = None) -> Figure:
    """As matplotlib draws it."""
    return painted(scene_of(described, width), dpi)


class Tags(HTMLParser):
    """The tags a browser would see; what is inside ``<script>`` is data, as for a browser."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def strings(value: object) -> list[str]:
    if isinstance(value, dict):
        return [s for v in value.values() for s in strings(v)]
    if isinstance(value, list | tuple):
        return [s for v in value for s in strings(v)]
    return [value] if isinstance(value, str) else []
