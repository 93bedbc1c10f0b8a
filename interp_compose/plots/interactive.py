"""Scenes as plotly figures that are at home in notebooks; every text is escaped here."""

from __future__ import annotations

import html
import json
import os
import string
from base64 import b64encode
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go
import plotly.io as pio
from PIL import Image as Picture

from interp_compose.errors import InputError
from interp_compose.notebook import in_notebook
from interp_compose.plots.canvas import MARGIN, Width
from interp_compose.plots.describe import Described, in_short, scene_of
from interp_compose.plots.heatmap_scale import GREY
from interp_compose.plots.scene import (
    Axis,
    Band,
    Cells,
    Curve,
    Hover,
    Image,
    Item,
    Key,
    Label,
    Marks,
    Rule,
    Scene,
    Strokes,
    Text,
    Words,
)
from interp_compose.plots.theme import (
    BAND_OPACITY,
    COMPARISON_STYLES,
    EDGE,
    FONT,
    GRID,
    INK,
    LEADER,
    MUTED,
)

CONFIG: Final[dict[str, Any]] = {
    "displaylogo": False,
    "responsive": True,
    "typesetMath": False,
    "showSendToCloud": False,  # plotly's tool bar would offer to upload the data
    "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"],
}
TEMPLATE: Final = "interp_compose"
NO_BREAK_SPACE: Final = "\N{NO-BREAK SPACE}"  # keeps the bar's title away from its ticks
PLOTLY_MIME: Final = "application/vnd.plotly.v1+json"
PLACE: Final = {"top": "top", "middle": "middle", "bottom": "bottom", "baseline": "bottom"}
_AXIS: Final[dict[str, Any]] = {
    "showgrid": True,
    "gridcolor": GRID,
    "zeroline": False,
    "showline": True,
    "linecolor": EDGE,
    "ticks": "outside",
    "tickcolor": EDGE,
    "ticklen": 4,
    "title": {"font": {"size": 13, "color": INK}, "standoff": 10},
    "tickfont": {"size": 12, "color": INK},
    "automargin": True,
}
pio.templates[TEMPLATE] = go.layout.Template(
    layout={
        "font": {"family": FONT, "size": 13, "color": INK},
        "title": {
            "font": {"size": 17, "color": INK},
            "subtitle": {"font": {"size": 12, "color": MUTED}},
            "x": 0,
            "xref": "container",
            "xanchor": "left",
            "y": 1,
            "yanchor": "top",
            "pad": {"l": MARGIN, "t": 16},
        },
        "paper_bgcolor": "white",
        "plot_bgcolor": "white",
        "colorway": [style.colour for style in COMPARISON_STYLES],
        "hoverlabel": {"bgcolor": "white", "font": {"size": 12, "family": FONT}, "namelength": -1},
        "xaxis": _AXIS,
        "yaxis": _AXIS,
        "showlegend": False,
    }
)
LOOKS: Final[dict[str, dict[str, Any]]] = {
    "open": {},
    "bare": {"showgrid": False, "showline": False, "ticks": ""},
    "grid": {"showline": False, "ticks": ""},
    "frame": {"showgrid": False, "ticks": "", "automargin": False, "mirror": True},
}
GLYPHS: Final = {
    "circle": "●", "square": "■", "diamond": "◆", "triangle-up": "▲", "triangle-down": "▼",
    "x": "✖", "cross": "✚", "star": "★",
}  # fmt: skip
"""Markers in a text."""
ACROSS: Final[dict[str, Any]] = {
    "orientation": "h", "x": 0.5, "xpad": 0, "y": 0, "yref": "container", "yanchor": "bottom",
    "lenmode": "fraction", "len": 1,
}  # fmt: skip
"""A colour bar under the plot."""


