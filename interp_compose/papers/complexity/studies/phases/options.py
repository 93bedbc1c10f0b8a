"""What can be asked of a phase diagram."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from interp_compose.papers.complexity.studies.anchors.options import RunShape
from interp_compose.studies.core.options import GridOptions, Output, Part


@dataclass(frozen=True, kw_only=True)
class PhasesCommand:
    """Memorising or reasoning (complexity control): small transformers on composed anchor
    functions, over a grid of init rates and weight decays. A run of the default takes about 40 s
    of a core. With --task it is another command, with its own help: task-phases (--task
    scan-turn-left, cogs, addition, prontoqa), text-phases (text) or concept-graphs."""

    gammas: str = "0.3:1.0:0.1"
    """Init rates: from:to:step, or a list by commas."""
    weight_decays: str = "0,0.01,0.1,1"
    """The same of weight decays."""
    paper: Literal["fig3", "fig3-code", "fig4"] | None = None
    """Take the paper's setting and grid as the defaults of all other options, as far as they are
    known; what differs is listed in docs/phases.md. All runs together take, by estimate and at 25
    TFLOP/s: fig3 16 days of a GPU, fig3-code 14 days, fig4 2 hours."""
    grid: Part[GridOptions] = field(default_factory=GridOptions)
    run: Part[RunShape] = field(default_factory=RunShape)
    output: Part[Output] = field(default_factory=Output)

    def preset(self) -> str | None:
        """The file of the paper's setting that is named."""
        return None if self.paper is None else f"phases_{self.paper}"
