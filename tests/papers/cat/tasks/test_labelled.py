"""Labelled texts: what a task may be, and data sets in their own formats."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import interp_compose as ic
from interp_compose.errors import DataFormatError, InputError, MissingDataError, OptionError
from interp_compose.papers.cat.tasks.labelled import class_of, counted, score_of, shuffled

ITEMS = tuple(ic.cat.LabelledText(f"text {i}", None, float(i % 2)) for i in range(6))
PAIR = ic.cat.LabelledText("a", "b", 1.0)


def task(**given: Any) -> ic.cat.LabelledTask:
    splits = {"train": ITEMS, "test": ITEMS[:3]} | given.pop("splits", {})
    return ic.cat.LabelledTask(
        **{"name": "own", "splits": splits, "labels": ("no", "yes"), **given}
    )


def test_splits_and_texts() -> None:
    own = task()
    assert own.split("test") == ITEMS[:3]
    assert own.split("ood") == ()
    few = own.limited(3).split("train")
    assert few == own.limited(3).split("train") != ITEMS[:3]  # drawn, always the same
    assert [ITEMS.index(item) for item in few] == sorted(ITEMS.index(item) for item in few)
    assert (PAIR.texts, ITEMS[0].texts) == (("a", "b"), ("text 0",))
    assert counted(own.splits, "here") == {"source": "here", "train_all": 6, "test_all": 3}
    assert sorted(shuffled(ITEMS), key=str) == list(ITEMS)
    assert shuffled(ITEMS) == shuffled(ITEMS) != shuffled(ITEMS, 1)


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"splits": {"dev": ITEMS}}, OptionError, "splits of 'own' name 'dev': expected some of"),
        ({"splits": {"train": ()}}, InputError, "train split of 'own' is empty.*train a classif"),
        ({"splits": {"test": ()}}, InputError, "test split of 'own' is empty.*measure it on"),
        ({"splits": {"train": ITEMS[::2]}}, InputError, "all 3 training texts of 'own' have the"),
        ({"splits": {"ood": (PAIR,)}}, InputError, "text 0 of the ood split.*all pairs, or none"),
        (
            {"splits": {"test": (ic.cat.LabelledText(" ", None, 1.0),)}},
            InputError,
            "text 0 of the test split of 'own' is ' ': expected a text that is not blank",
        ),
        (
            {"splits": {"test": (ic.cat.LabelledText("a", None, 2.0),)}},
            InputError,
            r"has the class 2: expected 0 … 1 \(no, yes\)",
        ),
        ({"splits": {"test": (ic.cat.LabelledText("a", None, 0.5),)}}, InputError, "the class 0.5"),
        (
            {"splits": {"test": (ic.cat.LabelledText("a", None, math.inf),)}},
            InputError,
            "has the score inf: expected a finite number",
        ),
        ({"metrics": ()}, OptionError, r"metrics=\[\] of 'own'"),
        ({"metrics": ("pearson",)}, OptionError, "whose targets are classes: expected some of acc"),
        ({"labels": ()}, OptionError, "whose targets are scores: expected some of pearson"),
        ({"labels": ("all",)}, OptionError, "expected two or more"),
        ({"labels": ("a", "b", "c"), "metrics": ("f1",)}, OptionError, "and two for f1"),
    ],
)
def test_what_is_no_task_is_refused(
    given: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        task(**given)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(OptionError, match="split 'dev' is unknown; choose one of train, valid"):
        task().split("dev")
    with pytest.raises(OptionError, match="labelled task 'glue' is unknown; choose one of sst"):
        ic.cat.load_labelled("glue")
    with pytest.raises(DataFormatError, match="line 3 has 'maybe' as its label; expected one of n"):
        class_of("maybe", ("no", "yes"), "line 3")
    for text in ("5.1", "-1", "nan", "high", ""):
        with pytest.raises(DataFormatError, match="line 3 has .* as its score; expected a number"):
            score_of(text, "line 3", 0.0, 5.0)
    assert (class_of("yes", ("no", "yes"), ""), score_of("2.5", "", 0.0, 5.0)) == (1.0, 2.5)


# ---- SST ------------------------------------------------------------------------------------

TREES = "(3 (2 It) (4 shines))\n(2 (2 A) (2 film))\n(0 (2 So) (0 dull))\n(1 (2 Too) (1 long))\n"


def sst(folder: Path, **other: str) -> Path:
    for name in ("train", "dev", "test"):
        (folder / f"{name}.txt").write_text(other.get(name, TREES), encoding="utf-8")
    return folder


def test_sentences_of_sst_as_classes(tmp_path: Path) -> None:
    found = ic.cat.load_labelled("sst", data_dir=sst(tmp_path))
    assert found.labels == ("negative", "positive")
    assert found.split("validation") == found.split("train")
    assert found.split("train") == (
        ic.cat.LabelledText("It shines", None, 1.0),
        ic.cat.LabelledText("So dull", None, 0.0),
        ic.cat.LabelledText("Too long", None, 0.0),
    )
    assert found.report["train_all"] == 3
    assert found.report["train_neutral_left_out"] == 1


def test_sst_that_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="there is no .*train.txt: unpack"):
        ic.cat.load_labelled("sst", data_dir=tmp_path)
    with pytest.raises(DataFormatError, match="test.txt is empty"):
        ic.cat.load_labelled("sst", data_dir=sst(tmp_path, test=""))
    with pytest.raises(DataFormatError, match="dev.txt, line 2: the label '7' is not 0"):
        ic.cat.load_labelled("sst", data_dir=sst(tmp_path, dev=TREES.replace("(2 (2 A", "(7 (2 A")))
    with pytest.raises(InputError, match=r"the test split of 'sst \(altered\)' is empty"):
        ic.cat.load_labelled("sst", data_dir=sst(tmp_path, test="(2 (2 A) (2 film))\n"))
    with pytest.raises(InputError, match="all 1 training texts of 'sst .*' have the class or"):
        ic.cat.load_labelled("sst", data_dir=sst(tmp_path, train=TREES.splitlines()[0]))


@pytest.mark.data
def test_official_counts_of_sst(data_dir: Path) -> None:
    report = ic.cat.load_labelled("sst", data_dir=data_dir / "sst").report
    sizes = [report[f"{name}_all"] for name in ("train", "validation", "test")]
    assert sizes == [6920, 872, 1821]  # as Socher et al. (2013) count them
