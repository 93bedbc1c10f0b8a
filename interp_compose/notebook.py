"""What a notebook shows of an object: a few kilobytes of HTML in which every text is a text.

No script, no style sheet, nothing that is fetched: a page exported from the notebook, or a viewer
that strips both, shows the same. Colours and fonts are the notebook's own.
"""

from __future__ import annotations

import base64
import html
import sys
from collections.abc import Mapping
from typing import Any, Final

from interp_compose.errors import shortened

LONGEST: Final = 240
"""Characters of one value."""
LINES: Final = 30
"""Rows of a table."""


def in_notebook() -> bool:
    """Whether a notebook's kernel runs this, which shows what is displayed."""
    ipython = sys.modules.get("IPython")
    return hasattr(ipython.get_ipython() if ipython else None, "kernel")


def block(kind: str, head: object, *parts: str) -> str:
    """A block: the object's kind in bold, its head line, and ``parts``, which are HTML."""
    first = f"<p><b>{_escaped(kind)}</b> {_escaped(head)}</p>"
    return f'<div class="interp-compose">{first}{"".join(parts)}</div>'


def facts(values: Mapping[str, object], *, title: str = "") -> str:
    """A table of names and values, a row each."""
    rows = "".join(
        f'<tr><th style="text-align: left">{_escaped(name)}</th>'
        f'<td style="text-align: left; white-space: pre-wrap">{_escaped(value)}</td></tr>'
        for name, value in values.items()
    )
    caption = f'<caption style="text-align: left">{_escaped(title)}</caption>' if title else ""
    return f"<table>{caption}<tbody>{rows}</tbody></table>"


def picture(png: bytes, text: str) -> str:
    """A PNG inside the page; ``text`` is for those who do not see it."""
    data = base64.b64encode(png).decode()
    return (
        f'<img alt="{_escaped(text)}" src="data:image/png;base64,{data}" style="max-width: 100%">'
    )


def _escaped(value: Any) -> str:
    return html.escape(shortened(str(value), LONGEST))
