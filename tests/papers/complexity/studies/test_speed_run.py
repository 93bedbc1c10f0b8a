"""Runs of the study of fitting speed: what their histories hold, and where they end."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from interp_compose.papers.complexity.studies.anchors.run import PhaseRun
from interp_compose.papers.complexity.studies.fitting_speed.measure import (
    HISTORY,
    Fits,
    fitted,
    train,
    unpacked,
)
from interp_compose.papers.shared.training.parallel import NextOfSequence, ParallelTrainer
from interp_compose.runs.files import read_json

TINY = PhaseRun(
    d_model=8,
    d_mlp=12,
    n_layers=1,
    samples=37,
    steps=12,
    batch_size=16,
    evaluate_every=3,
    hold_out=False,
    violations=1,
)
QUICK = replace(
    TINY, init_rate=0.5, d_model=32, samples=8, batch_size=8, steps=100, evaluate_every=1, lr=0.02
)


def rows_of(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read_json(folder / HISTORY)["rows"]
    return found


def test_a_row_is_that_of_the_model() -> None:
    """Against each sample run by itself, for two models side by side."""
    runs = [replace(TINY, seed=seed, init_rate=0.3) for seed in (2, 5)]
    data = [run.task.sample("train", run.samples, seed=run.stream("train")) for run in runs]
    tokens, targets = (
        torch.stack([getattr(own, name) for own in data]) for name in ("tokens", "targets")
    )
    targets[0, 4] = runs[0].model(runs[0].task).last_logits(tokens[0, 4:5]).argmax()
    for which in ([0, 1], [0]):
        models = [runs[i].model(runs[i].task) for i in which]
        measure = Fits(tokens[which], targets[which])
        objective = NextOfSequence(tokens[which], targets[which], tuple(which), measure)
        trainer = ParallelTrainer(models, [0.0] * len(which), objective, TINY.train_config())
        found = measure(trainer)
        for model, row, i in zip(models, found, which, strict=True):
            right, losses = [], []
            for sequence, target in zip(tokens[i], targets[i], strict=True):
                logits = model.last_logits(sequence[None]).detach()
                right.append(bool(logits.argmax() == target))
                losses.append(float(cross_entropy(logits, target[None])))
            assert unpacked(row["right"], 37).tolist() == right
            assert row["accuracy"] == pytest.approx(sum(right) / 37)
            assert row["loss"] == pytest.approx(sum(losses) / 37, rel=1e-5)
    assert right[4]


def test_a_run_ends_once_it_is_fitted_and_repeats(tmp_path: Path) -> None:
    for name in "ab":
        train([asdict(QUICK)], [tmp_path / name])
    rows = rows_of(tmp_path / "a")
    assert rows == rows_of(tmp_path / "b")
    assert fitted(rows)
    assert not fitted(rows[:-1])
    assert [row["step"] for row in rows] == list(range(len(rows)))
    assert len(rows) < 100
    longer = replace(QUICK, evaluate_every=5)
    train([asdict(longer)], [tmp_path / "c"])
    for row in rows_of(tmp_path / "c"):
        if row["step"] < len(rows):
            assert row["right"] == rows[row["step"]]["right"]


def test_shapes_may_differ_and_each_ends_by_itself(tmp_path: Path) -> None:
    runs = [
        QUICK,
        replace(QUICK, n_layers=2),
        replace(QUICK, seed=1, init_rate=0.4, violations=0),
    ]
    folders = [tmp_path / str(i) for i in range(3)]
    train([asdict(run) for run in runs], folders)
    for i, run in enumerate(runs):
        train([asdict(run)], [tmp_path / f"alone {i}"])
        ours, other = rows_of(folders[i]), rows_of(tmp_path / f"alone {i}")
        assert fitted(ours)
        assert not fitted(ours[:-1])
        assert ours[1]["loss"] == pytest.approx(other[1]["loss"], rel=1e-3)


def test_checkpoints_are_used_and_taken_away(tmp_path: Path) -> None:
    run = replace(TINY, checkpoint_every=3)
    train([asdict(run)], [tmp_path / "a"])
    train([asdict(TINY)], [tmp_path / "b"])
    assert rows_of(tmp_path / "a") == rows_of(tmp_path / "b")
    assert [row["step"] for row in rows_of(tmp_path / "a")] == [0, 3, 6, 9, 12]
    assert {path.name for path in (tmp_path / "a").iterdir()} == {HISTORY}


def test_a_run_that_diverges_says_so(tmp_path: Path) -> None:
    train([asdict(replace(TINY, lr=1e30, warmup_steps=0))], [tmp_path])
    last = rows_of(tmp_path)[-1]
    assert (last["finite"], last["loss"], last["accuracy"]) == (False, None, 0.0)


@pytest.mark.parametrize(
    ("accuracies", "losses", "expected"),
    [
        ([1.0], [0.05], True),
        ([1.0, 0.9], [0.2, 0.05], True),  # each at a look of its own
        ([0.99], [0.01], False),
        ([1.0], [0.06], False),
        ([0.0, 1.0], [None, None], False),
    ],
)
def test_what_is_fitted(
    accuracies: list[float], losses: list[float | None], expected: bool
) -> None:
    rows = [{"accuracy": a, "loss": b} for a, b in zip(accuracies, losses, strict=True)]
    assert fitted(rows) is expected
