"""The Penn Treebank's spelling of brackets and slashes, undone."""

from __future__ import annotations

ESCAPES = {
    "-LRB-": "(",
    "-RRB-": ")",
    "-LSB-": "[",
    "-RSB-": "]",
    "-LCB-": "{",
    "-RCB-": "}",
    "\\/": "/",
    "\\*": "*",
}


def without_escapes(word: str) -> str:
    """A leaf as it stands in running text; quotation marks are left as they are."""
    for escape, meant in ESCAPES.items():
        word = word.replace(escape, meant)
    return word
