"""What checks types in tests: beartype, where it pays."""

from __future__ import annotations

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
