"""Whether the rows that were read are a data set's published ones: the SHA-256 of its parts.

It is of the rows as they are read, sorted: ends of lines, a byte-order mark and the order of the
rows change nothing, and everything else does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final

from interp_compose.errors import DataFormatError

PUBLISHED: Final[dict[str, dict[str, str]]] = {
    "BiRD": {"test": "f2517417e3d61ed93b3ffdf6db498f65279f70ed7332b1f43162c2fe253d9d0a"},
    "COGS": {
        "train": "3004c5464c0b9e9cb5dd961827bd8473dce13a93966d7b1922c1c1a7d850e371",
        "dev": "7af8f89aca75658f3ee3d2c5b67d08d753dc71006836d0748e2d3a89b9fae454",
        "test": "a74ffefc3f94535f158372d0d75989035059103c0fc20f2e5c23e08e48aaa7f9",
        "gen": "9cf2de7e78b2f5928f27b04b1562b3c3ad4b6367c10a698b80016034144a48f4",
        "gen but for roles": "4eeeafdd3cb672adf7d14e58ce49d948c6db6584d2e586476779f73776e94436",
    },
    "CoGnition": {
        "valid": "ba9f25c789a5b856156a68ecb986614544f588fc548aa3f1f8d307e7b8994574",
        "test": "25a1b28b5033e5943ddd1a5fa50fc1e2fbff3ce79984d61a9be5f69e0f1cd311",
        "cg-test": "cc721810cb4489b6c667a95e173f416407f65c9b592c35121889bb2ed11c9e4e",
    },
    "SCAN": {"test": "da4ca34de7aee003ca93c5b67be9195e169d641af9aca46a0408207681dbc62d"},
    "Stanford Sentiment Treebank": {
        "train": "29095f53266259e6927351e738180c771a57adbebe2bf7b58d4b9926269d8587",
        "validation": "6257142c508ff0fcfb4da37b5f2e60a8b8e3941f2ebce427bd21c4db0617d1ae",
        "test": "9ccf5385e59cc775a993bfa8420481814534e62715b8d7d9082f02589d26fe6f",
    },
}
"""By data set and part. CoGnition's training split was not at hand."""


def rows_sha256(rows: Iterable[str]) -> str:
    """Of rows in any order."""
    return hashlib.sha256("".join(f"{row}\n" for row in sorted(rows)).encode()).hexdigest()


def differences(data: str, parts: Mapping[str, Iterable[str]]) -> str:
    """The parts whose rows are not the published ones, such as ``the rows of test (SHA-256
    1a2b3c4d…; published 5e6f7a8b…)``; an empty text where all are."""
    found = {part: rows_sha256(parts[part]) for part in PUBLISHED[data] if part in parts}
    differing = [
        f"{part} (SHA-256 {sha256[:8]}…; published {PUBLISHED[data][part][:8]}…)"
        for part, sha256 in found.items()
        if sha256 != PUBLISHED[data][part]
    ]
    return f"the rows of {', '.join(differing)}" if differing else ""


def check_published(data: str, where: object, parts: Mapping[str, Iterable[str]]) -> None:
    """``DataFormatError`` for other rows than the published ones."""
    if found := differences(data, parts):
        raise DataFormatError(
            f"{where} is not {data}, but altered files, or another rendering or version of it: "
            f"{found}. Get the files again, or make an ic.SequenceTask of them"
        )


def named(
    name: str, data: str, where: object, parts: Mapping[str, Iterable[str]]
) -> tuple[str, str]:
    """A task's name and the source that its report states; both say so where rows are not the
    published ones."""
    found, source = differences(data, parts), f"{data} in {where}"
    return (f"{name} (altered)", f"{source}, altered: {found}") if found else (name, source)