class ChartFigure(go.Figure):  # type: ignore[misc]
    """A plotly figure that stays small and works offline in notebooks, and that saves pictures.

    plotly's own notebook output carries plotly.js (5 MB a notebook) or fetches it from the web.
    This one hands over the figure's data, which VS Code and JupyterLab draw with the plotly they
    bring along, and a PNG for every other viewer.

    Pictures are drawn by matplotlib, without a browser. They take over a title, a subtitle, an
    axis' title or a width that was changed (``figure.update_layout(title="…")``); where the figure
    was changed otherwise, saving a picture is refused, and a notebook has none.
    """

    _chart: Described | None = None
    _ipython_display_ = None  # else IPython would never ask for the bundle below
    _repr_html_ = None  # plotly's own fetches plotly.js from a CDN

    @property
    def chart(self) -> Described | None:
        """What is drawn; None in a copy made by plotly or pickle."""
        return self._chart

    def __repr__(self) -> str:
        """One line: the title, and what is drawn; plotly's own is all of the data."""
        title = html.unescape((self.layout.title.text or "").replace("<br>", " "))
        drawn = in_short(self._chart) if self._chart is not None else f"{len(self.data)} traces"
        return f"{type(self).__name__}({title!r}, {drawn})"

    def save(self, path: str | os.PathLike[str], *, width: Width | None = None) -> Path:
        """Write the figure to ``path``: a picture (``.pdf``, ``.svg``, ``.png``), or a page to
        explore (``.html``, 5 MB: all in this one file, so that it can be moved and sent; the pages
        that a command writes share these 5 MB).

        The same figure gives the same bytes. A PDF's font is embedded (type 42), and an SVG's text
        is text. Blank margins at the right and below are cut off. A picture has its ``width`` all
        the same, but for one that does not grow, such as a heat map of a few columns: it is
        narrower.

        Args:
            width: of a picture on paper: "column" (3.25 inches), "page" (6.75 inches) or inches. It
                is laid out anew, so that no letter is smaller than 7 points and the plot keeps half
                of it: names and colour bars that leave less go below. By default as wide as in a
                notebook: 8.4 inches, or what its panels need.

        Raises:
            OptionError: ``path`` ends otherwise; no width that a figure can have.
            InputError: the figure was changed in a way that a picture cannot follow, or is a copy
                made by plotly or pickle; or it has no room in ``width``. Names the changes, or the
                width that it needs.
            OutputError: the file cannot be written.
        """
        from interp_compose.plots.export import save

        return save(self, path, width)

    def write_image(self, *args: Any, **kwargs: Any) -> None:
        """plotly's way needs a browser.

        Raises:
            InputError: always; names :meth:`save`.
        """
        raise InputError(
            "plotly's write_image and to_image need a browser; "
            "call figure.save('x.pdf'), or .svg or .png"
        )

    to_image = write_image

    def _repr_mimebundle_(
        self, include: object = None, exclude: object = None, **_: object
    ) -> dict[str, Any]:
        from interp_compose.plots.edits import as_edited
        from interp_compose.plots.static import small_png_bytes

        data = json.loads(self.to_json())
        bundle: dict[str, Any] = {PLOTLY_MIME: data | {"config": CONFIG}}
        bundle["text/plain"] = "interactive figure"
        if self._chart is None:
            return bundle
        try:
            chart, width = as_edited(self)
        except InputError as refusal:
            bundle["text/plain"] = f"interactive figure, without a picture: {refusal}"
        else:
            bundle["text/plain"] = f"figure: {chart.title}. {chart.subtitle}"
            bundle["image/png"] = small_png_bytes(scene_of(chart, width))
        return bundle

    def show(self, *args: Any, **kwargs: Any) -> None:
        """Show the figure: in a notebook as above; elsewhere, or with arguments, plotly's way."""
        if args or kwargs or not in_notebook():
            super().show(*args, **kwargs)
        else:
            from IPython.display import display

            display(self)


def harmless(text: object) -> str:
    """Any text, to be shown by plotly exactly as it is, on one line.

    plotly reads ``<b>``, ``<a href>`` and ``<br>`` in labels, ``%{…}`` in hover text and ``$…$``
    as formulas; here these characters become entities, which it shows as the characters.
    White space of any kind becomes one space; control characters become "�".
    """
    return _escaped(" ".join(str(text).split()))


