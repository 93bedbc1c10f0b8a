"""The U-Net's initialisation, its loss and its sampler against slow references in float64."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from interp_compose.errors import MissingPackageError, OptionError
from interp_compose.papers.complexity.models.concept_unet import (
    ConceptUNet,
    check_unet,
    diffusers,
    generated,
    noise_schedule,
)
from interp_compose.papers.complexity.models.init import init_module, module_scales
from interp_compose.papers.complexity.training.images import Denoising


def unet(rate: float = 0.5, **how: object) -> ConceptUNet:
    model = ConceptUNet((4, 8)).eval()
    init_module(model, rate, seed=0, **how)  # type: ignore[arg-type]
    return model


def fan_in(weight: torch.Tensor) -> int:
    return math.prod(weight.shape[1:])


def test_weights_and_biases_are_uniform_within_fan_in_to_the_minus_gamma() -> None:
    layers = {
        path: part
        for path, part in unet(0.7).named_modules()
        if isinstance(part, nn.Conv2d | nn.Linear)
    }
    n_parameters = sum(w.numel() for part in layers.values() for w in part.parameters())
    others = [part for part in unet().modules() if list(part.parameters(recurse=False))]
    assert len(layers) < len(others)  # norms
    assert n_parameters > 5_000
    shares = []
    for part in layers.values():
        bound = fan_in(part.weight) ** -0.7
        for values in part.parameters():
            assert values.abs().max() <= bound
            shares += (values / bound).flatten().tolist()
    counts, _ = np.histogram(shares, bins=10, range=(-1, 1))
    assert np.abs(counts / len(shares) - 0.1).max() < 0.01


def test_gamma_of_a_half_has_pytorchs_default_bounds() -> None:
    """kaiming_uniform with a = √5 is uniform within 1 / √fan_in; so are default biases."""
    torch.manual_seed(0)
    layer = nn.Conv2d(7, 500, 3)
    assert layer.bias is not None
    assert float(layer.weight.detach().abs().max()) == pytest.approx(63**-0.5, rel=1e-3)
    assert float(layer.bias.detach().abs().max()) == pytest.approx(63**-0.5, rel=2e-2)
    assert module_scales(layer, 0.5) == {"": pytest.approx(63**-0.5)}


def test_norms_stay_and_rates_share_their_random_numbers() -> None:
    small, large = (unet(rate).state_dict() for rate in (0.7, 0.3))
    for name, weight in small.items():
        if "norm" in name:
            assert torch.equal(weight, torch.full_like(weight, float(name.endswith("weight"))))
        elif name.endswith("weight"):
            ratio = fan_in(weight) ** 0.4
            torch.testing.assert_close(large[name], weight * ratio, rtol=1e-5, atol=1e-8)
    normal = unet(0.5, distribution="normal").state_dict()
    name = max(normal, key=lambda each: normal[each].numel())
    deviation = fan_in(normal[name]) ** -0.5
    assert float(normal[name].std()) == pytest.approx(deviation, rel=0.05)
    assert normal[name].abs().max() > 2 * deviation


def test_rates_that_cannot_be_are_refused() -> None:
    for rate, message in ((math.nan, "nan: expected a finite"), (40.0, "underflows in training")):
        with pytest.raises(OptionError, match=message):
            unet(rate)
    with pytest.raises(OptionError, match="seed=-1"):
        init_module(nn.Linear(2, 2), 0.5, seed=-1)


def test_each_concept_variable_changes_the_noise_that_is_predicted() -> None:
    model, noisy = unet(0.3), torch.zeros(4, 3, 8, 8)
    bits = torch.tensor([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    found = model(noisy, torch.full((4,), 3), bits)
    assert found.shape == noisy.shape
    assert all(not torch.allclose(found[0], other) for other in found[1:])


@pytest.mark.parametrize("predicts", ["noise", "velocity"])
def test_the_loss_is_the_squared_error_of_noise_or_velocity(predicts: Any) -> None:
    """√ᾱ x + √(1 − ᾱ) ε with ᾱ the product of 1 − β, β linear, and √ᾱ ε − √(1 − ᾱ) x; in
    float64."""
    model = unet()
    images = torch.rand(3, 3, 8, 8) * 2 - 1
    bits = torch.tensor([[0, 0, 0], [1, 1, 1], [0, 1, 0]])
    objective = Denoising(images, bits, noise_schedule(50, predicts))
    assert objective.lengths == [1, 1, 1]
    batch = objective.collate(np.array([2, 0]))
    assert objective.sizes(batch) == (2,)
    loss, (recorded,) = objective.loss(model, batch, [0.5], 7)
    random = torch.Generator().manual_seed(7)
    noise = torch.randn(2, 3, 8, 8, generator=random)
    steps = torch.randint(50, (2,), generator=random)
    kept = np.cumprod(1 - np.linspace(1e-4, 0.02, 50))[steps.numpy()][:, None, None, None]
    clean = images[[2, 0]].double().numpy()
    noisy = np.sqrt(kept) * clean + np.sqrt(1 - kept) * noise.numpy()
    velocity = torch.from_numpy(np.sqrt(kept) * noise.numpy() - np.sqrt(1 - kept) * clean)
    target = {"noise": noise, "velocity": velocity}[predicts]
    predicted = model(torch.from_numpy(noisy).float(), steps, bits[[2, 0]]).detach().double()
    expected = 0.5 * float(((predicted - target) ** 2).mean())
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    assert recorded.item() == loss.item()


@pytest.mark.parametrize("predicts", ["noise", "velocity"])
def test_images_are_generated_as_ddim_says(predicts: Any) -> None:
    """Song et al. 2021, eq. 12 with σ = 0: x₀ from the predicted noise, within [-2, 2], and this
    noise again, of which the last step leaves none."""
    model, n, taken = unet(), 20, 4
    bits = torch.tensor([[0, 1, 0], [1, 0, 1]])
    found = generated(model, bits, 8, schedule=noise_schedule(n, predicts), n_steps=taken, seed=5)
    kept = np.cumprod(1 - np.linspace(1e-4, 0.02, n))
    x = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(5)).double().numpy()
    for t in range(n - 1, -1, -(n // taken)):
        with torch.no_grad():
            steps = torch.full((2,), t)
            noise = model(torch.from_numpy(x).float(), steps, bits).double().numpy()
        if predicts == "velocity":
            noise = np.sqrt(kept[t]) * noise + np.sqrt(1 - kept[t]) * x
        before = kept[t - n // taken] if t >= n // taken else 1.0
        clean = np.clip((x - np.sqrt(1 - kept[t]) * noise) / np.sqrt(kept[t]), -2, 2)
        x = np.sqrt(before) * clean + np.sqrt(1 - before) * noise
    np.testing.assert_allclose(found.numpy(), np.clip(1 - x / 2, 0, 1), atol=1e-4)


def test_without_diffusers_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "diffusers", None)
    with pytest.raises(MissingPackageError, match=r"interp-compose\[images\]"):
        diffusers()


def test_unets_that_cannot_be_are_refused() -> None:
    check_unet((4, 8, 8), 28)
    for channels, side, message in (
        ((), 28, "expected widths of 1 or more"),
        ((4, 0), 28, "expected widths"),
        ((4, 4, 4, 4), 28, "cannot be halved 3 times"),
    ):
        with pytest.raises(OptionError, match=message):
            check_unet(channels, side)
