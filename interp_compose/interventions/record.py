"""The record of an intervention on activations, and the proof that it changed something."""

from __future__ import annotations

import torch
from jaxtyping import Bool
from torch import Tensor

from interp_compose.errors import InterventionError
from interp_compose.interventions.call_positions import CallPositions


class AblationRecord:
    """What a block of :func:`.ablate.ablate` or :func:`.mask_residual.mask_residual` did so far.

    Attributes:
        calls: calls of the model, through its own surface. Calls of ``model.lens`` are edited as
            well, and not counted.
    """

    def __init__(self, name: str) -> None:
        self.calls = 0
        self._name = name
        self._n_changed: Tensor | int = 0

    @property
    def n_changed(self) -> int:
        """Vectors (one per layer, example, position and, of heads, head) that changed."""
        return int(self._n_changed)

    def replaced(self, before: Tensor, after: Tensor, here: Bool[Tensor, "..."]) -> Tensor:
        """``after`` where ``here``, counted; ``here`` has a last axis of 1 to be broadcast."""
        out = torch.where(here, after.to(before.dtype), before)
        self._n_changed = self._n_changed + ((out != before) & here).any(dim=-1).sum()
        return out

    def check(self, call_positions: CallPositions) -> None:
        """Refuse, at the end of the block, an edit of chosen positions that changed no number.

        Raises:
            InterventionError: there is no change.
        """
        if call_positions.chosen and self.n_changed == 0:
            raise InterventionError(
                f"{self._name} changed nothing: at every position chosen the activation already "
                "equals its replacement (a dead neuron, or a head that adds nothing)."
            )
