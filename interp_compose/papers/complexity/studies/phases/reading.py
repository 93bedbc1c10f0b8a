"""What a phase diagram says, in a sentence: in how many cells decoders answer unseen pairs, and in
how many of them every seed does.

A cell's phase is by thresholds of its means, so that no test is made: what seeds say by themselves
is counted.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from interp_compose.papers.complexity.studies.anchors.phase import REASONS
from interp_compose.studies.core.text import counted, over_seeds

ASKED = f"unseen pairs (phase 3: an accuracy above {REASONS:g})"


def answers(cells: pd.DataFrame) -> list[str]:
    """The sentence that answers what the diagram asks.

    Args:
        cells: as :func:`.phase.cells_of` has them.
    """
    sound = cells[cells["ood"].notna()]
    if sound.empty:
        return [f"Whether decoders answer {ASKED} is not known: every run has diverged."]
    n_cells = f"of {counted(len(sound), 'cells')}"
    left = len(cells) - len(sound)
    n_cells += f" ({left} more have diverged)" if left else ""
    (best,) = sound.nlargest(1, "ood").to_dict("records")
    place = f"γ {best['init_rate']:g} and weight decay {best['weight_decay']:g}"
    top = f"the best accuracy is {_accuracy(best)}, at {place}"
    reasons = sound[sound["phase"] == "3"]
    several = bool((sound["n"] - sound["diverged"] > 1).any())
    seeds = "No test is made: a phase is that of the mean over seeds."
    if not several:
        seeds = "One seed: by how much another would differ is not known."
    count = str(len(reasons) or "none")
    if several and len(reasons):
        alone = int((reasons["doubt"] == "").sum())
        n_cells += f", {alone or 'none'} of them in every seed by itself"
    return [f"Decoders answer {ASKED} in {count} {n_cells}; {top}. {seeds}"]


def _accuracy(cell: dict[Any, Any]) -> str:
    """The mean over the seeds that did not diverge, and the ends."""
    ends = {"mean": cell["ood"], "smallest": cell["ood_low"], "largest": cell["ood_high"]}
    return over_seeds({**ends, "n_seeds": cell["n"] - cell["diverged"]})
