"""Examples that cannot be measured are all named at once, or left out and counted."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import interp_compose as ic
from interp_compose.errors import (
    AnswerError,
    DataFormatError,
    InputError,
    OptionError,
    PromptError,
    together,
)
from interp_compose.models.lens_model import LensModel
from interp_compose.types import Example
from tests.studies import similarity_reference
from tests.studies.test_transplant import PAIRS

LONG = Example("a " * 60, "b")
SEVERAL = Example('a "', "zzqx")
EMPTY = Example('a "', "")


def mixed(examples: list[Example]) -> list[Any]:
    """Bad ones at 1, 3, 4 and the end."""
    good = examples[:5]
    return [good[0], SEVERAL, good[1], LONG, EMPTY, *good[2:], {"prompt": " ", "answer": "b"}]


def test_all_are_named_at_once(model: LensModel, examples: list[Example]) -> None:
    rows = mixed(examples)
    with pytest.raises(InputError) as told:
        ic.cap_curve(model, rows, progress=False)
    assert told.value.__cause__ is told.value.__context__ is None  # one traceback
    lines = str(told.value).splitlines()
    assert lines[0].startswith("4 of 9 examples cannot be used")
    assert "on_bad=" in lines[0]
    named = [re.search(r"example (\d+)\b", line) for line in lines[1:]]
    assert [int(one[1]) for one in named if one] == [1, 3, 4, 8]
    assert "zzqx" in lines[1]
    assert "reads 61" in lines[2]
    with pytest.raises(AnswerError, match=r"^2 of 3 .*\n.*example 0: .*\n.*example 2: ") as alike:
        ic.ablation_curve(model, [SEVERAL, examples[0], EMPTY], what="mlp", progress=False)
    assert isinstance(alike.value, AnswerError)
    with pytest.raises(PromptError, match=r"^example 1: its prompt has"):
        ic.cap_curve(model, [examples[0], LONG], progress=False)


def test_twenty_are_listed() -> None:
    problems = [AnswerError(f"example {i}: {chr(97 + i) * 400}") for i in range(32)]
    lines = str(together(problems, 50, "examples", "correct them")).splitlines()
    assert len(lines) == 22
    assert lines[0] == "32 of 50 examples cannot be used; correct them:"
    assert lines[-1] == "and 12 more"
    assert all(len(line) <= 350 for line in lines)
    assert together(problems[:1], 50, "", "") is problems[0]


def test_of_like_ones_three_are_listed() -> None:
    """Of the others the numbers, by what differs; of texts that are the same nothing more."""
    problems = [AnswerError(f"2.jsonl, line {i}: no answer") for i in range(30)]
    problems.insert(9, AnswerError("2.jsonl, line 30: no prompt"))
    lines = str(together(problems, 40, "rows", "correct them")).splitlines()[1:]
    assert lines == [
        *(f"2.jsonl, line {i}: no answer" for i in range(3)),
        f"likewise {', '.join(map(str, range(3, 20)))}",
        "2.jsonl, line 30: no prompt",
        "and 10 more",
    ]
    few = str(together(problems[:5], 40, "rows", "correct them")).splitlines()[-1]
    assert few == "likewise 3, 4"
    same = str(together([AnswerError("of 2")] * 5, 40, "rows", "correct them")).splitlines()[1:]
    assert same == ["of 2"] * 3 + ["and 2 more"]


def test_where_none_is_left_skipping_is_no_remedy(model: LensModel) -> None:
    with pytest.raises(AnswerError, match=r"^2 of 2 examples cannot be used; none is left; cor"):
        ic.cap_curve(model, [SEVERAL, EMPTY], on_bad="skip", progress=False)


def test_what_is_wrong_with_all_is_no_example_s(model: LensModel, examples: list[Example]) -> None:
    with pytest.raises(OptionError, match=r"^answers=\['b'\]"):
        ic.cap_curve(model, mixed(examples), answers=["b"], on_bad="skip", progress=False)
    with pytest.raises(InputError, match="no examples"):
        ic.cap_curve(model, [], on_bad="skip", progress=False)
    with pytest.raises(AnswerError, match="2 of 2 examples"):
        ic.cap_curve(model, [SEVERAL, EMPTY], on_bad="skip", progress=False)


def same(skipped: pd.DataFrame, alone: pd.DataFrame, places: dict[int, int], key: str) -> None:
    alone = alone.assign(**{key: alone[key].map(places)})
    if "pooling" in alone:  # drawn by an example's place
        alone, skipped = (one[one["pooling"] != "shuffled"] for one in (alone, skipped))
    by = [name for name in (key, "layer", "pooling", "unit", "vector", "run") if name in alone]
    frames = [one.sort_values(by, ignore_index=True) for one in (skipped, alone)]
    pd.testing.assert_frame_equal(*frames, rtol=1e-5)


def test_those_left_out_are_counted_and_change_nothing(
    model: LensModel, examples: list[Example]
) -> None:
    places = dict(enumerate([0, 2, 5, 6, 7]))
    for study in (ic.cap_curve, ic.ablation_curve):
        result = study(model, mixed(examples), on_bad="skip", progress=False)
        alone = study(model, examples[:5], progress=False)
        assert result.config["skipped"] == {"answer": 2, "prompt": 1, "row": 1}
        assert result.config["n_examples"] == 5
        assert "skipped" not in alone.config
        same(result.outcomes, alone.outcomes, places, "example")
        same(result.clean, alone.clean, places, "example")
        note = "4 left out (2 for the answer, 1 for the prompt, 1 for the row)"
        assert note in result.summary()
        assert note in result.plot().chart.subtitle
        assert "left out" not in alone.plot().chart.subtitle


def test_pairs_are_left_out_too(model: LensModel) -> None:
    bad = replace(PAIRS[0], expected="zzqx")
    cut = replace(PAIRS[0], target_span=(0, len(PAIRS[0].target)))
    rows = [bad, *PAIRS, cut]
    with pytest.raises(InputError, match=r"(?s)^2 of \d+ pairs cannot .*example 0.*pair \d+: "):
        ic.transplant(model, rows, progress=False)
    result = ic.transplant(model, rows, on_bad="skip", progress=False)
    alone = ic.transplant(model, PAIRS, controls=False, progress=False)
    assert result.config["skipped"] == {"answer": 1, "spans or tree": 1}
    assert set(result.frames["pairs"]["donor"]) <= set(range(1, len(PAIRS) + 1))
    kept = result.outcomes[result.outcomes["vector"] == "transplant"]
    same(kept, alone.outcomes, {i: i + 1 for i in range(len(PAIRS))}, "pair")
    assert "2 left out" in result.summary()


def test_pairs_of_texts_are_left_out_too() -> None:
    encoder = similarity_reference.wrapped("BERT")
    good = similarity_reference.ROWS
    long = {**good[0], "text1": "a " * 80, "text2": "b"}
    rows = [good[0], {"text1": "a"}, *good[1:], long]
    last = len(rows)
    with pytest.raises(InputError, match=rf"(?s)^2 of {last} pairs .*row 2 .*text1 of row {last}"):
        ic.similarity_curve(encoder, rows, progress=False)
    with similarity_reference.few_samples():
        result = ic.similarity_curve(encoder, rows, on_bad="skip", layers=[0], progress=False)
        alone = ic.similarity_curve(encoder, good, layers=[0], progress=False)
    assert sorted(result.config["skipped"].items()) == [("prompt", 1), ("row", 1)]
    places = {i: i + (i > 0) for i in range(len(good))}
    same(result.clean, alone.clean, places, "pair")
    assert "2 left out" in result.summary()
    assert "2 left out" in result.plot().chart.subtitle


def test_of_a_file_lines_are_named(
    model: LensModel, examples: list[Example], tmp_path: Path
) -> None:
    path = tmp_path / "own.jsonl"
    good = json.dumps({"prompt": examples[0].prompt, "answer": examples[0].answer})
    several = json.dumps({"prompt": 'a "', "answer": "zzqx"})
    path.write_text("\n".join([good, "", several, several, good]))
    read = ic.read_examples(path)
    assert read[0] == examples[0]
    with pytest.raises(AnswerError, match=r"example 1 \(own.jsonl, line 3\): .*\n.*line 4\): "):
        ic.cap_curve(model, read, progress=False)
    path.write_text("\n".join([good, "{", '{"prompt": 3, "answer": "a"}', good, "[]"]))
    with pytest.raises(DataFormatError) as told:
        ic.read_examples(path)
    lines = str(told.value).splitlines()
    assert lines[0].startswith("3 of 5 rows cannot be used")
    assert [re.findall(r"line (\d)", line)[0] for line in lines[1:]] == ["2", "3", "5"]
