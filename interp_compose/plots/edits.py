"""What a user changed in a figure after it was drawn, taken over into its description.

A picture is drawn from the description, so that a change of the interactive figure must either
arrive there or be refused: it is never lost in silence. What was changed is what differs from a
fresh drawing of the same description.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from interp_compose.errors import InputError
from interp_compose.plots.canvas import PIXELS, pixels
from interp_compose.plots.describe import Described
from interp_compose.plots.interactive import ChartFigure, draw

CARRIED: Final = {
    "layout.title.text": "title",
    "layout.title.subtitle.text": "subtitle",
    "layout.xaxis.title.text": "x_title",
    "layout.yaxis.title.text": "y_title",
}
"""Where plotly keeps a text, and where the description does."""
SUBTITLE: Final = "layout.title.subtitle"
MOST_NAMED: Final = 4


def as_edited(figure: ChartFigure) -> tuple[Described, float | None]:
    """The figure's description with the user's changes, and its width in pixels if that was one.

    Raises:
        InputError: names the changes that a picture cannot follow.
    """
    described = figure.chart
    if described is None:
        raise InputError(
            "this figure does not know its chart (plotly or pickle copied it); pass the figure as "
            "plot() returned it"
        )
    texts: dict[str, str] = {}
    width = None
    refused: list[str] = []
    for place, value in changes(figure):
        field = CARRIED.get(place)
        if place == "layout.width" and value is not None:
            width = pixels(value / PIXELS)
        elif place == SUBTITLE and value is None:  # what update_layout(title="…") does
            texts["subtitle"] = ""
        elif field is None or not hasattr(described, field) or not isinstance(value, str):
            refused.append(place)
        else:
            texts[field] = _read(place, value)
    if refused:
        named = ", ".join(refused[:MOST_NAMED]) + ", …" * (len(refused) > MOST_NAMED)
        raise InputError(
            f"the figure was edited where a picture cannot follow ({named}); a picture takes over "
            "the title, the subtitle, the axes' titles and the width. Save the edited figure as "
            ".html, or a figure fresh from plot()"
        )
    return replace(described, **texts), width  # type: ignore[arg-type]


def changes(figure: ChartFigure) -> list[tuple[str, Any]]:
    """Place and value of everything that differs from the figure as it was drawn."""
    assert figure.chart is not None
    before, after = (one.to_plotly_json() for one in (draw(figure.chart), figure))
    return list(_differing(before, after, ""))


def _differing(before: Any, after: Any, place: str) -> Iterator[tuple[str, Any]]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in dict.fromkeys([*before, *after]):
            inside = f"{place}.{key}" if place else str(key)
            yield from _differing(before.get(key), after.get(key), inside)
    elif _is_list_of_parts(before) and _is_list_of_parts(after):
        for k in range(max(len(before), len(after))):
            one, other = (parts[k] if k < len(parts) else None for parts in (before, after))
            yield from _differing(one, other, f"{place}[{k}]")
    elif isinstance(before, np.ndarray) or isinstance(after, np.ndarray):
        if not np.array_equal(np.asarray(before), np.asarray(after)):
            yield place, after
    elif before != after:
        yield place, after


def _is_list_of_parts(value: Any) -> bool:
    """Whether it holds traces, annotations, shapes, … rather than numbers or texts."""
    return isinstance(value, list | tuple) and all(isinstance(part, Mapping) for part in value)


def _read(place: str, text: str) -> str:
    """The characters that plotly shows; markup has no meaning in a description."""
    lines = " ".join(re.sub(r"<br\s*/?>", " ", text).split())
    if re.search(r"<[^>]*>", lines):
        raise InputError(
            f"{place} has markup ({text!r}), which a picture cannot show; write it without tags, "
            "or save the figure as .html"
        )
    return html.unescape(lines)
