"""Runs on disk: interrupted, damaged, of another comparison, of more seeds."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from interp_compose.errors import CorruptFileError, InputError, NonFiniteError
from interp_compose.models.weights import load_weights
from interp_compose.studies.carma import run as carma_run
from interp_compose.studies.carma.measure import carry_out
from interp_compose.studies.carma.plan import plan_comparison
from interp_compose.studies.carma.result import Comparison
from interp_compose.text.synonyms.sources import ThesaurusSource
from interp_compose.training import objectives
from interp_compose.training.carma import CarmaConfig
from interp_compose.training.history import read_history
from interp_compose.types import Example
from tests.studies.carma_runs import (
    SETTINGS,
    SYNONYMS,
    assert_same,
    counted,
    dies_at_step,
    files_of,
    nothing_runs,
    tiny,
    tiny_model,
    tiny_task,
    with_splits,
)

STEPS = 2  # of one training


@pytest.fixture(autouse=True, scope="module")
def no_waiting_for_the_disk() -> Iterator[None]:
    """What a crash of the machine leaves is no question here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Comparison, Path]:
    """An undisturbed comparison and its folder, which tests copy."""
    folder = tmp_path_factory.mktemp("whole")
    return tiny(folder=folder), folder


@pytest.fixture
def folder(whole: tuple[Comparison, Path], tmp_path: Path) -> Path:
    """A copy of the undisturbed comparison's folder."""
    shutil.copytree(whole[1], tmp_path / "copy")
    return tmp_path / "copy"


# ---- what is left when it is done ---------------------------------------------------------


def test_a_run_keeps_tables_weights_and_history_and_no_checkpoint(folder: Path) -> None:
    runs = folder / "runs"
    assert {path.name for path in runs.iterdir()} == {
        "comparison.json",
        "original",
        "ft-seed0",
        "carma-seed0",
    }
    for name in ("ft-seed0", "carma-seed0"):
        there = {path.name for path in (runs / name).iterdir()}
        assert there >= {"weights.safetensors", "weights.safetensors.sha256", "history.jsonl"}
        assert there >= {"manifest.json", "accuracy.csv", "cap.parquet"}
        assert "checkpoints" not in there
        assert len(read_history(runs / name / "history.jsonl")["steps"]) == STEPS
    assert not list(runs.rglob("step_*"))
    assert not (runs / "original" / "weights.safetensors").exists()


