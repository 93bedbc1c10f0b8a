"""Numbers as a comparison's words and tables write them, and tables as aligned text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
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
    named = [f"{key} {_without_folders(config[key])}" for key in keys if config.get(key)]
    return " · ".join(filter(None, (*named, *answers_note(config), *more)))


def _without_folders(value: Any) -> Any:
    """A file's name alone of an absolute path; anything else as it is."""
    return Path(value).name if isinstance(value, str) and Path(value).is_absolute() else value


def text_table(frame: pd.DataFrame, columns: Iterable[tuple[str, str, str]]) -> list[str]:
    """A heading line and a line per row of a frame.

    Args:
        frame: whose columns are shown.
        columns: for each its heading, its name in the frame and the format of its values, such as
            ">8.3f", whose alignment and width are the heading's too. A column is as wide as its
            widest cell, and stands apart from the one before it. NaN of a number is printed as
            "nan"; text may be shown instead.
    """
    lines = [""] * (len(frame) + 1)
    for title, name, how in columns:
        fit = re.match(r"[<>]?\d*", how)
        cells = [f"{title:{fit[0] if fit else ''}}"]
        cells += [format(value, how) for value in frame[name].tolist()]
        width = max(map(len, cells))
        side = str.rjust if how.startswith(">") else str.ljust
        cells = [side(cell, width) for cell in cells]
        touch = any(
            line[-1:].strip() and cell[:1].strip() for line, cell in zip(lines, cells, strict=True)
        )
        lines = [line + "  " * touch + cell for line, cell in zip(lines, cells, strict=True)]
    return [line.rstrip() for line in lines]
