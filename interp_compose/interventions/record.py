"""The record of an intervention on activations, and the proof that it changed something."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Bool
from torch import Tensor

from interp_compose.errors import InterventionError
from interp_compose.interventions.call_positions import CallPositions
from interp_compose.models.block import Record
from interp_compose.models.lens_model import LensModel
from interp_compose.types import HookFn


class AblationRecord(Record):
    """What a block of :func:`.ablate.ablate` or :func:`.mask_residual.mask_residual` did so far.

    Attributes:
        calls: calls of the model, through its own surface. Calls of ``model.lens`` are edited as
            well, and not counted.
    """

    def __init__(self, name: str) -> None:
        self.calls = 0
        self._name = name
        self._n_changed: Tensor | int = 0

    def _counts(self) -> tuple[str, dict[str, object]]:
        return self._name, {"calls": self.calls, "vectors changed": self.n_changed}

    @property
    def n_changed(self) -> int:
        """Vectors (one per layer, example, position and, of heads or neurons, each of them) that
        changed."""
        return int(self._n_changed)

    def replaced(self, before: Tensor, after: Tensor, here: Bool[Tensor, "..."]) -> Tensor:
        """``after`` where ``here``, counted; ``here`` has a last axis of 1 to be broadcast."""
        out = torch.where(here, after.to(before.dtype), before)
        # Vectors are the last axis. The count stays a tensor, so that no hook waits for a GPU.
        changed = ((out != before) & here).any(dim=-1).sum()
        self._n_changed = changed + torch.as_tensor(self._n_changed).to(changed.device)
        return out

    @contextmanager
    def editing(
        self, model: LensModel, hooks: list[tuple[str, HookFn]], call_positions: CallPositions
    ) -> Iterator[None]:
        """The block: ``hooks`` at ``call_positions`` in every call of the model.

        Raises:
            InterventionError: on leaving, positions were chosen and no number changed.
        """

        @contextmanager
        def prepare(tokens: Tensor, mask: Tensor) -> Iterator[None]:
            self.calls += 1
            with call_positions.of_call(tokens, mask):
                yield

        with call_positions.counting(), model.hooks(hooks):
            # Those just added: the record's name is active as long as all of them are in place.
            installed = model.open_blocks.installed[-len(hooks) :]
            with model.open_blocks.preparing(prepare, self._name, installed):
                yield
        if call_positions.chosen and self.n_changed == 0:
            raise InterventionError(
                f"{self._name} changed nothing: at every position chosen the activation already "
                "equals its replacement (a dead neuron, or a head that adds nothing)."
            )
