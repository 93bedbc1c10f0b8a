"""Rows in every form that people have them in; what is wrong with a row, a line, a table, a header
or a whole file is named."""

from __future__ import annotations

import io
import json
import math
import sqlite3
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from datasets import Dataset, DatasetDict

from interp_compose.errors import DataFormatError, MissingDataError
from interp_compose.tasks.examples import read_examples
from interp_compose.tasks.pairs import Pair, read_pairs
from interp_compose.tasks.rows import jsonl_rows, tsv_rows
from interp_compose.tasks.transplants import read_transplants
from tests.tasks.test_pairs import GOOD, tsv


def test_rows_come_with_the_numbers_of_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_bytes(b'\n[1]\r\n \t\n"x"')
    assert list(jsonl_rows(path)) == [(2, [1]), (4, "x")]
    path.write_bytes('\ufeffa\tb\r\n\n"x\t y"\n\t\n'.encode())
    assert list(tsv_rows(path, ["b"])) == [(3, {"a": '"x', "b": ' y"'}), (4, {"a": "", "b": ""})]


def test_marks_of_files_put_one_after_another_are_no_text(tmp_path: Path) -> None:
    path = tsv(tmp_path / "own.tsv", "a\tb\t1", "\ufeffc\td\t1")
    assert [pair.text1 for pair in read_pairs(path)] == ["a", "c"]
    path.write_bytes("[1]\n\ufeff[2]".encode())
    assert list(jsonl_rows(path)) == [(1, [1]), (2, [2])]


def test_a_row_of_a_data_base_with_a_column_twice_is_refused() -> None:
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    query = "select 'p' as prompt, 'x' as answer, 'y' as answer"
    for rows in (connection.execute(query), connection.execute(query).fetchall()):
        with pytest.raises(DataFormatError, match="the column 'answer' more than once; keep one"):
            read_examples(rows)


def test_characters_that_end_lines_elsewhere_stay_in_a_text(tmp_path: Path) -> None:
    text = "a\x0b\x0c\x1c\x85\u2028b"
    path = tsv(tmp_path / "own.tsv", f"{text}\tc\t1")
    assert read_pairs(path)[0].text1 == text


@pytest.mark.parametrize(
    ("header", "wrong"),
    [
        (
            "text1\ttext3\tscore",
            r"line 1 has 0 columns named 'text2': 'text1\\ttext3.*text1, text2",
        ),
        ("text1,text2,score", "line 1 has 0 columns named 'text1': .*tabs between them"),
        ("text1\ttext2\ttext2", "line 1 has 2 columns named 'text2'"),
        ("text1\ttext2\tscore\tscore", "line 1 names the column 'score' more than once"),
        ("a cat\ta dog\t0.5", "line 1 has 0 columns named 'text1'.*first line names the columns"),
        ("text1\ttext2", "line 2 has no score and no label"),
        (
            "id\ttext1\ttext2\tscore",
            "line 2 has the unknown key 'id'; the keys .* text1, text2, sco",
        ),
    ],
)
def test_a_bad_header_is_named(header: str, wrong: str, tmp_path: Path) -> None:
    row = "\t".join(["0"] * (header.count("\t") + 1))
    with pytest.raises(DataFormatError, match=f"own.tsv, {wrong}"):
        read_pairs(tsv(tmp_path / "own.tsv", row, header=header))


def test_an_unknown_column_is_refused_even_where_it_is_empty(tmp_path: Path) -> None:
    path = tsv(tmp_path / "own.tsv", "a\tb\t1\t", header="text1\ttext2\tscore\tnote")
    with pytest.raises(DataFormatError, match="line 2 has the unknown key 'note'"):
        read_pairs(path)


