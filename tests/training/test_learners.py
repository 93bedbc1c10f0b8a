"""Many models trained as one program, against each trained alone and against AdamW written out."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from interp_compose.errors import InputError
from interp_compose.models.decoder import DecoderConfig, Norm, SmallDecoder
from interp_compose.models.init import init_weights
from interp_compose.training.config import TrainConfig
from interp_compose.training.parallel import Learners

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


@pytest.mark.parametrize("norm", ["pre", "post", "query"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_side_by_side_as_alone(norm: Norm, dtype: torch.dtype) -> None:
    """Over fifty steps in float32, over ten, and much nearer, in float64."""
    together = Learners(models(norm, dtype=dtype), DECAYS, CONFIG)
    single = models(norm, dtype=dtype)
    alone = [Learners([m], [d], CONFIG) for m, d in zip(single, DECAYS, strict=True)]
    tokens, targets = batches()
    near = 1e-10 if dtype == torch.float64 else 2e-4
    for step in range(10 if dtype == torch.float64 else STEPS):
        lr = CONFIG.lr_at(step, STEPS)
        losses = together.step(tokens[step], targets[step], lr)
        for k, one in enumerate(alone):
            own = one.step(tokens[step, k : k + 1], targets[step, k : k + 1], lr)
            torch.testing.assert_close(losses[k : k + 1], own, rtol=near, atol=near)
    together.write_back()
    for stacked, one in zip(together.models, alone, strict=True):
        ours = dict(one.models[0].named_parameters())
        for name, weight in stacked.named_parameters():
            if name.endswith("b_K") and dtype == torch.float32:
                continue  # it moves no softmax: its gradient is rounding, which Adam makes steps of
            torch.testing.assert_close(weight, ours[name], rtol=10 * near, atol=near)
    said = together.predict(tokens[0])
    for k, one in enumerate(alone):
        assert torch.equal(said[k : k + 1], one.predict(tokens[0, k : k + 1]))


@pytest.mark.parametrize("clip", [CONFIG.clip, None])
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_step_is_clipped_decoupled_adamw(n: int, clip: float | None, dtype: torch.dtype) -> None:
    """Loshchilov and Hutter 2019, algorithm 2, in float64; the gradient by autograd."""
    learners = Learners(models(n=n, dtype=dtype), DECAYS[:n], replace(CONFIG, clip=clip))
    slow = [{name: w.detach().double() for name, w in m.named_parameters()} for m in models(n=n)]
    moments = [
        {name: (torch.zeros_like(w), torch.zeros_like(w)) for name, w in m.items()} for m in slow
    ]
    tokens, targets = batches(n)
    for step in range(4):
        learners.step(tokens[step], targets[step], 1e-2)
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
    learners.write_back()
    # Of a gradient that is zero but for rounding, Adam makes steps as long as any: float32 is held
    # to its matrices, float64 to every weight.
    for k, model in enumerate(learners.models):
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
    with_it, without = Learners(broken, DECAYS, CONFIG), Learners(sound, DECAYS, CONFIG)
    assert with_it.finite().tolist() == [True, False, True]
    for step in range(3):
        with_it.step(tokens[step], targets[step], 1e-3)
        without.step(tokens[step], targets[step], 1e-3)
    with_it.write_back()
    without.write_back()
    assert with_it.finite().tolist() == [True, False, True]
    for k in (0, 2):
        for a, b in zip(
            with_it.models[k].parameters(), without.models[k].parameters(), strict=True
        ):
            assert torch.equal(a, b)


@pytest.mark.parametrize("n", [1, 3])
def test_it_goes_on_from_what_is_kept(n: int) -> None:
    tokens, targets = batches(n)
    whole = Learners(models(n=n), DECAYS[:n], CONFIG)
    first, second = (Learners(models(n=n), DECAYS[:n], CONFIG) for _ in range(2))
    for step in range(6):
        whole.step(tokens[step], targets[step], 1e-3)
    for step in range(3):
        first.step(tokens[step], targets[step], 1e-3)
    second.restore({name: tensor.clone() for name, tensor in first.kept().items()})
    for step in range(3, 6):
        second.step(tokens[step], targets[step], 1e-3)
    for a, b in zip(whole.parameters, second.parameters, strict=True):
        assert torch.equal(a, b)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match="0 models and 0 weight decays"):
        Learners([], [], CONFIG)
    with pytest.raises(InputError, match="3 models and 1 weight decays"):
        Learners(models(), [0.1], CONFIG)
    other: list[nn.Module] = [*models(n=1), *models(n=1, d_mlp=7)]
    with pytest.raises(InputError, match="differ in shape"):
        Learners(other, [0.1, 0.1], CONFIG)
