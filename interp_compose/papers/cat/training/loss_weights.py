"""What each of CAT's losses counts: options of a training. Nothing heavy is imported."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from interp_compose.settings import LATER, Settings

Nuance = Literal["difference", "as-printed"]


@dataclass(frozen=True, kw_only=True)
class LossWeights(Settings):
    """What each of CAT's losses counts in the sum; the paper's are all 1, but for the one that it
    does not have."""

    masked: float = 1.0
    """Weight of masked words, read from the contextual vectors (BERT's first task)."""
    next: float = 1.0
    """Weight of whether the second part follows (its second task)."""
    guided: float = 1.0
    """Weight of the attention to wrong sememes (CAT, eq. 4, first term)."""
    guided_positive: float = field(default=0.0, metadata=LATER)
    """Weight of a term for right sememes that eq. 4 lacks, which is smallest without any code: the
    cross-entropy of a word's sememes and the softmax of its cosines with codes. Not the paper's; 0
    leaves it out."""
    sparsity: float = 1.0
    """Weight of the L1 norm of the attention to codes (eq. 4, second term)."""
    reconstruction: float = 1.0
    """Weight of the distance of composed and contextual vectors (eq. 5)."""
    sufficiency: float = 1.0
    """Weight of BERT's tasks from each representation (eq. 6)."""
    nuance: float = 1.0
    """Weight of what the difference of both still tells (eq. 7)."""
    beta: float = 0.1
    """Weight, within eq. 5, of the part that moves the contextual vectors."""
    nuance_reads: Nuance = "difference"
    """What the tasks in the nuance read: the difference (eq. 7), or the contextual and the composed
    vectors themselves, as eq. 10 is printed."""
