"""Labelled texts through datasets, from folders that the tests make."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import datasets
import pytest

import interp_compose as ic
from interp_compose.errors import (
    DataFormatError,
    InputError,
    MissingDataError,
    MissingPackageError,
)

TRAIN = "premise,hypothesis,label,score\na b,b a,1,0.5\nc d,d c,0,2\n"
TEST = "premise,hypothesis,label,score\ne f,f e,1,3.5\n"


@pytest.fixture(autouse=True)
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)


def folder(tmp_path: Path, train: str = TRAIN, test: str = TEST) -> str:
    path = tmp_path / "mine"
    path.mkdir()
    (path / "train.csv").write_text(train, encoding="utf-8")
    (path / "test.csv").write_text(test, encoding="utf-8")
    return str(path)


def test_classes_and_scores_of_a_folder(tmp_path: Path) -> None:
    here, both = folder(tmp_path), ("premise", "hypothesis")
    task = ic.cat.labelled_from_hub(here, texts=both, labels=("no", "yes"))
    assert task.split("train") == (
        ic.cat.LabelledText("a b", "b a", 1.0),
        ic.cat.LabelledText("c d", "d c", 0.0),
    )
    assert task.split("test") == (ic.cat.LabelledText("e f", "f e", 1.0),)
    assert (task.labels, task.metrics) == (("no", "yes"), ("accuracy",))
    assert task.report["test_all"] == 1
    scored = ic.cat.labelled_from_hub(here, texts=("premise",), target="score")
    assert scored.split("train")[1] == ic.cat.LabelledText("c d", None, 2.0)
    assert (scored.labels, scored.metrics) == ((), ("pearson", "spearman"))


def test_names_of_classes_that_the_data_state(tmp_path: Path) -> None:
    kinds = datasets.ClassLabel(names=["no", "yes"])
    features = datasets.Features({"sentence": datasets.Value("string"), "label": kinds})
    path = tmp_path / "named"
    for split, rows in (("train", ["yes", "no"]), ("validation", ["yes"])):
        given = {"sentence": [f"a {one}" for one in rows], "label": rows}
        made = datasets.Dataset.from_dict(given, features=features)
        made.to_parquet(path / f"{split}-00000-of-00001.parquet")
    splits = {"train": "train", "test": "validation"}
    task = ic.cat.labelled_from_hub(str(path), texts=("sentence",), splits=splits)
    assert task.labels == ("no", "yes")
    assert [one.target for one in task.split("train")] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("given", "asked", "error", "said"),
    [
        ({}, {"texts": ("sentence",)}, DataFormatError, "no column 'sentence'; it has premise, hy"),
        ({}, {"target": "gold"}, DataFormatError, "no column 'gold'"),
        ({}, {"texts": ()}, DataFormatError, r"texts=\[\]: expected one column, or two"),
        ({}, {"splits": {"train": "train", "test": "dev"}}, MissingDataError, "'dev' of .* cannot"),
        (
            {"test": TEST.replace("e f", " ")},
            {},
            DataFormatError,
            "row 0 of split 'test' of .* has ' ' as its premise; expected a text",
        ),
        (
            {"train": TRAIN.replace(",1,", ",maybe,")},
            {},
            DataFormatError,
            "row 0 of split 'train' of .* has 'maybe' as its label; expected the number",
        ),
        ({"test": TEST.replace(",1,", ",-1,")}, {}, InputError, "has the class -1: expected 0 … 1"),
        ({"train": TRAIN.replace(",0,", ",1,")}, {}, InputError, "all 2 training texts of .* have"),
    ],
)
def test_what_cannot_be_is_refused(
    given: dict[str, str],
    asked: dict[str, Any],
    error: type[Exception],
    said: str,
    tmp_path: Path,
) -> None:
    usual: dict[str, Any] = {"texts": ("premise", "hypothesis"), "labels": ("no", "yes")}
    with pytest.raises(error, match=said):
        ic.cat.labelled_from_hub(folder(tmp_path, **given), **{**usual, **asked})


def test_no_data_set_and_no_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingDataError, match="cannot be loaded .*check the name, config and spl"):
        ic.cat.labelled_from_hub(str(tmp_path / "nosuch"), texts=("a",))
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingPackageError, match=r"interp-compose\[hub\]"):
        ic.cat.labelled_from_hub("nyu-mll/glue", texts=("a",))