def _escaped(text: str) -> str:
    """The text in HTML, with its lines and spaces; what cannot be printed becomes "�"."""
    text = "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)
    text = text.replace("&", "&amp;")
    for character, entity in {"<": "&lt;", ">": "&gt;", "$": "&#36;", "{": "&#123;"}.items():
        text = text.replace(character, entity)
    return text.replace("\n", "<br>")


def _lines(texts: Any) -> str:
    return "<br>".join(map(harmless, texts))


def draw(described: Described, fixed_width: float | None = None) -> ChartFigure:
    """The figure, laid out for a width in pixels, or for the usual one."""
    scene = scene_of(described, fixed_width, light=True)
    figure = ChartFigure()
    figure._chart = described
    traces: list[Any] = []
    for k, axes in enumerate(scene.axes):
        number = "" if k == 0 else str(k + 1)
        drawn = [trace for item in axes.items for trace in _traces(scene, item)]
        nothing = go.Scatter(x=[None], y=[None], showlegend=False)  # else plotly draws no axes
        traces += [
            one.update(xaxis=f"x{number}", yaxis=f"y{number}") for one in drawn or [nothing]
        ]  # fmt: skip
        _dress(figure, scene, k, number)
    keys = [key for key in scene.keys if not key.line]
    traces += [_key(key) for key in keys]
    figure.add_traces(traces)
    left, top, width, height = scene.box
    margin = {"l": left, "t": top, "r": scene.width - left - width}
    figure.update_layout(
        template=TEMPLATE,
        height=scene.height,
        width=None if scene.is_wide else scene.width,
        title={
            "text": _lines(scene.head.title),
            "subtitle": {"text": _lines(scene.head.subtitle)},
        },
        margin=margin | {"b": scene.height - top - height},
        hovermode="x unified" if scene.unified else "closest",
        annotations=[
            *(_text(text) for text in scene.texts),
            *(_label(scene, label) for label in scene.labels),
            *(text for key in scene.keys if key.line for text in _named_below(scene, key)),
        ],
        shapes=[*_shapes(scene), *(_sample(scene, key) for key in scene.keys if key.line)],
    )
    if not keys:
        figure.update_layout(showlegend=False)
    else:
        figure.update_layout(
            showlegend=True,
            legend={
                "x": 1.01,
                "xanchor": "left",
                "y": 1,
                "yanchor": "top",
                "itemsizing": "constant",
                "groupclick": "togglegroup",
                "tracegroupgap": 0,
            },
        )
    if scene.bar:
        figure.update_layout(coloraxis=_colours(scene))
    if fixed_width is not None:
        large, small = scene.head.sizes
        title_sizes = {"font_size": large, "subtitle_font_size": small}
        figure.update_layout(title=title_sizes, dragmode=False)
    papers = {axes.paper for axes in scene.axes if axes.paper}
    if papers:
        figure.update_layout(plot_bgcolor=papers.pop())
    return figure


def _template(hover: Hover) -> str:
    """plotly's own form of a hover's format string."""
    parts = []
    for literal, field, spec, _ in string.Formatter().parse(hover.says):
        parts.append(_escaped(literal))
        if field is not None:
            name = f"customdata[{field}]" if field.isdigit() else field
            parts.append(f"%{{{name}{':' * bool(spec)}{spec}}}")
    return "".join(parts) + "<extra></extra>" * (not hover.among)


def _data(rows: Any) -> Any:
    """Texts of a hover's rows, ready to show."""
    if isinstance(rows, str):
        return _escaped(rows)
    return [_data(row) for row in rows] if isinstance(rows, list | tuple) else rows


def _hover(hover: Hover | None) -> dict[str, Any]:
    if hover is None:
        return {"hoverinfo": "skip"}
    data = {"customdata": _data(list(hover.rows))} if len(hover.rows) else {}
    return {"hovertemplate": _template(hover), **data}


