"""The page of every study's result, and its examples in a browser."""

from __future__ import annotations

import json
import re
import shutil
import time
import webbrowser
from base64 import b64encode
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import interp_compose as ic
from interp_compose.plots.canvas import PIXELS
from interp_compose.plots.interactive import draw
from interp_compose.plots.static import DPI
from interp_compose.studies.cap.result import CapCurve
from interp_compose.studies.core import examples, report, result as core
from interp_compose.studies.core.text import decimal
from tests.browser import Browser
from tests.papers.carma.studies.test_carma_report import Page
from tests.plots.test_matrices import EVERY_GRID
from tests.studies import test_cap_curve_result as of_cap
from tests.studies.test_study_results import ENTRIES, made as made_once

MARKUP = '</script><script>alert("x")</script><!--<b>&amp;'


@pytest.mark.parametrize("study", ENTRIES)
def test_every_study_has_a_page_that_fetches_nothing(study: str) -> None:
    """Head, sentences, notes, tables with their numbers of rows, settings; figures apart."""
    made = made_once(study)
    page = report.report_page(made, {}, {})
    seen = Page(page)
    assert not [a for tag, a in seen.tags if {"src", "href", "srcset"} & set(a) or tag == "link"]
    assert "url(" not in page
    assert "@import" not in page
    parts = [made.head(), *made.sentences(), *(f"! {note}" for note in made.notes)]
    for part in [*parts, "What came out", "Settings", "Versions"]:
        assert " ".join(part.split()) in seen.text
    for name, frame in made.frames.items():
        if study != "carma":  # which has tables of its own
            assert re.search(rf"{name}: (the first 10 of )?{len(frame)} row", seen.text)
    assert str(made.versions["torch"]) in seen.text


