"""What can be asked of a layer-wise CAP curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from interp_compose.studies.core.options import AnswerOptions, Layers, Pooling, TaskCommand


@dataclass(frozen=True, kw_only=True)
class CapOptions(AnswerOptions):
    """What is measured, and how."""

    batch_size: int | Literal["auto"] | None = None  # type: ignore[assignment]  # wider here
    """Examples per batch; by default what fits a fixed memory budget. "auto": the power of two, up
    to 512, that is expected to fit into what memory is free; the result's config has the number."""
    layers: Layers = None
    """Where to pool: layers (0 3 11), or depths as floats from 0.0 to 1.0; all by default."""
    pooling: Pooling = ("mean", "max", "sum")
    """How the tokens of a unit become one vector; in Python, functions of your own as well."""
    mode: Literal["collapse", "broadcast"] = "collapse"
    """Collapse: the sequence becomes its units. Broadcast: its length is kept, and every token of a
    unit gets the pooled vector."""
    controls: bool = True
    """Also "last" and "first" (keep that token of each unit, drop the others: deletion without
    pooling), "straddling" (mean over the same spans one token off, across the units' edges) and
    "shuffled" (mean over spans of the same sizes at random places: pooling without words)."""
    renumber: bool = False
    """After a collapse, rotary positions 0, 1, 2, … instead of each unit's last token's."""


@dataclass(frozen=True, kw_only=True)
class CapCommand(TaskCommand[CapOptions]):
    """Layer-wise CAP curve of one model on one task: pool token activations into words or
    constituents at each layer, let the model run on, and see what accuracy is left."""
