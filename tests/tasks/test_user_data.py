"""A user's own rows: good ones come through exactly, each bad one is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from interp_compose.errors import DataFormatError, MissingDataError
from interp_compose.tasks.examples import read_examples
from interp_compose.types import Example

GOOD = {"prompt": "a young cat is called a", "answer": " kitten"}


def test_rows_and_files_give_the_same_examples(tmp_path: Path) -> None:
    rows = [
        GOOD,
        {"prompt": "ünï 🐈 cöde", "answer": "é", "spans": [[0, 3], [4, 5]]},
        {"prompt": "the dog", "answer": " barks", "tree": "(NP (DT the) (NN dog))"},
        {"prompt": "the cat", "answer": " meows", "foil": " barks"},
    ]
    path = tmp_path / "own.jsonl"
    path.write_text(
        "\ufeff" + "\n\n".join(json.dumps(row, ensure_ascii=False) for row in rows),
        encoding="utf-8",
    )
    expected = (
        Example("a young cat is called a", " kitten"),
        Example("ünï 🐈 cöde", "é", ((0, 3), (4, 5))),
        Example("the dog", " barks", None, "(NP (DT the) (NN dog))"),
        Example("the cat", " meows", foil=" barks"),
    )
    assert expected[-1] != Example("the cat", " meows")
    assert read_examples(path) == expected
    assert read_examples(str(path)) == expected
    assert read_examples(rows) == expected
    assert read_examples(pd.DataFrame(rows)) == expected


BAD: list[tuple[Any, str]] = [
    ({"answer": " x"}, "has no prompt; give a text"),
    ({"prompt": "x"}, r"has no answer; give a text .*\. The keys \(columns\) are prompt, answer"),
    ({"prompt": " ", "answer": " x"}, "' ' as its prompt; give a text"),
    ({"prompt": 3, "answer": " x"}, "3 as its prompt; give a text"),
    ({"prompt": "x", "answer": ""}, "'' as its answer"),
    (GOOD | {"anwser": "x"}, r"unknown key 'anwser'; the keys \(columns\) are prompt, answer"),
    (
        {"text": "x", "label": 1},
        r"unknown keys 'text', 'label' and lacks prompt, answer; .* spans, tree, target, foil",
    ),
    (["prompt", "answer"], r"expected an Example, \(prompt, answer\) or an object"),
    (GOOD | {"tree": 5}, "5 as its tree; give a text, or leave it out"),
    (GOOD | {"foil": 5}, "5 as its foil; give a text, or leave it out"),
    (GOOD | {"foil": " "}, "' ' as its foil; give a text, or leave it out"),
    (GOOD | {"spans": 5}, "5 as its spans; give a list"),
    (GOOD | {"spans": [[0, 99]]}, r"span \[0, 99\] in a prompt of 23 characters"),
    (GOOD | {"spans": [[2, 2]]}, r"span \[2, 2\]"),
    (GOOD | {"spans": [[-1, 2]]}, r"span \[-1, 2\]"),
    (GOOD | {"spans": [[True, 2]]}, r"span \[True, 2\]"),
    (GOOD | {"spans": [[0, 2, 4]]}, r"span \[0, 2, 4\]"),
    (GOOD | {"spans": ["ab"]}, "span 'ab'"),
    (GOOD | {"spans": [[4, 7], [0, 5]]}, r"overlapping spans \(0, 5\) and \(4, 7\)"),
]


@pytest.mark.parametrize(("row", "wrong"), BAD)
def test_a_bad_row_is_named_by_its_number(row: Any, wrong: str, tmp_path: Path) -> None:
    with pytest.raises(DataFormatError, match=f"^row 2 .*{wrong}"):
        read_examples([GOOD, row])
    path = tmp_path / "own.jsonl"
    path.write_text(f"{json.dumps(GOOD)}\n\n{json.dumps(row)}\n", encoding="utf-8")
    with pytest.raises(DataFormatError, match=f"own.jsonl, line 3 .*{wrong}"):
        read_examples(path)


def test_nothing_to_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match=r"there is no file .*none.jsonl; check the path"):
        read_examples(tmp_path / "none.jsonl")
    with pytest.raises(DataFormatError, match="list of examples is empty; expected rows like"):
        read_examples([])
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(DataFormatError, match=r"empty.jsonl is empty"):
        read_examples(tmp_path / "empty.jsonl")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["prompt", "answer", "spans", "tree", "x"]), inner)
        ),
    )
)
def test_no_row_gets_through_unless_it_is_an_example(row: Any) -> None:
    try:
        (example,) = read_examples([row])
    except DataFormatError:
        return
    texts = tuple(row[:2]) if isinstance(row, list) else (row["prompt"], row["answer"])
    assert (example.prompt, example.answer) == texts
    assert all(0 <= low < high <= len(example.prompt) for low, high in example.spans or ())


class Ends(NamedTuple):
    start: int
    end: int


class Length(NamedTuple):
    start: int
    length: int


def test_ends_that_have_names_are_read_by_them() -> None:
    def spans_of(spans: Any) -> Any:
        row = {"prompt": "the young dog", "answer": "x", "spans": spans}
        return read_examples([row])[0].spans

    ends = np.array([(4, 9)], dtype=[("start", "i8"), ("stop", "i8")])
    for spans in ([(4, 9)], [Ends(4, 9)], ends, [{"start": 4, "end": 9}]):
        assert spans_of(spans) == ((4, 9),)
    length = np.array([(4, 9)], dtype=[("start", "i8"), ("length", "i8")])
    for spans in ([Length(4, 9)], length, [{"end": 9, "start": 4}]):
        with pytest.raises(DataFormatError, match=r"the span \{.* give a list of \[start"):
            spans_of(spans)
