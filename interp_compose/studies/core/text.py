"""Numbers as a comparison's words and tables write them, and tables as aligned text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import pandas as pd

from interp_compose.plots.chart import answers_note

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


def about(config: Mapping[str, Any], keys: Iterable[str], *more: str) -> str:
    """Like "task bird · unit text · 20 examples": what of ``keys`` is in the config, and more."""
    named = [f"{key} {config[key]}" for key in keys if config.get(key)]
    return " · ".join(filter(None, (*named, *answers_note(config), *more)))


def text_table(frame: pd.DataFrame, columns: Iterable[tuple[str, str, str]]) -> list[str]:
    """A heading line and a line per row of a frame.

    Args:
        frame: whose columns are shown.
        columns: for each its heading, its name in the frame and the format of its values, such as
            ">8.3f", whose alignment and width are the heading's too. NaN of a number is printed
            as "nan"; text may be shown instead.
    """
    columns = list(columns)
    widths = [re.match(r"[<>]?\d*", how) for _, _, how in columns]
    head = [f"{title:{w[0] if w else ''}}" for (title, *_), w in zip(columns, widths, strict=True)]
    values = [[format(value, how) for value in frame[name].tolist()] for _, name, how in columns]
    return ["".join(head), *("".join(cells) for cells in zip(*values, strict=True))]
