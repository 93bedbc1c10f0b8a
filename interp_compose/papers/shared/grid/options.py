"""Options that several studies that train have in common."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from interp_compose.settings import Settings

if TYPE_CHECKING:
    from interp_compose.training.config import TrainConfig


@dataclass(frozen=True, kw_only=True)
class Looks(Settings):
    """How often a model is measured while it is trained."""

    n_looks: int = 12
    """Points of the learning curve, and one before training."""
    n_curve: int = 500
    """Examples of each split that the curve is measured on; at the end all are."""


def looking(config: TrainConfig, total: int, n_looks: int) -> TrainConfig:
    """``config``, by which so many steps in all are looked at ``n_looks`` times."""
    return replace(config, evaluate_every=max(1, -(-total // n_looks)))


@dataclass(frozen=True, kw_only=True)
class TokenBatches(Settings):
    """Batches of about as many tokens."""

    batch_tokens: int = 2048
    """Tokens per step at most, padding included; examples of about one length share a batch."""
