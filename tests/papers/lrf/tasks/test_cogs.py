"""COGS: its splits and types, and files that are not it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from interp_compose.errors import DataFormatError, MissingDataError
from interp_compose.papers.lrf.tasks import cogs as module
from interp_compose.tasks.published import PUBLISHED, rows_sha256
from interp_compose.tasks.sequences import SequencePair, SequenceTask, load_sequences

ROWS = {
    "train": [
        "A dog ran .\tdog ( x _ 1 )\tin_distribution",
        "cat\tLAMBDA a . cat ( a )\tprimitive",
    ],
    "dev": ["A cat ran .\tcat ( x _ 1 )\tin_distribution"],
    "test": ["A dog cat .\tdog ( x _ 2 )\tin_distribution"],
    "gen": ["The cat ran .\tcat ( x _ 1 )\tone", "dog ran .\tdog ( x _ 1 )\ttwo"],
}


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    monkeypatch.setattr(module, "COUNTS", {split: len(lines) for split, lines in ROWS.items()})
    monkeypatch.setitem(PUBLISHED, "COGS", {})
    return {split: list(lines) for split, lines in ROWS.items()}


def load(tmp_path: Path, rows: dict[str, list[str]]) -> SequenceTask:
    for split, lines in rows.items():
        (tmp_path / f"{split}.tsv").write_text("\n".join(lines), encoding="utf-8")
    return load_sequences("cogs", data_dir=tmp_path)


def test_splits_types_and_counts(tmp_path: Path, rows: dict[str, list[str]]) -> None:
    task = load(tmp_path, rows)
    assert task.split("train")[1] == SequencePair("cat", "LAMBDA a . cat ( a )", "primitive")
    assert [pair.kind for pair in task.split("gen")] == ["one", "two"]
    assert task.report == {
        "source": f"COGS in {tmp_path} "
        "(train, dev, test, gen not compared with the published rows)",
        "train_all": 2,
        "dev_all": 1,
        "test_all": 1,
        "gen_all": 2,
        "dev_with_unseen_tokens": 0,
        "test_with_unseen_tokens": 1,  # the index 2
        "gen_with_unseen_tokens": 1,  # the word The
    }


WRONG = [
    ("train", "A cat .\tcat ( x _ 1 )", "train.tsv, line 3 is not a sentence, a logical form and"),
    ("gen", "\tcat ( x _ 1 )\tone", "gen.tsv, line 3 is not a sentence, a logical form and"),
    (
        "dev",
        "A cat .\tcat ( a )\tin_distribution",
        "dev has 2 examples, and COGS's has 1; the",
    ),
]


@pytest.mark.parametrize(("split", "line", "message"), WRONG)
def test_other_files_are_refused(
    split: str, line: str, message: str, tmp_path: Path, rows: dict[str, list[str]]
) -> None:
    rows[split].append(line)
    with pytest.raises(DataFormatError, match=message):
        load(tmp_path, rows)


def test_overlaps_are_checked(tmp_path: Path, rows: dict[str, list[str]]) -> None:
    rows["test"] = ["A dog ran .\tdog\tin_distribution"]
    with pytest.raises(DataFormatError, match="1 of the 1 pairs of the split 'test' .*'A dog ran"):
        load(tmp_path, rows)


ALTERED = [
    ("gen", "dog ran .\tdog ( x _ 2 )\ttwo", "gen"),
    ("dev", "A cat ran .\tcat ( x_1 )\tin_distribution", "dev"),
    ("test", "A dog cat .\t( x _ 2 ) dog\tin_distribution", "test"),
]


@pytest.mark.parametrize(("split", "line", "part"), ALTERED)
def test_altered_files_of_the_same_sizes_are_named_so(
    split: str,
    line: str,
    part: str,
    tmp_path: Path,
    rows: dict[str, list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pairs = load(tmp_path, rows).splits
    digests = {name: rows_sha256(pairs[name]) for name in pairs}
    digests["types of gen"] = rows_sha256({"one", "two"})
    monkeypatch.setitem(PUBLISHED, "COGS", digests)
    for name, lines in rows.items():  # other ends of lines, another order: the same rows
        text = "\ufeff" + "\r\n".join(reversed(lines)) + "\r\n\r\n"
        (tmp_path / f"{name}.tsv").write_text(text, encoding="utf-8", newline="")
    assert load_sequences("cogs", data_dir=tmp_path).report["source"] == f"COGS in {tmp_path}"
    rows[split][-1] = line
    task = load(tmp_path, rows)
    assert task.name == "cogs (altered)"
    assert f"altered: the rows of {part} (SHA-256" in str(task.report["source"])
    rows["gen"][-1] = rows["gen"][-1].replace("two", "three")
    with pytest.raises(DataFormatError, match=r"is not COGS: the types in gen.tsv \(2\)"):
        load(tmp_path, rows)


def test_missing_files_say_where_to_get_them(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="task 'cogs' needs .*najoungkim/COGS.*--data-dir"):
        load_sequences("cogs")
    with pytest.raises(MissingDataError, match="there is no .*train.tsv: get the folder data of"):
        load_sequences("cogs", data_dir=tmp_path)


@pytest.mark.data
def test_official_counts(data_dir: Path) -> None:
    task = load_sequences("cogs", data_dir=data_dir / "cogs")
    assert {split: len(pairs) for split, pairs in task.splits.items()} == {
        "train": 24155,
        "dev": 3000,
        "test": 3000,
        "gen": 21000,
    }
    assert (task.name, task.report["source"]) == ("cogs", f"COGS in {data_dir / 'cogs'}")
    assert Counter(pair.kind for pair in task.split("train"))["primitive"] == 143
    kinds = Counter(pair.kind for pair in task.split("gen"))
    assert len(kinds) == 21
    assert set(kinds.values()) == {1000}
