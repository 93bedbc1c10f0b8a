"""The definitions of ``mini-idm``: families of skeletons, authored for this project.

A family has *phrasings*, bracketed as in the Penn Treebank, and *rows*. In a phrasing ``<young>``
is a word of the concept ``young`` and ``<0>``, ``<1>`` are words of the row's concepts. A row
reads ``answer: concept concept``. One phrasing with one row is a *skeleton*: everything about the
definition is fixed but the choice among synonyms.

``definitions.txt`` has a paragraph for each family: its name, its phrasings, its rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Family:
    """Definitions that are put together in the same way."""

    name: str
    phrasings: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    """``(answer, concepts)``"""


def _family(paragraph: str) -> Family:
    name, *lines = paragraph.splitlines()
    phrasings = tuple(line for line in lines if line.startswith("("))
    cells = "; ".join(lines[len(phrasings) :]).split("; ")
    pairs = (cell.split(": ") for cell in cells)
    rows = tuple((answer, tuple(concepts.split())) for answer, concepts in pairs)
    return Family(name, phrasings, rows)


_TEXT = Path(__file__).with_name("definitions.txt").read_text(encoding="utf-8")
FAMILIES = tuple(_family(paragraph) for paragraph in _TEXT.strip().split("\n\n"))
