"""Runs that train a decoder from scratch at an init rate and a weight decay: their grid, their
checks, and what is measured inside the model (complexity control)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import product
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from interp_compose.errors import OptionError
from interp_compose.papers.complexity.grid.settings import AXES, KEY
from interp_compose.papers.complexity.models.init import InitRates, init_scales
from interp_compose.papers.shared.grid.grid import checked, numbers, seeds_of
from interp_compose.papers.shared.models.decoder import DecoderConfig, SmallDecoder
from interp_compose.probes.condensation import mean_abs_cosine
from interp_compose.probes.rank import stable_rank
from interp_compose.studies.core.options import GridOptions
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
        settings = _settings_of(self, DecoderConfig)
        return DecoderConfig(**settings | {"d_vocab": d_vocab, "n_ctx": n_ctx})

    def train_config(self, lengths: Sequence[int]) -> TrainConfig:
        """AdamW (β₂ = .999) on every parameter; ``lengths`` are the examples' tokens.

        Raises:
            OptionError: a number that cannot be.
        """
        counts = {name: getattr(self, name) for name in ("n_looks", "n_curve", "size")}
        for name, value in counts.items():
            if value < 1:
                raise OptionError(f"{name}={value!r}: expected 1 or more")
        config = TrainConfig(**_settings_of(self, TrainConfig))
        total = config.total_steps(len(lengths), lengths)
        return replace(config, evaluate_every=max(1, -(-total // counts["n_looks"])))

    def check_shape(self, shape: DecoderConfig) -> None:
        """Refuse a shape, or an init rate, that cannot be."""
        with torch.device("meta"):
            model = SmallDecoder(shape)
        if self.init_rate is not None:
            init_scales(model, InitRates(*[self.init_rate] * 4))


R = TypeVar("R", bound=DecoderRun)


def _settings_of(run: DecoderRun, kind: type) -> dict[str, Any]:
    names = {each.name for each in fields(kind)}
    return {name: value for name, value in asdict(run).items() if name in names}


def runs_of(
    kind: type[R],
    common: Mapping[str, Any],
    init_rates: Sequence[float] | None,
    weight_decays: Sequence[float],
    sizes: Sequence[int] | int,
    options: GridOptions,
) -> list[R]:
    """Every run of a grid, those of the first seed first; ``sizes`` as one number: it is the only
    one, and was not given. ``init_rates`` as None: the model is given.

    Raises:
        OptionError: an axis that is empty, repeats, or holds what cannot be.
    """
    decays = checked(weight_decays, "weight_decays")
    rates = [None] if init_rates is None else checked(init_rates, "init_rates")
    size_axis = [sizes] if isinstance(sizes, int) else [int(one) for one in checked(sizes, "sizes")]
    return [
        kind(**common, init_rate=rate, weight_decay=decay, size=size, seed=seed)
        for seed in seeds_of(options)
        for size, decay, rate in product(size_axis, decays, rates)
    ]


def config_of_runs(
    study: str, task: str, report: Mapping[str, Any], runs: Sequence[DecoderRun]
) -> dict[str, Any]:
    """What a result says of itself."""
    shape = {name: value for name, value in asdict(runs[0]).items() if name not in KEY}
    values = {
        axis: sorted({getattr(run, name) for run in runs} - {None}) for axis, name in AXES.items()
    }
    return {"study": study, "task": task, "data_report": dict(report), **shape, **values}


def sizes_of(text: str | None) -> list[int] | None:
    """The command line's ``--sizes``.

    Raises:
        OptionError: a number that is not whole.
    """
    values = [] if text is None else numbers(text, "sizes")
    for value in values:
        if not value.is_integer():
            raise OptionError(f"sizes holds {value:g}: expected whole numbers")
    return None if text is None else [int(value) for value in values]


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
