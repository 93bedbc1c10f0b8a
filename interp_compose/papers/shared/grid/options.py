"""Options that several studies that train have in common."""

from __future__ import annotations

from dataclasses import dataclass

from interp_compose.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Looks(Settings):
    """How often a model is measured while it is trained."""

    n_looks: int = 12
    """Points of the learning curve, and one before training."""
    n_curve: int = 500
    """Examples of each split that the curve is measured on; at the end all are."""


@dataclass(frozen=True, kw_only=True)
class TokenBatches(Settings):
    """Batches of about as many tokens."""

    batch_tokens: int = 2048
    """Tokens per step at most, padding included; examples of about one length share a batch."""
