"""The shipped tasks in plain English: what each file promises, and what a tokenizer leaves."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest

from interp_compose.errors import AnswerError, OptionError
from interp_compose.models.load import load_model
from interp_compose.tasks.load import load_task
from interp_compose.tasks.natural import read
from interp_compose.tasks.table import TASKS
from tests import architectures
from tests.tasks.conftest import byte_tokenizer
from tests.tasks.stub import StubModel

NAMES = [row.name for row in TASKS if row.loader == "tasks.natural:natural"]


@pytest.mark.parametrize("name", NAMES)
def test_each_item_is_one_of_its_own(name: str) -> None:
    template, items, _ = read(name)
    assert template.count("{}") == 1
    assert not template.endswith(" ")
    assert len(items) >= 150
    assert len({item.text.lower() for item in items}) == len(items)
    for item in items:
        assert item.answer != item.foil
        assert item.answer[0] == item.foil[0] == " "
        assert item.text.count("[") == item.text.count("]") == 1
        example = item.example(template)
        (span,) = example.spans or ()
        unit = example.prompt[slice(*span)]
        assert f"[{unit}]" in item.text
        assert example.prompt == template.format(item.text.replace("[", "").replace("]", ""))
        assert unit == unit.strip()
        assert (example.answer, example.foil) == (item.answer, item.foil)
        assert span[1] < len(example.prompt)
        # No demonstration gives an item away.
        assert unit.lower() not in template.lower()
    # Most units are several words; of compounds, some are written as one.
    phrases = sum(" " in item.text[item.text.index("[") : item.text.index("]")] for item in items)
    assert phrases == len(items) or (name == "compounds" and phrases > 0.6 * len(items))


def test_what_each_task_is_made_for_is_in_its_help_and_its_report(crude: Any) -> None:
    rows = {row.name: row.description for row in TASKS if row.kind == "prompts"}
    for name in NAMES:
        made_for = read(name)[2]
        whole = ("agreement", "materials", "continents")
        assert made_for == ("vocabulary" if name in whole else "foil")
        assert ("made for --answers foil" in rows[name]) == (made_for == "foil")
        task = load_task(name, StubModel(crude), multi_token_answers=True)
        assert task.report["made_for"] == f"answers={made_for!r}"


def test_the_words_of_a_compound_are_two_and_its_foil_is_one_of_them() -> None:
    """So that a model that repeats the last word is right in about half."""
    items = read("compounds")[1]
    for item in items:
        unit = item.text[item.text.index("[") + 1 : -1].lower()
        parts = unit.replace("-", " ").split()
        foil = item.foil.strip().lower()
        assert foil in parts or unit.endswith(foil), item
    last = [item.text.removesuffix("]").endswith(item.answer.strip()) for item in items]
    assert (sum(last), len(items)) == (96, 184)


def test_the_words_of_definitions_are_pairs_each_of_which_is_the_others_foil() -> None:
    """So that a model that does not read the definition is right in half."""
    items = read("definitions")[1]
    for first, second in zip(items[::2], items[1::2], strict=True):
        assert (first.answer, first.foil) == (second.foil, second.answer)
    assert len({item.answer for item in items}) == len(items)
    for item in items:
        for word in (item.answer.strip(), item.foil.strip()):
            assert not re.search(rf"\b{word}", item.text), item


def test_no_place_of_continents_names_one() -> None:
    items = read("continents")[1]
    for item in items:
        assert not re.search("africa|asia|europe", item.text.lower()), item
    assert load_task("continents", StubModel(byte_tokenizer([" Asia"]))).labels == (
        " Asia",
        " Africa",
        " Europe",
    )


def test_no_demonstration_of_opposites_is_an_items_pair() -> None:
    template, items, _ = read("opposites")
    shown = [{"big", "small"}, {"unfair", "fair"}, {"slow", "fast"}, {"slowly", "fast"}]
    assert template.startswith("The opposite of big is small. The opposite of unfair is fair.")
    for item in items:
        for word in item.text[1 : item.text.index("]")].split():
            assert {word, item.answer.strip()} not in shown, item


def test_a_quarter_of_the_answers_at_most_are_alike_where_they_are_no_labels() -> None:
    for name in NAMES:
        counts = Counter(item.answer for item in read(name)[1])
        share = max(counts.values()) / counts.total()
        assert share <= {2: 0.5, 3: 0.35}.get(len(counts), 0.25), name


def test_subjects_differ_in_number_from_the_noun_that_is_nearer() -> None:
    """The last word of a subject is a noun of the other number, so that it leads astray."""
    irregular = {"children", "men", "women", "people", "teeth"}
    for item in read("agreement")[1]:
        nearer = item.text.strip("[]").split()[-1]
        is_plural = nearer in irregular or (nearer.endswith("s") and not nearer.endswith("ss"))
        assert is_plural == (item.answer == " is"), item.text


def test_what_a_tokenizer_keeps_is_counted(crude: Any) -> None:
    task = load_task("agreement", StubModel(byte_tokenizer([" is"])))
    assert {example.answer for example in task.test} == {" is"}
    assert task.report["test_all"] == 168
    assert task.report["test_one_token"] == len(task.test) == 84
    assert task.labels == (" is", " are")
    several = load_task("materials", StubModel(crude), multi_token_answers=True)
    assert several.report["test_any_tokens"] == len(several.test) == 192
    assert several.labels == ()
    with pytest.raises(AnswerError, match="not one of the 168 answers is a single token"):
        load_task("agreement", StubModel(crude))
    with pytest.raises(OptionError, match="is text that goes on, for decoders"):
        load_task("agreement", load_model(architectures.build("T5"), tokenizer=crude))