def _traces(scene: Scene, item: Item) -> list[Any]:
    """What a primitive is to plotly; those that are no trace are added elsewhere."""
    match item:
        case Curve():
            return [_curve(item)]
        case Band():
            return [
                go.Scatter(
                    x=[*item.x, *reversed(item.x)],
                    y=[*item.high, *reversed(item.low)],
                    fill="toself",
                    fillcolor=item.colour,
                    opacity=BAND_OPACITY,
                    line={"width": 0},
                    mode="lines",
                    hoverinfo="skip",
                )
            ]
        case Rule() if item.name:
            line = {"color": item.style.colour, "width": 0}
            hover = _hover(Hover(item.says, among=True))
            xy = {"x": list(item.at), "y": [item.y] * len(item.at)}
            return [go.Scatter(**xy, name=harmless(item.name), mode="lines", line=line, **hover)]
        case Strokes() if item.ends:
            return [
                go.Scatter(
                    x=[x for a, b in item.ends for x in (a[0], b[0], None)],
                    y=[y for a, b in item.ends for y in (a[1], b[1], None)],
                    mode="lines",
                    line={"color": item.colour, "width": item.width},
                    opacity=item.opacity if item.opacity < 1 else None,
                    hoverinfo="skip",
                )
            ]
        case Marks():
            return [_marks(item)]
        case Words():
            trace = go.Scatter(
                x=list(item.x),
                y=list(item.y),
                text=[harmless(text) for text in item.texts],
                mode="text",
                textfont={"color": item.colour, "size": round(item.size)},
                **_hover(item.hover),
            )
            return [_grouped(trace, item.group)]
        case Cells():
            return [_cells(item)]
    return []


def _curve(curve: Curve) -> go.Scatter:
    style = curve.style
    low, high = curve.ends or (curve.y, curve.y)
    return go.Scatter(
        x=list(curve.x),
        y=list(curve.y),
        name=harmless(curve.name),
        **_hover(curve.hover),
        mode="lines+markers",
        line={"color": style.colour, "dash": style.dash, "width": style.width},
        marker={
            "symbol": style.marker,
            "size": 7.5,
            "color": style.colour if style.filled else "white",
            "line": {"color": style.colour, "width": 0 if style.filled else 1.5},
        },
        error_y={
            "array": [b - y for b, y in zip(high, curve.y, strict=True)],
            "arrayminus": [y - a for a, y in zip(low, curve.y, strict=True)],
            "visible": curve.ends is not None,
            "thickness": 1.2,
        },
    )


def _grouped(trace: go.Scatter, group: str) -> go.Scatter:
    return trace.update(legendgroup=harmless(group), showlegend=False) if group else trace


def _marks(marks: Marks) -> go.Scatter:
    look: dict[str, Any] = {"symbol": marks.marker, "size": marks.size, "opacity": marks.opacity}
    if marks.values is not None:
        look |= {"color": list(marks.values), "coloraxis": "coloraxis"}
    elif marks.marker != "x-thin":
        look["color"] = marks.colour
    if marks.edge or marks.marker == "x-thin":
        width = 1.6 if marks.marker == "x-thin" else 1
        look["line"] = {"color": marks.edge or marks.colour, "width": width}
    trace = go.Scatter(
        x=list(marks.x), y=list(marks.y), mode="markers", marker=look, **_hover(marks.hover)
    )
    return _grouped(trace, marks.group)


def _cells(cells: Cells) -> go.Heatmap:
    if cells.scale is None:
        colours = {"colorscale": [[0, GREY], [1, GREY]], "showscale": False}
    else:
        colours = {"coloraxis": "coloraxis"}
    values = cells.values.astype(object)
    values[np.isnan(cells.values)] = None
    place = {"x0": cells.start, "dx": cells.step, "y0": cells.start, "dy": cells.step}
    gaps = {"xgap": cells.gap, "ygap": cells.gap} if cells.gap else {}
    return go.Heatmap(
        z=values.tolist(), **place, **colours, **gaps, **_hover(cells.hover),
        hoverongaps=cells.says_gaps,
    )  # fmt: skip


def _named_below(scene: Scene, key: Key) -> list[dict[str, Any]]:
    """A line's name under all panels, and the marker in the middle of its sample."""
    left, top, *_ = scene.box
    look: dict[str, Any] = {"share": (0.0, 1.0), "dy": key.y - top, "down": "middle"}
    name = Text(key.name, dx=key.x + 30 - left, across="left", **look)
    glyph = GLYPHS[key.style.marker]
    marker = Text(glyph, dx=key.x + 11 - left, colour=key.style.colour, **look)
    return [_text(one) for one in ([name, marker] if key.line == "marked" else [name])]


