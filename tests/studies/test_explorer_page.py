"""The page of ``ic.explore`` in JupyterLab, clicked in a browser, against a real kernel."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import interp_compose as ic
from interp_compose.models.lens_model import LensModel
from interp_compose.studies.explore.answer import answer, curve
from interp_compose.studies.explore.state import ExplorerState
from tests.browser import Browser
from tests.jupyter_lab import needs_lab, notebook, until

TEXT = 'a young feline is called a "'
DOG = 'a young dog is called a "'
LINES = f"a young pig\n{DOG}"
BROUGHT = (
    ("ClipboardEvent('paste'", "clipboardData", "\r\n"),
    ("DragEvent('drop'", "dataTransfer", "\r"),
)
"""Events that bring a text of several lines, where they hold it, and how its lines end."""
CELLS = (
    "import interp_compose as ic\n"
    "model = ic.load_model('mini-idm', device='cpu')\n"
    f"explorer = ic.explore(model, [{TEXT!r}, {DOG!r}], second={DOG!r})\n"
    "explorer",
    "print(explorer.state, len(explorer.curve))",
    "from interp_compose.studies.explore import answer as _answer\n"
    "_whole = _answer.answer\n"
    "def _broken(model, state): raise RuntimeError('it broke')\n"
    "_answer.answer = _broken",
    "import time\ndef _slow(model, state): time.sleep(5)\n_answer.answer = _slow",
    "_answer.answer = _whole",
    "explorer.state = type(explorer.state)(text='a young pig', layer=3)",
    f"explorer.state = type(explorer.state)(text={LINES!r})",
    "from interp_compose.studies.explore import answer as _answer\n"
    "_curve, _calls = _answer.curve, []\n"
    "def _counted(*given):\n    _calls.append(1)\n    return _curve(*given)\n"
    "_answer.curve = _counted",
    "print('calls', len(_calls))",
    "import torch\nwith torch.no_grad(): next(iter(model.parameters())).mul_(1.01)",
)
SECONDS = 60


class Page:
    """The widget, as a reader has it."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser

    def run(self, cell: int) -> None:
        """One cell, until its kernel is idle again."""
        app = "jupyterapp.shell.currentWidget"
        self.browser.js(f"{app}.content.activeCellIndex = {cell}")
        self.browser.js("jupyterapp.commands.execute('notebook:run-cell')", awaited=True)

    def js(self, name: str, then: str) -> Any:
        """Of one part of the page."""
        at = name if "[" in name else f"[data-x={name}]"
        return self.browser.js(f"document.querySelector('.explore {at}'){then}")

    def second(self) -> str:
        """The second text, which the code repeats."""
        found: str = self.js("second", ".value")
        return found.replace("↵", "\n")

    def settle(self) -> None:
        until(lambda: self.browser.js(BUSY) == "false", SECONDS)

    def click(self, selector: str) -> None:
        """Until what follows from it is shown."""
        self.browser.js(f"document.querySelector('.explore {selector}').click()")
        self.settle()

    def type(self, name: str, text: str) -> None:
        field = f"document.querySelector('.explore [data-x={name}]')"
        event = "dispatchEvent(new InputEvent('input', { bubbles: true }))"
        self.browser.js(f"{field}.value = {json.dumps(text)}; {field}.{event}")
        self.settle()

    def place(self, selector: str) -> tuple[float, float]:
        """The middle of an element."""
        of = f"document.querySelector('.explore {selector}')"
        self.browser.js(f"{of}.scrollIntoView({{ block: 'center' }})")
        x, y, width, height = self.browser.js(
            f"(({{ x, y, width, height }}) => [x, y, width, height])({of}.getBoundingClientRect())"
        )
        return x + width / 2, y + height / 2

    def drag(self, first: str, last: str) -> None:
        """The mouse, from one element to another."""
        (x, y), (to_x, to_y) = self.place(first), self.place(last)
        mouse: Any = {"button": "left", "buttons": 1, "clickCount": 1}
        for kind, at in (
            ("mousePressed", (x, y)),
            ("mouseMoved", ((x + to_x) / 2, (y + to_y) / 2)),
            ("mouseMoved", (to_x, to_y)),
            ("mouseReleased", (to_x, to_y)),
        ):
            self.browser.call("Input.dispatchMouseEvent", type=kind, x=at[0], y=at[1], **mouse)
        self.settle()

    def check(self, model: LensModel, state: ExplorerState) -> None:
        """The page shows what the library has for this state."""
        values, frame = answer(model, state), curve(model, state)
        shown = self.js("numbers", ".innerText").replace("−", "-").split()
        clean, now = values["numbers"][0][1:3]
        at = shown.index("(nats)")
        assert [float(shown[at + 1]), float(shown[at + 2])] == pytest.approx([clean, now], abs=6e-5)
        assert shown[-2:] == [str(rank) for rank in values["numbers"][1][1:3]]
        tops = self.js("top", ".innerText").split()
        assert tops[1::2] == [f"{probability:.3f}" for _, probability, _ in values["top"]]
        rows = self.browser.js(
            "[...document.querySelectorAll('.explore [data-x=values] tr')].map((row) => "
            "[...row.cells].map((cell) => cell.textContent))"
        )
        by_name = {row[0]: row[1:] for row in rows}
        for name, one in frame.groupby("pooling"):
            found = [float(text.replace("−", "-")) for text in by_name[str(name)]]
            assert found == pytest.approx(one.sort_values("layer")["value"].tolist(), abs=6e-3)
        assert len(by_name) == frame["pooling"].nunique() + 2  # layers, and the flat line
        assert self.js("python", ".textContent") == values["python"]


