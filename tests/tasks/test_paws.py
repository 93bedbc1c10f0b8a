"""PAWS-QQP: its split, repeated pairs, and garbled rows."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256
from pathlib import Path

import pytest

from interp_compose.errors import DataFormatError, MissingDataError
from interp_compose.tasks.pairs import Pair
from interp_compose.tasks.paws import paws_qqp

HEADER = "id\tsentence1\tsentence2\tlabel\n"
TRAIN = '1\tIs "a" b ?\tIs b "a" ?\t0\n'


def folder(tmp_path: Path, test: str) -> Path:
    (tmp_path / "train.tsv").write_bytes((HEADER + TRAIN).replace("\n", "\r\n").encode())
    (tmp_path / "dev_and_test.tsv").write_text(HEADER + test, encoding="utf-8")
    return tmp_path


def test_splits_and_counts(tmp_path: Path) -> None:
    rows = "1\ta b\tb a\t0\n2\tb a\ta b\t1\n3\ta b\tb a\t0\n4\ta b\tb a\t0\n5" + TRAIN[1:]
    here = folder(tmp_path, rows)
    task = paws_qqp(here)
    known = Pair('Is "a" b ?', 'Is b "a" ?', label=0)
    assert task.name == "paws-qqp"
    assert task.train == (known,)
    assert task.test == (Pair("a b", "b a", label=0), Pair("b a", "a b", label=1), known)
    both = 'Is "a" b ?\tIs b "a" ?\tNone\t0\tNone\tNone\tNone\n'
    rest = "a b\tb a\tNone\t0\tNone\tNone\tNone\nb a\ta b\tNone\t1\tNone\tNone\tNone\n"
    train, test = (sha256(text.encode()).hexdigest()[:16] for text in (both, both + rest))
    assert task.report == {
        "source": f"PAWS-QQP in {here} (SHA-256 of its pairs: {train} and {test})",
        "train_rows": 1,
        "train_repeated": 0,
        "train_all": 1,
        "train_paraphrases": 0,
        "test_rows": 5,
        "test_repeated": 2,
        "test_all": 3,
        "test_paraphrases": 1,
        "test_also_in_train": 1,
    }


def test_pairs_of_training_are_counted_in_either_order(tmp_path: Path) -> None:
    swapped = '1\tIs b "a" ?\tIs "a" b ?\t0\n'
    task = paws_qqp(folder(tmp_path, TRAIN + swapped + "2\tIs b ?\tIs b ?\t1\n"))
    assert (task.report["test_all"], task.report["test_also_in_train"]) == (3, 2)


GARBLED = [
    ("2\tc\td\t2", "has '2' as its label; give 0, or 1"),
    ("2\tc\td\t", "has no score and no label"),
    ("2\tc\t \t1", "has ' ' as its text2; give a text"),
    ("2\tc\td", "has 3 columns where the header has 4"),
    ("2\tb'c'\tb\"d\"\t1", "holds texts as Python writes bytes, such as b'c', .* decode them"),
    ("2\ta b\tb a\t1", "repeats the pair of line 2, but its label is 1 and not 0; correct one"),
]


@pytest.mark.parametrize(("line", "wrong"), GARBLED)
def test_a_garbled_row_is_named(line: str, wrong: str, tmp_path: Path) -> None:
    here = folder(tmp_path, f"1\ta b\tb a\t0\n{line}\n3\te\tf\t1\n")
    with pytest.raises(DataFormatError, match=f"dev_and_test.tsv, line 3 {wrong}"):
        paws_qqp(here)


def test_missing_files_say_where_to_get_them(tmp_path: Path) -> None:
    hint = "make it from the Quora Question Pairs .*google-research-datasets/paws.*--data-dir"
    with pytest.raises(MissingDataError, match=f"task 'paws-qqp' needs .*{hint}"):
        paws_qqp(None)
    with pytest.raises(MissingDataError, match=rf"there is no .*train.tsv: {hint}"):
        paws_qqp(tmp_path)
    folder(tmp_path, "").joinpath("dev_and_test.tsv").unlink()
    with pytest.raises(MissingDataError, match=rf"there is no .*dev_and_test.tsv: {hint}"):
        paws_qqp(tmp_path)


@pytest.mark.data
def test_official_counts(data_dir: Path) -> None:
    task = paws_qqp(data_dir / "paws_qqp")
    assert {key: task.report[key] for key in task.report if key != "source"} == {
        "train_rows": 11988,
        "train_repeated": 3,
        "train_all": 11985,
        "train_paraphrases": 3776,
        "test_rows": 677,
        "test_repeated": 6,
        "test_all": 671,
        "test_paraphrases": 190,
        "test_also_in_train": 92,
    }
    lines = (data_dir / "paws_qqp" / "dev_and_test.tsv").read_text(encoding="utf-8").split("\n")
    texts = dict.fromkeys(tuple(line.split("\t")[1:3]) for line in lines[1:] if line)
    assert [(pair.text1, pair.text2) for pair in task.test] == list(texts)
    assert Counter(pair.label for pair in task.test) == {0: 481, 1: 190}
