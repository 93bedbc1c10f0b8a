"""Numbers as a comparison's words and tables write them."""

from __future__ import annotations

import math
from typing import Final

NOTHING: Final = 1e-9  # smaller numbers are 0 to rounding
SMALL: Final = 0.005  # smaller numbers show two significant digits


def decimal(value: float | None, digits: int, *, sign: bool = False) -> str:
    """With ``digits`` decimals; a dash for None and NaN, and never a negative zero.

    What is below 0.005, or would be printed as 0, gets as many more as show two significant digits.
    """
    if value is None or math.isnan(value):
        return "–"
    if abs(value) < NOTHING:
        value = 0.0
    elif abs(value) < max(SMALL, 0.5 * 10.0**-digits):
        digits = max(digits, 1 - math.floor(math.log10(abs(value))))
    return f"{value:{'+' if sign else ''}.{digits}f}".replace("-", "−")
