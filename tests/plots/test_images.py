"""Grids of images: what is drawn where, by both backends, and what is refused."""

from __future__ import annotations

import io
from base64 import b64decode
from typing import Any

import numpy as np
import pytest
from PIL import Image

from interp_compose.errors import InputError
from interp_compose.plots.canvas import PIXELS
from interp_compose.plots.describe import scene_of
from interp_compose.plots.images import ImageGrid, image_of, png_of, side_by_side
from interp_compose.plots.interactive import draw
from interp_compose.plots.scene import Image as Placed
from tests.plots.reading import png_bytes


def grid(n_rows: int = 2, n_columns: int = 3, name: str = "a", **changes: Any) -> ImageGrid:
    """Each cell of a colour of its own, 4 pixels high and 6 wide."""
    images = [
        [np.full((4, 6, 3), (40 * i, 20 * j, 90), dtype=np.uint8) for j in range(n_columns)]
        for i in range(n_rows)
    ]
    given: dict[str, Any] = {
        "title": name, "subtitle": name, "x_title": name, "columns": [name] * n_columns,
        "rows": [name] * n_rows, "images": images, "hover": [[name] * n_columns] * n_rows,
    }  # fmt: skip
    return ImageGrid(**{**given, **changes})


EVERY_GRID = {
    "few": grid,
    "one": lambda: grid(1, 1),
    "many columns": lambda: grid(8, 14, "0.55"),
    "long names": lambda: grid(3, 2, "a name that is rather long for the row of a picture"),
}


def test_both_backends_draw_each_image_in_its_cell() -> None:
    made = grid()
    figure, placed = draw(made), scene_of(made).axes[0].items
    whole = Image.open(io.BytesIO(png_bytes(made))).convert("RGB")
    for i in range(2):
        for j in range(3):
            expected = (40 * i, 20 * j, 90)
            cell = placed[3 * i + j]
            assert isinstance(cell, Placed)
            middle = cell.left + cell.width / 2, cell.top + cell.height / 2
            place = (int(middle[0] * 160 / PIXELS), int(middle[1] * 160 / PIXELS))
            assert whole.getpixel(place) == expected
            drawn = figure.layout.images[3 * i + j]
            assert (drawn.x, drawn.y) == (cell.left, cell.top)
            source = drawn.source.partition("base64,")[2]
            assert (image_of(b64decode(source)) == expected).all()
            assert (figure.data[0].x[3 * i + j], figure.data[0].y[3 * i + j]) == middle


def test_images_are_joined_and_kept() -> None:
    one, other = (np.full((2, 2, 3), value, dtype=np.uint8) for value in (0, 255))
    joined = side_by_side([one, other])
    assert joined[0, :, 0].tolist() == [0, 0, 200, 255, 255]
    np.testing.assert_array_equal(image_of(png_of(joined)), joined)
    np.testing.assert_array_equal(side_by_side([one]), one)


def test_what_is_no_grid_is_refused() -> None:
    for changes, message in (
        ({"rows": []}, "0 rows and 3 columns"),
        ({"columns": ["a"]}, r"images: 2 rows, of lengths \[3, 3\]; expected 2 rows of 1"),
        ({"hover": [["a"] * 3]}, r"hover: 1 rows, of lengths \[3\]; expected 2 rows of 3"),
        ({"images": [[np.zeros((2, k, 3), dtype=np.uint8) for k in (1, 2, 2)]] * 2}, "shapes"),
    ):
        with pytest.raises(InputError, match=message):
            grid(**changes)
