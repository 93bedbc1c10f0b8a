"""What checks types in tests: beartype, where it pays."""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any

from beartype import beartype


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Functions inside functions are made anew by every call, and making their checks costs more
    than most of them do: they are checked where they state a shape."""
    states_a_shape = "jaxtyping." in str(list(function.__annotations__.values()))
    if "<locals>" in function.__qualname__ and not states_a_shape:
        return function
    return beartype(function)


def ask_once_for_each_class(name: str) -> None:
    """A class that has met the protocol of this name once has met it. To ask every object anew,
    Python 3.11 reads all of its properties, and those of a model take long."""
    ask, met = typing._ProtocolMeta.__instancecheck__, set()  # type: ignore[attr-defined]

    def meets(protocol: type, instance: object) -> bool:
        if protocol.__name__ != name or type(instance) not in met:
            found: bool = ask(protocol, instance)
            if found and protocol.__name__ == name:
                met.add(type(instance))
            return found
        return True

    typing._ProtocolMeta.__instancecheck__ = meets  # type: ignore[attr-defined]
