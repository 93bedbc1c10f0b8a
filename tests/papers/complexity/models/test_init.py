"""The init rate: empirical deviations against fan_in^-γ, and what shares no random numbers."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

from interp_compose.errors import OptionError
from interp_compose.papers.complexity.models.init import InitRates, init_weights
from interp_compose.papers.shared.models.decoder import DecoderConfig, SmallDecoder
from tests.untyped import outcomes_of

pytestmark = pytest.mark.tl3

CFG = DecoderConfig(d_vocab=83, n_ctx=61, n_layers=2, d_model=48, n_heads=3, d_head=23, d_mlp=97)
FAN_IN = {
    **{"W_E": 48, "W_pos": 48, "W_U": 48, "W_Q": 48, "W_K": 48, "W_V": 48, "W_in": 48},
    **{"W_O": 69, "W_out": 97},
}
"""Of CFG, by hand."""


def made(
    rates: float | InitRates, *, seed: int = 0, cfg: DecoderConfig = CFG, **options: Any
) -> dict[str, Tensor]:
    model = SmallDecoder(cfg)
    init_weights(model, rates, seed=seed, **options)
    return dict(model.named_parameters())


def matrices(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: w.detach() for name, w in weights.items() if name.rpartition(".")[2] in FAN_IN}


def check_deviations(weights: dict[str, Tensor], sigma: dict[str, float]) -> None:
    """Mean and deviation of each matrix within five standard errors."""
    for name, weight in matrices(weights).items():
        expected, n = sigma[name.rpartition(".")[2]], weight.numel()
        assert abs(float(weight.std()) / expected - 1) < 5 / math.sqrt(2 * n), name
        assert abs(float(weight.mean())) < 5 * expected / math.sqrt(n), name


@pytest.mark.parametrize("rate", [0.2, 0.5, 1.0])
def test_deviations_are_fan_in_to_the_minus_gamma(rate: float) -> None:
    weights = made(rate)
    assert len(matrices(weights)) == 3 + 2 * 6
    check_deviations(weights, {name: width**-rate for name, width in FAN_IN.items()})


def test_normal_is_normal() -> None:
    """Fourth moment 3 σ⁴ of a normal, 9/5 σ⁴ of a uniform distribution."""
    for distribution, kurtosis in (("normal", 3.0), ("uniform", 1.8)):
        weight = made(0.5, distribution=distribution)["unembed.W_U"].detach()
        found = float((weight**4).mean() / (weight**2).mean() ** 2)
        assert abs(found - kurtosis) < 5 * math.sqrt(24 / weight.numel())


@pytest.mark.parametrize("rate", [0.5, 0.8])
def test_uniform_lies_between_plus_and_minus_sigma(rate: float) -> None:
    weights = made(rate, distribution="uniform")
    sigma = {name: width**-rate for name, width in FAN_IN.items()}
    check_deviations(weights, {name: s / math.sqrt(3) for name, s in sigma.items()})
    for name, weight in matrices(weights).items():
        bound = sigma[name.rpartition(".")[2]]
        assert 0.95 * bound < float(weight.abs().max()) <= bound * (1 + 1e-6), name


def test_a_rate_for_each_group() -> None:
    rates = {"embed": 0.3, "qk": 0.9, "vo": 0.6, "mlp": 0.45}
    group = {
        **{"W_E": "embed", "W_pos": "embed", "W_U": "embed", "W_Q": "qk", "W_K": "qk"},
        **{"W_V": "vo", "W_O": "vo", "W_in": "mlp", "W_out": "mlp"},
    }
    sigma = {name: FAN_IN[name] ** -rates[group[name]] for name in FAN_IN}
    check_deviations(made(InitRates(**rates)), sigma)


@pytest.mark.parametrize("n_layers", [2, 5])
def test_the_authors_variant(n_layers: int) -> None:
    cfg = DecoderConfig(**{**vars(CFG), "n_layers": n_layers})
    weights = made(0.7, cfg=cfg, fan_in="d_model", scale_writers=True)
    sigma = dict.fromkeys(FAN_IN, 48**-0.7)
    for name in ("W_O", "W_out"):
        sigma[name] /= math.sqrt(2 * n_layers)
    check_deviations(weights, sigma)


def test_biases_are_zero_and_norms_are_one() -> None:
    rest = {name: w for name, w in made(0.5).items() if name not in matrices(made(0.5))}
    assert {name.rpartition(".")[2] for name in rest} == {
        *("w", "b", "b_Q", "b_K", "b_V", "b_O", "b_in", "b_out", "b_U")
    }
    for name, weight in rest.items():
        assert bool((weight == (1.0 if name.endswith(".w") else 0.0)).all()), name


def test_whatever_was_there_before_is_gone() -> None:
    model = SmallDecoder(CFG)
    with torch.no_grad():
        for weight in model.parameters():
            weight.fill_(torch.nan)
    init_weights(model, 0.5, seed=3)
    expected = made(0.5, seed=3)
    for name, weight in model.named_parameters():
        assert torch.equal(weight, expected[name]), name


# ---- which numbers are shared -------------------------------------------------------------


@settings(max_examples=15)
@given(st.floats(0.0, 1.5), st.floats(0.0, 1.5), st.integers(0, 10**12))
def test_gamma_only_rescales(one: float, two: float, seed: int) -> None:
    cfg = DecoderConfig(d_vocab=7, n_ctx=3, n_layers=1, d_model=6, d_mlp=5)
    fan_in = {"W_out": 5}
    first, second = matrices(made(one, seed=seed, cfg=cfg)), matrices(made(two, seed=seed, cfg=cfg))
    for name, weight in first.items():
        width = fan_in.get(name.rpartition(".")[2], 6)
        torch.testing.assert_close(weight, second[name] * width ** (two - one), rtol=1e-5, atol=0.0)


def test_no_two_matrices_or_seeds_share_numbers() -> None:
    """Not one number of any matrix appears in another, whatever its place."""
    square = DecoderConfig(d_vocab=6, n_ctx=6, n_layers=3, d_model=6, d_mlp=6)
    drawn = [
        set((weight * 6**0.5).flatten().tolist())
        for seed in (0, 1)
        for weight in matrices(made(0.5, seed=seed, cfg=square)).values()
    ]
    assert len(drawn) == 2 * (3 + 3 * 6)
    assert all(len(numbers) == 36 for numbers in drawn)
    assert not any(one & other for one, other in combinations(drawn, 2))


def test_equal_names_and_shapes_share_numbers() -> None:
    """Across norms, depths and biases, so that comparisons are paired."""
    shape: dict[str, Any] = {"d_vocab": 7, "n_ctx": 3, "d_model": 6, "d_mlp": 5}
    one = matrices(made(0.5, cfg=DecoderConfig(**shape, n_layers=2)))
    for other in (
        DecoderConfig(**shape, n_layers=2, norm="post"),
        DecoderConfig(**shape, n_layers=4, biases="unembed"),
    ):
        found = matrices(made(0.5, cfg=other))
        assert all(torch.equal(weight, found[name]) for name, weight in one.items())


def test_the_global_generator_is_left_alone() -> None:
    before = torch.get_rng_state()
    made(0.5)
    assert torch.equal(torch.get_rng_state(), before)


def test_golden_numbers() -> None:
    """The same on every machine and after every change: a sweep goes on where it stopped."""
    weight = made(0.5)["blocks.1.attn.W_Q"].detach()
    torch.testing.assert_close(weight[0, 0, :3], torch.tensor(GOLDEN), rtol=1e-6, atol=0.0)


GOLDEN = [-0.0329315253, 0.428202182, -0.142728493]

# ---- refusals -----------------------------------------------------------------------------


def test_rates_that_underflow_are_refused() -> None:
    model = SmallDecoder(CFG)  # 48^-7.1 is 10^-11.9, 48^-7.2 10^-12.1
    init_weights(model, InitRates(7.1, 7.1, 6.5, 6.0), seed=0)
    smallest = model.blocks[0].attn.W_Q.detach().abs()
    assert float(smallest[smallest > 0].min()) > torch.finfo(torch.float32).tiny
    for rates in (7.2, 1000.0, InitRates(0.5, 7.2, 0.5, 0.5)):
        with pytest.raises(OptionError, match=r"rate of .* a scale of 10\^-\d+, which underflows"):
            init_weights(model, rates, seed=0)
    with pytest.raises(OptionError, match=r"rate of -8 gives W_E a scale of 10\^13, which overfl"):
        init_weights(model, -8.0, seed=0)


def test_a_refused_rate_leaves_the_weights() -> None:
    model = SmallDecoder(CFG)
    init_weights(model, 0.5, seed=0)
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    with pytest.raises(OptionError, match="underflows"):
        init_weights(model, InitRates(0.5, 0.5, 0.5, 9.0), seed=1)
    assert all(torch.equal(weight, before[name]) for name, weight in model.named_parameters())


@pytest.mark.parametrize("rate", [math.nan, math.inf])
def test_rates_that_are_no_number(rate: float) -> None:
    with pytest.raises(OptionError, match="the init rate of embed is .*: expected a finite number"):
        init_weights(SmallDecoder(CFG), rate, seed=0)


def test_what_no_type_checker_saw() -> None:
    outcomes = outcomes_of(
        """
import numpy as np
from interp_compose.papers.shared.models.decoder import DecoderConfig, SmallDecoder
from interp_compose.papers.complexity.models.init import init_weights
model = SmallDecoder(DecoderConfig())
calls = {
    "whole": lambda: init_weights(model, 1, seed=0),
    "numpy": lambda: init_weights(model, np.float32(0.5), seed=0),
    "text": lambda: init_weights(model, "0.5", seed=0),
    "seed": lambda: init_weights(model, 0.5, seed=-1),
    "norm": lambda: DecoderConfig(norm="rms"),
}
"""
    )
    assert outcomes == {
        "whole": "accepted",
        "numpy": "accepted",
        "text": "OptionError: init_weights: rates='0.5' is a str; "
        "expected a number or an InitRates",
        "seed": "OptionError: seed=-1: expected a whole number of 0 or more",
        "norm": "OptionError: DecoderConfig: norm='rms'; expected one of 'pre', 'post', 'query'",
    }
