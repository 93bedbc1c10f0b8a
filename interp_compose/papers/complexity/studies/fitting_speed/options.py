"""What can be asked of a study of fitting speed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from interp_compose.papers.complexity.studies.anchors.options import RunSize
from interp_compose.studies.core.options import GridOptions, Output, Part


@dataclass(frozen=True, kw_only=True)
class SpeedOptions(GridOptions):
    """Which models are trained, where, and how often they are evaluated."""

    evaluate_every: int | None = None
    """Steps between two evaluations on all training sequences; by default one epoch."""


@dataclass(frozen=True, kw_only=True)
class SpeedCommand:
    """Reasoning complexity and training speed (complexity control, section VIII): how many epochs
    small transformers need to fit composed anchor functions of which some pairs break the rule, and
    whether late samples are those. A run of the default takes about a minute of a core."""

    gammas: str = "0.4,0.8"
    """Init rates: a list by commas, or from:to:step."""
    depths: str = "2,3,4"
    """Numbers of layers."""
    violations: str = "0,1,3,5"
    """How many of the 6 groups of anchor pairs get a wrong target: the reasoning complexity."""
    weight_decay: float = 0.01
    """Weight decay of every run."""
    paper: Literal["fig8"] | None = None
    """Take the paper's setting and grid as the defaults of all other options, as far as they are
    known; what differs is listed in docs/phases.md. All runs together take, by estimate and at 25
    TFLOP/s, 6 hours of a GPU, or less, since a run ends once it is fitted."""
    grid: Part[SpeedOptions] = field(default_factory=SpeedOptions)
    run: Part[RunSize] = field(default_factory=RunSize)
    output: Part[Output] = field(default_factory=Output)

    def preset(self) -> str | None:
        """The file of the paper's setting that is named."""
        return None if self.paper is None else f"speed_{self.paper}"
