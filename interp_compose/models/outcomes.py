"""What a check came to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from interp_compose.errors import InterpComposeError, first_line
from interp_compose.models.base import BaseModel

Status = Literal["holds", "wrong", "discarded", "silent", "refused", "not tried"]


@dataclass(frozen=True)
class Outcome:
    """A status, and the figure or the message that decided it."""

    status: Status
    detail: str


def compared(
    model: BaseModel, value: Tensor, expected: Tensor, *, spread: float | None = None
) -> Outcome:
    """Whether an activation is what it should be, but for rounding in the model's dtype: the
    largest difference in units of ``spread``, by default the standard deviation of what is
    expected."""
    if value.shape != expected.shape:
        if value.numel() != expected.numel():
            return Outcome("wrong", f"{list(value.shape)} instead of {list(expected.shape)}")
        value = value.reshape(expected.shape)
    value, expected = value.float(), expected.to(value.device).float()
    if not bool(value.isfinite().all() and expected.isfinite().all()):
        return Outcome("wrong", "NaN or infinite numbers")
    if spread is None:
        largest = expected.std() if expected.numel() > 1 else expected.abs().max()
        spread = max(float(largest), 1e-6)
    error = float((value - expected).abs().max()) / spread
    tolerance = 1e-3 if model.dtype in (torch.float32, torch.float64) else 0.1
    return Outcome("holds" if error <= tolerance else "wrong", f"relative error {error:.1e}")


def guarded(check: Callable[[], Outcome]) -> Outcome:
    """What a check comes to; "refused" where the model raises an error."""
    try:
        return check()
    except InterpComposeError as refusal:
        return Outcome("refused", f"{type(refusal).__name__}: {first_line(refusal)}")
    except (
        *(ArithmeticError, AssertionError, AttributeError, LookupError),
        *(RuntimeError, TypeError, ValueError),
    ) as error:  # whatever a wrapper throws at a request that it does not know
        return Outcome("refused", f"{type(error).__name__}: {first_line(error)}")
