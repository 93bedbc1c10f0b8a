"""What checks types in tests: beartype, where it pays."""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any

from beartype import beartype


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Functions inside functions are made anew by every call, and making their checks costs more
    than most of them do: a fifth of a test run. They go unchecked; what calls them does not."""
    return function if "<locals>" in function.__qualname__ else beartype(function)


def ask_once_for_each_class() -> None:
    """A class that has met a protocol once has met it. To ask every object anew, Python 3.11 reads
    all of its properties: another fifth."""
    ask, met = typing._ProtocolMeta.__instancecheck__, set()  # type: ignore[attr-defined]

    def meets(protocol: type, instance: object) -> bool:
        pair = (protocol, type(instance))
        if pair not in met and ask(protocol, instance):
            met.add(pair)
        return pair in met

    typing._ProtocolMeta.__instancecheck__ = meets  # type: ignore[attr-defined]
