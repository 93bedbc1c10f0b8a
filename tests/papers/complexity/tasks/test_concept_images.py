"""Images of concept graphs against a slow renderer, which nodes are which, and the judge."""

from __future__ import annotations

import math

import numpy as np
import pytest

from interp_compose.errors import OptionError
from interp_compose.papers.complexity.tasks.concept_images import (
    COLORS,
    NODES,
    RADII,
    TRAINED,
    Shapes,
    bits_of,
    checked_nodes,
    concept_images,
    described,
    drawn_shapes,
)
from interp_compose.papers.complexity.tasks.concept_judge import degraded, judge

FINE = 12
"""Points of a pixel, along each axis, that the slow renderer looks at."""


def slowly(shapes: Shapes, i: int, side: int) -> np.ndarray:
    """Image i: of each pixel, the share of its points that lie inside; a triangle by its corners
    and the sign of cross products."""
    x0, y0 = shapes.center[i]
    r = shapes.radius[i]
    corners = [
        (x0 + r * math.sin(turn), y0 - r * math.cos(turn))
        for turn in (0, 2 * math.pi / 3, 4 * math.pi / 3)
    ]
    image = np.ones((3, side, side))
    for row in range(side):
        for column in range(side):
            inside = 0
            for a in range(FINE):
                for b in range(FINE):
                    y, x = (row + (a + 0.5) / FINE) / side, (column + (b + 0.5) / FINE) / side
                    if shapes.is_triangle[i]:
                        edges = zip(corners, [*corners[1:], corners[0]], strict=True)
                        signs = [
                            (qx - px) * (y - py) - (qy - py) * (x - px)
                            for (px, py), (qx, qy) in edges
                        ]
                        inside += all(sign >= 0 for sign in signs)
                    else:
                        inside += math.hypot(x - x0, y - y0) <= r
            share = inside / FINE**2
            image[:, row, column] = 1 - share * (1 - shapes.rgb[i])
    return image


def test_images_are_what_a_slow_renderer_makes() -> None:
    """Edges are of one pixel's width in both; they differ by how an edge lies in its pixel."""
    shapes = drawn_shapes(bits_of(["000", "111"]), 3)
    quick = shapes.rendered(16)
    assert quick.dtype == np.float32
    for i in range(2):
        difference = np.abs(quick[i] - slowly(shapes, i, 16))
        assert difference.max() < 0.2
        assert difference.mean() < 0.005
        at = tuple((shapes.center[i][::-1] * 16).astype(int))
        np.testing.assert_allclose(quick[i][:, at[0], at[1]], shapes.rgb[i], atol=1e-6)


def test_the_bits_are_shape_size_and_colour() -> None:
    """Complexity control: 010 is a small red circle."""
    assert described("010") == "small red circle"
    assert described("101") == "large blue triangle"
    shapes = drawn_shapes(bits_of(["010", "101"]), 0)
    assert shapes.is_triangle.tolist() == [0, 1]
    assert shapes.radius[0] == pytest.approx(RADII[1], rel=0.05)
    assert shapes.radius[1] == pytest.approx(RADII[0], rel=0.05)
    np.testing.assert_allclose(shapes.rgb, COLORS, atol=0.05)


def test_paper_and_code_train_on_the_same_images() -> None:
    """The code's nodes with the colour before the size: 000, 100, 010, 111."""
    assert TRAINED["paper"] == ("000", "100", "001", "111")
    assert TRAINED["code"] == TRAINED["paper"]


@pytest.mark.parametrize("side", [28, 64])
def test_shapes_stay_inside_and_nodes_take_turns(side: int) -> None:
    images, bits = concept_images(["000", "110"], 41, side, 5)
    assert images.shape == (41, 3, side, side)
    assert bits.tolist()[:3] == [[0, 0, 0], [1, 1, 0], [0, 0, 0]]
    edges = [images[..., 0], images[..., -1], images[:, :, 0], images[:, :, -1]]
    assert all((edge == 1).all() for edge in edges)
    assert images.min() >= 0
    again, _ = concept_images(["000", "110"], 41, side, 5)
    np.testing.assert_array_equal(images, again)
    other, _ = concept_images(["000", "110"], 41, side, 6)
    assert (images != other).any(axis=(1, 2, 3)).all()


def test_training_nodes_are_named_or_listed() -> None:
    assert checked_nodes("paper") == ("000", "100", "001", "111")
    assert checked_nodes("000, 010") == ("000", "010")
    assert checked_nodes(["111"]) == ("111",)
    for nodes, message in (
        ("", "train_nodes=.. name no node"),
        ([], "name no node"),
        ("000,012", "train_nodes name '012'.*shape .circle triangle., size"),
        ("papers", "name 'papers'"),
        ("000,000", "name 000 twice"),
        (NODES, "name all 8 nodes"),
    ):
        with pytest.raises(OptionError, match=message):
            checked_nodes(nodes)


@pytest.mark.parametrize("side", [28, 64])
def test_the_judge_is_right_about_rendered_images(side: int) -> None:
    """At least 99.5 % with noise and blur; noise alone or blur alone changes nothing."""
    for noise, blur, least in ((0.0, 0.01, 1.0), (0.05, 0.7, 0.995), (0.07, 0.5, 0.99)):
        images, bits = concept_images(NODES, 400, side, 11)
        found = judge(degraded(images, 0, noise=noise, blur=blur))
        assert ((found.bits == bits).all(axis=1) & found.is_clear).mean() >= least


def test_an_image_that_shows_no_one_shape_is_not_clear() -> None:
    circles, _ = concept_images(["000"], 20, 28, 1)
    triangles, _ = concept_images(["100"], 20, 28, 2)
    halves = np.where(np.arange(28) < 14, circles, circles[:, ::-1])
    two = np.minimum(np.roll(circles, 9, axis=3), np.roll(circles, -9, axis=3))
    noise = np.random.default_rng(0).uniform(0, 1, circles.shape)
    for images in (np.ones_like(circles), (circles + triangles) / 2, halves, two, noise):
        assert not judge(images).is_clear.any()
    assert judge(circles).right("010") == {
        "all": 0, "shape": 20, "size": 0, "color": 20, "clear": 20,
    }  # fmt: skip


def test_a_triangles_third_moment_is_what_the_judge_expects() -> None:
    """0.8 of a triangle, by points drawn in one; the threshold is half of it."""
    random = np.random.default_rng(0)
    shares = random.dirichlet([1, 1, 1], 200_000)
    z = shares @ np.exp(2j * math.pi * np.arange(3) / 3)
    ratio = abs((z**3).mean()) / (np.abs(z) ** 2).mean() ** 1.5
    assert ratio == pytest.approx(0.8, abs=0.01)
