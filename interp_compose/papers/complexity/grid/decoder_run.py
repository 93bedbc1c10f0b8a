"""A run that trains a decoder from scratch at an init rate and a weight decay: its checks, and what
is measured inside the model (complexity control)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from interp_compose.errors import OptionError
from interp_compose.papers.complexity.models.init import InitRates, init_scales
from interp_compose.papers.shared.grid.options import looking
from interp_compose.papers.shared.models.decoder import DecoderConfig, SmallDecoder
from interp_compose.probes.condensation import mean_abs_cosine
from interp_compose.probes.rank import stable_rank
from interp_compose.settings import settings_of
from interp_compose.training.config import TrainConfig


@dataclass(frozen=True, kw_only=True)
class DecoderRun:
    """What decides a run beside what all have in common: options of shape and training, with
    ``n_looks`` and ``n_curve`` among them, are fields of the class that this one is joined to."""

    data: str
    """Digest of the data, kept beside the runs."""
    init_rate: float | None
    """γ: every matrix starts with the deviation fan_in^-γ. None where the model is given."""
    weight_decay: float
    """Decoupled, on every parameter."""
    size: int
    """How many training sequences, or tokens of text, the first in a random order that is always
    the same."""
    seed: int = 0
    """Of initialisation and order."""

    def shape(self, *, d_vocab: int, n_ctx: int) -> DecoderConfig:
        """The model's shape."""
        given = settings_of(DecoderConfig, asdict(self))
        return DecoderConfig(**given | {"d_vocab": d_vocab, "n_ctx": n_ctx})

    def train_config(self, lengths: Sequence[int]) -> TrainConfig:
        """AdamW (β₂ = .999) on every parameter; ``lengths`` are the examples' tokens.

        Raises:
            OptionError: a number that cannot be.
        """
        looks = {name: getattr(self, name) for name in ("n_looks", "n_curve", "size")}
        for name, value in looks.items():
            if value < 1:
                raise OptionError(f"{name}={value!r}: expected 1 or more")
        config = TrainConfig(**settings_of(TrainConfig, asdict(self)))
        total = config.total_steps(len(lengths), lengths)
        return looking(config, total, looks["n_looks"])

    def check_shape(self, shape: DecoderConfig) -> None:
        """Refuse a shape, or an init rate, that cannot be."""
        with torch.device("meta"):
            model = SmallDecoder(shape)
        if self.init_rate is not None:
            init_scales(model, InitRates(*[self.init_rate] * 4))


@torch.no_grad()
def inside(model: SmallDecoder) -> dict[str, float | None]:
    """Stable rank and condensation of the first layer's W_Q, heads merged, as on anchor functions
    (complexity control, section VI)."""
    return complexity_of(model.W_Q[0].detach().mT.flatten(0, 1).cpu())


def complexity_of(neurons: Float[Tensor, "neuron d_in"]) -> dict[str, float | None]:
    """Stable rank and condensation of neurons' input weights. A single neuron has no
    condensation."""
    cosine = mean_abs_cosine(neurons)
    return {
        "stable_rank": float(stable_rank(neurons)),
        "mean_abs_cosine": None if math.isnan(cosine) else cosine,
    }
