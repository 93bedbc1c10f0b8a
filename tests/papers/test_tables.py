"""The tables that name by strings what lies in papers: what each string names is there."""

from __future__ import annotations

import pkgutil

import pytest

from interp_compose.models.own_folder import SAVED
from interp_compose.papers.cat.tasks.glue import FORMATS
from interp_compose.papers.works import WORKS
from interp_compose.tasks.table import GLUE, TASKS, TaskRow, function_of, names_of, row_of


@pytest.mark.parametrize("row", TASKS, ids=lambda row: f"{row.kind}-{row.name}")
def test_a_task_has_a_loader_and_is_found_by_its_name(row: TaskRow) -> None:
    assert callable(function_of(row.loader))
    assert not row.tokenizer or callable(function_of(row.tokenizer))
    assert row_of(row.kind, row.name) is row
    assert names_of(row.kind).count(row.name) == 1


def test_a_number_in_a_name_leads_to_its_task() -> None:
    numbered = {
        "addition-99": "addition",
        "addition-reversed-9": "addition-reversed",
        "prontoqa-7": "prontoqa",
        "scan-length-26": "scan-length",
    }
    for name, plain in numbered.items():
        row = row_of("sequences", name)
        assert row is not None, name
        assert row.name == plain
    assert row_of("sequences", "prontoqa-8") is None
    assert row_of("sequences", "addition-1") is None
    assert row_of("prompts", "addition-99") is None


def test_names_of_glue_are_those_that_it_reads() -> None:
    assert list(GLUE) == list(FORMATS)


def test_saved_models_and_works_are_there() -> None:
    for file, (_, model) in SAVED.items():
        assert file == pkgutil.resolve_name(f"interp_compose.{model}").CONFIG
    for module, _ in SAVED.values():
        assert isinstance(pkgutil.resolve_name(f"interp_compose.{module}"), type)
    for place in WORKS.values():
        assert pkgutil.resolve_name(place) is not None
