"""Runs of the phase diagram: what they are made of, what they leave, and that they repeat."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import interp_compose as ic
from interp_compose._versions import environment_versions, mixed_versions
from interp_compose.errors import InputError
from interp_compose.papers.complexity.models.small_decoder import SmallDecoderModel
from interp_compose.papers.complexity.studies.anchors import run as complexity_run
from interp_compose.papers.complexity.studies.anchors.run import (
    CIRCUITS,
    HISTORY,
    MODEL,
    PhaseRun,
    _circuits,
    train,
)
from interp_compose.papers.shared.models.decoder import SmallDecoder
from interp_compose.papers.shared.training.parallel import ParallelTrainer
from interp_compose.probes.condensation import mean_abs_cosine
from interp_compose.runs import folder as sweep_folder
from interp_compose.runs.files import read_json
from tests.studies.conftest import few_outputs

TINY = PhaseRun(
    d_model=16, d_mlp=20, samples=150, n_test=60, steps=12, batch_size=32, evaluate_every=5
)


@pytest.fixture(autouse=True, scope="module")
def quick() -> Iterator[None]:
    with few_outputs():
        yield


def rows(folder: Path) -> list[dict[str, float]]:
    found: list[dict[str, float]] = read_json(folder / HISTORY)["rows"]
    return found


def test_runs_under_two_releases_claim_neither_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"run": TINY, "where": "here", "progress": False}
    with torch.no_grad():  # which is the caller's, and not the runs'
        one = ic.complexity.phase_diagram([0.5], [0.01], tmp_path, seeds=1, **options)
    here = environment_versions()
    assert one.versions == here
    other = {**here, "torch": "1.0"}
    monkeypatch.setattr(sweep_folder, "environment_versions", lambda: other)
    two = ic.complexity.phase_diagram([0.5], [0.01], tmp_path, seeds=2, **options)
    monkeypatch.undo()
    assert two.versions["torch"] == f"mixed: 1.0, {here['torch']}"
    assert sorted(two.versions["runs"].values(), key=str) == sorted([here, other], key=str)
    assert mixed_versions(two.versions).startswith(
        "runs were made with several versions: torch 1.0"
    )
    two.save(tmp_path / "saved")
    assert ic.complexity.PhaseDiagram.load(tmp_path / "saved").versions == two.versions
    inside = ic.complexity.mechanism(tmp_path, [0.5], seed=1, progress=False)
    assert inside.versions["torch"] == two.versions["torch"]
    assert set(inside.versions["runs"]) == {"mechanism", *inside.config["runs"]}


def test_what_is_measured_is_that_of_the_model_kept(tmp_path: Path) -> None:
    run = replace(TINY, seed=3)
    train([asdict(run)], [tmp_path])
    found = rows(tmp_path)
    assert [row["step"] for row in found] == [0, 5, 10, 12]
    model = ic.load_model(tmp_path / MODEL)
    task = run.task
    last = found[-1]
    shares = {}
    for name, split, n in (("id", "id", 60), ("ood", "ood", 60), ("train", "train", 150)):
        data = task.sample(split, n, seed=run.stream(name))[:60]
        shares[name] = data
        said = model(data.tokens)[:, -1].argmax(-1)
        assert last[name] == pytest.approx(float((said == data.targets).double().mean()))
    ood = shares["ood"]
    before, after = (model(data.tokens)[:, -1].argmax(-1) for data in (ood, task.swapped(ood)))
    assert last["commutativity"] == pytest.approx(float((before == after).double().mean()))
    W_Q = model.weight("W_Q")[0].mT.flatten(0, 1).detach()
    assert last["mean_abs_cosine"] == pytest.approx(mean_abs_cosine(W_Q))
    values = torch.linalg.svdvals(W_Q.double())
    stable = float(values.square().sum() / values.max() ** 2)
    assert last["stable_rank"] == pytest.approx(stable, rel=1e-5)


def test_a_run_repeats_and_each_seed_has_its_own(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        train([asdict(replace(TINY, seed=seed))], [tmp_path / name])
    assert rows(tmp_path / "a") == rows(tmp_path / "b")
    assert rows(tmp_path / "a") != rows(tmp_path / "c")
    weights = [ic.load_model(tmp_path / name / MODEL).state_dict() for name in "ab"]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_every_stream_of_a_seed_is_its_own() -> None:
    names = ("train", "id", "ood", "init", "order")
    streams = [replace(TINY, seed=seed).stream(name) for seed in range(4) for name in names]
    assert len(set(streams)) == len(streams)


def test_together_as_alone(tmp_path: Path) -> None:
    runs = [replace(TINY, seed=seed, init_rate=0.4 + 0.3 * seed) for seed in range(2)]
    train([asdict(run) for run in runs], [tmp_path / "0", tmp_path / "1"])
    for i, run in enumerate(runs):
        train([asdict(run)], [tmp_path / f"alone {i}"])
        ours, other = rows(tmp_path / str(i)), rows(tmp_path / f"alone {i}")
        for row, same in zip(ours[1:], other[1:], strict=True):
            assert row["train_loss"] == pytest.approx(same["train_loss"], rel=1e-3)
            assert row["stable_rank"] == pytest.approx(same["stable_rank"], rel=1e-2)


def test_a_run_without_unseen_pairs_has_neither_ood_nor_commutativity(tmp_path: Path) -> None:
    train([asdict(replace(TINY, hold_out=False, violations=1))], [tmp_path])
    assert {"train", "id"} <= set(rows(tmp_path)[-1])
    assert not {"ood", "commutativity"} & set(rows(tmp_path)[-1])


def test_a_run_that_diverges_says_so(tmp_path: Path) -> None:
    train([asdict(replace(TINY, lr=1e30, warmup_steps=0))], [tmp_path])
    last = rows(tmp_path)[-1]
    assert read_json(tmp_path / CIRCUITS) == []
    assert last["finite"] is False
    assert last["stable_rank"] is None
    assert last["train_loss"] is None


def test_finite_weights_with_outputs_that_are_not_have_diverged(tmp_path: Path) -> None:
    diagram = ic.complexity.phase_diagram(
        [0.4], [0.01, 1e6], tmp_path, seeds=1, where="here", progress=False,
        run=ic.complexity.PhaseRun(steps=2, samples=256, n_test=16),
    )  # fmt: skip
    assert diagram.frame["finite"].tolist() == [True, False]
    assert diagram.cells["diverged"].tolist() == [0, 1]
    assert diagram.circuits["weight_decay"].unique().tolist() == [0.01]


def test_of_a_collapsed_model_masks_show_nothing() -> None:
    model = SmallDecoder(TINY.decoder_config(TINY.task))  # all weights zero
    assert _circuits(SmallDecoderModel(model.eval(), name="zeros"), TINY.task) == []


def test_a_single_neuron_forms_no_pair(tmp_path: Path) -> None:
    train([asdict(replace(TINY, d_model=1, norm="post"))], [tmp_path])
    last = rows(tmp_path)[-1]
    assert last["mean_abs_cosine"] is None
    assert last["stable_rank"] == 1


class Stopped(Exception):
    """In the midst of training."""


def test_checkpoints_are_used_and_taken_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [asdict(replace(TINY, checkpoint_every=5, seed=seed)) for seed in range(3)]
    folders = [tmp_path / str(seed) for seed in range(3)]
    whole = [tmp_path / f"whole {seed}" for seed in range(2)]
    train(runs[:2], whole)
    steps: list[float] = []
    update = ParallelTrainer.update

    def stops(trainer: ParallelTrainer, tokens: Tensor, targets: Tensor, *, lr: float) -> Tensor:
        steps.append(lr)
        if len(steps) == 8:
            raise Stopped
        return update(trainer, tokens, targets, lr=lr)

    monkeypatch.setattr(ParallelTrainer, "update", stops)
    with pytest.raises(Stopped):
        train(runs[:2], folders[:2])
    train(runs[:2], folders[:2])
    assert len(steps) - 8 == TINY.steps - 5  # from where the checkpoint stood
    assert [rows(folder) for folder in folders[:2]] == [rows(folder) for folder in whole]
    for folder in folders[:2]:
        assert {path.name for path in folder.iterdir()} == {HISTORY, CIRCUITS, MODEL}


def test_among_other_runs_a_run_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [asdict(replace(TINY, checkpoint_every=5, seed=seed)) for seed in range(3)]
    folders = [tmp_path / str(seed) for seed in range(3)]
    with monkeypatch.context() as patch:
        patch.setattr(complexity_run, "clear_together", lambda folders: None)
        train(runs[:2], folders[:2])
    assert (folders[0] / "checkpoints").is_dir()
    train(runs, folders)
    train(runs, [tmp_path / f"whole {seed}" for seed in range(3)])
    for seed, folder in enumerate(folders):
        assert rows(folder) == rows(tmp_path / f"whole {seed}")
        assert {path.name for path in folder.iterdir()} == {HISTORY, CIRCUITS, MODEL}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"init_rate": 40.0}, "an init rate of 40"),
        ({"samples": 0}, "samples=0"),
        ({"steps": 0}, "steps=0"),
        ({"n_layers": 0}, "n_layers=0"),
        ({"n_heads": 3}, "n_heads=3"),
        ({"lr": -1.0}, "lr=-1.0"),
        ({"violations": 7}, "groups=7"),
        ({"seed": 2026112215}, "seed=2026112215: expected a whole number from 0 to 858993458"),
        ({"d_vocab": 50}, "d_vocab=50"),
    ],
)
def test_what_cannot_be_trained_is_refused(changed: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(TINY, **changed).check()  # type: ignore[arg-type]
