"""Many models trained as one program, against each trained alone and against AdamW written out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from interp_compose.errors import InputError, OptionError
from interp_compose.papers.complexity.models.init import init_weights
from interp_compose.papers.shared.models.decoder import DecoderConfig, Norm, SmallDecoder
from interp_compose.papers.shared.training.parallel import NextOfSequence, ParallelTrainer
from interp_compose.training.config import TrainConfig

STEPS = 50
CONFIG = TrainConfig(lr=3e-3, batch_size=8, max_steps=STEPS, clip=0.5)
DECAYS = (0.0, 0.1, 1.0)


def models(
    norm: Norm = "pre", n: int = 3, d_mlp: int = 13, dtype: torch.dtype = torch.float32
) -> list[SmallDecoder]:
    made = []
    for seed in range(n):
        cfg = DecoderConfig(d_vocab=23, n_ctx=5, d_model=12, n_heads=2, d_mlp=d_mlp, norm=norm)
        made.append(SmallDecoder(cfg))
        init_weights(made[-1], 0.4 + 0.2 * seed, seed=seed)
        made[-1].to(dtype)
    return made


def batches(n: int = 3) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(5)
    tokens = torch.randint(23, (STEPS, n, 8, 5), generator=random)
    return tokens, torch.randint(23, (STEPS, n, 8), generator=random)


def trainer(
    models: Sequence[nn.Module], decays: Sequence[float] = DECAYS, config: TrainConfig = CONFIG
) -> ParallelTrainer:
    """Of models that are stepped by hand."""
    nothing = torch.zeros(len(models), 1, 5, dtype=torch.long)
    objective = NextOfSequence(nothing, nothing[..., 0], (0,) * len(models))
    return ParallelTrainer(models, decays, objective, config)


@pytest.mark.parametrize("norm", ["pre", "post", "query"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_side_by_side_as_alone(norm: Norm, dtype: torch.dtype) -> None:
    """Over fifty steps in float32, over ten, and much nearer, in float64."""
    together = trainer(models(norm, dtype=dtype))
    single = models(norm, dtype=dtype)
    alone = [trainer([m], [d]) for m, d in zip(single, DECAYS, strict=True)]
    tokens, targets = batches()
    near = 1e-10 if dtype == torch.float64 else 2e-4
    for step in range(10 if dtype == torch.float64 else STEPS):
        lr = CONFIG.lr_at(step, STEPS)
        losses = together.update(tokens[step], targets[step], lr=lr)
        for k, one in enumerate(alone):
            own = one.update(tokens[step, k : k + 1], targets[step, k : k + 1], lr=lr)
            torch.testing.assert_close(losses[k : k + 1], own, rtol=near, atol=near)
    together.copy_to_models()
    for stacked, one in zip(together.models, alone, strict=True):
        ours = dict(one.models[0].named_parameters())
        for name, weight in stacked.named_parameters():
            if name.endswith("b_K") and dtype == torch.float32:
                continue  # it moves no softmax: its gradient is rounding, which Adam makes steps of
            torch.testing.assert_close(weight, ours[name], rtol=10 * near, atol=near)
    predictions = together.predict(tokens[0])
    for k, one in enumerate(alone):
        assert torch.equal(predictions[k : k + 1], one.predict(tokens[0, k : k + 1]))


@pytest.mark.parametrize("clip", [CONFIG.clip, None])
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_step_is_clipped_decoupled_adamw(n: int, clip: float | None, dtype: torch.dtype) -> None:
    """Loshchilov and Hutter 2019, algorithm 2, in float64; the gradient by autograd."""
    many = trainer(models(n=n, dtype=dtype), DECAYS[:n], replace(CONFIG, clip=clip))
    slow = [{name: w.detach().double() for name, w in m.named_parameters()} for m in models(n=n)]
    moments = [
        {name: (torch.zeros_like(w), torch.zeros_like(w)) for name, w in m.items()} for m in slow
    ]
    tokens, targets = batches(n)
    for step in range(4):
        many.update(tokens[step], targets[step], lr=1e-2)
        for k in range(n):
            grads = slow_gradients(slow[k], tokens[step, k], targets[step, k])
            norm = math.sqrt(sum(float(g.square().sum()) for g in grads.values()))
            for name, weight in slow[k].items():
                g = grads[name] * min(1.0, (clip or math.inf) / (norm + 1e-6))
                first, second = moments[k][name]
                first.mul_(0.9).add_(0.1 * g)
                second.mul_(0.999).add_(0.001 * g * g)
                weight.mul_(1 - 1e-2 * DECAYS[k])
                hat = first / (1 - 0.9 ** (step + 1))
                root = (second / (1 - 0.999 ** (step + 1))).sqrt()
                weight.sub_(1e-2 * hat / (root + 1e-8))
    many.copy_to_models()
    # Of a gradient that is zero but for rounding, Adam makes steps as long as any: float32 is held
    # to its matrices, float64 to every weight.
    for k, model in enumerate(many.models):
        for name, weight in model.named_parameters():
            apart = weight.detach().double() - slow[k][name]
            if dtype == torch.float64:
                assert apart.abs().max() < 1e-7, name
            elif not name.endswith("b_K"):
                assert apart.norm() < 1e-3 * (1 + slow[k][name].norm()), name


def slow_gradients(
    weights: dict[str, Tensor], tokens: Tensor, targets: Tensor
) -> dict[str, Tensor]:
    model = models(n=1, dtype=torch.float64)[0]
    model.load_state_dict(weights)
    loss = cross_entropy(model(tokens)[:, -1], targets)
    found = torch.autograd.grad(loss, list(model.parameters()))
    return dict(zip([name for name, _ in model.named_parameters()], found, strict=True))


def test_a_broken_model_breaks_no_other() -> None:
    broken, sound = models(), models()
    with torch.no_grad():
        broken[1].unembed.W_U.fill_(math.nan)
    tokens, targets = batches()
    with_it, without = trainer(broken), trainer(sound)
    assert with_it.finite().tolist() == [True, False, True]
    for step in range(3):
        with_it.update(tokens[step], targets[step], lr=1e-3)
        without.update(tokens[step], targets[step], lr=1e-3)
    with_it.copy_to_models()
    without.copy_to_models()
    assert with_it.finite().tolist() == [True, False, True]
    for k in (0, 2):
        for a, b in zip(
            with_it.models[k].parameters(), without.models[k].parameters(), strict=True
        ):
            assert torch.equal(a, b)


@pytest.mark.parametrize("n", [1, 3])
def test_it_goes_on_from_what_is_kept(n: int) -> None:
    tokens, targets = batches(n)
    whole = trainer(models(n=n), DECAYS[:n])
    first, second = (trainer(models(n=n), DECAYS[:n]) for _ in range(2))
    for step in range(6):
        whole.update(tokens[step], targets[step], lr=1e-3)
    for step in range(3):
        first.update(tokens[step], targets[step], lr=1e-3)
    second.load_state_dict({name: tensor.clone() for name, tensor in first.state_dict().items()})
    for step in range(3, 6):
        second.update(tokens[step], targets[step], lr=1e-3)
    for a, b in zip(whole.parameters, second.parameters, strict=True):
        assert torch.equal(a, b)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match="0 models and 0 weight decays"):
        trainer([], [])
    with pytest.raises(InputError, match="3 models and 1 weight decays"):
        trainer(models(), [0.1])
    other: list[nn.Module] = [*models(n=1), *models(n=1, d_mlp=7)]
    with pytest.raises(InputError, match="differ in shape"):
        trainer(other, [0.1, 0.1])


@pytest.mark.parametrize(
    "options",
    [
        {"accumulate": 2},
        {"patience": 1},
        {"precision": "bfloat16"},
        {"activation_checkpointing": True},
        {"batch_tokens": 50},
        {"decay_vectors": False},
    ],
)
def test_settings_for_one_model_are_refused(options: dict[str, Any]) -> None:
    ((name, value),) = options.items()
    with pytest.raises(OptionError, match=f"{name}={value!r}: expected .* as one program"):
        trainer(models(), config=replace(CONFIG, **options))


@pytest.mark.parametrize("n", [1, 2])
def test_smoothed_targets(n: int) -> None:
    """The loss is the smoothed one, written out."""
    tokens, targets = batches(n)
    made = models(n=n)
    objective = NextOfSequence(tokens[0], targets[0], (0,) * n, label_smoothing=0.3)
    losses = ParallelTrainer(made, DECAYS[:n], objective, CONFIG).update(
        tokens[0], targets[0], lr=0.0
    )
    for k, model in enumerate(models(n=n)):
        logs = model.last_logits(tokens[0, k]).log_softmax(-1)
        wanted = torch.full_like(logs, 0.3 / 23)
        wanted[range(8), targets[0, k]] += 0.7
        assert losses[k].item() == pytest.approx(-(wanted * logs).sum(-1).mean().item(), rel=1e-5)
