"""One process, or several that ``accelerate launch`` or ``torchrun`` started side by side."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from interp_compose.checks import check_package


class Processes:
    """The processes of this run: who I am, sums over all of us, and waiting for each other.

    accelerate is called only where there are several (``WORLD_SIZE``), so that a single run leaves
    its process-wide state alone. ``device`` is this process' own then.

    Raises:
        MissingPackageError: there are several, and accelerate is not installed.
    """

    def __init__(self, device: torch.device) -> None:
        self.count, self.index, self.device = 1, 0, device
        if int(os.environ.get("WORLD_SIZE") or 1) > 1:
            check_package("accelerate", "processes")
            from accelerate import PartialState

            state = PartialState(cpu=device.type == "cpu")
            self.count, self.index = state.num_processes, state.process_index
            if device.type != "cpu":
                self.device = torch.device(state.device)
            self._state = state

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and shows the bar."""
        return self.index == 0

    def wait(self) -> None:
        """Return when all processes are here."""
        if self.count > 1:
            self._state.wait_for_everyone()

    def broadcast(self, value: Any) -> Any:
        """What the first process says, in JSON's types; what the others say is not heard.

        All wait for it, half an hour at most, which is accelerate's own limit.
        """
        if self.count == 1:
            return value
        # 1. The length, and 2. the bytes: the others add zeros, so that each sum is the first's.
        message = json.dumps(value).encode() if self.is_main else b""
        length = torch.tensor([len(message)], device=self.device)
        self.sum_([length])
        letters = torch.zeros(int(length), dtype=torch.uint8)
        letters[: len(message)] = torch.tensor(list(message), dtype=torch.uint8)
        letters = letters.to(self.device)
        self.sum_([letters])
        return json.loads(bytes(letters.tolist()))

    def sum_(self, tensors: Sequence[Tensor]) -> None:
        """Each tensor becomes its sum over all processes, in place, in one exchange."""
        if self.count == 1 or not tensors:
            return
        from accelerate.utils import reduce

        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])  # in the widest dtype
        total: Tensor = reduce(flat, reduction="sum")
        for tensor, part in zip(tensors, total.split([t.numel() for t in tensors]), strict=True):
            tensor.copy_(part.view_as(tensor))

    def sum_gradients_(self, weights: Sequence[Tensor], beside: Tensor) -> None:
        """Each weight's gradient becomes its sum over all processes, and ``beside`` as well.

        A process without a part of the batch has no gradients, and exchanges zeros. A weight that
        nobody has a gradient for keeps none, so that the optimiser leaves it alone.
        """
        if self.count == 1:
            return
        # How many processes have a gradient of each weight is summed with the gradients.
        present = torch.tensor([float(weight.grad is not None) for weight in weights])
        present = present.to(beside.device)
        gradients = [
            torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in weights
        ]
        self.sum_([*gradients, beside, present])
        for weight, gradient, owners in zip(weights, gradients, present.tolist(), strict=True):
            weight.grad = gradient if owners else None
