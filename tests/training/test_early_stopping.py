"""Early stopping: when it stops, which weights it returns, and that it survives a resume."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from interp_compose.training.finetune import Finetuned
from interp_compose.training.loop import Trainer
from tests.training.runs import BASE, same_weights, shared, tiny, train, weights

# The rate is constant without warm-up, so that a shorter run takes the same steps.
CONFIG = replace(BASE, epochs=5, schedule="constant", warmup_steps=0, evaluate_every=2, patience=3)
SCORES = [0.1, 0.3, 0.6, 0.6, 0.2, 0.5, 0.9, 0.9, 0.9, 0.9, 0.9]  # steps 0, 2, 4 (best), 6, …


@pytest.fixture
def scored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Validation accuracies as written above, by the step."""
    note = Trainer.note_accuracy

    def written(self: Trainer[Any], accuracy: float) -> None:
        note(self, SCORES[self.step // 2])

    monkeypatch.setattr(Trainer, "note_accuracy", written)


@cache
def stopped_run() -> Finetuned:
    """By these scores; trained once."""
    return train(shared(), CONFIG)


@pytest.mark.usefixtures("scored")
def test_it_stops_and_returns_the_first_of_the_best() -> None:
    stopped, history = stopped_run()
    assert list(history.evaluations["step"]) == [0, 2, 4, 6, 8, 10]
    assert len(history.frame) == 10
    best, _ = train(shared(), replace(CONFIG, patience=None, max_steps=4))
    assert same_weights(stopped, best)


@pytest.mark.usefixtures("scored")
def test_more_patience_finds_the_later_best() -> None:
    patient, history = train(shared(), replace(CONFIG, patience=4))
    assert len(history.frame) == 20  # to the end
    best, _ = train(shared(), replace(CONFIG, patience=None, max_steps=12))
    assert same_weights(patient, best)


@pytest.mark.usefixtures("scored")
@pytest.mark.parametrize("after", [1, 5, 7, 9])
def test_patience_and_the_best_weights_survive_a_resume(
    after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(CONFIG, checkpoint_every=1)
    whole, history = stopped_run()
    train_step, steps = Trainer.train_step, [0]

    def stop(trainer: Trainer[Any]) -> Any:
        steps[0] += 1
        if steps[0] > after:
            raise KeyboardInterrupt
        return train_step(trainer)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "train_step", stop)
        with pytest.raises(KeyboardInterrupt):
            train(shared(), config, folder=tmp_path)
    resumed, again = train(shared(), config, folder=tmp_path)
    assert same_weights(whole, resumed)
    assert len(again.frame) == len(history.frame) == 10
    finished, _ = train(shared(), config, folder=tmp_path)
    assert same_weights(whole, finished)


def test_a_model_that_never_gets_better_comes_back_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    note = Trainer.note_accuracy
    monkeypatch.setattr(Trainer, "note_accuracy", lambda self, _: note(self, 0.5))
    model = tiny()
    with pytest.warns(UserWarning, match="never rose above the untrained model's"):
        stopped, history = train(model, replace(CONFIG, patience=1))
    assert len(history.frame) == 2
    assert same_weights(stopped, model)


def test_by_the_real_accuracy() -> None:
    """The returned weights score what the best evaluation says."""
    config = replace(CONFIG, patience=2, lr=0.02)
    stopped, history = train(shared(), config, validation=30)
    scores = history.evaluations
    at = int(scores["accuracy"].idxmax())
    ended = len(scores) - 1
    assert ended == at + 2 or int(scores["step"].iloc[-1]) == 20
    best, _ = train(
        tiny(),
        replace(config, patience=None, max_steps=max(int(scores["step"].iloc[at]), 1)),
        validation=30,
    )
    if int(scores["step"].iloc[at]):
        assert same_weights(stopped, best)
    else:
        assert same_weights(stopped, tiny())


def test_without_patience_the_last_weights_are_returned() -> None:
    model = tiny()
    trained, _ = train(model, replace(CONFIG, patience=None, max_steps=3))
    assert not all(
        torch.equal(weights(model)[name], weight) for name, weight in weights(trained).items()
    )