HOW = "[data-x=how] input:checked"
BUSY = "document.querySelector('.explore').getAttribute('aria-busy')"


def word(at: int, of: str = "words") -> str:
    return f'[data-x={of}] [data-word="{at}"]'


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with notebook(tmp_path_factory.mktemp("lab"), CELLS) as browser:
        page = Page(browser)
        page.run(0)
        until(lambda: browser.js("!!document.querySelector('.explore [data-x=numbers] td')"), 60)
        page.settle()
        yield page


@pytest.mark.long
@needs_lab
def test_what_is_clicked_is_what_the_kernel_computes(page: Page, tmp_path: Path) -> None:
    model, browser = ic.load_model("mini-idm", device="cpu"), page.browser
    state = ExplorerState(text=TEXT, second=DOG)
    page.check(model, state)
    page.click('[data-x="layer 1"]')
    page.click('[data-x="how max"]')
    state = replace(state, layer=1, how="max")
    page.check(model, state)
    page.click(word(1))  # no longer pooled
    page.check(model, replace(state, units=((2, 3),)))
    page.drag(word(0), word(2))
    page.check(model, replace(state, units=((0, 3),)))
    # With the keyboard: the phrase is left, and two other words are joined.
    page.click(word(1))
    browser.js(f"document.querySelector('.explore {word(3)}').focus()")
    browser.call("Input.dispatchKeyEvent", type="keyDown", key="ArrowRight", modifiers=8)
    browser.press("Enter", "\r")
    page.settle()
    page.check(model, replace(state, units=((3, 5),)))
    page.click('[data-x="knock-none"]')
    page.click('[data-x="pool-all"]')
    page.click('[data-key="words knock 2"]')
    page.check(model, replace(state, knocked_out=(2,)))
    page.js("heads-title", ".click()")
    until(lambda: browser.js("!!document.querySelector('.explore [data-key=\"head 0 3\"]')"), 10)
    page.click('[data-key="head 0 3"]')
    page.check(model, replace(state, knocked_out=(2,), heads=((0, 3),)))
    page.run(1)
    printed = browser.js("document.querySelectorAll('.jp-OutputArea')[1].innerText")
    assert "knocked_out=(2,)" in printed
    assert printed.split()[-1] == "20"  # four layers, five ways
    # A token of the top five becomes the answer.
    page.click('[data-x="knock-none"]')
    first = page.js("top", ".querySelector('button').textContent")
    page.click("[data-x=top] li:nth-child(2) button")
    second = page.js("numbers", ".querySelector('b').textContent")
    assert second != first
    page.check(model, replace(state, answer=second))
    # A transplant, and its other place.
    page.js("transplant", ".open = true")
    page.click(word(2, "second-words"))
    moved = replace(state, answer=second, transplant=((2, 3), (2, 3)))
    page.check(model, moved)
    page.js("place", ".value = '[1,2]'")
    page.js("place", ".dispatchEvent(new Event('change'))")
    page.settle()
    page.check(model, replace(moved, transplant=((2, 3), (1, 2))))
    page.click('[data-x="pool-all"]')
    page.check(model, replace(state, answer=second))


