"""The loop over steps: which samples when, what is measured, and where it goes on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from interp_compose.runs.checkpoint import CheckpointFolder
from interp_compose.training.config import TrainConfig
from interp_compose.training.parallel import Learners, Samples, _Order, fit
from tests.training.test_learners import models

PARTS = (slice(0, 3), slice(3, 6), slice(6, 9), slice(9, 11))  # steps between two looks
CONFIG = TrainConfig(
    lr=1e-3, batch_size=8, epochs=9, max_steps=11, evaluate_every=3, checkpoint_every=3
)


def samples(seeds: tuple[int, ...] = (4, 9)) -> Samples:
    """20 sequences of each run: batches of 8, 8 and 4."""
    tokens, targets = [], []
    for seed in seeds:
        random = torch.Generator().manual_seed(seed)
        tokens.append(torch.randint(23, (20, 5), generator=random))
        targets.append(torch.randint(23, (20,), generator=random))
    return Samples(torch.stack(tokens), torch.stack(targets), seeds)


def hits(learners: Learners) -> list[dict[str, Any]]:
    said = learners.predict(samples(tuple(range(len(learners)))).tokens)
    return [{"mean": float(own.double().mean())} for own in said]


def test_each_epoch_sees_every_sample_once_in_an_order_of_its_own() -> None:
    order = _Order(samples(), 8)
    epochs = [[order.at(3 * epoch + place) for place in range(3)] for epoch in range(3)]
    assert [batch.shape for batch in epochs[0]] == [(2, 8), (2, 8), (2, 4)]
    joined = [torch.cat(epoch, dim=1) for epoch in epochs]
    for whole in joined:
        assert torch.equal(whole.sort(dim=1).values, torch.arange(20).expand(2, 20))
    assert not torch.equal(joined[0], joined[1])
    assert not torch.equal(joined[0][0], joined[0][1])
    again = _Order(samples((9,)), 8)
    assert torch.equal(again.at(4)[0], epochs[1][1][1])  # by seed and epoch alone


def test_rows_tell_what_was_at_their_step() -> None:
    learners = Learners(models(n=2), (0.1, 0.0), CONFIG)
    seen: list[tuple[Tensor, Tensor, float]] = []
    losses: list[Tensor] = []
    step = learners.step

    def watched(tokens: Tensor, targets: Tensor, lr: float) -> Tensor:
        seen.append((tokens, targets, lr))
        losses.append(step(tokens, targets, lr))
        return losses[-1]

    learners.step = watched  # type: ignore[method-assign]
    given = samples()
    rows = fit(learners, given, hits, progress=False)
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
    assert rows[0][-1]["mean"] == hits(learners)[0]["mean"]


@pytest.mark.parametrize("stop", [2, 3, 7, 10])
def test_a_stopped_run_ends_as_if_it_had_not_been(stop: int, tmp_path: Path) -> None:
    whole = Learners(models(n=2), (0.1, 0.0), CONFIG)
    expected = fit(whole, samples(), hits, progress=False)
    folder = CheckpointFolder(tmp_path, {"a": "run"})
    first = Learners(models(n=2), (0.1, 0.0), CONFIG)
    step = first.step
    done: list[float] = []

    def stopping(tokens: Tensor, targets: Tensor, lr: float) -> Tensor:
        if len(done) == stop:
            raise KeyboardInterrupt
        done.append(lr)
        return step(tokens, targets, lr)

    first.step = stopping  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        fit(first, samples(), hits, checkpoints=folder, progress=False)
    again = Learners(models(n=2), (0.1, 0.0), CONFIG)
    assert fit(again, samples(), hits, checkpoints=folder, progress=False) == expected
    for a, b in zip(whole.models, again.models, strict=True):
        for one, other in zip(a.parameters(), b.parameters(), strict=True):
            assert torch.equal(one, other)


@pytest.mark.parametrize("last", [0, 3, 6, 11])
def test_rows_can_be_enough(last: int, tmp_path: Path) -> None:
    """The rows and rates of a longer run up to there, in one go and resumed."""

    def enough(rows: Sequence[Sequence[dict[str, Any]]]) -> bool:
        return all(own[-1]["step"] >= last for own in rows)

    whole = fit(Learners(models(n=2), (0.1, 0.0), CONFIG), samples(), hits, progress=False)
    learners = Learners(models(n=2), (0.1, 0.0), CONFIG)
    rates: list[float] = []
    step = learners.step

    def watched(tokens: Tensor, targets: Tensor, lr: float) -> Tensor:
        rates.append(lr)
        return step(tokens, targets, lr)

    learners.step = watched  # type: ignore[method-assign]
    folder = CheckpointFolder(tmp_path, {"a": "run"})
    found = fit(learners, samples(), hits, until=enough, checkpoints=folder, progress=False)
    assert found == [[row for row in own if row["step"] <= last] for own in whole]
    assert rates == [CONFIG.lr_at(i, 11) for i in range(last)]
    again = Learners(models(n=2), (0.1, 0.0), CONFIG)
    resumed = fit(again, samples(), hits, until=enough, checkpoints=folder, progress=False)
    assert resumed == found
    for a, b in zip(learners.models, again.models, strict=True):
        for one, other in zip(a.parameters(), b.parameters(), strict=True):
            assert torch.equal(one, other)


def test_a_bar_that_can_be_turned_off(capsys: pytest.CaptureFixture[str]) -> None:
    for progress in (False, True):
        fit(Learners(models(n=1), (0.1,), CONFIG), samples((1,)), hits, progress=progress)
        assert ("11/11" in capsys.readouterr().err) is progress
