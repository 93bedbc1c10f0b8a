"""The loop over steps: which samples when, what is measured, and where it goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from interp_compose.papers.shared.training.parallel import NextOfSequence, ParallelTrainer
from interp_compose.runs.checkpoint import CheckpointFolder
from interp_compose.runs.workers import PROGRESS
from interp_compose.training.config import TrainConfig
from interp_compose.training.loop import run_training
from interp_compose.training.order import BatchOrder
from tests.papers.shared.training.test_parallel import models

PARTS = (slice(0, 3), slice(3, 6), slice(6, 9), slice(9, 11))  # steps between two evaluations
CONFIG = TrainConfig(
    lr=1e-3, batch_size=8, epochs=9, max_steps=11, evaluate_every=3, checkpoint_every=3
)


def samples(seeds: tuple[int, ...] = (4, 9)) -> NextOfSequence:
    """20 sequences of each model: batches of 8, 8 and 4."""
    tokens, targets = [], []
    for seed in seeds:
        random = torch.Generator().manual_seed(seed)
        tokens.append(torch.randint(23, (20, 5), generator=random))
        targets.append(torch.randint(23, (20,), generator=random))
    return NextOfSequence(torch.stack(tokens), torch.stack(targets), seeds, means)


def means(trainer: ParallelTrainer) -> list[dict[str, Any]]:
    predictions = trainer.predict(samples(tuple(range(len(trainer)))).tokens)
    return [{"mean": float(own.double().mean())} for own in predictions]


def two(**options: Any) -> ParallelTrainer:
    return ParallelTrainer(models(n=2), (0.1, 0.0), samples(), CONFIG, **options)


def rows_of(trainer: ParallelTrainer, **options: Any) -> list[list[dict[str, Any]]]:
    run_training(trainer, progress=False, **options)
    return trainer.rows


def test_each_epoch_sees_every_sample_once_in_an_order_of_its_own() -> None:
    first, second = two().orders
    epochs = [
        [np.stack([order.at(3 * epoch + place) for order in (first, second)]) for place in range(3)]
        for epoch in range(3)
    ]
    assert [batch.shape for batch in epochs[0]] == [(2, 8), (2, 8), (2, 4)]
    joined = [np.concatenate(epoch, axis=1) for epoch in epochs]
    for whole in joined:
        assert np.array_equal(np.sort(whole, axis=1), [list(range(20))] * 2)
    assert not np.array_equal(joined[0], joined[1])
    assert not np.array_equal(joined[0][0], joined[0][1])
    again = BatchOrder([5] * 20, replace(CONFIG, seed=9))
    assert np.array_equal(again.at(4), epochs[1][1][1])  # by seed and epoch alone


def test_rows_tell_what_was_at_their_step() -> None:
    trainer = two()
    seen: list[tuple[Tensor, Tensor, float]] = []
    losses: list[Tensor] = []
    update = trainer.update

    def watched(tokens: Tensor, targets: Tensor, *, lr: float) -> Tensor:
        seen.append((tokens, targets, lr))
        losses.append(update(tokens, targets, lr=lr))
        return losses[-1]

    trainer.update = watched  # type: ignore[method-assign]
    given = samples()
    rows = rows_of(trainer)
    assert [row["step"] for row in rows[0]] == [0, 3, 6, 9, 11]
    assert [lr for _, _, lr in seen] == [CONFIG.lr_at(i, 11) for i in range(11)]
    for run in range(2):
        assert rows[run][0]["train_loss"] is None
        for row, part in zip(rows[run][1:], PARTS, strict=True):
            mean = torch.stack([loss[run] for loss in losses[part]]).mean()
            assert row["train_loss"] == pytest.approx(float(mean), rel=1e-5)
            assert row["finite"] is True
        for tokens, targets, _ in seen:
            for own, target in zip(tokens[run], targets[run], strict=True):
                at = (given.tokens[run] == own).all(-1).nonzero()[0, 0]
                assert given.targets[run, at] == target
    assert rows[0][-1]["mean"] == means(trainer)[0]["mean"]


@pytest.mark.parametrize("stop", [2, 3, 7, 10])
def test_a_stopped_run_ends_as_if_it_had_not_been(stop: int, tmp_path: Path) -> None:
    whole = two()
    expected = rows_of(whole)
    folder = CheckpointFolder(tmp_path, {"a": "run"})
    first = two()
    update = first.update
    done: list[float] = []

    def stopping(tokens: Tensor, targets: Tensor, *, lr: float) -> Tensor:
        if len(done) == stop:
            raise KeyboardInterrupt
        done.append(lr)
        return update(tokens, targets, lr=lr)

    first.update = stopping  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        rows_of(first, checkpoints=folder)
    again = two()
    assert rows_of(again, checkpoints=folder) == expected
    for a, b in zip(whole.models, again.models, strict=True):
        for one, other in zip(a.parameters(), b.parameters(), strict=True):
            assert torch.equal(one, other)


@pytest.mark.parametrize("last", [0, 3, 6, 11])
def test_rows_can_be_enough(last: int, tmp_path: Path) -> None:
    """The rows and rates of a longer run up to there, in one go and resumed."""

    def enough(rows: Sequence[Sequence[dict[str, Any]]]) -> bool:
        return all(own[-1]["step"] >= last for own in rows)

    whole = rows_of(two())
    trainer = two(until=enough)
    rates: list[float] = []
    update = trainer.update

    def watched(tokens: Tensor, targets: Tensor, *, lr: float) -> Tensor:
        rates.append(lr)
        return update(tokens, targets, lr=lr)

    trainer.update = watched  # type: ignore[method-assign]
    folder = CheckpointFolder(tmp_path, {"a": "run"})
    found = rows_of(trainer, checkpoints=folder)
    assert found == [[row for row in own if row["step"] <= last] for own in whole]
    assert rates == [CONFIG.lr_at(i, 11) for i in range(last)]
    again = two(until=enough)
    resumed = rows_of(again, checkpoints=folder)
    assert resumed == found
    for a, b in zip(trainer.models, again.models, strict=True):
        for one, other in zip(a.parameters(), b.parameters(), strict=True):
            assert torch.equal(one, other)


def test_it_tells_a_sweep_how_far_it_is() -> None:
    shares: list[float] = []
    before = PROGRESS.set(shares.append)
    try:
        rows_of(two())
    finally:
        PROGRESS.reset(before)
    assert shares == pytest.approx([step / 11 for step in range(1, 12)])


def test_a_bar_that_can_be_turned_off(capsys: pytest.CaptureFixture[str]) -> None:
    for progress in (False, True):
        one = ParallelTrainer(models(n=1), (0.1,), samples((1,)), CONFIG)
        run_training(one, progress=progress)
        assert ("11/11" in capsys.readouterr().err) is progress