@pytest.mark.long
@needs_lab
def test_what_cannot_be_is_said_and_dimmed(page: Page) -> None:
    model, browser = ic.load_model("mini-idm", device="cpu"), page.browser
    page.type("text", "")
    assert "there is no text" in page.js("message", ".textContent")
    assert page.js("rest", ".inert")
    page.type("text", DOG)
    assert page.js("message", ".textContent") == ""
    assert not page.js("rest", ".inert")
    assert not page.js("results", ".inert")
    shown = page.js("numbers", ".innerText")
    # What a click leads to and cannot be: words stay, so that it can be taken back.
    page.drag(word(1), word(2))
    page.click('[data-key="words knock 1"]')
    assert "which a collapse has pooled" in page.js("message", ".textContent")
    assert page.js("results", ".inert")
    assert not page.js("rest", ".inert")
    page.click('[data-key="words knock 1"]')
    page.click('[data-x="pool-all"]')
    assert page.js("numbers", ".innerText") == shown

    page.run(2)
    page.click('[data-x="layer 2"]')
    assert "RuntimeError: it broke" in page.js("message", ".textContent")
    assert page.js("results", ".inert")
    page.run(4)
    page.click("[data-x=message] button")  # try again
    assert page.js("message", ".textContent") == ""
    assert not page.js("results", ".inert")
    state = ExplorerState(text=DOG, second=DOG, layer=2, how=page.js(HOW, ".value"))
    page.check(model, state)

    page.run(3)  # seconds a call
    browser.js("document.querySelector('.explore [data-x=\"layer 3\"]').click()")
    until(lambda: "running" in page.js("status", ".innerText"), SECONDS)
    assert not page.js("progress", ".hidden")
    page.click("[data-x=stop]")
    assert "Stopped" in page.js("message", ".textContent")
    assert page.js("results", ".inert")
    page.run(4)
    page.click("[data-x=message] button")
    page.check(model, replace(state, layer=3))


@pytest.mark.long
@needs_lab
def test_an_interrupted_call_is_said(page: Page) -> None:
    """Where the page is answered by the thread that runs cells, which an interrupt reaches."""
    model, browser = ic.load_model("mini-idm", device="cpu"), page.browser
    kernel = "jupyterapp.shell.currentWidget.sessionContext.session.kernel"
    browser.js(f"{kernel}.commsOverSubshells = 'disabled'")
    browser.js("document.querySelector('.explore').classList.add('of-before')")
    page.run(0)
    until(lambda: not browser.js("document.querySelector('.of-before')"), SECONDS)
    until(lambda: browser.js("!!document.querySelector('.explore [data-x=numbers] td')"), SECONDS)
    page.settle()
    page.run(3)
    browser.js("document.querySelector('.explore [data-x=\"layer 3\"]').click()")
    until(lambda: "running" in page.js("status", ".innerText"), SECONDS)
    browser.js(f"{kernel}.interrupt()")
    page.settle()
    assert "Interrupted" in page.js("message", ".textContent")
    page.run(4)
    page.click("[data-x=message] button")
    page.check(model, ExplorerState(text=TEXT, second=DOG, layer=3))


