"""What counts as a whole number."""

from __future__ import annotations

from numbers import Integral
from typing import Any


def is_whole(value: Any) -> bool:
    """An integer of Python's or numpy's, and no boolean."""
    return isinstance(value, Integral) and not isinstance(value, bool)
