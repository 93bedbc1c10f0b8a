"""BiRD: bigram pairs and their scores, its mirrors, and garbled rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from interp_compose.errors import DataFormatError, MissingDataError
from interp_compose.tasks.bird import bird
from interp_compose.tasks.pairs import Pair

HEADER = "pair\tterm1\tterm2\tterm2: unigram or bigram\tsource\trelation\trelatedness score\tpos\n"


def row(
    term1: str, term2: str, score: str = "0.5", kind: str = "bigram", source: str = "WordNet_is-a"
) -> str:
    return f"({term1}, {term2})\t{term1}\t{term2}\t{kind}\t{source}\tNone\t{score}\tn-n\n"


def folder(tmp_path: Path, *rows: str, header: str = HEADER) -> Path:
    (tmp_path / "BiRD.txt").write_text(header + "".join(rows), encoding="utf-8")
    return tmp_path


def test_bigram_pairs_are_kept_and_counted(tmp_path: Path) -> None:
    here = folder(
        tmp_path,
        row("water body", "body water", "0.617"),
        row("water body", "lake", "0.8", "unigram"),
        row("body water", "lake water", "0"),
    )
    task = bird(here)
    assert (task.name, task.train) == ("bird (altered)", ())
    assert task.test == (
        Pair("water body", "body water", 0.617),
        Pair("body water", "lake water", 0.0),
    )
    source = str(task.report["source"])
    assert source.startswith(f"BiRD in {here}, altered: the rows of test (SHA-256 ")
    assert task.report == {
        "source": source,
        "rows": 3,
        "unigram_pairs_left_out": 1,
        "test_all": 2,
        "test_mirror": 1,
    }


GARBLED = [
    (row("a b", "c d", "high"), "has 'high' as its score; give a finite number"),
    (row("a b", "c d", "0,5"), "has '0,5' as its score"),
    (row("a b", "c", "", "unigram"), "has no score and no label"),
    (row("a b", "c d", "1.5"), r"has 1.5 as its score; BiRD's lie in \[0, 1\]. Get the file again"),
    (row("a b", "c d", "-0.1"), r"has -0.1 as its score; BiRD's lie in \[0, 1\]"),
    (row("a b", "c d", kind="trigram"), "has 'trigram' in the column 'term2: .*expected one of"),
    (row("", "c d"), "has no text1"),
    (row("a b", "c\td"), "has 10 columns where the header has 8"),
    (row("x y", "y x"), "repeats .*BiRD.txt, line 2: 'x y' and 'y x'"),
]


@pytest.mark.parametrize(("line", "wrong"), GARBLED)
def test_a_garbled_row_is_named(line: str, wrong: str, tmp_path: Path) -> None:
    here = folder(tmp_path, row("x y", "y x"), line, row("p q", "r s"))
    with pytest.raises(DataFormatError, match=f"BiRD.txt, line 3 {wrong}"):
        bird(here)


def test_a_header_without_a_column_is_refused(tmp_path: Path) -> None:
    header = HEADER.replace("\tterm2\t", "\tother\t")
    with pytest.raises(DataFormatError, match="line 1 has 0 columns named 'term2'"):
        bird(folder(tmp_path, row("x y", "y x"), header=header))


def test_a_file_without_bigram_pairs_is_refused(tmp_path: Path) -> None:
    here = folder(tmp_path, row("x y", "y", kind="unigram"))
    with pytest.raises(DataFormatError, match="no pair of two bigrams among its 1 rows"):
        bird(here)
    with pytest.raises(DataFormatError, match="has a header and no rows"):
        bird(folder(tmp_path))


def test_a_missing_file_says_where_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match=r"'bird' needs the Bigram .*BiRD.html.*--data-dir"):
        bird(None)
    with pytest.raises(MissingDataError, match=r"there is no .*BiRD.txt: get it from http"):
        bird(tmp_path)


@pytest.mark.data
def test_official_counts(data_dir: Path) -> None:
    task = bird(data_dir / "bird")
    assert (task.name, task.report["source"]) == ("bird", f"BiRD in {data_dir / 'bird'}")
    assert {key: task.report[key] for key in task.report if key != "source"} == {
        "rows": 3345,
        "unigram_pairs_left_out": 1718,
        "test_all": 1627,
        "test_mirror": 410,
    }
    assert len(task.test) == 1627
    assert min(pair.score or 0.0 for pair in task.test) >= 0
    lines = (data_dir / "bird" / "BiRD.txt").read_text(encoding="utf-8").splitlines()
    cells = [line.split("\t") for line in lines]
    transposed = {(c[1], c[2], float(c[6])) for c in cells if c[4] == "Wikipedia_transposed"}
    mirrors = {(pair.text1, pair.text2, pair.score) for pair in task.test if pair.is_mirror}
    assert len(mirrors) == 410
    assert mirrors == transposed
