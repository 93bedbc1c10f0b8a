"""What the loop promises: same batches and dropout, one pass, nothing of the user's touched."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from interp_compose.errors import InputError
from interp_compose.models.lens_model import LensModel
from interp_compose.training import loop, objectives
from interp_compose.training.config import TrainConfig
from tests.training.runs import (
    BASE,
    CARMA,
    largest_difference,
    made_up,
    same_weights,
    shared,
    tiny,
    train,
    undisturbed,
    weights,
)

TERMS = ["mi", "stability"]


def without_seconds(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.drop(columns="seconds")


def test_weight_zero_is_plain_training_to_the_bit_and_records_the_terms() -> None:
    plain, plain_history = undisturbed()
    zero, history = train(shared(), carma=replace(CARMA, weight=0.0))
    assert same_weights(plain, zero)
    assert history.frame[TERMS].notna().all(axis=None)
    assert plain_history.frame[TERMS].isna().all(axis=None)
    pd.testing.assert_frame_equal(
        without_seconds(history.frame).drop(columns=TERMS),
        without_seconds(plain_history.frame).drop(columns=TERMS),
    )


def test_carma_changes_the_weights_and_what_it_minimises() -> None:
    config = replace(BASE, epochs=6)
    plain, before = train(shared(), config, carma=replace(CARMA, weight=0.0))
    regularised, after = train(shared(), config, carma=CARMA)
    assert not same_weights(plain, regularised)
    for term in TERMS:
        assert after.frame[term].iloc[-4:].mean() < before.frame[term].iloc[-4:].mean()


def test_each_term_alone_changes_the_weights() -> None:
    both, _ = undisturbed(BASE, CARMA)
    for name in ("mi_weight", "stability_weight"):
        one, _ = train(shared(), carma=replace(CARMA, **{name: 0.0}))
        assert not same_weights(both, one)


def test_one_seed_gives_the_same_weights_and_another_others() -> None:
    first, history = undisturbed(BASE, CARMA)
    again, repeated = train(shared(), carma=CARMA)
    other, _ = train(shared(), replace(BASE, seed=1), carma=CARMA)
    assert same_weights(first, again)
    pd.testing.assert_frame_equal(without_seconds(history.frame), without_seconds(repeated.frame))
    assert not same_weights(first, other)


def seen_by(monkeypatch: pytest.MonkeyPatch, **options: Any) -> list[tuple[Any, torch.Tensor]]:
    """Per step: the tokens of the batch, and the logits, which dropout has acted on."""
    seen = []
    original = LensModel.capture

    def spy(self: LensModel, tokens: Any, *args: Any, **kwargs: Any) -> Any:
        out = original(self, tokens, *args, **kwargs)
        if self.training:
            seen.append((tokens.tolist(), out[0].detach().clone()))
        return out

    with monkeypatch.context() as patch:
        patch.setattr(LensModel, "capture", spy)
        train(shared(), **options)
    return seen


def test_plain_and_carma_see_the_same_batches_under_the_same_dropout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    still = replace(BASE, lr=1e-30)  # the weights stay, so that equal logits are equal masks
    plain = seen_by(monkeypatch, config=still)
    carma = seen_by(monkeypatch, config=still, carma=CARMA)
    assert [tokens for tokens, _ in plain] == [tokens for tokens, _ in carma]
    for (_, one), (_, other) in zip(plain, carma, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_dropout_is_on_in_training_and_off_in_evaluation() -> None:
    model = tiny(dropout=0.5)
    still = replace(BASE, lr=1e-30, batch_size=20, epochs=2)
    trained, history = train(model, still)
    assert not trained.training
    first, second = history.frame["task_loss"]
    assert abs(first - second) > 1e-3  # the same twenty examples, other masks
    losses = history.evaluations["loss"]
    assert losses.nunique() == 1
    tokens = torch.arange(5)[None]
    torch.testing.assert_close(trained(tokens), model(tokens), rtol=0, atol=0)


@pytest.mark.parametrize("training", [False, True])
def test_the_given_model_and_the_users_randomness_stay(training: bool) -> None:
    model = tiny().train(training)
    before, draws = weights(model), torch.get_rng_state()
    trained, _ = train(model, carma=CARMA)
    assert torch.equal(torch.get_rng_state(), draws)
    assert all(torch.equal(before[name], now) for name, now in weights(model).items())
    assert all(weight.grad is None for weight in model.parameters())
    assert model.training is training
    assert not trained.training
    assert not same_weights(model, trained)


def test_one_forward_and_one_backward_pass_for_each_part(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny()
    calls = {"forward": 0, "backward": 0}
    forward, backward = LensModel._run_forward, torch.Tensor.backward

    def count_forward(self: LensModel, *args: Any) -> Any:
        calls["forward"] += self.training
        return forward(self, *args)

    def count_backward(self: torch.Tensor, *args: Any, **kwargs: Any) -> None:
        calls["backward"] += 1
        backward(self, *args, **kwargs)

    monkeypatch.setattr(LensModel, "_run_forward", count_forward)
    monkeypatch.setattr(torch.Tensor, "backward", count_backward)
    train(model, replace(BASE, accumulate=2), carma=CARMA)
    assert calls == {"forward": 16, "backward": 16}  # 8 steps of two parts


def test_no_hook_stays_after_a_run_or_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny()
    trained, _ = train(model, carma=CARMA)
    assert list(trained.active_hooks) == list(model.active_hooks) == []

    twins: list[LensModel] = []
    terms = objectives.carma_terms

    def fail(*args: Any, **kwargs: Any) -> Any:
        if len(twins) == 2:
            raise RuntimeError("in the middle")
        twins.append(trained)
        return terms(*args, **kwargs)

    trainers: list[Any] = []
    evaluate = loop.Trainer.evaluate
    monkeypatch.setattr(objectives, "carma_terms", fail)
    monkeypatch.setattr(
        loop.Trainer, "evaluate", lambda trainer: (trainers.append(trainer), evaluate(trainer))
    )
    draws = torch.get_rng_state()
    with pytest.raises(RuntimeError, match="in the middle"):
        train(model, carma=CARMA)
    assert torch.equal(torch.get_rng_state(), draws)
    assert list(trainers[0].model.active_hooks) == list(model.active_hooks) == []


# ---- parts of a batch ----------------------------------------------------------------------


@pytest.mark.parametrize("accumulate", [2, 3])
def test_parts_add_up_to_the_whole_batch(accumulate: int) -> None:
    whole, history = undisturbed(dropout=0.0)
    parts, in_parts = train(shared(dropout=0.0), replace(BASE, accumulate=accumulate))
    assert 0 < largest_difference(whole, parts) < 1e-5
    for name in ("loss", "accuracy", "grad_norm"):
        np.testing.assert_allclose(history.frame[name], in_parts.frame[name], rtol=1e-4)


def test_parts_weigh_mutual_information_by_their_anchors() -> None:
    carma = replace(CARMA, stability_weight=0.0)
    whole, history = train(shared(dropout=0.0), carma=carma)
    parts, in_parts = train(shared(dropout=0.0), replace(BASE, accumulate=3), carma=carma)
    assert largest_difference(whole, parts) < 1e-5
    np.testing.assert_allclose(history.frame["mi"], in_parts.frame["mi"], rtol=1e-4)


def test_a_last_batch_smaller_than_its_parts() -> None:
    config = replace(BASE, accumulate=5, epochs=1)  # the last of four batches holds two examples
    whole, _ = train(shared(dropout=0.0), replace(config, accumulate=1))
    parts, history = train(shared(dropout=0.0), config)
    assert largest_difference(whole, parts) < 1e-5
    assert len(history.frame) == 4


# ---- precision and memory ------------------------------------------------------------------


def test_bfloat16_is_near_float32_and_keeps_losses_and_weights_in_float32(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dtypes = set()
    total = objectives.total_loss

    def spy(*terms: Any) -> Any:
        dtypes.update(term.dtype for term in terms[:3])
        return total(*terms)

    monkeypatch.setattr(objectives, "total_loss", spy)
    full, history = train(shared(dropout=0.0), carma=CARMA)
    half, rounded = train(shared(dropout=0.0), replace(BASE, precision="bfloat16"), carma=CARMA)
    assert dtypes == {torch.float32}
    assert {weight.dtype for weight in half.parameters()} == {torch.float32}
    ahead = np.abs(history.frame["loss"] - rounded.frame["loss"])
    assert 1e-6 < ahead.max() < 0.05
    assert not same_weights(full, half)


@pytest.mark.parametrize("carma", [None, CARMA], ids=["plain", "carma"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_recomputed_activations_give_the_same_weights(
    carma: Any, precision: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(BASE, precision=precision, epochs=1)
    kept, _ = train(shared(dropout=0.3), config, carma=carma)
    calls = []
    attention = torch.nn.functional.softmax
    monkeypatch.setattr(
        torch.nn.functional, "softmax", lambda *a, **k: (calls.append(1), attention(*a, **k))[1]
    )
    train(shared(dropout=0.3), config, carma=carma)
    once = len(calls)
    config = replace(config, activation_checkpointing=True)
    again, _ = train(shared(dropout=0.3), config, carma=carma)
    assert same_weights(kept, again)
    if once:
        assert len(calls) - once == once + 4 * 3  # four steps, three blocks run a second time


def test_a_model_in_float64_is_trained_in_float64() -> None:
    model = tiny(dropout=0.0)
    model.lens.double()
    trained, history = train(model, carma=CARMA)
    assert {weight.dtype for weight in trained.parameters()} == {torch.float64}
    single, _ = undisturbed(BASE, CARMA, dropout=0.0)
    assert 0 < largest_difference(single, trained) < 1e-4
    loss = history.frame["task_loss"].iloc[0]
    assert loss != np.float32(loss)


def test_frozen_weights_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny()
    for name, weight in model.lens.named_parameters():
        weight.requires_grad_("h.0." not in name)
    trained, history = train(model, carma=CARMA)
    before, after = weights(model), weights(trained)
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved
    assert not any("h.0." in name for name in moved)
    assert all("h.0." in name for name in history.config["frozen"])


def test_a_model_that_computes_with_frozen_weights_alone_is_refused() -> None:
    model = tiny()
    for name, weight in model.lens.named_parameters():
        weight.requires_grad_(".qkv." in name)  # which TransformerLens has split, and does not run
    with pytest.raises(InputError, match="nothing that .* computes with can be trained"):
        train(model)


def test_tied_weights_stay_tied() -> None:
    trained, _ = undisturbed()
    embeddings = trained.lens.original_model.transformer.wte.weight
    assert trained.lens.original_model.lm_head.weight.data_ptr() == embeddings.data_ptr()


# ---- how long ------------------------------------------------------------------------------


def steps_evaluated(**options: Any) -> list[int]:
    _, history = train(shared(), replace(BASE, **options))
    assert len(history.representations) == 3 * len(history.evaluations)
    return [int(step) for step in history.evaluations["step"]]


def test_when_it_evaluates() -> None:
    assert steps_evaluated() == [0, 4, 8]
    assert steps_evaluated(evaluate_every=3) == [0, 3, 6, 8]
    assert steps_evaluated(evaluate_every=100) == [0, 8]
    assert steps_evaluated(max_steps=3) == [0, 3]
    assert steps_evaluated(max_steps=100) == [0, 4, 8]


def test_without_a_validation_split_representations_are_the_training_splits() -> None:
    _, history = train(shared(), validation=0)
    assert history.evaluations.empty
    assert list(history.representations["step"].unique()) == [0, 4, 8]


def test_the_bar_shows_loss_accuracy_and_terms(capsys: pytest.CaptureFixture[str]) -> None:
    from interp_compose.training.finetune import finetune_on

    options: dict[str, Any] = {"config": TrainConfig(epochs=1), "folder": None, "title": "a title"}
    finetune_on(tiny(), made_up(4), [], "made-up", carma=CARMA, progress=True, **options)
    shown = capsys.readouterr().err
    assert "a title" in shown
    assert all(f"{name}=" in shown for name in ("loss", "acc", "MI", "stab"))
