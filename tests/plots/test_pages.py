"""Pages of figures in a browser: on a phone, in a window, and without the script they share."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from typing import Any

import pytest

from interp_compose.plots.export import SCRIPT, page_bytes, page_files
from interp_compose.plots.heatmap_bubbles import Bubbles
from interp_compose.plots.interactive import draw
from tests.browser import Browser
from tests.plots.test_figures import curve, facets
from tests.plots.test_heatmap import heatmap

TEXTS = "[...document.querySelectorAll('.annotation-text, .gtitle, .xtitle')]"
BOXES = f"{TEXTS}.map((one) => one.getBoundingClientRect().toJSON())"
DRAWN_AGAIN = "new Promise((done) => setTimeout(done, 300))"
DRAWN = "document.querySelector('#figure .main-svg').getBoundingClientRect().toJSON()"


def overlap(one: dict[str, float], other: dict[str, float]) -> float:
    """The share of the smaller box that both have."""
    across = min(one["right"], other["right"]) - max(one["left"], other["left"])
    down = min(one["bottom"], other["bottom"]) - max(one["top"], other["top"])
    least = min(box["width"] * box["height"] for box in (one, other))
    return max(across, 0) * max(down, 0) / max(least, 1)


@pytest.mark.skipif(shutil.which("chromium") is None, reason="Chromium is not installed")
def test_figures_fit_every_window(tmp_path: Path) -> None:
    """Nothing to scroll sideways, no text on another, nothing fetched but the script."""
    sizes = [[0, 1]] * 2
    bubbles = Bubbles(
        "a map of bubbles", "two sizes", "x", "y", ["1", "2"], ["3", "4"], [[0.1, 0.2]] * 2, "v",
        sizes=sizes, size_names=["little", "much"], size_title="how much:",
    )  # fmt: skip
    made = {"curve": curve().chart, "facets": facets(), "map": heatmap(), "bubbles": bubbles}
    figures = {name: draw(described) for name, described in made.items() if described}
    for name, data in page_files(figures).items():
        (tmp_path / name).write_bytes(data)
    with Browser(tmp_path / "browser") as browser:

        def resized(width: int, height: int) -> Any:
            browser.call(
                "Emulation.setDeviceMetricsOverride",
                width=width, height=height, deviceScaleFactor=1, mobile=False,
            )  # fmt: skip
            browser.js(
                f"new Promise(requestAnimationFrame).then(() => {DRAWN_AGAIN})", awaited=True
            )
            return browser.js("document.documentElement.scrollWidth")

        for name, (width, height) in itertools.product(figures, [(1280, 900), (390, 844)]):
            if width == 1280:
                browser.open((tmp_path / f"{name}.html").as_uri())
            assert resized(width, height) <= width, (name, width)
            boxes = browser.js(BOXES)
            assert boxes
            for one, other in itertools.combinations(boxes, 2):
                assert overlap(one, other) < 0.15, (name, width, one, other)
            drawn = browser.js(DRAWN)
            assert drawn["width"] > 0.9 * width, (name, width)
            assert width < 1280 or drawn["height"] > 0.5 * height, name
        assert browser.problems == []
        pages = {(tmp_path / file).as_uri() for file in (SCRIPT, *(f"{n}.html" for n in figures))}
        assert {url for url in browser.requested if not url.startswith("data:")} <= pages

        missing = "document.getElementById('missing').checkVisibility()"
        assert not browser.js(missing)
        moved = tmp_path / "elsewhere" / "moved.html"
        moved.parent.mkdir()
        shutil.copy(tmp_path / "curve.html", moved)
        browser.open(moved.as_uri())
        assert browser.js(missing)
        assert SCRIPT in browser.js("document.body.innerText")
        moved.write_bytes(page_bytes(curve()))
        browser.open(moved.as_uri())
        assert not browser.js(missing)
        assert browser.js(DRAWN)["width"] > 300
