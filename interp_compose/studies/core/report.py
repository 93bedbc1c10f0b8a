"""A result as one HTML page that fetches nothing: what was asked, what came out, figures, examples,
tables, settings, versions."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from interp_compose.errors import InputError
from interp_compose.plots.canvas import PIXELS
from interp_compose.plots.chart import subtitle_of
from interp_compose.plots.export import picture_bytes
from interp_compose.plots.interactive import ChartFigure
from interp_compose.plots.static import DPI
from interp_compose.runs.result import HEAD
from interp_compose.studies.core.text import about, counted, decimal, probability

if TYPE_CHECKING:
    from interp_compose.studies.core.result import StudyResult

MOST_BYTES: Final = 6_000_000
"""Of a page; of the examples, those that lost most are kept."""
PICTURES: Final = 4_000_000
"""Bytes of a page's figures; later ones are named."""
LONG: Final = 40
ROWS: Final = 10
"""A table of more than ``LONG`` rows is shown by its first ``ROWS``."""
WIDTH: Final = 80
"""Characters of a table's cell."""
NARROW: Final = 358 / PIXELS
"""Inches: as wide as a phone, for which a page has a picture of its own."""
ACRONYMS: Final = ("cap", "carma")
"""Studies whose name is one."""
ENVIRONMENT: Final = Environment(
    loader=PackageLoader("interp_compose.studies.core", "."),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
ENVIRONMENT.filters["line"] = lambda text: " ".join(str(text).split())
HTML: Final[Any] = ENVIRONMENT.get_template("report.html").module
"""The macros of ``report.html``: functions from texts to HTML, of which the type is Markup."""


def paragraph(text: str, kind: str = "") -> Markup:
    """A paragraph of plain text; ``kind`` is its class."""
    return Markup(HTML.paragraph(text, kind))


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    numbers: int,
    caption: str = "",
    notes: Sequence[str] = (),
) -> Markup:
    """A table of plain texts.

    Args:
        head: the columns' names.
        rows: as many cells each.
        numbers: of how many columns, from the second on, the cells are numbers; they line up at
            the right, so that equal decimals are under each other.
        caption: what is shown.
        notes: paragraphs under it.
    """
    return Markup(HTML.table(head, rows, numbers, caption, notes))


def frame_table(name: str, frame: pd.DataFrame, longest: int = LONG) -> Markup:
    """A frame's rows, its numbers as a summary has them; of one of more than ``longest`` the first,
    and how many there are."""
    shown, note = frame, counted(len(frame), "rows")
    if len(frame) > longest:
        shown, note = frame.head(ROWS), f"the first {ROWS} of {note}; all are in {name}.csv"
    exact: dict[Any, Callable[[Any], str]] = {
        column: probability for column in shown.columns if column in ("p", "p_holm")
    }
    with pd.option_context("display.max_colwidth", WIDTH):
        rows = shown.to_html(  # which escapes texts itself
            index=False,
            border=0,
            float_format=lambda value: decimal(value, 3),
            formatters=exact,
            na_rep="–",
            justify="right",
        )
    return Markup(HTML.frame_table(f"{name}: {note}", Markup(rows)))


def picture(title: str, png: bytes, caption: str, narrow: bytes = b"") -> Markup:
    """A figure, as large as its letters ask for; ``title`` is for those who do not see it, and
    ``narrow`` the same figure for phones."""
    width = int.from_bytes(png[16:20], "big") * PIXELS / DPI
    data, data_narrow = (base64.b64encode(one).decode() for one in (png, narrow))
    return Markup(HTML.picture(title, data, round(width), data_narrow, caption))


def narrow_picture(figure: ChartFigure) -> bytes:
    """The figure for a phone; empty where it has no room there, and is scaled."""
    try:
        return picture_bytes(figure, width=NARROW, dpi=DPI)
    except InputError:
        return b""


