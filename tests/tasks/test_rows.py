"""Files of rows: what is wrong with a header, a line, or a whole file is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interp_compose.errors import DataFormatError, MissingDataError
from interp_compose.tasks.pairs import read_pairs
from interp_compose.tasks.rows import jsonl_rows, tsv_rows
from tests.tasks.test_pairs import GOOD, tsv


def test_rows_come_with_the_numbers_of_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_bytes(b'\n[1]\r\n \t\n"x"')
    assert list(jsonl_rows(path)) == [(2, [1]), (4, "x")]
    path.write_bytes('\ufeffa\tb\r\n\n"x\t y"\n\t\n'.encode())
    assert list(tsv_rows(path, ["b"])) == [(3, {"a": '"x', "b": ' y"'}), (4, {"a": "", "b": ""})]


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
