"""Weights by the names that the field gives them."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from interp_compose.errors import CapabilityError, OptionError

WEIGHT_NAMES = (
    *("W_E", "W_pos", "W_U", "b_U"),
    *("W_Q", "b_Q", "W_K", "b_K", "W_V", "b_V", "W_O", "b_O"),
    *("W_in", "b_in", "W_gate", "W_out", "b_out"),
)


def stacked_weight(lens: Any, name: str, architecture: str) -> Tensor:
    """A TransformerLens object's weight, per-layer ones stacked along a first axis.

    Raises:
        OptionError: a name outside ``WEIGHT_NAMES``.
        CapabilityError: this architecture has no such weight, or layers of several shapes.
    """
    if name not in WEIGHT_NAMES:
        raise OptionError(f"unknown weight {name!r}: expected one of {', '.join(WEIGHT_NAMES)}")
    try:
        weight = getattr(lens, name)
    except (AttributeError, NotImplementedError, ValueError, RuntimeError) as missing:
        raise CapabilityError(
            f"{architecture} offers no stacked {name!r} ({missing}); read it from "
            "model.state_dict() by its own name."
        ) from missing
    if not isinstance(weight, Tensor):
        raise CapabilityError(f"{architecture} has no weight {name!r}.")
    return weight
