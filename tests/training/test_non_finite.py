"""NaN: the step and the term that broke are named, and the last good weights are kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from interp_compose.errors import NonFiniteError
from interp_compose.runs.checkpoint import CheckpointFolder
from interp_compose.training import objectives
from interp_compose.training.evaluate import representations
from interp_compose.training.history import read_history
from tests.training.runs import BASE, CARMA, made_up, shared, tiny, train

STEADY = replace(BASE, schedule="constant", warmup_steps=0, evaluate_every=100)


def kept_weights(folder: Path) -> list[torch.Tensor]:
    from interp_compose.runs.checkpoint import _read

    tensors = _read(0, max((folder / "checkpoints").glob("step_*"))).tensors
    n = sum(name.startswith("weight.") for name in tensors)
    return [tensors[f"weight.{i}"] for i in range(n)]


def break_at(call: int, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The chosen term is NaN in one call and the calls after it."""
    terms, entropy, calls = objectives.carma_terms, objectives.cross_entropy, [0]

    def broken_terms(*args: Any, **kwargs: Any) -> Any:
        calls[0] += 1
        mi, stability = terms(*args, **kwargs)
        if calls[0] < call:
            return mi, stability
        return (mi * float("nan"), stability) if name == "MI" else (mi, stability / 0)

    def broken_task(*args: Any, **options: Any) -> Any:
        loss = entropy(*args, **options)
        return loss * float("inf") if calls[0] >= call - 1 else loss

    if name == "the task's loss":
        monkeypatch.setattr(objectives, "cross_entropy", broken_task)
    monkeypatch.setattr(
        objectives,
        "carma_terms",
        broken_terms
        if name != "the task's loss"
        else lambda *a, **k: (calls.__setitem__(0, calls[0] + 1), terms(*a, **k))[1],
    )


@pytest.mark.parametrize(
    ("name", "value"), [("MI", "nan"), ("stability", "inf"), ("the task's loss", "inf")]
)
def test_the_term_that_broke_is_named_and_the_weights_before_are_kept(
    name: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, _ = train(shared(), replace(STEADY, max_steps=3), carma=CARMA)
    with monkeypatch.context() as patch:
        break_at(4, patch, name)
        with pytest.raises(NonFiniteError) as broken:
            train(shared(), STEADY, carma=CARMA, folder=tmp_path)
    message = str(broken.value)
    assert message.startswith(
        f"step 4: {name} is {value}; the weights are still those after step 3"
    )
    assert "Lower the learning rate" in message
    pairs = zip(kept_weights(tmp_path), good.parameters(), strict=True)
    assert all(torch.equal(kept, weight) for kept, weight in pairs)
    assert len(read_history(tmp_path / "history.jsonl")["steps"]) == 3
    # Once the cause is gone, the run goes on from there.
    whole, _ = train(shared(), STEADY, carma=CARMA)
    resumed, _ = train(shared(), STEADY, carma=CARMA, folder=tmp_path)
    pairs = zip(whole.parameters(), resumed.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


def test_a_gradient_that_broke(monkeypatch: pytest.MonkeyPatch) -> None:
    class Spoiled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            return gradient * float("nan")

    entropy = objectives.cross_entropy
    monkeypatch.setattr(
        objectives,
        "cross_entropy",
        lambda *args, **options: Spoiled.apply(entropy(*args, **options)),
    )
    with pytest.raises(NonFiniteError, match="step 1: the gradient is nan"):
        train(shared(), STEADY)


def test_a_learning_rate_that_breaks_the_model(tmp_path: Path) -> None:
    wild = replace(STEADY, lr=1e30, checkpoint_every=1)
    with pytest.raises(NonFiniteError, match=r"step 2: the task's loss is (nan|inf)"):
        train(shared(), wild, folder=tmp_path)
    assert read_history(tmp_path / "history.jsonl")["steps"]["step"].tolist() == [1]


def test_an_evaluation_of_a_broken_model_says_after_which_step(tmp_path: Path) -> None:
    wild = replace(STEADY, lr=1e30, evaluate_every=1)
    with pytest.raises(NonFiniteError, match="after step 1: the residual streams are no longer"):
        train(shared(), wild, folder=tmp_path)
    assert CheckpointFolder(tmp_path / "checkpoints", {}).latest() is None


def test_weights_that_are_nan_from_the_start() -> None:
    model = tiny()
    with torch.no_grad():
        model.lens.blocks[1].mlp.out.weight[0, 0] = float("nan")
    with pytest.raises(NonFiniteError, match="after step 0: the residual streams are no longer"):
        train(model)
    with pytest.raises(NonFiniteError, match="NaN or infinite"):
        representations(model, made_up(3))


def test_a_loss_that_breaks_above_the_residuals() -> None:
    model = tiny()
    with torch.no_grad():
        model.lens.ln_final.bias[0] = float("nan")
    with pytest.raises(
        NonFiniteError, match="after step 0: the loss on the validation split is nan"
    ):
        train(model)
    with pytest.raises(NonFiniteError, match="step 1: the task's loss is nan"):
        train(model, validation=0)


def test_weights_that_are_not_finite_are_not_kept(tmp_path: Path) -> None:
    model = tiny()
    with torch.no_grad():
        model.lens.ln_final.bias[0] = float("nan")
    with pytest.raises(NonFiniteError, match="step 1"):
        train(model, validation=0, folder=tmp_path)
    assert not (tmp_path / "checkpoints").exists()
