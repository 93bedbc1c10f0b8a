"""Checks of the matrices that probes read."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from interp_compose.errors import InputError, NonFiniteError

DTYPES: Final = (torch.bfloat16, torch.float16, torch.float32, torch.float64)


def check_matrices(A: Tensor, name: str = "A", axes: str = "..., row, col") -> None:
    """Refuse what has no entries, or entries that are not plain finite numbers.

    Reads ``A`` once and copies nothing where its memory is contiguous.

    Raises:
        InputError: fewer dimensions than ``axes`` names or more, a matrix without
            entries, a sparse layout, the meta device, a dtype that is not bfloat16, float16,
            float32 or float64.
        NonFiniteError: NaN or infinite entries.
    """
    shape = tuple(A.shape)
    if A.layout != torch.strided:
        raise InputError(
            f"{name} of shape {shape} has the layout {A.layout}; expected a dense tensor: "
            f"pass {name}.to_dense()"
        )
    if A.dtype not in DTYPES:
        raise InputError(
            f"{name} of shape {shape} has the dtype {A.dtype}; expected bfloat16, float16, float32 "
            "or float64: dequantise a quantised weight first (its integers are not its values), "
            "and pass other numbers as .float()"
        )
    if A.ndim < 2 or (A.ndim > 2 and not axes.startswith("...")) or 0 in shape[-2:]:
        raise InputError(f"{name} has the shape {shape}; expected matrices [{axes}] with entries")
    if A.is_meta:
        raise InputError(f"{name} of shape {shape} is on the meta device; load its values first")
    if A.numel() and not bool(largest_entry(A).isfinite()):
        raise NonFiniteError(
            f"{name} has {int((~A.isfinite()).sum())} NaN or infinite entries of {A.numel()}; "
            "a probe needs finite ones: find the step at which they appeared"
        )


def wide_enough(dtype: torch.dtype) -> torch.dtype:
    """The dtype to compute in: float32, and float64 for float64."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def largest_entry(A: Tensor) -> Tensor:
    """max |A|, of all entries; NaN where one is NaN. Many times faster than ``A.abs().max()``."""
    low, high = row_major(A).detach().aminmax()
    return torch.maximum(-low, high)


def row_major(A: Tensor) -> Tensor:
    """``A`` or its transpose, whichever has contiguous rows; a view."""
    return A.mT if A.stride(-2) < A.stride(-1) else A
