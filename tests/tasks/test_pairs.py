"""Judged pairs: good rows come through exactly, each bad one is named."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, fields
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from interp_compose.errors import DataFormatError, OptionError
from interp_compose.tasks.pairs import Pair, PairTask, check_pairs, read_pairs

COLUMNS = [field.name for field in fields(Pair)]
GOOD = {"text1": "water body", "text2": "body water", "score": 0.4}
LABELLED = {"text1": "a cat sat", "text2": "a cat lay", "label": 1}


def tsv(path: Path, *rows: str, header: str = "text1\ttext2\tscore") -> Path:
    path.write_bytes(("\n".join([header, *rows]) + "\n").encode())
    return path


# --- what comes through


def test_rows_and_files_give_the_same_pairs(tmp_path: Path) -> None:
    rows: list[Any] = [
        GOOD,
        {"text1": 'ünï "🐈', "text2": " cöde' ", "score": -3, "subset": "odd"},
        {"text1": "the dog", "text2": "a dog", "score": 1e3, "tree1": "(NP (DT the) (NN dog))"},
    ]
    expected = (
        Pair("water body", "body water", 0.4),
        Pair('ünï "🐈', " cöde' ", -3.0, subset="odd"),
        Pair("the dog", "a dog", 1000.0, tree1="(NP (DT the) (NN dog))"),
    )
    assert read_pairs(rows) == expected
    assert read_pairs(expected) == expected
    assert read_pairs(row for row in rows) == expected
    lines = tmp_path / "own.jsonl"
    lines.write_text(
        "\ufeff" + "\n\n".join(json.dumps(row, ensure_ascii=False) for row in rows),
        encoding="utf-8",
    )
    assert read_pairs(lines) == expected
    table = tmp_path / "own.tsv"
    table.write_bytes(
        b"\xef\xbb\xbf\r\nsubset\tscore\ttext1\ttext2\ttree1\r\n"
        b"\t0.4\twater body\tbody water\t\r\n\r\n  \r\n"
        + "odd\t-3\tünï \"🐈\t cöde' \t\r\n".encode()
        + b"\t1e3\tthe dog\ta dog\t(NP (DT the) (NN dog))"
    )
    assert read_pairs(str(table)) == expected
    assert all(type(pair.score) is float for pair in read_pairs(table))


@pytest.mark.parametrize("value", [0, 1, 0.0, 1.0, False, True, np.int64(1), np.bool_(True)])
def test_labels_become_plain_integers(value: Any) -> None:
    (pair,) = read_pairs([LABELLED | {"label": value}])
    assert pair.label == value
    assert type(pair.label) is int
    assert pair.score is None


@pytest.mark.parametrize("value", [1, 0.25, np.float32(0.25), np.int8(3), Fraction(1, 4)])
def test_scores_become_plain_floats(value: Any) -> None:
    (pair,) = read_pairs([GOOD | {"score": value}])
    assert pair.score == float(value)
    assert type(pair.score) is float


def test_labels_of_a_tsv(tmp_path: Path) -> None:
    path = tsv(tmp_path / "own.tsv", "a\tb\t1", "a\tc\t0", header="text1\ttext2\tlabel")
    assert read_pairs(path) == (Pair("a", "b", label=1), Pair("a", "c", label=0))


def test_none_and_nan_count_as_absent() -> None:
    empty = {"label": None, "subset": float("nan"), "tree1": np.nan, "tree2": None}
    assert read_pairs([GOOD | empty]) == (Pair("water body", "body water", 0.4),)
    frame = pd.DataFrame([GOOD, GOOD | {"text1": "a b", "subset": "s"}])
    assert read_pairs(frame.to_dict("records")) == (
        Pair("water body", "body water", 0.4),
        Pair("a b", "body water", 0.4, subset="s"),
    )


def test_the_other_order_is_another_pair() -> None:
    back = {"text1": "body water", "text2": "water body", "score": 0.4}
    assert len(read_pairs([GOOD, back])) == 2


TEXT = st.text(
    st.characters(codec="utf-8", exclude_characters="\t\n\r\ufeff"), min_size=1, max_size=8
).filter(str.strip)
SCORED = st.builds(Pair, TEXT, TEXT, score=st.floats(allow_nan=False, allow_infinity=False))
MARKED = st.builds(Pair, TEXT, TEXT, label=st.sampled_from([0, 1]))
NAMES = TEXT.filter(lambda name: name not in ("all", "mirror"))
DRESSED = st.builds(Pair, TEXT, TEXT, st.just(0.5), st.none(), NAMES, TEXT, TEXT)


@given(
    st.one_of(
        st.lists(pairs, min_size=1, max_size=5, unique_by=lambda pair: (pair.text1, pair.text2))
        for pairs in (SCORED, MARKED, DRESSED)
    )
)
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, one: Any) -> None:
    rows = [{k: v for k, v in asdict(pair).items() if v is not None} for pair in one]
    folder = tmp_path_factory.mktemp("pairs")
    lines = folder / "own.jsonl"
    lines.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    table = folder / "own.tsv"
    columns = [key for key in COLUMNS if any(key in row for row in rows)]
    cells = ["\t".join(str(row[key]) for key in columns) for row in rows]
    tsv(table, *cells, header="\t".join(columns))
    assert read_pairs(rows) == read_pairs(one) == read_pairs(lines) == read_pairs(table)
    assert read_pairs(table) == tuple(one)


# --- what is refused

BAD: list[tuple[Any, str]] = [
    ({"text2": "b", "score": 1}, "has no text1; give a text that is not blank"),
    (GOOD | {"text2": " "}, "has ' ' as its text2; give a text that is not blank"),
    (GOOD | {"text2": ""}, "has '' as its text2; give a text that is not blank"),
    (GOOD | {"text1": 3}, "has 3 as its text1; give a text"),
    (GOOD | {"text1": ["a"]}, "has ['a'] as its text1; give a text"),
    (GOOD | {"text1": float("nan")}, "has no text1; give a text"),
    ({"text1": "a", "text2": "b"}, "has no score and no label; give a score (a finite number) or"),
    (GOOD | {"score": None}, "has no score and no label"),
    (GOOD | {"score": float("nan")}, "has no score and no label; give a score"),
    (GOOD | {"score": float("inf")}, "has inf as its score; give a finite number"),
    (GOOD | {"score": -float("inf")}, "has -inf as its score; give a finite number"),
    (GOOD | {"score": 10**400}, "as its score; give a finite number"),
    (GOOD | {"score": True}, "has True as its score; give a finite number, written like 0.7"),
    (GOOD | {"score": "0.7"}, "has '0.7' as its score; give a finite number"),
    (GOOD | {"score": [0.7]}, "has [0.7] as its score; give a finite number"),
    (GOOD | {"label": 1}, "has 0.4 as its score and 1 as its label; give one of the two"),
    (LABELLED | {"label": 2}, "has 2 as its label; give 0, or 1 for a paraphrase"),
    (LABELLED | {"label": 0.5}, "has 0.5 as its label; give 0, or 1"),
    (LABELLED | {"label": -1}, "has -1 as its label; give 0, or 1"),
    (LABELLED | {"label": "1"}, "has '1' as its label; give 0, or 1"),
    (
        GOOD | {"anwser": "x"},
        "unknown key 'anwser'; the keys (columns) are text1, text2, score or label (and,",
    ),
    ({"a": "x", "b": "y"}, "has the unknown keys 'a', 'b' and lacks text1, text2, score or label"),
    (
        ["text1", "text2"],
        "is ['text1', 'text2']; expected a Pair (ic.load_pairs), (text1, text2, score or label) or",
    ),
    (
        "text1",
        "is 'text1'; expected a Pair (ic.load_pairs), (text1, text2, score or label) or an object",
    ),
    (None, "is None; expected a Pair"),
    (GOOD | {"subset": 5}, "has 5 as its subset; give a text, or leave it out"),
    (GOOD | {"subset": " "}, "has ' ' as its subset; give a text, or leave it out"),
    *(
        (
            GOOD | {"subset": name},
            f"has '{name}' as its subset, a name of pairs that studies choose themselves (all, "
            "mirror, same words): give your subset another name",
        )
        for name in ("all", "mirror", "same words")
    ),
    (GOOD | {"tree1": 5}, "has 5 as its tree1; give a text, or leave it out"),
    (GOOD | {"tree2": ["NP"]}, "has ['NP'] as its tree2; give a text, or leave it out"),
    (GOOD, "repeats {first}: 'water body' and 'body water'; keep one of the two"),
    (GOOD | {"score": 0.9}, "repeats {first}: 'water body' and 'body water'"),
    (LABELLED, "has a label where {first} has a score; all pairs of a list need the same"),
]


@pytest.mark.parametrize(("row", "wrong"), BAD)
def test_a_bad_row_is_named_by_its_number(row: Any, wrong: str, tmp_path: Path) -> None:
    message = re.escape(wrong.replace("{first}", "row 1"))
    with pytest.raises(DataFormatError, match=f"^row 2 .*{message}"):
        read_pairs([GOOD, row])
    path = tmp_path / "own.jsonl"
    path.write_text(f"{json.dumps(GOOD)}\n\n{json.dumps(row)}\n", encoding="utf-8")
    message = re.escape(wrong.replace("{first}", f"{path}, line 1"))
    with pytest.raises(DataFormatError, match=f"own.jsonl, line 3 .*{message}"):
        read_pairs(path)


def test_a_pair_is_checked_like_any_row() -> None:
    pair = Pair(**GOOD)  # type: ignore[arg-type]
    object.__setattr__(pair, "text1", 3)
    with pytest.raises(DataFormatError, match="^row 1 has 3 as its text1"):
        read_pairs([pair])


def test_a_pair_and_a_row_are_the_same_pair() -> None:
    with pytest.raises(DataFormatError, match="^row 3 repeats row 1: 'water body' and"):
        read_pairs([GOOD, {**GOOD, "text1": "x"}, Pair("water body", "body water", 0.4)])


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("a\tb\t0,7", "has '0,7' as its score; give a finite number, written like 0.7"),
        ("a\tb\tnan", "has 'nan' as its score; give a finite number"),
        ("a\tb\tinf", "has 'inf' as its score; give a finite number"),
        ("a\tb\t1_0", "has '1_0' as its score; give a finite number"),
        ("a\tb\t", "has no score and no label; give a score"),
        ("a\t\t1", "has no text2; give a text that is not blank"),
        ("a\t  \t1", "has '  ' as its text2; give a text that is not blank"),
        ("\t\t", "has no text1; give a text"),
        ("a\tb", r"has 2 columns where the header has 3: 'a\\tb'; put exactly one tab"),
        ("a\tb\t1\t", "has 4 columns where the header has 3"),
        ("x\ty\t1", "repeats .*own.tsv, line 2: 'x' and 'y'; keep one"),
    ],
)
def test_a_bad_line_of_a_tsv_is_named(line: str, wrong: str, tmp_path: Path) -> None:
    path = tsv(tmp_path / "own.tsv", "x\ty\t0.5", "", line)
    with pytest.raises(DataFormatError, match=f"own.tsv, line 4 {wrong}"):
        read_pairs(path)


@pytest.mark.parametrize("label", ["2", "1.0", "yes", "True"])
def test_a_bad_label_of_a_tsv_is_named(label: str, tmp_path: Path) -> None:
    path = tsv(tmp_path / "own.tsv", f"a\tb\t{label}", header="text1\ttext2\tlabel")
    with pytest.raises(DataFormatError, match=f"line 2 has '{label}' as its label; give 0, or 1"):
        read_pairs(path)


def test_kinds_do_not_mix_in_a_tsv(tmp_path: Path) -> None:
    header = "text1\ttext2\tscore\tlabel"
    path = tsv(tmp_path / "own.tsv", "a\tb\t0.5\t", "a\tc\t\t1", header=header)
    with pytest.raises(DataFormatError, match="line 3 has a label where .*line 2 has a score"):
        read_pairs(path)
    tsv(path, "a\tb\t0.5\t1", header=header)
    with pytest.raises(DataFormatError, match="line 2 has 0.5 as its score and 1 as its label"):
        read_pairs(path)


def test_other_kinds_of_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("text1,text2,score\n")
    with pytest.raises(OptionError, match="own.csv' is no file of pairs; .* .tsv, .jsonl"):
        read_pairs(tmp_path / "own.csv")


def test_one_row_is_no_list_of_rows() -> None:
    with pytest.raises(DataFormatError, match=r"a dict \('text1'.*a single row goes into a list"):
        read_pairs(GOOD)


VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)


@given(st.dictionaries(st.sampled_from([*COLUMNS, "x"]), VALUES | st.lists(VALUES, max_size=2)))
def test_no_row_gets_through_unless_it_is_a_pair(row: Any) -> None:
    try:
        (pair,) = read_pairs([row])
    except DataFormatError:
        return
    assert (pair.text1, pair.text2) == (row["text1"], row["text2"])
    assert (pair.score is None) != (pair.label is None)
    assert pair.label in (0, 1) if pair.score is None else np.isfinite(pair.score)


def test_check_pairs_names_rows_as_it_is_told() -> None:
    pairs = [Pair("a", "b", 1.0), Pair("b", "a", 1.0), Pair("a", "b", 2.0)]
    check_pairs(pairs[:2], where=["here", "here"])
    with pytest.raises(DataFormatError, match="^there repeats here: 'a' and 'b'"):
        check_pairs(pairs, where=["here", "near", "there"])
    with pytest.raises(DataFormatError, match="^here repeats here"):
        check_pairs(pairs, where=["here"] * 3)


# --- mirrors and splits


@pytest.mark.parametrize(
    ("text1", "text2", "mirror"),
    [
        ("water body", "body water", True),
        ("Water  body", "BODY\twater", True),
        ("big water body", "body water big", True),
        ("big water body", "water body big", False),
        ("water body", "water body", False),
        ("water body", "Water Body", False),
        ("over and over", "over and over", False),
        ("water", "water", False),
        ("water body", "body", False),
        ("waterbody", "body water", False),
    ],
)
def test_mirrors(text1: str, text2: str, mirror: bool) -> None:
    assert Pair(text1, text2, 1.0).is_mirror is mirror
    assert Pair(text2, text1, 1.0).is_mirror is mirror


WORDS = st.lists(st.sampled_from(["a", "B", "ß", "cd"]), min_size=1, max_size=4)


@given(WORDS)
def test_a_text_mirrors_its_reverse_unless_it_reads_the_same(words: list[str]) -> None:
    assert Pair(" ".join(words), " ".join(reversed(words)), 1.0).is_mirror == (words != words[::-1])


def test_splits_by_name() -> None:
    train, test = (Pair("a", "b", 1.0),), (Pair("c", "d", 2.0),)
    task = PairTask("t", train, test, {})
    assert task.split("train") is train
    assert task.split("test") is test
    with pytest.raises(OptionError, match="split 'validation' is unknown; .* train, test"):
        task.split("validation")
