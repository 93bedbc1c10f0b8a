"""What calls on tensors share: positions among padding, and the state of torch they need."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from interp_compose.errors import OptionError


def positions_from_mask(mask: Int[Tensor, "batch pos"]) -> Int[Tensor, "batch pos"]:
    """Positions that count real tokens only, so that padding on either side changes nothing."""
    return (mask.cumsum(dim=1) - 1).clamp(min=0)


def check_autocast(device: torch.device, what: str) -> None:
    """Refuse to measure inside ``torch.autocast``, or with tensors made on the meta device.

    Raises:
        OptionError: either is on; ``what`` begins the message.
    """
    if torch.is_autocast_enabled(device.type):
        dtype = str(torch.get_autocast_dtype(device.type)).removeprefix("torch.")
        raise OptionError(
            f"{what} inside torch.autocast would be computed in {dtype}, whatever its dtype says. "
            "Leave that block first; for another precision load the model with dtype=…, or train "
            'with TrainConfig(precision="bfloat16").'
        )
    if torch.get_default_device().type == "meta":
        raise OptionError(f"{what} needs numbers, and torch's default device is meta; set another.")
