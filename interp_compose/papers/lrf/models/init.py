"""Initialisation of an encoder–decoder, that of Glorot and Bengio (2010)."""

from __future__ import annotations

import math

import torch

from interp_compose.errors import OptionError
from interp_compose.papers.lrf.models.seq2seq import SmallSeq2Seq
from interp_compose.papers.shared.models.random_weights import drawn


@torch.no_grad()
def init_xavier(model: SmallSeq2Seq, *, seed: int) -> None:
    """Draw every matrix as Vaswani et al. (2017) had it: uniform with the variance of 2 / (fan-in +
    fan-out) (Glorot and Bengio 2010), embeddings and learned positions N(0, 1 / d_model).

    Biases become 0, LayerNorm's weights 1. Random numbers depend on the seed, the parameter's name
    and its shape alone, so that models with and without fuse-attention begin with equal weights
    where they have the same.

    Raises:
        OptionError: a seed below 0.
    """
    if seed < 0:
        raise OptionError(f"seed={seed!r}: expected a whole number of 0 or more")
    d_model = model.cfg.d_model
    for name, weight in model.named_parameters():
        kind = name.rpartition(".")[2]
        if kind in ("W_E", "W_pos"):
            # variance 1 / d_model
            weight.copy_(drawn(name, weight, seed, "normal") * d_model**-0.5)
        elif kind.startswith("W_"):
            read, written = (d_model, d_model) if weight.ndim == 3 else weight.shape  # all heads
            bound = math.sqrt(6 / (read + written))  # a variance of bound² / 3
            weight.copy_(drawn(name, weight, seed, "uniform") * bound)
        else:
            weight.fill_(1.0 if kind == "w" else 0.0)
