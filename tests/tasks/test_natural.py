"""The shipped tasks in plain English: what each file promises, and what a tokenizer leaves."""

from __future__ import annotations

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
    template, items = read(name)
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
        assert len(unit.split()) > 1
        assert span[1] < len(example.prompt)
        # No demonstration gives an item away.
        assert unit.lower() not in template.lower()


def test_a_quarter_of_the_answers_at_most_are_alike_where_they_are_no_labels() -> None:
    for name in NAMES:
        counts = Counter(item.answer for item in read(name)[1])
        share = max(counts.values()) / counts.total()
        assert share <= (0.5 if len(counts) == 2 else 0.25), name


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
