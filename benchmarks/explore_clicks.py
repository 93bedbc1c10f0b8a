"""How long a click on the page of ``ic.explore`` takes, in JupyterLab, with ``mini-idm``.

A headless Chromium clicks, the notebook's kernel computes, both on this machine. From the click
until the page has drawn all that follows from it: numbers, top five and words, and the curve of all
layers in all poolings and controls, which another layer or pooling of a curve that is there does
not need. Wall-clock time, turn about. Needs Chromium and JupyterLab; without them nothing is
measured.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any, Final

from benchmarks.common import Ratio, machine, median_and_range
from tests.jupyter_lab import notebook, until

CELL: Final = """import interp_compose as ic
model = ic.load_model('mini-idm', device='cpu')
ic.explore(model, ic.load_task('mini-idm', model).test, second='a young dog is called a "')"""
CLICKS: Final = {
    "another layer": ('[data-x="layer 1"]', '[data-x="layer 2"]'),
    "another pooling": ('[data-x="how max"]', '[data-x="how mean"]'),
    "a word pooled or not": ("[data-x=words] .x-pooled:not(.x-alone)",) * 2,
    "a word knocked out or not": ('[data-key="words knock 2"]',) * 2,
    "a head knocked out or not": ('[data-key="head 0 3"]',) * 2,
    "another text": ("[data-x=another]",) * 2,
    "a word of the second text put in, and taken out": (
        '[data-x=second-words] [data-word="2"]',
        "[data-x=pool-all]",
    ),
}
"""What is clicked, and what takes it back."""
PAGE: Final = "document.querySelector('.explore')"
TIMED: Final = """new Promise((resolve) => {
  const page = document.querySelector('.explore'), began = performance.now();
  const wait = () => page.getAttribute('aria-busy') === 'true' ? setTimeout(wait, 1)
    : requestAnimationFrame(() => resolve(performance.now() - began));
  page.querySelector(SELECTOR).click();
  page.getAttribute('aria-busy') === 'true' ? wait() : resolve('nothing follows');
})"""
"""Milliseconds from the click of an element to the frame in which the page is no longer busy."""


def benchmark(repeats: int = 10, threads: int = 1) -> dict[str, Any]:
    """``explore_clicks_cpu``."""
    if shutil.which("chromium") is None or shutil.which("jupyter-lab") is None:
        print("explore_clicks    skipped: Chromium or JupyterLab is not installed")
        return {}
    cell = f"import torch; torch.set_num_threads({threads})\n{CELL}"
    taken: dict[str, list[float]] = {name: [] for name in CLICKS}
    with tempfile.TemporaryDirectory() as folder, notebook(Path(folder), [cell]) as browser:
        browser.js("jupyterapp.shell.currentWidget.content.activeCellIndex = 0")
        browser.js("jupyterapp.commands.execute('notebook:run-cell')", awaited=True)
        until(lambda: browser.js(f"{PAGE}?.getAttribute('aria-busy') === 'false'"), 120)
        browser.js(f"{PAGE}.querySelector('[data-x=transplant]').open = true")
        browser.js(f"{PAGE}.querySelector('[data-x=heads-title]').click()")
        until(lambda: browser.js(f"!!{PAGE}.querySelector('[data-key=\"head 0 3\"]')"), 30)
        for turn in range(repeats + 1):
            for name, clicks in CLICKS.items():
                for selector in clicks:
                    timed = TIMED.replace("SELECTOR", repr(selector))
                    milliseconds = browser.js(timed, awaited=True)
                    refusal = browser.js(f"{PAGE}.querySelector('[data-x=message]').textContent")
                    assert not refusal, (name, refusal)
                    if turn:  # the first leads to a state that is known, and warms up
                        taken[name].append(float(milliseconds))
    rows = [{"click": name, **median_and_range(each)} for name, each in taken.items()]
    return {
        "explore_clicks_cpu": {"threads": threads, "repeats": repeats, "rows": rows, **machine()}
    }


def ratios(content: dict[str, Any]) -> list[Ratio]:
    return [
        Ratio(row["click"], row["median"], row["range"], "ms", goal=300) for row in content["rows"]
    ]