@pytest.mark.long
@needs_lab
def test_a_text_of_several_lines_stays_one(page: Page) -> None:
    """Its fields, which have one line each, show and take ↵ for a new line."""
    model, browser = ic.load_model("mini-idm", device="cpu"), page.browser
    page.run(6)
    until(lambda: page.js("text", ".value") == LINES.replace("\n", "↵"), SECONDS)
    page.settle()
    page.check(model, ExplorerState(text=LINES))
    page.type("text", LINES.replace("\n", "↵").removeprefix("a "))
    page.check(model, ExplorerState(text=LINES.removeprefix("a ")))
    for way, key, ending in BROUGHT:
        page.type("text", "")
        browser.js("document.querySelector('.explore [data-x=text]').select()")
        browser.js(
            f"(() => {{ const {key} = new DataTransfer();"
            f" {key}.setData('text', {json.dumps(LINES.replace(chr(10), ending))});"
            " document.querySelector('.explore [data-x=text]').dispatchEvent("
            f"new {way}, {{ {key}, bubbles: true, cancelable: true }})) }})()"
        )
        page.settle()
        assert page.js("text", ".value") == LINES.replace("\n", "↵")
        page.check(model, ExplorerState(text=LINES))


@pytest.mark.long
@needs_lab
def test_it_follows_python_a_phone_and_the_theme(page: Page) -> None:
    model, browser = ic.load_model("mini-idm", device="cpu"), page.browser
    page.run(5)
    until(lambda: page.js("text", ".value") == "a young pig", SECONDS)
    page.settle()
    page.check(model, ExplorerState(text="a young pig", layer=3))
    page.type("text", TEXT)
    phone = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.call("Emulation.setDeviceMetricsOverride", **phone)
    wide = "document.querySelector('.explore').scrollWidth"
    until(lambda: browser.js(wide) <= browser.js(wide.replace("scroll", "client")), 10)
    small = "[...document.querySelectorAll('.explore button')].filter((one) => one.offsetHeight && "
    assert browser.js(f"{small}one.offsetHeight < 24).length") == 0
    browser.call("Emulation.clearDeviceMetricsOverride")
    dark = "document.querySelector('.explore').hasAttribute('data-dark')"
    assert not browser.js(dark)
    change = "jupyterapp.commands.execute('apputils:change-theme', { theme: 'JupyterLab Dark' })"
    browser.js(change, awaited=True)
    until(lambda: browser.js(dark), 10)
    unnamed = "[...document.querySelectorAll('.explore :is(input, select, progress)')].filter("
    unnamed += "(one) => !one.labels?.length && !one.getAttribute('aria-label')).length"
    assert browser.js(unnamed) == 0
    errors = [one for one in browser.problems if '"type": "error"' in one or "exception" in one]
    assert errors == []


@pytest.mark.long
@needs_lab
def test_a_curve_is_asked_for_once_while_it_holds(page: Page) -> None:
    """Another layer or pooling is a point of the curve that is there; not of a changed model's."""
    model, browser = ic.load_model("mini-idm", device="cpu"), page.browser

    def calls() -> str:
        page.run(8)
        printed: str = browser.js("document.querySelectorAll('.jp-OutputArea')[8].innerText")
        return printed.strip()

    page.type("text", DOG)
    page.run(7)
    page.click('[data-x="how sum"]')
    page.click('[data-x="layer 2"]')
    page.check(model, replace(ExplorerState(text=DOG, layer=2, how="sum"), second=page.second()))
    assert calls() == "calls 0"
    page.run(9)
    page.click('[data-x="layer 1"]')
    assert calls() != "calls 0"
    with torch.no_grad():
        next(iter(model.parameters())).mul_(1.01)
    page.check(model, replace(ExplorerState(text=DOG, layer=1, how="sum"), second=page.second()))