def test_without_a_folder_nothing_is_written_and_the_same_comes_out(
    whole: tuple[Comparison, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert_same(tiny(), whole[0])
    assert not list(tmp_path.iterdir())


def test_again_trains_nothing(whole: tuple[Comparison, Path], folder: Path) -> None:
    with nothing_runs():
        again = tiny(folder=folder)
    assert_same(again, whole[0])
    assert again.overhead.equals(whole[0].overhead)  # the times are those of the first training


# ---- interrupted --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "again"),
    [(2, ["ft, seed 0", "carma, seed 0"]), (3, ["carma, seed 0"])],
)
def test_an_interrupted_training_goes_on_to_the_same_tables(
    whole: tuple[Comparison, Path], tmp_path: Path, step: int, again: list[str]
) -> None:
    with dies_at_step(step), pytest.raises(KeyboardInterrupt):
        tiny(folder=tmp_path)
    with counted() as trained:
        resumed = tiny(folder=tmp_path)
    assert trained == again
    assert_same(resumed, whole[0])
    assert not list(tmp_path.rglob("step_*"))
    for name in ("ft-seed0", "carma-seed0"):
        weights = (tmp_path / "runs" / name / "weights.safetensors.sha256").read_text()
        assert weights == (whole[1] / "runs" / name / "weights.safetensors.sha256").read_text()


def test_only_the_steps_that_are_missing_are_done(tmp_path: Path) -> None:
    with dies_at_step(2), pytest.raises(KeyboardInterrupt):
        tiny(folder=tmp_path)
    with dies_at_step(2 * STEPS), pytest.raises(KeyboardInterrupt):  # one of four is done
        tiny(folder=tmp_path, seeds=2)
    assert {path.parent.name for path in tmp_path.rglob("manifest.json")} == {
        "original",
        "ft-seed0",
        "carma-seed0",
    }


def test_interrupted_while_measuring(
    whole: tuple[Comparison, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = carma_run._measured, [0]

    def measured(*args: Any, **options: Any) -> Any:
        calls[0] += 1
        if calls[0] == 3:
            raise KeyboardInterrupt
        return real(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(carma_run, "_measured", measured)
        with pytest.raises(KeyboardInterrupt):
            tiny(folder=tmp_path)
    with dies_at_step(1):  # CARMA was trained: its last checkpoint is measured
        assert_same(tiny(folder=tmp_path), whole[0])


def test_checkpoints_that_outlived_their_run_go(
    whole: tuple[Comparison, Path], folder: Path
) -> None:
    left = folder / "runs" / "ft-seed0" / "checkpoints"
    left.mkdir()
    (left / f"step_00000002.{'0' * 64}.safetensors").write_bytes(b"x")
    with nothing_runs():
        assert_same(tiny(folder=folder), whole[0])
    assert not left.exists()


# ---- damaged ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["accuracy.parquet", "manifest.json"])
def test_a_damaged_run_is_computed_anew(
    whole: tuple[Comparison, Path], folder: Path, name: str
) -> None:
    path = folder / "runs" / "carma-seed0" / name
    path.write_bytes(path.read_bytes()[:-20])
    with counted() as trained:
        mended = tiny(folder=folder)
    assert trained == ["carma, seed 0"]
    assert_same(mended, whole[0])
    with nothing_runs():
        tiny(folder=folder)


def test_edited_numbers_are_not_believed(whole: tuple[Comparison, Path], folder: Path) -> None:
    path = folder / "runs" / "original" / "accuracy.csv"
    path.write_text(path.read_text().replace(",8", ",9"), encoding="utf-8")
    with counted() as trained:
        assert_same(tiny(folder=folder), whole[0])
    assert trained == []
    assert path.read_text() == (whole[1] / "runs" / "original" / "accuracy.csv").read_text()


def test_damaged_weights_are_refused_where_they_are_loaded(folder: Path) -> None:
    path = folder / "runs" / "ft-seed0" / "weights.safetensors"
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(CorruptFileError, match="truncated or altered"):
        load_weights(tiny_model(), path)


@pytest.mark.parametrize(
    "names", [("weights.safetensors", "weights.safetensors.sha256"), ("history.jsonl",), ("",)]
)
def test_files_of_two_runs_that_were_exchanged(
    whole: tuple[Comparison, Path], folder: Path, names: tuple[str, ...]
) -> None:
    """Weights with their checksum, histories, whole folders: each is intact, and another run's."""
    runs = [folder / "runs" / f"{version}-seed0" for version in ("ft", "carma")]
    for name in names:
        one, other = (run / name if name else run for run in runs)
        one.rename(folder / "aside")
        other.rename(one)
        (folder / "aside").rename(other)
    with counted() as trained:
        mended = tiny(folder=folder)
    assert trained == ["ft, seed 0", "carma, seed 0"]
    assert_same(mended, whole[0])
    for run in runs:
        rows = read_history(run / "history.jsonl")["steps"].drop(columns="seconds")
        undisturbed = read_history(whole[1] / "runs" / run.name / "history.jsonl")["steps"]
        pd.testing.assert_frame_equal(rows, undisturbed.drop(columns="seconds"))
    with nothing_runs():
        tiny(folder=folder)


def test_a_link_is_not_deleted_with_the_runs(folder: Path) -> None:
    run = folder / "runs" / "ft-seed0"
    run.rename(folder / "elsewhere")
    run.symlink_to(folder / "elsewhere", target_is_directory=True)
    before = files_of(folder / "elsewhere")
    plan = plan_comparison(
        tiny_model(),
        tiny_task(),
        seeds=1,
        config=SETTINGS,
        rates=(0.4,),
        layers=[1],
        carma=CarmaConfig(weight=0.4),
        synonyms=lambda: ThesaurusSource(SYNONYMS),
    )
    with nothing_runs(), pytest.raises(InputError, match="ft-seed0 is a link"):
        carry_out(plan, folder=folder, progress=False, overwrite=True)
    assert files_of(folder / "elsewhere") == before


# ---- another comparison's runs ------------------------------------------------------------

OTHERS: dict[str, tuple[dict[str, Any], str]] = {
    "weight": ({"carma": CarmaConfig(weight=0.4)}, r"carma\.weight was 0\.2, is now 0\.4"),
    "layers of CARMA": ({"carma": CarmaConfig(layers=(1, 2))}, r"carma\.layers was "),
    "learning rate": ({"config": replace(SETTINGS, lr=2e-2)}, r"train\.lr was 0\.01, is now 0\.02"),
    "rates": ({"rates": (0.25,)}, r"rates was \[0\.4\], is now \[0\.25\]"),
    "CAP's layers": ({"layers": [0, 1]}, r"layers was \[1\], is now \[0, 1\]"),
    "weights": ({"model": 3}, "weights_sha256 was "),
    "data": (
        {"task": with_splits(train=tuple(reversed(tiny_task().train)))},
        "task_sha256 was ",
    ),
    "an answer": (
        {"task": with_splits(test=(*tiny_task().test[1:], Example('a "', "b")))},
        "task_sha256 was ",
    ),
    "synonyms of the same name and size": (
        {"synonyms": ThesaurusSource({**SYNONYMS, "sea": ["water"]})},
        "synonyms_sha256 was ",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_runs_of_another_comparison_are_refused_before_work(folder: Path, name: str) -> None:
    options, message = OTHERS[name]
    if "model" in options:
        options = {"model": tiny_model(seed=options["model"])}
    before = files_of(folder)
    with nothing_runs(), pytest.raises(InputError, match=f"another comparison: .*{message}"):
        tiny(folder=folder, **options)
    assert files_of(folder) == before


def test_an_unfinished_comparison_is_refused_as_well(tmp_path: Path) -> None:
    with dies_at_step(1), pytest.raises(KeyboardInterrupt):
        tiny(folder=tmp_path)
    before = files_of(tmp_path)
    with nothing_runs(), pytest.raises(InputError, match="runs of another comparison"):
        tiny(folder=tmp_path, carma=CarmaConfig(weight=0.4))
    assert files_of(tmp_path) == before


def test_another_release_of_a_package_is_another_comparison(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from interp_compose.studies.carma import run as carma_runs_folder

    versions = carma_runs_folder.environment_versions()
    monkeypatch.setattr(
        carma_runs_folder, "environment_versions", lambda: versions | {"torch": "1.0"}
    )
    with nothing_runs(), pytest.raises(InputError, match=r"packages\.torch was .*is now \"1\.0\""):
        tiny(folder=folder)


def test_runs_that_are_nobodys_are_refused(folder: Path) -> None:
    owner = folder / "runs" / "comparison.json"
    for damage in (lambda: owner.write_text("{", encoding="utf-8"), owner.unlink):
        damage()
        with nothing_runs(), pytest.raises(CorruptFileError, match="nobody knows which comparison"):
            tiny(folder=folder)


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("mine", encoding="utf-8")
    with nothing_runs(), pytest.raises(InputError, match="cannot be made a folder"):
        tiny(folder=notes)
    assert notes.read_text(encoding="utf-8") == "mine"


def test_overwriting_deletes_the_other_runs_and_nothing_else(folder: Path) -> None:
    runs = folder / "runs"
    (runs / "notes").mkdir()
    (runs / "notes" / "mine.txt").write_text("mine", encoding="utf-8")
    shutil.copytree(runs / "ft-seed0", runs / "ft-seed7")  # a seed that is not asked for now
    stale = (runs / "ft-seed0" / "weights.safetensors.sha256").read_text()
    plan = plan_comparison(
        tiny_model(),
        tiny_task(),
        seeds=1,
        carma=CarmaConfig(weight=0.4),
        config=replace(SETTINGS, lr=2e-2),
        synonyms=lambda: ThesaurusSource(SYNONYMS),
        rates=(0.4,),
        layers=[1],
    )
    with counted() as trained:
        carry_out(plan, folder=folder, progress=False, overwrite=True)
    assert trained == ["ft, seed 0", "carma, seed 0"]
    names = {path.name for path in runs.iterdir()}
    assert names == {"comparison.json", "notes", "original", "ft-seed0", "carma-seed0"}
    assert (runs / "notes" / "mine.txt").exists()
    assert (runs / "ft-seed0" / "weights.safetensors.sha256").read_text() != stale
    with nothing_runs():
        carry_out(plan, folder=folder, progress=False)


# ---- more seeds, other versions -----------------------------------------------------------


def test_more_seeds_and_other_versions_go_on_from_what_is_there(
    whole: tuple[Comparison, Path], folder: Path
) -> None:
    with counted() as trained:
        more = tiny(folder=folder, seeds=[0, 3])
    assert trained == ["ft, seed 3", "carma, seed 3"]
    first = more.frames["accuracy"].query("seed == 0").reset_index(drop=True)
    assert first.equals(whole[0].frames["accuracy"])
    with nothing_runs():
        fewer = tiny(folder=folder, seeds=[3, 0], versions=("ft", "carma"))
    assert set(fewer.frames["accuracy"]["version"]) == {"ft", "carma"}


# ---- a training that breaks ---------------------------------------------------------------


def test_a_broken_training_is_named_and_finished_runs_stay(
    whole: tuple[Comparison, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = objectives.carma_terms

    def broken(*args: Any, **options: Any) -> Any:
        mi, stability = real(*args, **options)
        return mi * torch.nan, stability

    with monkeypatch.context() as patch:
        patch.setattr(objectives, "carma_terms", broken)
        with pytest.raises(NonFiniteError, match=r"^carma, seed 0: step 1: MI is nan; .*Lower"):
            tiny(folder=tmp_path)
    assert (tmp_path / "runs" / "ft-seed0" / "manifest.json").exists()
    with counted() as trained:
        assert_same(tiny(folder=tmp_path), whole[0])
    assert trained == ["carma, seed 0"]


# ---- what is said of a training -----------------------------------------------------------


def test_with_patience_the_accuracy_told_is_that_of_the_weights_kept(tmp_path: Path) -> None:
    config = replace(SETTINGS, epochs=4, evaluate_every=1, patience=2, lr=0.1)
    training = tiny(folder=tmp_path, config=config).frames["training"]
    last = []
    for row in training.itertuples():
        history = read_history(tmp_path / "runs" / f"{row.version}-seed0" / "history.jsonl")
        accuracy = history["evaluations"]["accuracy"]
        assert row.validation_accuracy == accuracy.max()
        assert row.stopped_early == (row.steps < 4 * STEPS)
        last.append(accuracy.iloc[-1])
    assert list(training["validation_accuracy"]) != last


def test_without_validation_examples_there_is_no_accuracy_to_tell() -> None:
    training = tiny(task=with_splits(validation=())).frames["training"]
    assert training["validation_accuracy"].isna().all()


def test_the_curve_is_thinned_by_means(monkeypatch: pytest.MonkeyPatch) -> None:
    losses = [8.0, 4.0, 3.0, 2.0, 1.0, 0.0, 5.0, 7.0]
    steps = pd.DataFrame({"step": range(1, 9), "loss": losses, "task_loss": losses})
    steps = steps.assign(mi=math.nan, stability=0.5)
    assert list(carma_run._thinned(steps, "ft", 4)["step"]) == list(range(1, 9))
    monkeypatch.setattr(carma_run, "HISTORY_ROWS", 3)
    thin = carma_run._thinned(steps, "ft", 4)
    assert list(thin["step"]) == [3, 6, 8]
    assert list(thin["task_loss"]) == [5.0, 1.0, 6.0]
    assert thin["mi"].isna().all()
    assert (thin["version"] == "ft").all()
    assert (thin["seed"] == 4).all()
