"""What a notebook shows of results, tasks, models and records: HTML that is parsed here."""

from __future__ import annotations

import base64
import io
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pandas as pd
import pytest
import torch
from PIL import Image

import interp_compose as ic
from interp_compose.interventions.ablate import ablate
from interp_compose.interventions.mask_attention import mask_attention
from interp_compose.models.load import load_model
from interp_compose.runs.result import Result
from interp_compose.studies.core.text import text_table
from tests import architectures
from tests.studies.test_cap_curve_result import CONFIG, make_clean, make_outcomes
from tests.studies.test_transplant import result as transplanted

MARKUP = '<script>alert("1")</script> & <b>bold'
ALONE = {"img"}


class Page(HTMLParser):
    """Tags, attributes and text of a block whose tags must match."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.text, self.images = "", []  # type: ignore[var-annotated]
        self.feed(html)
        assert self.open == []
        for image in self.images:
            html = html.replace(image, "")
        assert len(html) < 8000
        assert set(self.tags) <= {
            *("div", "p", "b", "img"),
            *("table", "caption", "thead", "tbody", "tr", "th", "td"),
        }

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ALONE:
            self.open.append(tag)
        for name, value in attrs:
            assert name in ("class", "style", "alt", "src", "border")
            if name == "src":
                assert value is not None
                self.images.append(value)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def page(thing: Any) -> Page:
    assert "\n" not in repr(thing)
    assert len(repr(thing)) < 400
    return Page(thing._repr_html_())


def curve(**changes: Any) -> ic.CapCurve:
    clean = make_clean()
    config = {**CONFIG, **changes}
    return ic.CapCurve.from_outcomes(make_outcomes(clean), clean, config, n_layers=5)


def test_a_study_s_result_has_head_table_and_figure() -> None:
    result = curve(weights_sha256="0" * 64)
    right, n = int(result.clean["correct"].sum()), len(result.clean)
    shown = page(result)
    for text in ("CapCurve", "model tiny", "task mini-idm", f"clean accuracy {right / n:.3f}"):
        assert text in repr(result)
        assert shown.text.count(text) == 1
    assert "000000" not in repr(result)
    assert all(sentence in shown.text for sentence in result.sentences()[:-1])
    (image,) = shown.images
    data = base64.b64decode(image.removeprefix("data:image/png;base64,"), validate=True)
    assert data == result.plot()._repr_mimebundle_()["image/png"]
    with Image.open(io.BytesIO(data)) as picture:
        assert (picture.format, picture.width > 300) == ("PNG", True)


def test_markup_is_text() -> None:
    result = curve(model=MARKUP)
    assert MARKUP in page(result).text
    example = ic.Example(MARKUP, " cat", target="</td>")
    task = ic.Task(MARKUP, "", (), (), (example,), {})
    assert page(task).text.count(MARKUP) == 2
    model = architectures.load("small, pre")
    model.name = MARKUP
    assert MARKUP in page(model).text


def test_tables_without_a_study_and_long_ones() -> None:
    frame = pd.DataFrame({"step": range(1000), "loss": 0.123456})
    shown = page(Result({"task": "toy", "seeds": list(range(500))}, {"steps": frame}, {}))
    assert "task toy · steps: 1000 rows" in shown.text
    assert "0.1235" in shown.text
    many = transplanted()
    object.__setattr__(many, "_summary", lambda: [text_table(frame, [("step", "step", ">5")])])
    assert "and 970 more rows" in page(many).text


def test_tasks_show_sizes_and_one_example() -> None:
    task = ic.load_task("mini-idm", ic.load_model("mini-idm"))
    shown = page(task)
    assert f"train: {len(task.train)}, validation: {len(task.validation)}" in shown.text
    assert task.train[0].prompt in shown.text
    assert task.test[0].prompt not in shown.text
    pair = ic.Pair("a big cat", "a cat", score=0.5)
    pairs = ic.PairTask("mine", (), (pair,), {})
    assert repr(pairs).startswith("PairTask('mine', train: 0, test: 1, such as Pair(text1='a big")
    assert "a big cat" in page(pairs).text
    empty = replace(pairs, test=())
    assert repr(empty) == "PairTask('mine', train: 0, test: 0)"
    assert "such as" not in page(empty).text
    page(ic.TextCorpus("long", ("x " * 100_000,), ("y",), {}))


def test_models_and_what_is_open_on_them(monkeypatch: pytest.MonkeyPatch) -> None:
    original = architectures.build("GPT-2")
    count = sum(weight.numel() for weight in original.parameters())  # before it is wrapped
    model = load_model(original)
    tokens = torch.tensor([[3, 5, 7]])
    shown = page(model)
    assert f"{count:,}" in shown.text
    with pytest.raises(AttributeError, match="TransformerLens' own is model.lens.to_tokens$"):
        _ = model.to_tokens  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="no attribute 'to_token'$"):
        _ = model.to_token  # type: ignore[attr-defined]

    def fails(self: object) -> int:
        raise AttributeError("from within")

    monkeypatch.setattr(type(model), "n_weights", property(fails))
    with pytest.raises(AttributeError, match="^from within$"):
        _ = model.n_weights
    monkeypatch.undo()
    assert "open now" not in shown.text
    with ablate(model, heads=[2], layers=1) as record:
        model(tokens)
        assert "open now" in page(model).text
    assert repr(record) == "<ablate(how='zero'): calls 1, vectors changed 3>"
    assert page(record).text.endswith("calls1vectors changed3")
    with mask_attention(model, keys=[0]) as knocked:
        model(tokens)
    assert f"calls 1, entries cut {knocked.n_cut}" in repr(knocked)
    assert str(knocked.n_cut) in page(knocked).text
    model.lens.train()
    assert "training" in page(model).text
