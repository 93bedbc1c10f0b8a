"""Initialisation of an encoder, BERT's."""

from __future__ import annotations

import math
from typing import Final

import torch

from interp_compose.errors import OptionError
from interp_compose.papers.cat.models.bert import SmallEncoder
from interp_compose.papers.shared.models.random_weights import drawn

BERT_SCALE: Final = 0.02 * math.sqrt(768)
"""BERT's standard deviation is 0.02 at a width of 768; here it is this over √d_model."""


@torch.no_grad()
def init_bert(model: SmallEncoder, *, seed: int) -> None:
    """Draw every matrix, table and codebook as BERT does: normal, of the deviation 0.02 at its
    width of 768 (Devlin et al. 2019), at others times √(768 / d_model).

    Biases become 0, LayerNorm's weights 1. Random numbers depend on the seed, the parameter's name
    and its shape alone, so that models with and without composition begin with equal weights where
    they have the same.

    Raises:
        OptionError: a seed below 0.
    """
    if seed < 0:
        raise OptionError(f"seed={seed!r}: expected a whole number of 0 or more")
    scale = BERT_SCALE / math.sqrt(model.cfg.d_model)  # 0.02 at a width of 768
    for name, weight in model.named_parameters():
        kind = name.rpartition(".")[2]
        if kind in ("W", "codebook") or kind.startswith("W_"):
            weight.copy_(drawn(name, weight, seed, "normal") * scale)
        else:
            weight.fill_(1.0 if kind == "w" else 0.0)
