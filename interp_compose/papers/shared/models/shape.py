"""The sizes of a decoder that do not come from its data."""

from __future__ import annotations

from dataclasses import dataclass

from interp_compose.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Width(Settings):
    """How wide a decoder is."""

    d_model: int = 64
    """Width of the residual stream."""


@dataclass(frozen=True, kw_only=True)
class DecoderShape(Width):
    """The sizes of a decoder that do not come from its data."""

    n_layers: int = 2
    """Number of blocks."""
    n_heads: int = 1
    """Attention heads of a block."""
    d_mlp: int = 128
    """Neurons of a block."""