def test_a_section_that_is_a_mere_text_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Markup is what a macro of the template returned, once, and nothing else."""
    monkeypatch.setattr(CapCurve, "_sections", lambda self: [MARKUP, report.section("a", MARKUP)])
    page = report.report_page(curve(), {}, {})
    assert Page(page).text.count(MARKUP) >= 2
    assert "&amp;lt;" not in page


def curve(n: int = 7, text: str = MARKUP) -> CapCurve:
    """Of prompts with markup in them, two tokens of each pooled into one."""
    clean = of_cap.make_clean(n)
    clean["prompt"] = [f"{text} {i} is a" for i in range(n)]
    pieces = [[("<s>", -1), (text[:9], 0), (text[9:], 0), (f" {i} is a", 1)] for i in range(n)]
    tokens = [
        {"example": i, "position": position, "text": text, "unit": unit}
        for i, row in enumerate(pieces)
        for position, (text, unit) in enumerate(row)
    ]
    return CapCurve.from_outcomes(
        of_cap.make_outcomes(clean),
        clean,
        of_cap.CONFIG,
        n_layers=of_cap.N_LAYERS,
        tokens=pd.DataFrame(tokens),
        predictions=pd.DataFrame({"prediction": [11, 17], "text": [" kitten", MARKUP]}),
    )


def lost(made: CapCurve, layer: int, pooling: str | None = None) -> dict[int, float]:
    """What each example loses, counted out from values of three decimals; by the protocol that
    loses most where none is named."""
    found = {}
    for clean in made.clean.to_dict("records"):
        found[clean["example"]] = max(
            round(clean["target_logprob"], 3) - np.round(row["target_logprob"], 3)
            for row in made.outcomes.to_dict("records")
            if (row["example"], row["layer"]) == (clean["example"], layer)
            and pooling in (None, row["pooling"])
        )
    return found


def data_of(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="x-data">(.*?)</script>', page)
    assert found
    return json.loads(found[1])


def test_a_curves_examples_have_their_words_and_predictions() -> None:
    made = curve()
    data = data_of(report.report_page(made, {}, {}))
    rows = {row["number"]: row for row in data["rows"]}
    assert data["layers"] == list(of_cap.LAYERS)
    most = {i: max(lost(made, layer)[i] for layer in of_cap.LAYERS) for i in rows}
    assert list(rows) == sorted(most, key=lambda i: -most[i])
    for outcome in made.outcomes.to_dict("records"):
        row = rows[outcome["example"]]
        i, j = row["lines"].index(outcome["pooling"]), data["layers"].index(outcome["layer"])
        assert row["values"][i][j] == pytest.approx(outcome["target_logprob"], abs=5e-4)
        place = row["predictions"][i][j]
        text = {11: " kitten", 17: MARKUP, 13: "token 13"}[outcome["prediction"]]
        assert (place < 0) == outcome["correct"]
        assert data["texts"][~place if place < 0 else place] == text
    assert rows[3]["parts"] == ["<s>", [MARKUP[:9], MARKUP[9:]], " 3 is a"]
    assert rows[3]["answers"] == "answer “kitten”"


def test_tables_have_words_for_predictions_and_numbers_as_the_summary_has_them() -> None:
    made = curve()
    page = report.report_page(made, {}, {}).partition("<h2>Tables</h2>")[2]
    tables = {
        name: re.sub(r"<[^>]*>", "\n", part)
        for name, part in re.findall(r'<p class="note">(\w+): (.*?)</table>', page, re.DOTALL)
    }
    assert list(tables) == list(made.frames)
    assert "“ kitten”" in tables["outcomes"]
    assert "prediction\n" not in tables["clean"]
    shown = tables["curve"].split()
    for number in made.frame.head(report.ROWS)["target_logprob"]:
        assert decimal(number, 3) in shown
    frame = pd.DataFrame({"p_holm": [2e-5, 0.25], "difference": [-0.2, 0.0004]})
    for text in ("&lt;0.0001", "0.2500", "−0.200", "0.00040"):
        assert f"<td>{text}</td>" in report.frame_table("t", frame)


def test_values_of_examples_have_the_digits_that_are_shown() -> None:
    values = np.array([[-4.0567, -0.00423, -4.231e-5], [0.0, 0.99951, 1e-12]])
    kept = examples._rounded(values)
    assert [decimal(x, 3) for x in kept.flat] == [decimal(x, 3) for x in values.flat]
    assert np.abs(kept - values).max() < 5e-4


def test_a_result_without_texts_has_a_page_too(tmp_path: Path) -> None:
    """As one has that was saved before they were kept."""
    made = curve()
    frames = {name: made.frames[name] for name in ("curve", "outcomes", "clean")}
    CapCurve(made.config, frames, made.versions).save(tmp_path / "old")
    data = data_of(report.report_page(CapCurve.load(tmp_path / "old"), {}, {}))
    assert set(data["texts"]) == {f"token {token}" for token in made.outcomes["prediction"]}
    assert data["rows"][0]["parts"] == [f"{MARKUP} {data['rows'][0]['number']} is a"]


def test_sentences_hold_where_nothing_is_lost_and_count_their_examples() -> None:
    made = curve()
    right = made.outcomes.assign(correct=True, target_rank=1)
    clean = made.clean.assign(affected=True)
    gained = CapCurve.from_outcomes(right, clean, made.config, n_layers=of_cap.N_LAYERS)
    assert "where least is left, between" in gained.sentences()[0]
    ablated = made_once("ablation")
    assert "number" in {*ablated.frames["curve"]["group"]}  # of one example, it loses most
    assert ablated.sentences()[-1].endswith("from 0.600 for the same 5 examples.")


def test_half_of_a_surrogate_pair_in_a_files_name_is_replaced() -> None:
    made = curve()
    made = CapCurve({**made.config, "task": "caf\udce9.jsonl"}, made.frames, made.versions)
    assert b"task caf?.jsonl" in report.report_page(made, {}, {}).encode()


def test_a_page_keeps_the_examples_that_lost_most(monkeypatch: pytest.MonkeyPatch) -> None:
    large = curve(60, 4_000 * MARKUP).report()  # with its figure, and prompts of 11 MB
    assert 5_000_000 < len(large.encode()) <= 6_000_000
    assert 0 < len(data_of(large)["rows"]) < 60
    made = curve(40)
    whole = report.report_page(made, {}, {})
    room = len(whole.encode()) - 5_000
    monkeypatch.setattr(report, "MOST_BYTES", room)
    page = report.report_page(made, {}, {})
    kept = [row["number"] for row in data_of(page)["rows"]]
    assert 0 < len(kept) < 40
    assert kept == [row["number"] for row in data_of(whole)["rows"]][: len(kept)]
    assert f"The {len(kept)} of 40 examples that lost most at some layer" in page
    assert len(page.encode()) <= room
    monkeypatch.setattr(report, "PICTURES", 10)
    figures = {"cap_curve": made.plot()}
    assert "no room for it on this page" in report.report_page(
        made, figures, {"cap_curve": b"8" * 9}
    )


def test_words_and_units_are_framed_where_they_stand() -> None:
    assert examples.marked("a cat, a dog", ["a", "cat", "a", "dog"]) == [
        ["a"], " ", ["cat"], ", ", ["a"], " ", ["dog"],
    ]  # fmt: skip
    assert examples.marked("a cat", ["gone"]) == ["a cat"]
    assert examples.framed("abcdef", [-1, -1, 0, 0, 1, 2]) == ["a", "b", ["c", "d"], "e", "f"]


def test_tokens_are_the_prompts_own_text(model: Any, examples: list[Any]) -> None:
    found = ic.cap_curve(model, examples, controls=False, progress=False)
    tokens = found.frames["tokens"]
    for row in found.clean.itertuples():
        mine = tokens[tokens["example"] == row.example]
        assert "".join(mine.loc[mine["unit"] >= 0, "text"]) == row.prompt
        assert mine["text"].iloc[0] == "<s>"
        assert len(mine) == row.n_tokens
        assert mine["unit"].nunique() == row.n_groups + 1
    assert set(found.outcomes["prediction"]) == set(found.frames["predictions"]["prediction"])


def test_a_summary_s_tables_are_tables_and_its_other_lines_are_sentences() -> None:
    made = curve()
    page = report.report_page(made, {}, {})
    assert "<pre" not in page
    came_out = page.partition("<h2>What came out</h2>")[2].partition("</section>")[0]
    first, *_ = re.findall(r"<table[^>]*>(.*?)</table>", came_out, re.DOTALL)
    rows = [
        re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)
        for row in re.findall(r"<tr>(.*?)</tr>", first)
    ]
    expected = [
        line.split()
        for line in made.summary().split("\n\n")[1].splitlines()
        if re.match(r"layer| *\d", line)
    ]
    assert rows == expected
    assert len(rows) == 1 + len(of_cap.LAYERS)
    assert re.search(r'<p class="told">mean − control, ', came_out)


def test_pages_of_two_models_and_tasks_have_two_titles() -> None:
    one = curve()
    other = replace(one, config={**one.config, "model": "large", "task": MARKUP})
    titles = [
        re.findall(r"<(?:title|h1)>(.*?)</(?:title|h1)>", report.report_page(made, {}, {}))
        for made in (one, other)
    ]
    assert titles[0] == ["CAP · model tiny · task mini-idm"] * 2
    assert titles[1][0] == titles[1][1] != titles[0][0]
    assert titles[1][0].startswith("CAP · model large · task &lt;/script&gt;")
    runs = made_once("speed")
    assert report.heading(runs, runs.figures()) == "Fitting speed · pre-LN, width 8"


def test_pictures_have_letters_of_one_size_and_a_phone_its_own() -> None:
    figure = curve().plot()
    png = figure._repr_mimebundle_()["image/png"]
    width = int.from_bytes(png[16:20], "big") * 0.65
    assert f'<img alt="a" width="{width:.0f}" src=' in report.picture("a", png, "b")
    narrow = report.narrow_picture(figure)
    assert int.from_bytes(narrow[16:20], "big") / DPI * PIXELS == pytest.approx(358, abs=4)
    shown = report.picture("a", png, "b", narrow)
    inside = b64encode(narrow).decode()
    assert f'<source media="(max-width: 640px)" srcset="data:image/png;base64,{inside}">' in shown
    no_room = report.narrow_picture(draw(EVERY_GRID["12 columns"]()))
    assert (no_room, "srcset" in report.picture("a", png, "b", no_room)) == (b"", False)


def test_show_opens_the_page(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setattr(CapCurve, "report", lambda self: f"<p>{MARKUP}")
    curve().show()
    path = Path(capsys.readouterr().out.strip())
    assert opened == [path.as_uri()]
    assert path.read_text(encoding="utf-8") == f"<p>{MARKUP}"
    shutil.rmtree(path.parent)

    from IPython import display

    shown: list[Any] = []
    monkeypatch.setattr(core, "in_notebook", lambda: True)
    monkeypatch.setattr(display, "display", lambda bundle, raw: shown.append(bundle))
    curve().show()
    assert len(opened) == 1
    assert '<iframe srcdoc="&lt;p&gt;&lt;/script&gt;' in shown[0]["text/html"]


@pytest.mark.skipif(shutil.which("chromium") is None, reason="Chromium is not installed")
def test_examples_are_sorted_and_filtered_in_a_browser(tmp_path: Path) -> None:
    """From a file, with markup in the prompts and nothing on the console."""
    made = curve(60)
    made.save(tmp_path / "cap", figures=True)
    address = (tmp_path / "cap" / "report.html").as_uri()
    with Browser(tmp_path) as browser:

        def choose(name: str, value: str, event: str = "change") -> None:
            browser.js(
                f"{{ const one = document.getElementById('x-{name}'); one.value = {value!r};"
                f"one.dispatchEvent(new Event({event!r})); }}"
            )

        def texts(selector: str) -> list[str]:
            found: list[str] = browser.js(
                f"[...document.querySelectorAll({selector!r})].map((one) => one.textContent)"
            )
            return found

        def check(of: dict[int, float], sign: int) -> None:
            expected = sorted(of, key=lambda i: (sign * of[i], i))
            prompts = texts("#x-list summary")
            assert [int(text.split(" is a")[0].split()[-1]) for text in prompts] == expected[:50]
            shown = [text.replace("−", "-") for text in texts("#x-list .loss")]
            assert np.allclose(
                np.array(shown, dtype=float), [of[i] for i in expected[:50]], atol=0.01
            )

        browser.open(address)
        check(lost(made, 0), -1)
        of = made.outcomes[made.outcomes["layer"] == 0].set_index(["example", "pooling"])
        first = max(lost(made, 0), key=lambda i: lost(made, 0)[i])
        worst = of.loc[first]["target_logprob"].idxmin()
        assert texts("#x-list summary .note")[0].endswith(
            f" · answer “kitten” · most lost: {worst}"
        )
        choose("layer", "4")
        check(lost(made, 4), -1)
        choose("line", "max")
        choose("order", "least")
        check(lost(made, 4, "max"), 1)
        assert MARKUP in texts("#x-list summary")[0]
        browser.js("document.getElementById('x-more').click()")
        assert len(texts("#x-list summary")) == 60
        choose("words", f"{MARKUP} 7 IS", "input")
        assert texts("#x-count")[0].startswith("1 of 60 examples")
        browser.js("document.querySelector('#x-list summary').click()")
        browser.js("new Promise((done) => setTimeout(done))", awaited=True)  # it opens
        before, row = made.outcomes, texts("#x-list tbody tr:nth-child(2) td")
        mine = before[(before["example"] == 7) & (before["pooling"] == "max")]
        assert row[0] == "max"
        for cell, outcome in zip(row[1:], mine.to_dict("records"), strict=True):
            text = " kitten" if outcome["correct"] else MARKUP
            assert cell == f"“{text}” ({decimal(outcome['target_logprob'], 3)})"
        assert texts(".unit span:nth-child(2)") == [MARKUP[9:]]
        for width in (1280, 768, 390):
            browser.call(
                "Emulation.setDeviceMetricsOverride",
                width=width, height=800, deviceScaleFactor=1, mobile=False,
            )  # fmt: skip
            assert browser.js("document.documentElement.scrollWidth") <= width
            ends = browser.js(
                "[...document.querySelectorAll('figure img, .scroll, p')].map((one) =>"
                " one.getBoundingClientRect().right)"
            )
            assert max(ends) <= width
            # The browser takes the picture of another width some time after the window has it.
            image, narrow = (
                "document.querySelector('figure img')",
                "document.querySelector('source')",
            )
            until = time.monotonic() + 20
            while (
                browser.js(f"{image}.currentSrc === {narrow}.srcset") != (width == 390)
                and time.monotonic() < until
            ):
                time.sleep(0.05)
            assert browser.js(f"{image}.currentSrc === {narrow}.srcset") == (width == 390)
            assert browser.js(f"{image}.decode().then(() => {image}.naturalWidth)", awaited=True)
        assert browser.problems == []
        assert [url for url in browser.requested if not url.startswith("data:")] == [address]
