"""A result as one HTML page that fetches nothing: what was asked, what came out, figures, examples,
tables, settings, versions."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from interp_compose.notebook import is_row
from interp_compose.plots.canvas import PIXELS
from interp_compose.plots.interactive import ChartFigure
from interp_compose.plots.static import DPI
from interp_compose.studies.core.text import counted, decimal, probability

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
SMALLEST: Final = 0.6
"""Of a picture's size, below which a narrow page scrolls it: its letters have 7 pixels then."""
CSS: Final = """
:root { color-scheme: light; --ink: #222; --muted: #666; --rule: #d8d8d8; }
body { margin: 0 auto; padding: 2.5rem 1.5rem 4rem; max-width: 68rem; background: white;
  color: var(--ink); font: 16px/1.55 Inter, "Helvetica Neue", Helvetica, Arial, sans-serif; }
h1 { font-size: 1.75rem; line-height: 1.25; margin: 0 0 .3rem; }
h2 { font-size: 1.25rem; margin: 2.6rem 0 .6rem; padding-top: .9rem;
  border-top: 1px solid var(--rule); }
p, li { max-width: 46rem; overflow-wrap: anywhere; }
.lead, .note, figcaption, caption { color: var(--muted); }
.note, figcaption, caption { font-size: .88rem; }
.caution { border-left: 4px solid #D55E00; background: #fdf3ec; padding: .6rem 1rem;
  max-width: 44rem; margin: .8rem 0; }
.scroll { overflow-x: auto; margin: 1rem 0 1.6rem; }
pre { font-size: .82rem; line-height: 1.4; }
pre span { white-space: pre-wrap; overflow-wrap: anywhere; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding-bottom: .45rem; }
th, td { padding: .28rem .75rem; text-align: left; vertical-align: top; }
th { font-weight: 600; border-bottom: 1.5px solid var(--ink); vertical-align: bottom; }
td { border-bottom: 1px solid #ececec; overflow-wrap: break-word; }
td.name { white-space: nowrap; }
th.number, td.number, .dataframe th, .dataframe td { text-align: right; white-space: nowrap; }
.dataframe { font-size: .82rem; }
.dataframe th, .dataframe td { padding: .2rem .5rem; }
figure { margin: 1.4rem 0 2rem; overflow-x: auto; }
figure img { max-width: 100%; }
.controls { display: flex; flex-wrap: wrap; align-items: baseline; gap: .5rem 1.2rem; }
.controls * { font: inherit; }
#x-list details { border-bottom: 1px solid #ececec; padding: .3rem 0; }
#x-list summary { cursor: pointer; overflow-wrap: anywhere; white-space: pre-wrap; }
#x-list table { margin: .5rem 0 1rem; }
#x-list td { white-space: pre; }
.loss { display: inline-block; min-width: 4.2rem; font-variant-numeric: tabular-nums; }
.unit { outline: 1px solid #0072B2; border-radius: 2px; background: #eaf3f9; margin: 0 1px; }
.unit span + span { border-left: 1px dotted #0072B2; }
.right { font-weight: 600; }
@media print {
  body { max-width: none; padding: 0; font-size: 10.5pt; }
  .controls { display: none; }
  .scroll, figure { overflow: visible; }
  figure img { min-width: 0 !important; }
  .scroll table, pre { font-size: 7pt; }
  .scroll th, .scroll td { padding: .1rem .3rem; white-space: normal; }
  pre { white-space: pre-wrap; }
  tr, figure, .caution, #x-list details { break-inside: avoid; }
  h2, .note { break-after: avoid; }
}
"""