@pytest.mark.parametrize("line", [b"{broken", b"text1\ttext2"])
def test_a_line_that_is_not_json_is_named(line: bytes, tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_bytes(json.dumps(GOOD).encode() + b"\n" + line)
    with pytest.raises(DataFormatError, match="line 2 is not JSON .* write one object a line"):
        read_pairs(path)


@pytest.mark.parametrize("kind", ["jsonl", "tsv"])
def test_bytes_that_are_not_utf8_are_named(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"own.{kind}"
    path.write_bytes(b"text1\ttext2\tscore\n" * (kind == "tsv") + b"caf\xe9\tb\t1\n")
    number = 2 if kind == "tsv" else 1
    with pytest.raises(DataFormatError, match=f"line {number} is not UTF-8 .*save the file as"):
        read_pairs(path)


def test_nothing_to_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataFormatError, match="list of pairs is empty; expected rows like"):
        read_pairs([])
    for kind in ("jsonl", "tsv"):
        path = tmp_path / f"own.{kind}"
        with pytest.raises(MissingDataError, match=f"there is no file .*own.{kind}; check"):
            read_pairs(path)
        for nothing in (b"", b"\n \r\n", b"\xef\xbb\xbf\n"):
            path.write_bytes(nothing)
            with pytest.raises(DataFormatError, match=f"own.{kind} is empty; expected one row"):
                read_pairs(path)
    tsv(path)
    with pytest.raises(DataFormatError, match="own.tsv has a header and no rows"):
        read_pairs(path)


# --- rows as people have them

EXAMPLES = [
    {"prompt": "a young cat is", "answer": " kitten", "spans": [[2, 7], [8, 11]]},
    {"prompt": "the dog", "answer": " barks", "spans": [[0, 3]]},
]
PAIRS = [
    {"text1": "a dog", "text2": "a puppy", "score": 0.75},
    {"text1": "a b", "text2": "c", "score": 0.25},
]
TRANSPLANTS = [
    {
        "source": "the shore is",
        "source_span": [4, 9],
        "target": "not alive",
        "target_span": [0, 3],
        "expected": "a",
        "answer": "b",
    }
]
READERS: list[tuple[Callable[[Any], Any], list[dict[str, Any]]]] = [
    (read_examples, EXAMPLES),
    (read_pairs, PAIRS),
    (read_transplants, TRANSPLANTS),
]


def each(convert: Callable[[Any], Any], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows whose cells that are no texts have been converted."""
    return [{k: v if isinstance(v, str) else convert(v) for k, v in row.items()} for row in rows]


def through_parquet(rows: list[dict[str, Any]]) -> pd.DataFrame:
    stored = io.BytesIO()
    pd.DataFrame(rows).to_parquet(stored)
    return pd.read_parquet(io.BytesIO(stored.getvalue()))


def through_sqlite(rows: list[dict[str, Any]]) -> Any:
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    cells = [{k: v if isinstance(v, str | float) else None for k, v in r.items()} for r in rows]
    pd.DataFrame(cells).to_sql("rows", connection, index=False)
    return connection.execute("select * from rows")


def named(rows: list[dict[str, Any]]) -> list[Any]:
    """Named tuples in another order than the keys'."""
    kind = namedtuple("kind", list(rows[0])[::-1])  # type: ignore[misc]
    return [kind(**row) for row in rows]


class LikePolars:
    """What polars has: rows by a method of its own, and Arrow's interface."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.columns, self._rows = list(rows[0]), rows

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        raise AssertionError("its own method comes first")

    def to_dicts(self) -> list[dict[str, Any]]:
        return self._rows


FORMS: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "tuples": lambda rows: [tuple(row.values()) for row in rows],
    "lists, read once": lambda rows: iter([[*row.values()] for row in rows]),
    "named tuples": named,
    "columns": lambda rows: {key: [row[key] for row in rows] for key in rows[0]},
    "arrow scalars": lambda rows: zip(*pa.Table.from_pylist(rows).columns, strict=True),
    "numpy's strings": lambda rows: [
        {np.str_(k): np.str_(v) if isinstance(v, str) else v for k, v in row.items()}
        for row in rows
    ],
    "arrays": lambda rows: each(np.array, rows),
    "numbers of numpy": lambda rows: each(
        lambda v: (
            [[*map(np.int64, s)] if isinstance(s, list) else np.int32(s) for s in v]
            if isinstance(v, list)
            else np.float32(v)
        ),
        rows,
    ),
    "tensors": lambda rows: each(
        lambda v: [*map(torch.tensor, v)] if isinstance(v, list) else torch.tensor(v), rows
    ),
    "a frame": pd.DataFrame,
    "a frame by another index": lambda rows: pd.DataFrame(rows).set_index(
        pd.MultiIndex.from_tuples([("x", i) for i in range(len(rows))], names=["prompt", "b"])
    ),
    "a frame from Parquet": through_parquet,
    "nullable types": lambda rows: pd.DataFrame(rows).convert_dtypes(),
    "types of arrow": lambda rows: pa.Table.from_pylist(rows).to_pandas(types_mapper=pd.ArrowDtype),
    "categories": lambda rows: pd.DataFrame(rows).astype(
        {key: "category" for key, one in rows[0].items() if isinstance(one, str)}
    ),
    "rows of a frame": lambda rows: [row for _, row in pd.DataFrame(rows).iterrows()],
    "tuples of a frame": lambda rows: pd.DataFrame(rows).itertuples(index=False),
    "records": lambda rows: pd.DataFrame(rows)[[*rows[0]][::-1]].to_records(index=False),
    "an arrow table": pa.Table.from_pylist,
    "a batch": lambda rows: pa.RecordBatch.from_pylist(rows),
    "a stream": lambda rows: pa.Table.from_pylist(rows).to_reader(),
    "narwhals": lambda rows: nw.from_native(pd.DataFrame(rows)),
    "polars": LikePolars,
    "the hub's": Dataset.from_list,
    "the hub's, as arrays": lambda rows: Dataset.from_list(rows).with_format("numpy"),
    "the hub's, as frames": lambda rows: Dataset.from_list(rows).with_format("pandas"),
    "the hub's, streamed": lambda rows: Dataset.from_list(rows).to_iterable_dataset(),
    "the hub's columns": lambda rows: Dataset.from_list(rows)[: len(rows)],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("read", "rows"), READERS)
def test_every_form_of_rows_is_read(
    read: Callable[[Any], Any], rows: list[dict[str, Any]], form: str
) -> None:
    assert read(FORMS[form](rows)) == read(rows)


def test_a_table_of_the_hub_is_read_as_it_shows_itself() -> None:
    rows = [{"text1": "a b", "text2": "c", "score": 3.0, "id": 7}]
    data = Dataset.from_list(rows)
    fewer = ["text1", "text2", "score"]
    fifth = data.with_transform(
        lambda batch: {
            name: [x / 5 if name == "score" else x for x in batch[name]] for name in fewer
        }
    )
    assert read_pairs(fifth)[0].score == 0.6
    assert read_pairs(data.with_format(columns=fewer))[0].score == 3.0


def test_rows_of_a_database() -> None:
    assert read_pairs(through_sqlite(PAIRS)) == read_pairs(PAIRS)
    texts = [{**row, "spans": None} for row in EXAMPLES]
    assert read_examples(through_sqlite(EXAMPLES)) == read_examples(texts)


def test_frames_of_polars_itself() -> None:
    polars = pytest.importorskip("polars")
    for read, rows in READERS:
        frame = polars.DataFrame(rows)
        assert read(frame) == read(frame.iter_rows()) == read(rows)


NOTHINGS = [None, math.nan, np.float32("nan"), pd.NA, pd.NaT, np.datetime64("NaT")]


@pytest.mark.parametrize("nothing", NOTHINGS, ids=repr)
def test_what_stands_for_nothing(nothing: Any) -> None:
    (row,) = EXAMPLES[:1]
    optional: dict[str, Any] = dict.fromkeys(("spans", "tree", "target", "foil"), nothing)
    assert read_examples([{**row, **optional}]) == read_examples([{**row, "spans": None}])
    with pytest.raises(DataFormatError, match="^row 2 has no answer; give a text"):
        read_examples([row, {**row, "answer": nothing}])
    with pytest.raises(DataFormatError, match="^row 1 has no prompt; give a text"):
        read_examples([(nothing, "a")])
    with pytest.raises(DataFormatError, match="^row 1 has no score and no label"):
        read_pairs(pd.DataFrame([{**PAIRS[0], "score": nothing}]))
    with pytest.raises(DataFormatError, match="^pair 0 has no source_span; give"):
        read_transplants([{**TRANSPLANTS[0], "source_span": nothing}])


TWICE = pa.Table.from_arrays([pa.array(["x"])] * 3, names=["prompt", "answer", "answer"])
LEVELS = pd.DataFrame([["a", "b"]], columns=pd.MultiIndex.from_product([["x"], ["prompt", "y"]]))
SPLITS = DatasetDict(train=Dataset.from_list(EXAMPLES), test=Dataset.from_list(EXAMPLES))


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        (TWICE, "several columns named 'answer': 'prompt', 'answer', 'answer'; expected names"),
        (TWICE.to_pandas().iloc[:, [0, 1, 2]], "several columns named 'answer'"),
        (LEVELS, r"the table has names in levels: .*'prompt'.* expected names of one level"),
        (SPLITS, r"a DatasetDict \('train', 'test'\); .* give one \(data\['test'\]\)"),
        (
            {"train": pd.DataFrame(EXAMPLES)},
            r"a dict \('train'\); expected a list of rows, a table",
        ),
        (EXAMPLES[0], r"a dict \('prompt', .* a single row goes into a list"),
        ({"prompt": ["a"], "answer": ["b", "c"]}, "columns of one length"),
        ({}, r"a dict \(\); expected a list of rows"),
        (pd.DataFrame(EXAMPLES)[:0], "the list of examples is empty"),
        (pa.table({}), "the list of examples is empty"),
        (pd.DataFrame([["a", "b"]], columns=["Prompt", "ANSWER"]), "did you mean 'prompt'"),
        (
            [{"sentence": "a", "answer": "b"}],
            "key 'sentence' and lacks prompt; the keys .* prompt",
        ),
        ([{"prompt": "a", "answer": "b", "span": []}], "did you mean 'spans'"),
        (pd.DataFrame([("a", "b")]), "the unknown keys 0, 1 and lacks prompt, answer; the keys"),
        (pd.DataFrame([("a", "b")], columns=["prompt", pd.NA]), "unknown key (nan|None) and lacks"),
        ([["prompt", "answer"], ["a", "b"]], r"row 1 is \['prompt', 'answer'\]; expected an Exam"),
        ([("a", np.array(["b", "c"]))], r"row 1 has \['b', 'c'\] as its answer"),
        ([("a", pd.DataFrame(["b"]))], "row 1 has .* as its answer; give a text"),
        ([(b"a", "b")], "row 1 has b'a' as its prompt"),
        ([("a b", "c", np.array([[0.0, 1.0]]))], r"the span \[0.0, 1.0\] in a prompt"),
        ([("a b", "c", [[0, pd.NA]])], r"the span \[0, None\] in a prompt"),
        ([("a b", "c", torch.zeros(1, 2, device="meta"))], "tensor.* as its spans; give a list"),
        ([("a b", "c", torch.eye(2).to_sparse())], "tensor.* as its spans; give a list"),
        ([dict], "row 1 is <class 'dict'>; expected an Example"),
        ([Pair("a", "b", 0.5)], "unknown keys 'text1', 'text2', .* and lacks prompt, answer"),
    ],
)
def test_what_is_no_row_is_named(rows: Any, wrong: str) -> None:
    with pytest.raises(DataFormatError, match=wrong) as told:
        read_examples(rows)
    assert len(str(told.value)) <= 500
