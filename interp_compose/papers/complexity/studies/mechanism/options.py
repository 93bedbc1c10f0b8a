"""What can be asked of the models that a phase diagram trained."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from interp_compose.studies.core.options import ApiOnly, Output, Part


@dataclass(frozen=True, kw_only=True)
class MechanismOptions:
    """Which models are opened, and how."""

    weight_decay: float = 0.01
    """Weight decay of the models to open."""
    seed: int | None = None
    """Seed of the models to open; by default the smallest that was run."""
    draw: int = 0
    """Seed of the sequences on which they are measured, and of t-SNE."""
    progress: ApiOnly[bool] = True
    """Show a bar."""


@dataclass(frozen=True, kw_only=True)
class MechanismCommand:
    """Figures 4, 5 and 10 of complexity control, from models that `interp-compose phases` trained:
    outputs with a token knocked out, neurons, embeddings, and what came first in training."""

    runs: Path
    """The folder that was --out of `interp-compose phases`."""
    gammas: str = "0.4,0.5,0.8"
    """Init rates of the models to open: a list by commas, or from:to:step."""
    study: Part[MechanismOptions] = field(default_factory=MechanismOptions)
    output: Part[Output] = field(default_factory=Output)
