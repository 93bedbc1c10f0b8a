"""The report: one page that parses, fetches nothing, and shows any text as text."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from interp_compose.papers.carma.report import paper_tables, sentences_table
from interp_compose.papers.carma.result import Comparison
from interp_compose.studies.core.report import settings, shown, table
from interp_compose.studies.core.text import decimal, probability
from tests.papers.carma.studies.carma_tables import CONFIG, make_tables

HOSTILE = '</script><script>alert("x")</script><img src=http://x.test/a.png> & \'"'
VOID = {"meta", "img", "source", "br", "link", "input", "hr"}


class Page(HTMLParser):
    """What a browser would see: tags in balance, attributes, text outside scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self.open):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


SYMBOLS = Comparison.SYMBOLS


def report(config: dict[str, Any] | None = None, **changes: Any) -> str:
    return Comparison.from_runs(make_tables(**changes), CONFIG | (config or {})).report()


@pytest.fixture(scope="module")
def page() -> str:
    return report(gain={"cap": 20}, stuck=(1,))


def test_the_page_is_whole_and_fetches_nothing(page: str) -> None:
    seen = Page(page)
    assert page.startswith("<!DOCTYPE html>")
    assert {"html", "head", "body", "title", "table", "figure"} <= {tag for tag, _ in seen.tags}
    for tag, attributes in seen.tags:
        assert tag not in ("link", "iframe", "object", "base")
        for name in ("src", "href", "srcset", "action"):
            source = attributes.get(name)
            assert source is None or source.startswith("data:image/png;base64,")
    style = page[page.index("<style>") : page.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style


def test_every_figure_is_a_picture(page: str) -> None:
    pictures = [a for tag, a in Page(page).tags if tag == "img"]
    assert len(pictures) == 5
    assert all("95 % intervals" in (a["alt"] or "") for a in pictures)
    assert "the task's own loss" in Page(page).text.lower()


def test_the_words_come_first_and_the_numbers_are_there(page: str) -> None:
    text = Page(page).text
    places = [
        text.index(part)
        for part in (
            "1 of 5 ft runs had visibly not converged: loss still falling.",
            "What came out",
            "CARMA higher at layers 0–2 (difference +2.00 points)",
            "Constituent-aware pooling, averaged",
            "ConsistSyn (%): mean over seeds",
            "Training: time and convergence",
            "Each run; a step is the median of its steps",
            "no: loss still falling",
            "How the numbers are computed",
            "λ, weight of both terms",
        )
    ]
    assert places == sorted(places)
    assert "60.00 [59.74, 60.26]" in text  # FT's accuracy: 60 ± 2.776 · 0.2121 / √5
    assert "shore → coast (0.75)" in text
    assert "5 seeds, paired: same start, same batches." in text
    assert "knows nothing of the bounds 0 and 100 %" in text
    assert "coefficient of variation is not comparable" in text
    assert "Original 25 % – – –" in text
    assert "20 of 35 changed prompts" in text
    assert "torch" in text
    assert "CARMA prints no numbers for this model and task." in text


def test_hostile_text_stays_text(page: str) -> None:
    hostile = {"model": HOSTILE, "note": {HOSTILE: HOSTILE}}
    bad = Page(report(hostile, gain={"cap": 20}, stuck=(1,), prompt=HOSTILE))
    cells = ("tr", "td")  # one setting more
    dressed, plain = (
        [(tag, set(attributes)) for tag, attributes in seen.tags if tag not in cells]
        for seen in (bad, Page(page))
    )
    assert dressed == plain
    assert bad.text.count(HOSTILE) >= 20


def test_the_papers_numbers_stand_beside_ours() -> None:
    config = CONFIG | {"model": "/models/Llama-3.2-3B", "task": "idm", "n_layers": 28}
    comparison = Comparison.from_runs(make_tables(), config)
    text = Page("\n".join(paper_tables(comparison))).text
    assert "Matched by the model's name and number of layers." in text
    # By eq. 12 as printed: 600 right before, of which 100 in prompts without a replaced word;
    # 407 of the others right after, up to what varies by seed.
    right = [(600 + x, 100 + x + 407 + x) for x in (4, -3, 2, 1, -4)]
    printed = sum(100 * after / before for before, after in right) / 5
    assert f"{printed:.2f}" == "84.50"
    # measure, as printed, ours, ours by eq. 12 as printed, version, rate, table
    assert "Eq. 12 as printed divides all prompts that are right after" in text
    assert "ConsistSyn (%) 62.86 80.00 84.50 CARMA 25 % 4" in text
    assert "overhead 2.2 1.12 – CARMA 6 the minutes printed beside it give 2.68" in text
    assert "training (min) 7.55 1.00 – FT 6" in text
    untrained = Comparison.from_runs(make_tables(versions=("original",)), config)
    assert "training (min) 7.55 – – FT 6" in Page("\n".join(paper_tables(untrained))).text
    other = Comparison.from_runs(make_tables(), config | {"n_layers": 3})
    assert "CARMA prints no numbers" in Page("\n".join(paper_tables(other))).text


def test_who_has_not_converged_is_told_at_the_top_and_in_the_first_table(page: str) -> None:
    parts = Page(page).text.split("1 of 5 ft runs had visibly not converged")
    assert len(parts) == 3
    assert "Accuracy (%): mean over seeds" in parts[1]
    assert "Constituent-aware pooling, averaged" in parts[2]


def test_similarities_are_shown_where_they_were_measured() -> None:
    replacements = make_tables()["replacements"]
    given = sentences_table(replacements.assign(similarity=1.0), "mini-idm's reserve words")
    assert "shore → coast<" in given
    assert "imilarity" not in given
    senses = sentences_table(replacements, "wordnet")
    assert "shore → coast (0.75)" in senses
    assert "similarity: 1 / number of the sense that both words share" in senses
    assert "number of the sense" not in sentences_table(replacements, "vectors")


def test_one_seed_has_a_page_too() -> None:
    text = Page(report(seeds=(3,))).text
    assert "1 seed." in text
    assert "paired: same start" not in text
    assert "one seed: no statement" in text
    assert not re.search(r"\bnan\b", text, re.IGNORECASE)


def test_an_untrained_model_has_a_page_too() -> None:
    text = Page(report(versions=("original",))).text
    assert "FT and CARMA were not both trained, so nothing is compared." in text
    assert "Training: time and convergence" not in text


def test_settings_are_written_as_people_write_them() -> None:
    assert settings(
        {"n_layers": 3, "carma": {"weight": 0.2}, "train": {"max_steps": None}}, SYMBOLS
    ) == [
        ("n layers", "3"),
        ("carma: λ, weight of both terms", "0.2"),
        ("train: max steps", "–"),
    ]
    assert settings({"warmup": 24, "train": {"warmup_steps": 500}}, SYMBOLS) == [
        ("warmup", "24"),
        ("train: warmup steps", "500"),
    ]
    assert shown([0, 2.0, True, {"a": 1}]) == "0, 2, yes, a 1"


def test_numbers_line_up() -> None:
    assert decimal(-1.5, 2) == "−1.50"
    assert decimal(1.5, 1, sign=True) == "+1.5"
    assert (decimal(None, 2), decimal(float("nan"), 2)) == ("–", "–")
    assert (decimal(-0.0, 2), decimal(-1e-15, 2, sign=True)) == ("0.00", "+0.00")
    assert (decimal(-0.00042, 2), decimal(0.0049, 3), decimal(0.0051, 3)) == (
        "−0.00042", "0.0049", "0.005",
    )  # fmt: skip
    assert (decimal(-0.03, 1), decimal(0.05, 1), decimal(0.0012, 4)) == ("−0.030", "0.1", "0.0012")
    assert (decimal(0.049, 1), decimal(0.49, 0)) == ("0.049", "0.49")  # not 0.0, not 0
    assert (probability(1e-9), probability(0.0312345)) == ("<0.0001", "0.0312")
    assert (probability(1e-9, 3), probability(0.0312345, 3)) == ("<0.0001", "0.031")
    made = table(("a", "b", "c"), [("x", "1.0", "<b>")], numbers=1)
    assert '<td class="name">x</td><td class="number">1.0</td><td>&lt;b&gt;</td>' in made
