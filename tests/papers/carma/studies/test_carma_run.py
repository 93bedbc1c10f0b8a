"""Runs on disk: interrupted, damaged, of another comparison, of more seeds."""

from __future__ import annotations

import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

from interp_compose._versions import environment_versions
from interp_compose.errors import (
    CapabilityError,
    CorruptFileError,
    NonFiniteError,
    OptionError,
)
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.papers.carma import inputs as carma_inputs, run as carma_run
from interp_compose.papers.carma.inputs import read_inputs, write_inputs
from interp_compose.papers.carma.result import Comparison
from interp_compose.papers.carma.run import run_configs
from interp_compose.papers.carma.synonyms.sources import ThesaurusSource
from interp_compose.papers.shared.models.decoder import DecoderConfig, SmallDecoder
from interp_compose.runs.folder import hashed
from interp_compose.studies.watch.measure import watch
from interp_compose.studies.watch.watcher import Watcher
from interp_compose.training import objectives
from interp_compose.training.carma import CarmaConfig
from interp_compose.training.history import read_history
from interp_compose.types import Example
from tests.papers.carma.studies.carma_runs import (
    SETTINGS,
    SYNONYMS,
    assert_same,
    counted,
    dies_at_step,
    files_of,
    nothing_runs,
    run_folder,
    states,
    tiny,
    tiny_model,
    tiny_plan,
    tiny_task,
    with_splits,
)

STEPS = 2  # of one training


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


def small_decoder() -> LensModel:
    return load_model(SmallDecoder(DecoderConfig(d_vocab=9, n_ctx=5, d_model=8, n_heads=2)))


# ---- watched ------------------------------------------------------------------------------


def test_trainings_are_watched_and_end_the_same(
    whole: tuple[Comparison, Path], tmp_path: Path
) -> None:
    watchers: dict[str, Watcher] = {}

    def watching(run: str) -> Watcher:
        path = tmp_path / f"{run}.jsonl"
        watchers[run] = watch(tiny_model(), every=1, matrices=("W_Q",), budget=None, path=path)
        return watchers[run]

    assert_same(tiny(folder=tmp_path / "watched", watch=watching), whole[0])
    assert list(watchers) == ["ft, seed 0", "carma, seed 0"]
    for run, watcher in watchers.items():
        assert watcher.looks["step"].tolist() == [0, *range(1, STEPS + 1)]
        assert (tmp_path / f"{run}.jsonl").is_file()
    first, second = (one.frame.set_index("step")["value"] for one in watchers.values())
    assert first[0].tolist() == second[0].tolist()
    assert first[STEPS].tolist() != second[STEPS].tolist()
    with pytest.raises(OptionError, match="watch is a function of this process"):
        tiny(folder=tmp_path / "elsewhere", watch=watching, where="workers")


# ---- what is left when it is done ---------------------------------------------------------


def test_a_run_keeps_tables_weights_and_history_and_no_checkpoint(folder: Path) -> None:
    assert states(folder) == {"original": "done", "ft, seed 0": "done", "carma, seed 0": "done"}
    for version in ("ft", "carma"):
        run = run_folder(folder, version)
        there = {path.name for path in run.iterdir()}
        assert there >= {"weights.safetensors", "weights.safetensors.sha256", "history.jsonl"}
        assert there >= {"manifest.json", "accuracy.csv", "cap.parquet", "DONE"}
        assert "checkpoints" not in there
        assert len(read_history(run / "history.jsonl")["steps"]) == STEPS
    assert not list(folder.rglob("step_*"))
    assert not (run_folder(folder, "original") / "weights.safetensors").exists()
    assert not (folder / "inputs").exists()  # no other process has to read them