def escaped(text: object) -> str:
    """Any text as the characters that it is, in an element or an attribute."""
    return html.escape(" ".join(str(text).split()))


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph of plain text; ``kind`` is its class."""
    attribute = f' class="{escaped(kind)}"' if kind else ""
    return f"<p{attribute}>{escaped(text)}</p>"


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: int, caption: str = ""
) -> str:
    """A table of plain texts.

    Args:
        head: the columns' names.
        rows: as many cells each.
        numbers: of how many columns, from the second on, the cells are numbers; they line up at
            the right, so that equal decimals stand under each other.
        caption: what is shown.
    """
    first = ' class="name"' if numbers else ""
    kinds = [first] + [' class="number"' if i <= numbers else "" for i in range(1, len(head))]
    cells = zip(kinds, head, strict=True)
    top = "".join(f'<th scope="col"{kind}>{escaped(text)}</th>' for kind, text in cells)
    body = "\n".join(
        "<tr>"
        + "".join(f"<td{kind}>{escaped(text)}</td>" for kind, text in zip(kinds, row, strict=True))
        + "</tr>"
        for row in rows
    )
    title = f"<caption>{escaped(caption)}</caption>" if caption else ""
    return (
        f'<div class="scroll"><table>{title}<thead><tr>{top}</tr></thead>'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def frame_table(name: str, frame: pd.DataFrame, longest: int = LONG) -> str:
    """A frame's rows, its numbers as a summary has them; of one of more than ``longest`` the first,
    and how many there are."""
    shown, note = frame, counted(len(frame), "rows")
    if len(frame) > longest:
        shown, note = frame.head(ROWS), f"the first {ROWS} of {note}; all are in {name}.csv"
    exact: dict[Any, Callable[[Any], str]] = {
        column: probability for column in shown.columns if column in ("p", "p_holm")
    }
    with pd.option_context("display.max_colwidth", WIDTH):
        body = shown.to_html(
            index=False,
            border=0,
            float_format=lambda value: decimal(value, 3),
            formatters=exact,
            na_rep="–",
            justify="right",
        )
    return f'{paragraph(f"{name}: {note}", "note")}<div class="scroll">{body}</div>'


def picture(title: str, png: bytes, caption: str) -> str:
    """A figure, as large as its letters ask for; ``title`` is for those who do not see it."""
    data = base64.b64encode(png).decode()
    width = int.from_bytes(png[16:20], "big") * PIXELS / DPI
    size = f'width="{width:.0f}" style="min-width: {SMALLEST * width:.0f}px"'
    return (
        f'<figure><img alt="{escaped(title)}" {size} src="data:image/png;base64,{data}">'
        f"<figcaption>{escaped(caption)}</figcaption></figure>"
    )


def section(title: str, *parts: str) -> str:
    """A heading and what stands under it; nothing if there is nothing."""
    inside = "\n".join(part for part in parts if part)
    return f"<section>\n<h2>{escaped(title)}</h2>\n{inside}\n</section>" if inside else ""


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


def title_of(kind: type[StudyResult]) -> str:
    """What a study's results are, in words: the first sentence on them."""
    sentence = " ".join((kind.__doc__ or kind.__name__).partition("\n\n")[0].split())
    return re.sub(r":\w+:`~?([^`]+)`", r"\1", sentence).partition("; made by ")[0].rstrip(".")


def _line(line: str) -> str:
    """A line of a summary; one that is no row of a table may be broken."""
    text = html.escape(line)
    return text if is_row(line) else f"<span>{text}</span>"


def report_page(
    result: StudyResult, figures: Mapping[str, ChartFigure], pictures: Mapping[str, bytes]
) -> str:
    """The page of :meth:`.StudyResult.report`.

    Args:
        result: whose page it is.
        figures: the result's.
        pictures: each of them as a PNG.
    """
    title, head = title_of(type(result)), result.head()
    lines = [
        line
        for line in result.summary().splitlines()
        if not line.startswith("! ") and not (line and line in head)
    ]
    text = "\n".join(map(_line, "\n".join(lines).strip("\n").splitlines()))
    examples = result._examples()
    before = [
        f"<h1>{escaped(title)}</h1>",
        paragraph(head, "lead"),
        *(paragraph(f"! {note}", "caution") for note in result.notes),
        section(
            "What came out",
            *map(paragraph, result.sentences()),
            f'<div class="scroll"><pre>{text}</pre></div>' if text else "",
        ),
        section("Figures", *_pictures(result, figures, pictures)),
    ]
    after = [
        *result._sections(),
        section("Settings", table(("", ""), settings(result.config, result.SYMBOLS), numbers=0)),
        section("Versions", table(("", ""), settings(result.versions, {}), numbers=0)),
    ]
    if examples is not None:
        from interp_compose.studies.core.examples import browser

        room = MOST_BYTES - len(page(title, *before, *after).encode())
        before.append(section("Examples", browser(examples, room)))
    return page(title, *before, *after)


def _pictures(
    result: StudyResult, figures: Mapping[str, ChartFigure], pictures: Mapping[str, bytes]
) -> list[str]:
    parts, size = [], 0
    for name, png in pictures.items():
        chart = figures[name].chart
        size += len(png) * 4 // 3
        if size > PICTURES:
            parts.append(paragraph(f"{name}.png: no room for it on this page", "note"))
            continue
        title = f"{chart.title}. {chart.subtitle}" if chart is not None else name
        caption = result.CAPTIONS.get(name, "")
        file = f"{name}.png"
        parts.append(picture(title, png, f"{caption} ({file})" if caption else file))
    return parts


def page(title: str, *parts: str) -> str:
    """A whole page; nothing is fetched when it is opened. Half of a surrogate pair, which a file's
    name may hold, is shown as "?"."""
    inside = "\n".join(part for part in parts if part)
    whole = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escaped(title)}</title>\n<style>{CSS}</style>\n</head>\n"
        f"<body>\n{inside}\n</body>\n</html>\n"
    )
    return whole.encode(errors="replace").decode()
