"""The paper's printed numbers: all there, findable, and marked where they are visibly wrong."""

from __future__ import annotations

from typing import Any

import pytest

from interp_compose.papers.carma.paper import paper_numbers, paper_numbers_for
from interp_compose.tasks.prompts import PAPER_MODELS
from tests.papers.carma.studies.carma_tables import pick


def test_every_number_is_there() -> None:
    frame = paper_numbers()
    assert list(frame) == [
        *("table", "label", "hub_name", "task", "version", "rate", "metric", "printed"),
        *("value", "note"),
    ]
    # rows times numbers of each printed table
    assert frame["table"].value_counts().to_dict() == {4: 84, 5: 76, 1: 36, 6: 18, 7: 15}
    assert set(frame["label"]) == {model.label for model in PAPER_MODELS}
    cell = ["table", "label", "task", "version", "rate", "metric"]
    assert not frame.duplicated(cell).any()
    assert (frame["rate"].isna() == frame["metric"].isin(["minutes", "overhead"])).all()


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        ({"table": 4, "label": "GPT2-S", "version": "original", "rate": 0.4}, "37.20"),
        ({"table": 4, "label": "Llama-3B", "version": "carma", "rate": 0.25}, "62.86"),
        ({"table": 4, "label": "Qwen-3B", "version": "ft", "rate": 0.4}, "45.74"),
        ({"table": 5, "label": "Llama-1B", "version": "original", "rate": 0.4}, "1.73"),
        ({"table": 5, "label": "Qwen-0.5B", "version": "carma", "rate": 0.25}, "89.66"),
        ({"table": 1, "label": "GPT2-L", "task": "sc", "version": "carma"}, "0.8858"),
        ({"table": 6, "label": "GPT2-S", "metric": "overhead"}, "1.8"),
        ({"table": 7, "label": "GPT2-S", "metric": "overhead"}, "7.6"),
        ({"table": 7, "label": "Qwen-3B", "version": "carma", "metric": "minutes"}, "16.86"),
    ],
)
def test_numbers_as_printed(cells: dict[str, Any], text: str) -> None:
    assert pick(paper_numbers(), **{"metric": "consist_syn", **cells})["printed"] == text


def test_values_are_the_printed_numbers_in_per_cent() -> None:
    for row in paper_numbers().to_dict("records"):
        if "printed as a fraction" in row["note"]:
            assert row["value"] == pytest.approx(100 * float(row["printed"]))
        else:
            assert row["value"] == float(row["printed"])
        if row["metric"] == "consist_syn":
            assert 1 < row["value"] < 100
    fractions = paper_numbers().query("note.str.contains('printed as a fraction')")
    assert len(fractions) == 6
    assert set(zip(fractions["label"], fractions["table"], strict=True)) == {
        ("GPT2-L", 1),
        ("Gemma-2B", 4),
    }


def test_overheads_follow_from_their_minutes_or_are_marked() -> None:
    frame = paper_numbers()
    for row in frame.query("metric == 'overhead'").to_dict("records"):
        times = frame[(frame["table"] == row["table"]) & (frame["label"] == row["label"])]
        minutes = times[times["metric"] == "minutes"].set_index("version")["value"]
        step = 10.0 ** -len(row["printed"].split(".")[1])
        follows = abs(minutes["carma"] / minutes["ft"] - row["value"]) <= step
        assert follows != ("minutes printed beside it" in row["note"])


@pytest.mark.parametrize(
    ("cells", "note"),
    [
        ({"table": 5, "label": "GPT2-S", "version": "ft", "metric": "cv", "rate": 0.25}, "repeats"),
        ({"table": 1, "label": "GPT2-L", "task": "sc", "version": "original", "metric": "cv"},
         "repeats the FT row"),
        ({"table": 5, "label": "Gemma-2B", "version": "ft", "metric": "consist_syn", "rate": 0.25},
         "Table 1 has 80.23"),
        ({"table": 5, "label": "Qwen-3B", "version": "carma", "metric": "cv", "rate": 0.4}, "FT"),
    ],
)  # fmt: skip
def test_what_is_visibly_wrong_is_marked(cells: dict[str, Any], note: str) -> None:
    assert note in pick(paper_numbers(), **cells)["note"]


@pytest.mark.parametrize(
    "name",
    ["Llama-1B", "meta-llama/Llama-3.2-1B", "llama-3.2-1b", "/models/Llama-3.2-1B/", "a\\Llama-1B"],
)
def test_a_model_is_found_by_any_of_its_names(name: str) -> None:
    rows = paper_numbers_for(name, "sst")
    assert set(rows["label"]) == {"Llama-1B"}
    assert set(rows["task"]) == {"sc"}
    assert rows["table"].value_counts().to_dict() == {5: 12, 7: 3}


@pytest.mark.parametrize(
    ("name", "task"),
    [("gpt2-medium", "idm"), ("gpt2", "mini-idm"), ("gpt2", "mini-sst"), ("", "idm"), ("/", "sc")],
)
def test_what_the_paper_did_not_measure_is_empty(name: str, task: str) -> None:
    assert paper_numbers_for(name, task).empty


def test_a_folder_of_the_same_name_with_other_layers_is_another_model() -> None:
    for model in PAPER_MODELS:
        named = paper_numbers_for(model.hub_name, "idm")
        assert len(named)
        assert len(paper_numbers_for(model.hub_name, "idm", model.n_layers)) == len(named)
        assert paper_numbers_for(model.hub_name, "idm", model.n_layers - 1).empty
