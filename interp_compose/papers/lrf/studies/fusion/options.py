"""What can be asked of encoder–decoders that `generalise` trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from interp_compose.studies.core.options import ApiOnly, Output, Part


@dataclass(frozen=True, kw_only=True)
class FusionOptions:
    """Which models are opened, and how much is measured."""

    models: ApiOnly[Sequence[str] | None] = None
    """Those to open, in this order; None: all that are finished."""
    seed: int | None = None
    """Seed of the models to open; by default the smallest that was run."""
    n_pairs: int = 500
    """Sequences of each split on which fuse-attention, cuts and pooling are measured."""
    n_probe: int = 1000
    """Sentences of the training split for probes: three of four train them, the others test
    them."""
    progress: ApiOnly[bool] = True
    """Show a bar."""


@dataclass(frozen=True, kw_only=True)
class FusionCommand:
    """Encoder–decoders that `interp-compose generalise` trained, from the inside: what
    fuse-attention reads and what is left without it, what probes read from each layer, how far
    embeddings can be read back, and CAP curves (LRF)."""

    runs: Path
    """The folder that was --out of `interp-compose generalise`."""
    models: str | None = None
    """Those to open, by commas; by default all that are finished."""
    study: Part[FusionOptions] = field(default_factory=FusionOptions)
    output: Part[Output] = field(default_factory=Output)
