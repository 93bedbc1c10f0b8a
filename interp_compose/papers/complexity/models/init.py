"""Initialisation at a rate γ, a standard deviation of fan_in^-γ (complexity control, III-E)."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Final, Literal

import torch
from torch import nn

from interp_compose._public import public
from interp_compose.errors import OptionError
from interp_compose.papers.shared.models.decoder import SmallDecoder
from interp_compose.papers.shared.models.random_weights import Distribution, drawn

FanIn = Literal["own", "d_model"]
MIN_SCALE: Final = 1e-12
"""The product of three weights of this scale, as in a gradient through W_Q, is a normal float32."""


@public
@dataclass(frozen=True)
class InitRates:
    """An init rate γ for each group of matrices. A larger one is a smaller initialisation.

    Attributes:
        embed: of W_E, W_pos and W_U.
        qk: of W_Q and W_K.
        vo: of W_V and W_O.
        mlp: of W_in and W_out.

    Raises:
        OptionError: a rate that is not a finite number.
    """

    embed: float
    qk: float
    vo: float
    mlp: float

    def __post_init__(self) -> None:
        for field in fields(self):
            rate: float = getattr(self, field.name)
            if not math.isfinite(rate):
                raise OptionError(
                    f"the init rate of {field.name} is {rate!r}: expected a finite number; the "
                    "paper's are between 0.2 and 1."
                )


GROUPS: Final = {
    **dict.fromkeys(("W_E", "W_pos", "W_U"), "embed"),
    **dict.fromkeys(("W_Q", "W_K"), "qk"),
    **dict.fromkeys(("W_V", "W_O"), "vo"),
    **dict.fromkeys(("W_in", "W_out"), "mlp"),
}
WRITERS: Final = ("W_O", "W_out")
"""Matrices that write into the residual stream."""


@public
@torch.no_grad()
def init_weights(
    model: SmallDecoder,
    rates: float | InitRates,
    *,
    seed: int,
    distribution: Distribution = "normal",
    fan_in: FanIn = "own",
    scale_writers: bool = False,
) -> None:
    """Draw every matrix: N(0, σ²) with σ = fan_in^-γ, or uniform between -σ and σ.

    The fan-in is the width a matrix reads: ``d_model``, of W_O ``n_heads · d_head``, of W_out
    ``d_mlp``; embeddings and positions count as reading ``d_model``. Biases become 0, LayerNorm's
    weights 1. Random numbers depend on the seed, the parameter's name and its shape alone: models
    that differ in γ begin as multiples of each other, matrix by matrix, and those that differ in
    the place of the norm begin with equal weights.

    Args:
        model: changed in place.
        rates: γ of all groups, or of each.
        seed: 0 or more.
        distribution: ``"uniform"`` is that of the paper's Fig. 6; its deviation is σ / √3.
        fan_in: ``"d_model"`` for every matrix, as in the authors' code.
        scale_writers: divide W_O and W_out by √(2 · n_layers), as in the authors' code.

    Raises:
        OptionError: an unknown word, a seed below 0; a γ that is not finite, or at which weights
            underflow (or overflow).
    """
    rates = rates if isinstance(rates, InitRates) else InitRates(rates, rates, rates, rates)
    if seed < 0:
        raise OptionError(f"seed={seed!r}: expected a whole number of 0 or more")
    scales = init_scales(model, rates, fan_in=fan_in, scale_writers=scale_writers)
    for name, weight in model.named_parameters():
        kind = name.rpartition(".")[2]
        if kind in scales:
            weight.copy_(drawn(name, weight, seed, distribution) * scales[kind])  # σ = fan_in^-γ
        else:
            weight.fill_(1.0 if kind == "w" else 0.0)


def init_scales(
    model: SmallDecoder,
    rates: InitRates,
    *,
    fan_in: FanIn = "own",
    scale_writers: bool = False,
) -> dict[str, float]:
    """σ of each kind of matrix, by its name.

    Raises:
        OptionError: one outside 1e-12 … 1e12.
    """
    cfg = model.cfg
    widths = dict.fromkeys(GROUPS, cfg.d_model)
    if fan_in == "own":
        widths |= {"W_O": cfg.n_heads * cfg.head_width, "W_out": cfg.d_mlp}
    scales = {}
    for name, group in GROUPS.items():
        depth = math.sqrt(2 * cfg.n_layers) if scale_writers and name in WRITERS else 1.0
        scales[name] = _scale_of(name, float(getattr(rates, group)), widths[name]) / depth
    return scales


@torch.no_grad()
def init_module(
    module: nn.Module, rate: float, *, seed: int, distribution: Distribution = "uniform"
) -> None:
    """Draw every weight and bias of a module's convolutions and linear layers at a rate γ: uniform
    between -fan_in^-γ and fan_in^-γ (complexity control, Fig. 6), or of that deviation.

    A layer's bias has its weight's fan-in, as in the authors' code and as PyTorch's default, which
    is γ = 0.5. Weights of norms become 1, their biases 0. Random numbers depend on the seed, the
    parameter's name and its shape alone.

    Raises:
        OptionError: a seed below 0; a γ at which weights underflow or overflow, or that is not
            finite.
    """
    if seed < 0:
        raise OptionError(f"seed={seed!r}: expected a whole number of 0 or more")
    scales = module_scales(module, rate)
    for name, values in module.named_parameters():
        path, _, kind = name.rpartition(".")
        if path in scales:
            values.copy_(drawn(name, values, seed, distribution) * scales[path])
        else:
            values.fill_(1.0 if kind == "weight" else 0.0)


def module_scales(module: nn.Module, rate: float) -> dict[str, float]:
    """fan_in^-γ of each convolution and linear layer, by its path.

    Raises:
        OptionError: one outside 1e-12 … 1e12; a γ that is not finite.
    """
    return {
        # fan-in: of a convolution, channels · y · x
        path: _scale_of(path, rate, part.weight[0].numel())
        for path, part in module.named_modules()
        if isinstance(part, nn.Conv2d | nn.Linear)
    }


def _scale_of(name: str, rate: float, fan_in: int) -> float:
    """fan_in^-γ, if training can start from it."""
    if not math.isfinite(rate):
        raise OptionError(f"an init rate of {rate!r}: expected a finite number")
    power = -rate * math.log10(fan_in)  # rates of 1000 underflow float64 as well
    if abs(power) > -math.log10(MIN_SCALE):
        raise OptionError(
            f"an init rate of {rate:g} gives {name} a scale of 10^{power:.0f}, which "
            f"{'under' if power < 0 else 'over'}flows in training; the paper's rates are "
            "between 0.2 and 1."
        )
    return float(fan_in**-rate)