def _sample(scene: Scene, key: Key) -> dict[str, Any]:
    """22 pixels of a line, before its name."""
    left, top, *_ = scene.box
    style, y = key.style, top - key.y
    return {
        "type": "line", "xref": "paper", "yref": "paper", "xsizemode": "pixel",
        "ysizemode": "pixel", "xanchor": 0, "yanchor": 1, "x0": key.x - left,
        "x1": key.x - left + 22, "y0": y, "y1": y,
        "line": {"color": style.colour, "dash": style.dash, "width": style.width},
    }  # fmt: skip


def _key(key: Key) -> go.Scatter:
    """A name in the legend, with a marker even where its group is drawn as texts."""
    return go.Scatter(
        x=[None],
        y=[None],
        mode="markers",
        marker={"symbol": key.style.marker, "color": key.style.colour},
        name=harmless(key.name),
        legendgroup=harmless(key.group),
        showlegend=True,
        hoverinfo="skip",
    )


def _dress(figure: ChartFigure, scene: Scene, k: int, number: str) -> None:
    """A panel's place, its axes, and its images."""
    axes, look = scene.axes[k], dict(LOOKS[scene.axes[k].look])
    if axes.look == "frame":
        look["linecolor"] = axes.colour or "rgba(0,0,0,0)"
    left, top, width, height = scene.box
    x0, y0, across, high = axes.box
    x = look | _axis(axes.x, across) | {"anchor": f"y{number}"}
    y = look | _axis(axes.y, high) | {"anchor": f"x{number}"}
    x["domain"] = _share(x0 - left, across, width)
    y["domain"] = _share(top + height - y0 - high, high, height)
    if axes.x.hover:
        x["unifiedhovertitle_text"] = _template(Hover(axes.x.hover, among=True))
    if scene.follows and k:
        x["matches"], y["matches"] = "x", "y"
    if axes.square:
        y |= {"scaleanchor": f"x{number}", "constrain": "domain"}
        x |= {"constrain": "domain"}
    figure.layout[f"xaxis{number}"], figure.layout[f"yaxis{number}"] = x, y
    for item in axes.items:
        if isinstance(item, Image):
            figure.add_layout_image(
                source=_source(item), xref=f"x{number}", yref=f"y{number}", x=item.left, y=item.top,
                sizex=item.width, sizey=item.height, sizing="stretch", layer="below",
            )  # fmt: skip


def _source(image: Image) -> str:
    buffer = BytesIO()
    Picture.fromarray(image.pixels).save(buffer, "PNG", optimize=True)
    return f"data:image/png;base64,{b64encode(buffer.getvalue()).decode()}"


def _share(start: float, length: float, whole: float) -> tuple[float, float]:
    return max(start / whole, 0.0), min((start + length) / whole, 1.0)


def _axis(axis: Axis, length: float) -> dict[str, Any]:
    options: dict[str, Any] = {"range": (axis.low, axis.high), "showticklabels": axis.labels}
    if axis.title:
        options["title_text"] = _lines(axis.title)
    if axis.size != 12:
        options["tickfont_size"] = round(axis.size)
    if axis.ticks is not None:
        texts = [_lines(text.split("\n")) for _, text in axis.ticks]
        ticks = {"tickvals": [place for place, _ in axis.ticks], "ticktext": texts}
        return options | {"tickmode": "array", "tickangle": -90 if axis.turned else 0} | ticks
    if axis.is_share:
        return options | {"tickformat": "~%", "nticks": axis.most + 1}
    if axis.whole:
        # Whole numbers have a tick at each, or at every second, fifth, tenth, …
        least = (axis.high - axis.low) / axis.most
        steps = (digit * int(10**power) for power in range(9) for digit in (1, 2, 5))
        step = {"dtick": next(step for step in steps if step >= least)}
        return options | (step if axis.labels else {"hoverformat": ".0f"})
    powers = {"exponentformat": "e"} if axis.is_scientific else {}
    return options | {"nticks": axis.most + (not powers)} | powers