def test_without_a_folder_nothing_is_written_and_the_same_comes_out(
    whole: tuple[Comparison, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert_same(tiny(), whole[0])
    assert not list(tmp_path.iterdir())


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
    for version in ("ft", "carma"):
        one, other = (run_folder(folder, version) for folder in (tmp_path, whole[1]))
        name = "weights.safetensors.sha256"
        assert (one / name).read_text() == (other / name).read_text()


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


# ---- damaged ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["accuracy.parquet", "manifest.json", "history.jsonl", "DONE"])
def test_a_damaged_run_is_computed_anew(
    whole: tuple[Comparison, Path], folder: Path, name: str
) -> None:
    path = run_folder(folder, "carma") / name
    path.write_bytes(path.read_bytes()[:-20])
    with counted() as trained, pytest.warns(UserWarning, match=f"{name} was truncated or altered"):
        mended = tiny(folder=folder)
    assert trained == ["carma, seed 0"]
    assert_same(mended, whole[0])
    with nothing_runs():
        tiny(folder=folder)


# ---- another comparison in the same folder ------------------------------------------------


def frozen(seed: int = 0) -> LensModel:
    """A model of which a weight is not trained."""
    model = tiny_model(seed=seed)
    model.lens.blocks[0].mlp.out.weight.requires_grad_(False)
    return model


def hashes(plan: ComparePlan) -> set[str]:
    return {hashed(config) for config in run_configs(plan)}


OTHERS: dict[str, Any] = {
    "weight": {"carma": CarmaConfig(weight=0.4)},
    "layers of CARMA": {"carma": CarmaConfig(layers=(1, 2))},
    "learning rate": {"config": replace(SETTINGS, lr=2e-2)},
    "rates": {"rates": (0.25,)},
    "CAP's layers": {"layers": [0, 1]},
    "weights": lambda: {"model": tiny_model(seed=3)},
    "frozen weights": lambda: {"model": frozen()},
    "data": {"task": with_splits(train=tuple(reversed(tiny_task().train)))},
    "an answer": {"task": with_splits(test=(*tiny_task().test[1:], Example('a "', "b")))},
    "synonyms of the same name and size": {
        "synonyms": ThesaurusSource({**SYNONYMS, "sea": ["water"]})
    },
}


@pytest.fixture(scope="module")
def runs() -> set[str]:
    return hashes(tiny_plan())


def test_a_model_that_was_built_again_has_the_same_runs(runs: set[str]) -> None:
    assert hashes(tiny_plan(tiny_model())) == runs


@pytest.mark.parametrize("name", OTHERS)
def test_no_run_of_another_comparison_is_the_same_run(name: str, runs: set[str]) -> None:
    options = OTHERS[name]() if callable(OTHERS[name]) else OTHERS[name]
    others = hashes(tiny_plan(**options))
    assert len(runs) == len(others) == 3
    assert not runs & others


def test_a_run_with_another_release_of_a_package_is_another(
    monkeypatch: pytest.MonkeyPatch, runs: set[str]
) -> None:
    plan, versions = tiny_plan(), carma_run.environment_versions()
    assert hashes(plan) == runs
    monkeypatch.setattr(carma_run, "environment_versions", lambda: versions | {"torch": "1.0"})
    assert not runs & hashes(plan)


def test_another_comparison_is_made_beside_the_first(
    whole: tuple[Comparison, Path], folder: Path
) -> None:
    carma = CarmaConfig(weight=0.4)
    before = files_of(folder / "runs")
    with counted() as trained:
        other = tiny(folder=folder, carma=carma)
    assert trained == ["ft, seed 0", "carma, seed 0"]
    assert_same(other, tiny(carma=carma))
    assert files_of(folder / "runs").items() >= before.items()
    with nothing_runs():
        assert_same(tiny(folder=folder), whole[0])


# ---- in other processes -------------------------------------------------------------------


def test_a_worker_ends_as_this_process_to_the_bit(tmp_path: Path) -> None:
    """Both seeds of both versions, a weight that is frozen, and one that a wrapper left behind."""
    model = frozen(seed=2)
    with torch.no_grad():  # as after a fine-tuning: not what the Hugging Face module holds
        model.lens.blocks[1].attn.q.weight.mul_(1.5)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        here = tiny(model=model, seeds=2, folder=tmp_path / "here")
    finally:
        torch.set_num_threads(threads)
    place: dict[str, Any] = {"folder": tmp_path / "there", "where": "workers", "workers": 1}
    with nothing_runs():  # not in this process
        there = tiny(model=model, seeds=2, **place)
    assert_same(there, here)
    for version in ("ft", "carma"):
        for seed in range(2):
            one, other = (
                load_file(run_folder(tmp_path / name, version, seed) / "weights.safetensors")
                for name in ("here", "there")
            )
            assert one.keys() == other.keys()
            assert all(torch.equal(one[name], other[name]) for name in one)
    with nothing_runs():
        assert_same(tiny(model=model, seeds=2, folder=tmp_path / "there"), here)
    assert not list(tmp_path.rglob("*.pkl"))


@pytest.mark.parametrize("name", ["inputs.json", "seed0.json", "weights.safetensors"])
def test_inputs_that_were_altered_are_refused(tmp_path: Path, name: str) -> None:
    plan = tiny_plan()
    write_inputs(plan, tmp_path)
    config = run_configs(plan)[1]
    assert read_inputs(tmp_path, config).cap.config == plan.cap.config
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(content.replace(b"0.4", b"0.5", 1)[:-1] + b"\x01")
    with pytest.raises(CorruptFileError, match=f"{name} .*altered"):
        read_inputs(tmp_path, config)


def test_a_model_that_cannot_be_built_again_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = tiny_plan()
    write_inputs(plan, tmp_path)
    config = run_configs(plan)[1]
    build = carma_inputs.load_model
    with monkeypatch.context() as patch:

        def other(built: Any, **options: Any) -> Any:
            model = build(built, **options)
            model.lens.blocks[0].ln1.register_forward_hook(lambda *given: 1.5 * given[-1])
            return model

        patch.setattr(carma_inputs, "load_model", other)
        with pytest.raises(CapabilityError, match="cannot be built again .*its logits differ"):
            read_inputs(tmp_path, config)
    plan = replace(plan, model=small_decoder())
    with pytest.raises(CapabilityError, match="holds no Hugging Face model.*where='here'"):
        write_inputs(plan, tmp_path / "other")


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


def test_versions_that_differ_are_told_by_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = environment_versions() | {"python": "3.10.1"}
    monkeypatch.setattr("interp_compose.runs.folder.environment_versions", lambda: other)
    versions = tiny(folder=folder, seeds=[0, 3]).versions
    assert versions["python"].startswith("mixed: 3.10.1, ")
    made = {run: of_run["python"] for run, of_run in versions["runs"].items()}
    assert [run for run, python in made.items() if python == "3.10.1"] == [
        "original",
        "ft, seed 3",
        "carma, seed 3",
    ]
    assert made.keys() >= {"ft, seed 0", "carma, seed 0"}


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
            tiny()
        with pytest.raises(NonFiniteError, match=r"carma, seed 0: step 1: MI is nan; .*Lower"):
            tiny(folder=tmp_path)
    assert states(tmp_path) == {
        "original": "done",
        "ft, seed 0": "done",
        "carma, seed 0": "failed",
    }
    with counted() as trained:
        assert_same(tiny(folder=tmp_path), whole[0])
    assert trained == ["carma, seed 0"]


# ---- what is said of a training -----------------------------------------------------------


def test_with_patience_the_accuracy_told_is_that_of_the_weights_kept(tmp_path: Path) -> None:
    config = replace(SETTINGS, epochs=4, evaluate_every=1, patience=2, lr=0.1)
    training = tiny(folder=tmp_path, config=config).frames["training"]
    last = []
    for row in training.itertuples():
        history = read_history(run_folder(tmp_path, row.version) / "history.jsonl")
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
