"""The colours of a heat map: which number gets which, and where the colour bar has its ticks.

Lightness falls steadily from small to large, or from 0 to both ends, so that the order survives
greyscale; blue and vermilion are told apart with any common colour vision.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Final

from interp_compose.plots.heatmap import HeatMap

SEQUENTIAL: Final = ("#fdf8df", "#c6e4c8", "#74c0c3", "#2e8dbc", "#12589a", "#0b2c5a")
DIVERGING: Final = (
    "#063558", "#0b66a8", "#6fb1da", "#f6f6f4", "#ee9d6b", "#c04f05", "#6b2800",
)  # fmt: skip
GREY: Final = "#dcdcdc"  # a cell without a number, and the stroke through it
STROKE: Final = "#a0a0a0"
WHITE: Final = "#ffffff"
BLACK: Final = "#000000"  # not the figures' ink: the contrast has to hold on every colour
MOST_TICKS: Final = 7


@dataclass(frozen=True)
class Scale:
    """Places on the colour bar: numbers, or their logarithms to base 10.

    ``low`` and ``high`` are its ends; ``ticks`` are (place, text); there are none where nothing
    was measured. ``stops`` are colours at equal distances.
    """

    low: float
    high: float
    log: bool
    stops: tuple[str, ...]
    ticks: tuple[tuple[float, str], ...]

    def place(self, value: float) -> float:
        return math.log10(value) if self.log else value

    def colour(self, value: float) -> str:
        return self.colour_of_place(self.place(value))

    def colour_of_place(self, place: float) -> str:
        """The colour at a number, or at its log10 where ``log``; beyond an end it is the end's."""
        share = (place - self.low) / (self.high - self.low)
        return self.colour_at(min(max(share, 0.0), 1.0))

    def colour_at(self, share: float) -> str:
        """The colour at 0 (low) to 1 (high), mixed from the two nearest stops."""
        along = share * (len(self.stops) - 1)
        i = min(int(along), len(self.stops) - 2)
        channels = zip(_channels(self.stops[i]), _channels(self.stops[i + 1]), strict=True)
        mixed = (round(a + (along - i) * (b - a)) for a, b in channels)
        return "#" + "".join(f"{channel:02x}" for channel in mixed)

    def ink(self, value: float) -> str:
        """Black or white, whichever is read better on the number's colour."""
        paper = luminance(self.colour(value))
        return WHITE if 1.05 / (paper + 0.05) > (paper + 0.05) / 0.05 else BLACK


def scale_of(heatmap: HeatMap) -> Scale:
    """Ends are the map's limits, else its extremes; if diverging, as far below 0 as above it."""
    places = [math.log10(v) if heatmap.log else v for _, _, v in heatmap.measured]
    if not places:
        return Scale(0.0, 1.0, False, SEQUENTIAL, ())
    low, high = min(places), max(places)
    if heatmap.diverging:
        high = max(-low, high)
        low = -high
    if heatmap.limits is not None:
        low, high = heatmap.limits
    if not high - low > 1e-9 * abs(high):  # one number everywhere: the middle of the scale
        pad = 0.1 * abs(high) or 1.0
        low, high = low - pad, high + pad
    per_cent = heatmap.value_format.endswith("%")
    ticks = _ticks(low, high, heatmap.log, per_cent)
    return Scale(low, high, heatmap.log, DIVERGING if heatmap.diverging else SEQUENTIAL, ticks)


def luminance(colour: str) -> float:
    """The relative luminance of WCAG 2.1, from 0 (black) to 1 (white)."""
    parts = [channel / 255 for channel in _channels(colour)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _channels(colour: str) -> tuple[int, int, int]:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return red, green, blue


def _ticks(low: float, high: float, log: bool, per_cent: bool) -> tuple[tuple[float, str], ...]:
    """Round numbers between the ends: steps of 1, 2 or 5; powers of ten where it is logarithmic."""
    values = _log_ticks(low, high) if log else _even_ticks(low, high)
    texts = [f"{100 * v:.12g}%" if per_cent else f"{v:.12g}" for v in values]
    places = [math.log10(v) if log else v for v in values]
    signed = [text.replace("-", "\N{MINUS SIGN}") for text in texts]
    return tuple(zip(places, signed, strict=True))


def _even_ticks(low: float, high: float) -> list[float]:
    power = 10.0 ** (math.floor(math.log10(high - low)) - 1)
    steps = (digit * power * ten for ten in (1, 10, 100) for digit in (1, 2, 5))
    step = next(step for step in steps if (high - low) / step <= MOST_TICKS - 1)
    # a little slack, or an end that is round would be lost to rounding
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{k * step:.12g}") for k in range(first, last + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    """1, 2, 5, 10, …; over many decades only their powers; within one, even steps."""
    decades = range(math.floor(low), math.ceil(high) + 1)
    thinned = decades[:: max(1, math.ceil(len(decades) / MOST_TICKS))]
    for digits, powers in (((1, 2, 5), decades), ((1,), thinned)):
        values = [digit * 10.0**power for power, digit in itertools.product(powers, digits)]
        inside = [v for v in values if low - 1e-9 <= math.log10(v) <= high + 1e-9]
        if 3 <= len(inside) <= 10:
            return [float(f"{v:.12g}") for v in inside]
    return _even_ticks(10.0**low, 10.0**high)
