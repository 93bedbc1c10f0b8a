"""The parts of a page: text that is escaped, tables whose numbers line up, figures inside it."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from typing import Final

from plotly.offline import get_plotlyjs

from interp_compose.plots.export import picture_bytes
from interp_compose.plots.interactive import CONFIG, ChartFigure

CSS: Final = """
:root { color-scheme: light; --ink: #222; --muted: #666; --rule: #d8d8d8; }
body { margin: 0 auto; padding: 2.5rem 1.5rem 4rem; max-width: 68rem; background: white;
  color: var(--ink); font: 16px/1.55 Inter, "Helvetica Neue", Helvetica, Arial, sans-serif; }
h1 { font-size: 1.75rem; line-height: 1.25; margin: 0 0 .3rem; }
h2 { font-size: 1.25rem; margin: 2.6rem 0 .6rem; padding-top: .9rem;
  border-top: 1px solid var(--rule); }
p, li { max-width: 46rem; }
.lead, .note, figcaption, caption { color: var(--muted); }
.note, figcaption, caption { font-size: .88rem; }
.caution { border-left: 4px solid #D55E00; background: #fdf3ec; padding: .6rem 1rem;
  max-width: 44rem; margin: .8rem 0; }
dl.verdicts { display: grid; grid-template-columns: 14rem 1fr; gap: .55rem 1.2rem; }
dl.verdicts dt { font-weight: 600; }
dl.verdicts dd { margin: 0; }
.scroll { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding-bottom: .45rem; }
th, td { padding: .28rem .75rem; text-align: left; vertical-align: top; }
th { font-weight: 600; border-bottom: 1.5px solid var(--ink); vertical-align: bottom; }
td { border-bottom: 1px solid #ececec; overflow-wrap: break-word; }
td.name { white-space: nowrap; }
th.number, td.number { text-align: right; white-space: nowrap; }
figure { margin: 1.4rem 0 2rem; }
figure img { display: none; width: 100%; max-width: 52rem; }
@media (max-width: 44rem) { dl.verdicts { grid-template-columns: 1fr; } }
@media print {
  body { max-width: none; padding: 0; font-size: 10.5pt; }
  .interactive { display: none; }
  figure img { display: block; }
  tr, figure, .caution { break-inside: avoid; }
  h2 { break-after: avoid; }
}
"""
NO_SCRIPT: Final = (
    "<noscript><style>.interactive { display: none; } figure img { display: block; }"
    "</style></noscript>"
)


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


def figure(name: str, drawn: ChartFigure, caption: str) -> str:
    """A figure to explore, and the same as a picture for print and where scripts do not run."""
    div = drawn.to_html(
        config=CONFIG,
        include_plotlyjs=False,
        include_mathjax=False,
        full_html=False,
        div_id=f"figure-{name}",
    )
    picture = ""
    if drawn.chart is not None:
        data = base64.b64encode(picture_bytes(drawn)).decode()
        about = escaped(f"{drawn.chart.title}. {drawn.chart.subtitle}")
        picture = f'<img alt="{about}" src="data:image/png;base64,{data}">'
    return (
        f'<figure><div class="interactive">{div}</div>{picture}'
        f"<figcaption>{escaped(caption)}</figcaption></figure>"
    )


def section(title: str, *parts: str) -> str:
    """A heading and what stands under it; nothing if there is nothing."""
    inside = "\n".join(part for part in parts if part)
    return f"<section>\n<h2>{escaped(title)}</h2>\n{inside}\n</section>" if inside else ""


def page(title: str, *parts: str) -> str:
    """A whole page, plotly.js inside; nothing is fetched when it is opened."""
    inside = "\n".join(part for part in parts if part)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escaped(title)}</title>\n<style>{CSS}</style>\n{NO_SCRIPT}\n"
        f'<script>window.PlotlyConfig = {{MathJaxConfig: "local"}};</script>\n'
        f"<script>{get_plotlyjs()}</script>\n</head>\n<body>\n{inside}\n</body>\n</html>\n"
    )
