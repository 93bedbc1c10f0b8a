"""What the positions of a running call stand for: tokens, or the units of a collapse.

:func:`.pool_at.pool_at` shortens the sequence in the middle of a call. Edits that name tokens, made
around it, follow: above the collapse a token's place is the slot of its unit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Bool
from torch import Tensor

from interp_compose.types import HookedModel
from interp_compose.errors import InterventionError
from interp_compose.interventions.pooling__slots import Slots

_COLLAPSED: WeakKeyDictionary[HookedModel, Slots] = WeakKeyDictionary()


@contextmanager
def collapsed(model: HookedModel, slots: Slots) -> Iterator[None]:
    """Positions are slots for the length of a ``with`` block."""
    outer = _COLLAPSED.get(model)
    _COLLAPSED[model] = slots
    try:
        yield
    finally:
        if outer is None:
            del _COLLAPSED[model]
        else:
            _COLLAPSED[model] = outer


def slots_of(model: HookedModel) -> Slots | None:
    """The layout of the collapse that is running, or None where positions are tokens."""
    return _COLLAPSED.get(model)


def as_slots(
    chosen: Bool[Tensor, "batch pos"], slots: Slots, name: str
) -> Bool[Tensor, "batch group"]:
    """Tokens → the slots that they were pooled into.

    Raises:
        InterventionError: some tokens of a unit are chosen and some are not, which a pooled vector
            cannot tell apart.
    """
    valid = slots.of_token >= 0
    index = slots.of_token.clamp(min=0)
    count = torch.zeros_like(slots.mask).scatter_add_(1, index, (chosen & valid).long())
    mixed = (count > 0) & (count < slots.sizes)
    if bool(mixed.any()):
        row, slot = mixed.nonzero()[0].tolist()
        tokens = (slots.of_token[row] == slot).nonzero()[:, 0].tolist()
        raise InterventionError(
            f"{name} hold some of the tokens {tokens} of row {row}, which a collapse has pooled "
            "into one vector; choose all of them or none, or restrict `layers` to those below the "
            "collapse."
        )
    return count > 0