def _ref(panel: int | None) -> dict[str, str]:
    if panel is None:
        return {"xref": "paper", "yref": "paper"}
    number = "" if panel == 0 else str(panel + 1)
    return {"xref": f"x{number} domain", "yref": f"y{number} domain"}


def _text(text: Text) -> dict[str, Any]:
    return {
        "text": harmless(text.text),
        "showarrow": False,
        **_ref(text.panel),
        "x": text.share[0],
        "xshift": text.dx,
        "xanchor": text.across,
        "y": text.share[1],
        "yshift": -text.dy,
        "yanchor": PLACE[text.down],
        "textangle": -90 if text.turned else 0,
        "borderpad": 0,
        "font": {"size": round(text.size), "color": text.colour},
    }


def _label(scene: Scene, label: Label) -> dict[str, Any]:
    """A name next to a line's end, joined to it by a hairline."""
    last = len(scene.axes) - 1
    number, axis = "" if last == 0 else str(last + 1), scene.axes[last].x
    return {
        "text": harmless(label.text),
        "x": label.x,
        "y": label.y,
        "ax": axis.high + 0.02 * (axis.high - axis.low),
        "ay": label.to,
        "xref": f"x{number}",
        "yref": f"y{number}",
        "axref": f"x{number}",
        "ayref": f"y{number}",
        "xanchor": "left",
        "showarrow": True,
        "arrowhead": 0,
        "arrowwidth": 0.8,
        "arrowcolor": LEADER,
        "font": {"color": label.colour, "size": 13},
    }


def _shapes(scene: Scene) -> list[dict[str, Any]]:
    """Rules and rings.

    Neither layer is "between": plotly drops such a shape where it spans the whole width.
    """
    shapes = []
    for k, axes in enumerate(scene.axes):
        number = "" if k == 0 else str(k + 1)
        for rule in (item for item in axes.items if isinstance(item, Rule)):
            style = rule.style
            across = {"xref": f"x{number} domain", "yref": f"y{number}", "x0": 0, "x1": 1}
            line = {"color": style.colour, "dash": style.dash, "width": style.width}
            ends = {"type": "line", "y0": rule.y, "y1": rule.y, "layer": "above", "line": line}
            shapes.append(across | ends)
    for ring in scene.rings:
        radius = ring.diameter / 2
        shapes.append(
            {
                "xref": "paper",
                "yref": "paper",
                "type": "circle",
                "xsizemode": "pixel",
                "ysizemode": "pixel",
                "xanchor": 0,
                "yanchor": 1,
                "x0": ring.dx - radius,
                "x1": ring.dx + radius,
                "y0": -ring.dy - radius,
                "y1": -ring.dy + radius,
                "line": {"color": INK, "width": 1},
            }
        )
    return shapes


def _colours(scene: Scene) -> dict[str, Any]:
    """The scale, and its bar right of all panels, level with their middle, or below them."""
    assert scene.bar is not None
    scale, is_beside = scene.bar.scale, scene.bar.top is None
    return {
        "cmin": scale.low,
        "cmax": scale.high,
        "colorscale": [[k / (len(scale.stops) - 1), stop] for k, stop in enumerate(scale.stops)],
        "colorbar": {
            "x": 1.0,
            "xpad": 14,
            "y": 0.5,
            "ypad": 0,
            "lenmode": "pixels",
            "len": scene.bar.length,
            "thickness": 14,
            "outlinewidth": 0,
            "ticks": "outside",
            "ticklen": 3,
            "tickcolor": EDGE,
            "tickfont": {"size": 12},
            "tickvals": [place for place, _ in scale.ticks],
            "ticktext": [text + NO_BREAK_SPACE for _, text in scale.ticks],
            "title": {
                "text": _lines(scene.bar.title),
                "side": "right" if is_beside else "bottom",
                "font": {"size": 12},
            },
        }
        | ({} if is_beside else ACROSS),
    }
