"""A model's weights, mode and place, as every torch module has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from interp_compose._public import public
from interp_compose.errors import CapabilityError, InputError, OptionError

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


T = TypeVar("T", bound="Weighted")


@public
class Weighted:
    """What :class:`LensModel` passes on to the object that carries the weights."""

    lens: Any
    architecture: str

    def weight(self, name: str) -> Tensor:
        """A weight by the field's name, per-layer ones stacked (``W_Q`` is
        ``[layer head d_model d_head]``).

        Raises:
            OptionError: a name outside :data:`.weight_names.WEIGHT_NAMES`.
            CapabilityError: this architecture has no such weight, or layers of several shapes.
        """
        return stacked_weight(self.lens, name, self.architecture)

    def state_dict(self) -> Mapping[str, Tensor]:
        """Every parameter and buffer, by TransformerLens' names."""
        state: Mapping[str, Tensor] = self.lens.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Takes over every weight.

        Raises:
            InputError: a missing or an unknown name, or another shape.
        """
        try:
            self.lens.load_state_dict(state)
        except (RuntimeError, AttributeError) as misfit:
            raise InputError(
                f"the weights are not those of this {self.architecture}: {misfit}"
            ) from misfit

    def parameters(self) -> Iterator[nn.Parameter]:
        """Trainable parameters, each once."""
        return iter(self.lens.parameters())

    def train(self: T, mode: bool = True) -> T:
        """Dropout on (or off); returns the model."""
        self.lens.train(mode)
        return self

    def eval(self: T) -> T:
        """Dropout off; returns the model."""
        return self.train(False)

    @property
    def training(self) -> bool:
        """Whether any part of the model is in training mode."""
        return any(module.training for module in self.lens.modules())

    @property
    def device(self) -> torch.device:
        """Where token ids are expected."""
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """Of the first parameter."""
        return next(self.parameters()).dtype