def section(title: str, *parts: str) -> str:
    """A heading and what is under it; nothing if there is nothing. A part that is no Markup is
    a text, and escaped."""
    return Markup(HTML.section(title, caller=lambda: Markup().join(parts)))


def settings(
    config: Mapping[str, object], symbols: Mapping[str, Mapping[str, str]]
) -> list[tuple[str, str]]:
    """A config as (name, value); ``symbols`` are names of what is inside its mappings."""
    rows = []
    for key, value in config.items():
        if isinstance(value, Mapping):
            names = symbols.get(key, {})
            for name, inner in value.items():
                rows.append((f"{key}: {names.get(name, name.replace('_', ' '))}", shown(inner)))
        else:
            rows.append((key.replace("_", " "), shown(value)))
    return rows


def shown(value: object) -> str:
    """A value of the config as a person writes it."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, (list, tuple)):
        return ", ".join(shown(part) for part in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {shown(part)}" for key, part in value.items())
    return str(value)


def heading(result: StudyResult, figures: Mapping[str, ChartFigure]) -> str:
    """Study, model and task, like "CAP · model tiny · task bird"; of runs that have no model's
    name, what their figures begin with, such as their shape."""
    what = about(result.config, HEAD)
    titles = [figure.chart.title for figure in figures.values() if figure.chart is not None]
    shape, parted, _ = titles[0].partition(": ") if titles else ("", "", "")
    is_named = "model" in result.config or not parted
    return subtitle_of(study_name(result), "" if is_named else shape, what)


def study_name(result: StudyResult) -> str:
    """As a page's title has it."""
    name = result.study()
    return name.upper() if name in ACRONYMS else name[0].upper() + name[1:]


def said_of(kind: type[StudyResult]) -> str:
    """What a study's results are, in words: the first sentence on them."""
    sentence = " ".join((kind.__doc__ or kind.__name__).partition("\n\n")[0].split())
    return re.sub(r":\w+:`~?([^`]+)`", r"\1", sentence).partition("; made by ")[0].rstrip(".")


def report_page(
    result: StudyResult, figures: Mapping[str, ChartFigure], pictures: Mapping[str, bytes]
) -> str:
    """The page of :meth:`.StudyResult.report`.

    Args:
        result: whose page it is.
        figures: the result's.
        pictures: each of them as a PNG.
    """
    head, sentences = result.head(), result.sentences()
    summary = [
        part
        for part in result._summary()
        if not (str(part).startswith("! ") or str(part) in head or part in sentences)
    ]
    parts = {
        "title": heading(result, figures),
        "study": said_of(type(result)),
        "head": head,
        "notes": result.notes,
        "sentences": sentences,
        "summary": summary,
        "figures": _pictures(result, figures, pictures),
        "sections": result._sections(),
        "settings": settings(result.config, result.SYMBOLS),
        "versions": settings(result.versions, {}),
    }
    whole, examples = page(HTML.report(**parts, examples=None)), result._examples()
    if examples is None:
        return whole
    from interp_compose.studies.core.examples import listed

    room = MOST_BYTES - len(whole.encode())
    return page(HTML.report(**parts, examples=listed(examples, room)))


def _pictures(
    result: StudyResult, figures: Mapping[str, ChartFigure], pictures: Mapping[str, bytes]
) -> list[Markup]:
    parts, size = [], 0
    for name, png in pictures.items():
        chart = figures[name].chart
        narrow = narrow_picture(figures[name])
        size += (len(png) + len(narrow)) * 4 // 3
        if size > PICTURES:
            parts.append(paragraph(f"{name}.png: no room for it on this page", "note"))
            continue
        title = f"{chart.title}. {chart.subtitle}" if chart is not None else name
        caption = result.CAPTIONS.get(name, "")
        file = f"{name}.png"
        parts.append(picture(title, png, f"{caption} ({file})" if caption else file, narrow))
    return parts


def page(html: Markup) -> str:
    """A page as it is written: half of a surrogate pair, which a file's name may hold, is shown as
    "?"."""
    return html.encode(errors="replace").decode()
