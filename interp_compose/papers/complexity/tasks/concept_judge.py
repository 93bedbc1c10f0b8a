"""What an image of a concept graph shows: shape, size and colour, measured by moments.

The authors train a classifier; this is a rule. How much of each pixel is covered is read from the
green channel, of which both colours have equally little. Of the covered area, the third moment over
a power of the second is 0 for a disc and 0.8 for an equilateral triangle, the second moment gives
the radius, and its inner pixels the colour. Blurring adds to the second moment and leaves the
third. The shape that was found is drawn again: an image that differs from it by too much is not
clear.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from jaxtyping import Bool, Float, Int

from interp_compose.papers.complexity.tasks.concept_images import COLORS, RADII, Shapes, bits_of

INK: Final = 1 - COLORS[0][1]
"""How far both colours' green lies below that of white."""
FLOOR: Final = 0.35
"""Less covered pixels, and smaller differences to the drawing, are taken for noise and blur."""
INNER: Final = 0.7
"""Pixels that are covered more than this show the colour."""
SKEW: Final = 0.4
"""Half of an equilateral triangle's ``|E z³| / E[|z|²]^1.5``, z = x + iy from the centre."""
UNLIKE: Final = 0.15
"""Pixels that differ from the drawing of what was found, as a share of those covered, at most in a
clear image."""


@dataclass(frozen=True, eq=False)
class Judged:
    """Each image's three bits, whether it is clear, and how unlike the drawing it is."""

    bits: Int[np.ndarray, "image attribute"]
    is_clear: Bool[np.ndarray, "image"]
    unlike: Float[np.ndarray, "image"]

    def right(self, node: str) -> dict[str, int]:
        """How many images are right in all (and clear), in each attribute, and clear."""
        is_right = self.bits == bits_of([node])
        shape, size, color = is_right.sum(axis=0).tolist()
        n_right = int((is_right.all(axis=1) & self.is_clear).sum())
        return {
            "all": n_right, "shape": shape, "size": size, "color": color,
            "clear": int(self.is_clear.sum()),
        }  # fmt: skip


def judge(images: Float[np.ndarray, "image channel y x"]) -> Judged:
    """What images with values from 0 to 1 show; an empty image shows no clear shape."""
    images = np.clip(images.astype(np.float64), 0, 1)
    side = images.shape[-1]
    covered = np.clip((1 - images[:, 1]) / INK, 0, 1)
    covered[covered < FLOOR] = 0
    area = np.maximum(covered.sum(axis=(1, 2)), 1e-9)
    middles = (np.arange(side) + 0.5) / side
    weights = covered / area[:, None, None]
    powers = middles[:, None] ** np.arange(4)
    mean = powers.T @ weights @ powers  # [image, a, b]: the mean of y^a x^b
    z = mean[:, 0, 1] + 1j * mean[:, 1, 0]  # the centre, x + iy
    z2 = mean[:, 0, 2] - mean[:, 2, 0] + 2j * mean[:, 1, 1]
    z3 = mean[:, 0, 3] - 3 * mean[:, 2, 1] + 1j * (3 * mean[:, 1, 2] - mean[:, 3, 0])
    second = np.maximum(mean[:, 0, 2] + mean[:, 2, 0] - np.abs(z) ** 2, 1e-12)
    third = np.abs(z3 - 3 * z * z2 + 2 * z**3)
    is_triangle = (third / second**1.5 > SKEW).astype(np.int64)
    radius = np.where(is_triangle, 2.0, 2**0.5) * np.sqrt(second)
    inner = (covered > INNER)[:, None]
    n_inner = inner.sum(axis=(2, 3))
    rgb = (images * inner).sum(axis=(2, 3)) / np.maximum(n_inner, 1)
    shapes = Shapes(is_triangle, np.stack([z.real, z.imag], axis=1), radius, rgb)
    differences = np.abs(images - shapes.rendered(side)).max(axis=1)
    unlike = (differences > FLOOR).sum(axis=(1, 2)) / np.maximum(area, 1)
    is_clear = (unlike < UNLIKE) & (n_inner[:, 0] > 0)
    is_small = (radius < sum(RADII) / 2).astype(np.int64)
    is_blue = (rgb[:, 2] > rgb[:, 0]).astype(np.int64)
    return Judged(np.stack([is_triangle, is_small, is_blue], axis=1), is_clear, unlike)


def degraded(
    images: Float[np.ndarray, "image channel y x"], seed: int, *, noise: float, blur: float
) -> Float[np.ndarray, "image channel y x"]:
    """Images blurred by a Gaussian (``blur``: its deviation in pixels), then with Gaussian noise of
    a deviation of ``noise``: about as good as generated ones."""
    from scipy.ndimage import gaussian_filter

    blurred = gaussian_filter(images, (0, 0, blur, blur), mode="nearest")
    random = np.random.default_rng(seed)
    return blurred + noise * random.standard_normal(images.shape)  # type: ignore[no-any-return]
