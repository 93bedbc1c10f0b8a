"""What can be asked of every grid of runs on anchor functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from interp_compose.papers.shared.models.shape import DecoderShape, Width


@dataclass(frozen=True, kw_only=True)
class RunSize(Width):
    """What every run has in common."""

    norm: Literal["pre", "post", "query"] = "pre"
    """LayerNorm as in GPT-2 (pre), as in the paper's single-head model (post), or before queries
    alone, as in its released code (query)."""
    samples: int = 5000
    """Training sequences."""
    steps: int = 1500
    """Optimiser steps, at most."""


@dataclass(frozen=True, kw_only=True)
class RunShape(RunSize, DecoderShape):
    """What every run has in common."""

    batch_size: int = 256
    """Sequences per step."""
    lr: float = 3e-3
    """Peak learning rate."""
    clip: float | None = 1.0
    """Norm to which gradients are clipped; None (on the command line inf) for not at all."""
