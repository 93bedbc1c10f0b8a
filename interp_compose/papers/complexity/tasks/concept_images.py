"""Concept graphs: images of one shape in one colour and size, drawn here (Okawa et al. 2023).

A node of the graph is three bits, shape, size and colour, as complexity control writes them
(section VII, Fig. 6): ``010`` is a small red circle. The released code, and the data of Okawa et
al., have the colour before the size: their ``001`` is this ``010``. So the training nodes of the
paper (000, 100, 001, 111) and of the code (000, 100, 010, 111) are the same four images;
:data:`TRAINED` has both.

Ours: the authors' images were rendered by Blender; these are flat, on white, at a random place, and
vary a little in size and colour. The ratio of sizes and the two colours are those of the code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np
from jaxtyping import Float, Int

from interp_compose.errors import OptionError

ATTRIBUTES: Final = {
    "shape": ("circle", "triangle"),
    "size": ("large", "small"),
    "color": ("red", "blue"),
}
"""What a node's bits say, in order, and what each is called where it is 0 and where it is 1."""
NODES: Final = tuple("".join(bits) for bits in product("01", repeat=3))
TRAINED: Final = {
    "paper": ("000", "100", "001", "111"),
    "code": tuple(shape + size + color for shape, color, size in ("000", "100", "010", "111")),
}
"""Training nodes by name; those of the code are read in its order, shape, colour, size."""
SIDES: Final = (28, 64)
"""Pixels of an image's side: the paper's, and the released code's."""
RADII: Final = (0.30, 0.30 * 1.6 / 2.7)
"""Radii of a large and a small shape, from its centre to its circle or its corners, in sides."""
COLORS: Final = ((0.9, 0.1, 0.1), (0.1, 0.1, 0.9))
PLACE: Final = 0.1
"""How far a centre lies from the image's at most, along each axis, in sides."""
VARIES: Final = 0.05
"""How far a radius differs from its size's at most, relatively, and a channel from its colour's."""
NORMALS: Final = ((0.0, 1.0), (3**0.5 / 2, -0.5), (-(3**0.5) / 2, -0.5))
"""Normals of an upright triangle's sides; y points down."""
PIXELS_AT_ONCE: Final = 1 << 21


@dataclass(frozen=True, eq=False)
class Shapes:
    """What is seen in each image; lengths in sides of the image, y downwards."""

    is_triangle: Int[np.ndarray, "image"]
    center: Float[np.ndarray, "image xy"]
    radius: Float[np.ndarray, "image"]
    rgb: Float[np.ndarray, "image channel"]

    def rendered(self, side: int) -> Float[np.ndarray, "image channel y x"]:
        """The images, from 0 to 1, on white; a pixel at an edge is as much covered as it is."""
        images = np.empty((len(self.radius), 3, side, side), dtype=np.float32)
        step = max(1, PIXELS_AT_ONCE // side**2)
        for first in range(0, len(images), step):
            images[first : first + step] = self._some(slice(first, first + step), side)
        return images

    def _some(self, some: slice, side: int) -> Float[np.ndarray, "image channel y x"]:
        middles = (np.arange(side, dtype=np.float32) + 0.5) / side
        center = self.center[some].astype(np.float32)
        radius = self.radius[some].astype(np.float32)[:, None, None]
        x = middles[None, None, :] - center[:, 0, None, None]
        y = middles[None, :, None] - center[:, 1, None, None]
        beyond = np.sqrt(x**2 + y**2) - radius
        sides = [a * x + b * y for a, b in np.asarray(NORMALS, dtype=np.float32)]
        triangle = self.is_triangle[some, None, None].astype(bool)
        beyond = np.where(triangle, np.maximum.reduce(sides) - radius / 2, beyond)
        covered = np.clip(0.5 - side * beyond, 0, 1)[:, None]
        rgb = self.rgb[some].astype(np.float32)[:, :, None, None]
        image: np.ndarray = 1 - covered * (1 - rgb)
        return image


def bits_of(nodes: Sequence[str]) -> Int[np.ndarray, "node attribute"]:
    return np.array([[int(bit) for bit in node] for node in nodes], dtype=np.int64)


def drawn_shapes(bits: Int[np.ndarray, "image attribute"], seed: int) -> Shapes:
    """A shape of each node, at a random place, with a little of its own in size and colour."""
    random = np.random.default_rng(seed)
    n = len(bits)
    shape, size, color = bits.T
    center = 0.5 + random.uniform(-PLACE, PLACE, (n, 2))
    radius = np.array(RADII)[size] * (1 + random.uniform(-VARIES, VARIES, n))
    rgb = np.array(COLORS)[color] + random.uniform(-VARIES, VARIES, (n, 3))
    return Shapes(shape, center, radius, rgb)


def concept_images(
    nodes: Sequence[str], n: int, side: int, seed: int
) -> tuple[Float[np.ndarray, "image channel y x"], Int[np.ndarray, "image attribute"]]:
    """``n`` images from 0 to 1 with their bits, the nodes in turn."""
    bits = bits_of([nodes[i % len(nodes)] for i in range(n)])
    return drawn_shapes(bits, seed).rendered(side), bits


def checked_nodes(nodes: str | Sequence[str]) -> tuple[str, ...]:
    """Training nodes: a name of :data:`TRAINED`, or nodes, in a text parted by commas.

    Raises:
        OptionError: none, one that does not exist, one twice, or all of them.
    """
    expected = f"expected {' or '.join(TRAINED)}, or nodes such as '000,100,001,111'"
    if isinstance(nodes, str):
        if nodes in TRAINED:
            return TRAINED[nodes]
        nodes = [node.strip() for node in nodes.split(",") if node.strip()]
    if not nodes:
        raise OptionError(f"train_nodes={nodes!r} name no node; {expected}")
    for node in nodes:
        if node not in NODES:
            raise OptionError(
                f"train_nodes name {node!r}: {expected}; the bits are "
                + ", ".join(f"{name} ({zero} {one})" for name, (zero, one) in ATTRIBUTES.items())
            )
    if len(set(nodes)) != len(nodes):
        twice = next(node for node in nodes if list(nodes).count(node) > 1)
        raise OptionError(f"train_nodes name {twice} twice; name each once")
    if len(nodes) == len(NODES):
        raise OptionError("train_nodes name all 8 nodes, so that none is unseen; leave one out")
    return tuple(nodes)


def described(node: str) -> str:
    """A phrase such as "small red circle"."""
    shape, size, color = (
        values[int(bit)] for values, bit in zip(ATTRIBUTES.values(), node, strict=True)
    )
    return f"{size} {color} {shape}"
