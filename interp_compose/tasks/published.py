"""Whether what was read is a data set's published rows: SHA-256 of its parts, in any order."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final

PUBLISHED: Final[dict[str, dict[str, str]]] = {
    "BiRD": {"test": "000459c92b96dab3"},
    "COGS": {
        "train": "3004c5464c0b9e9c",
        "dev": "7af8f89aca75658f",
        "test": "a74ffefc3f94535f",
        "gen": "9cf2de7e78b2f592",
        "types of gen": "c8498370ebf069eb",
    },
    "CoGnition": {
        "valid": "ba9f25c789a5b856",
        "test": "25a1b28b5033e594",
        "cg-test": "cc721810cb4489b6",
        "lexicon": "9499b9fde71f1d25",
    },
    "SCAN": {"test": "da4ca34de7aee003"},
    "Stanford Sentiment Treebank": {
        "train": "29095f53266259e6",
        "validation": "6257142c508ff0fc",
        "test": "9ccf5385e59cc775",
    },
}
""":func:`rows_sha256` by data set and part. (CoGnition's training split was not at hand.)"""


def rows_sha256(rows: Iterable[object]) -> str:
    """16 digits of the SHA-256 of the sorted rows; of an item that is no text, its fields count."""
    texts = (
        row if isinstance(row, str) else "\t".join(map(str, vars(row).values())) for row in rows
    )
    return hashlib.sha256("".join(f"{text}\n" for text in sorted(texts)).encode()).hexdigest()[:16]


def altered(data: str, parts: Mapping[str, Iterable[object]]) -> str:
    """Names the parts that are not the published ones; an empty text where all are."""
    digests = {part: rows_sha256(parts[part]) for part in PUBLISHED[data] if part in parts}
    return ", ".join(
        f"the rows of {part} (SHA-256 {sha256[:8]}…; published {PUBLISHED[data][part][:8]}…)"
        for part, sha256 in digests.items()
        if sha256 != PUBLISHED[data][part]
    )


def named(
    name: str, data: str, where: object, parts: Mapping[str, Iterable[object]]
) -> tuple[str, str]:
    """A task's name and its source, which both say so where rows are not the published ones."""
    changes, source = altered(data, parts), f"{data} in {where}"
    unknown = [part for part in parts if part not in PUBLISHED[data]]
    source += f" ({', '.join(unknown)} not compared with the published rows)" if unknown else ""
    return (f"{name} (altered)", f"{source}, altered: {changes}") if changes else (name, source)
