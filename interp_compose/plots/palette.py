"""Pictures of fewer bytes, for notebooks: a palette of 256 colours."""

from __future__ import annotations

import io
from typing import Final

import numpy as np
from jaxtyping import Float, Int, Shaped
from matplotlib.colors import to_rgb
from PIL import Image as Picture

from interp_compose.plots.heatmap_scale import Scale

KEPT_SHADES: Final = 160  # of a palette of 256
NEAR: Final = 4.0  # of 255: what differs less from a shade is drawn as one


def few_colours(png: bytes, scale: Scale | None = None) -> bytes:
    """The same picture with a palette of 256 colours: about a third of the bytes.

    Of a picture with a colour bar, most of them are the shades of its ``scale``, so that no colour
    that means a number changes by more than 3 of 255.
    """
    full = Picture.open(io.BytesIO(png)).convert("RGB")
    few = full.quantize(dither=Picture.Dither.NONE) if scale is None else _shaded(full, scale)
    buffer = io.BytesIO()
    few.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def _shaded(full: Picture.Image, scale: Scale) -> Picture.Image:
    """The picture in shades of the scale, and what other colours it needs."""
    pixels = np.asarray(full).reshape(-1, 3).astype(int)
    coded, place = np.unique(pixels @ (65536, 256, 1), return_inverse=True)
    colours = np.stack([coded // 65536, coded // 256 % 256, coded % 256], axis=1)
    shares = np.linspace(0, 1, KEPT_SHADES)
    shades = np.rint([[255 * channel for channel in to_rgb(scale.colour_at(x))] for x in shares])
    _, apart = _nearest(colours, shades)
    others = pixels[(apart > NEAR)[place]]
    palette = shades.astype(np.uint8)
    if len(others):
        row = Picture.fromarray(others[None].astype(np.uint8))
        rest = row.quantize(256 - KEPT_SHADES, dither=Picture.Dither.NONE).getpalette() or []
        palette = np.concatenate([palette, np.reshape(rest, (-1, 3)).astype(np.uint8)])
    nearest, _ = _nearest(colours, palette)
    few = Picture.fromarray(nearest[place].reshape(full.height, full.width).astype(np.uint8))
    few.putpalette(palette.tobytes())
    return few


def _nearest(
    colours: Int[np.ndarray, "colours channel"], among: Shaped[np.ndarray, "palette channel"]
) -> tuple[Int[np.ndarray, " colours"], Float[np.ndarray, " colours"]]:
    """For each colour the place of the nearest one, and by how much a channel differs from it."""
    place, apart = np.zeros(len(colours), int), np.full(len(colours), np.inf)
    for k, one in enumerate(among.astype(float)):
        distance = np.abs(colours - one).max(axis=1)
        closer = distance < apart
        place[closer], apart[closer] = k, distance[closer]
    return place, apart
