"""The positions that an intervention named, in whatever call of the model is running."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Bool
from torch import Tensor

from interp_compose.errors import InterventionError
from interp_compose.interventions.pooling import Slots
from interp_compose.interventions.select import (
    Positions,
    as_list,
    numbered,
    resolve_positions,
)
from interp_compose.types import HookedModel

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


class Places:
    """``where`` (see :mod:`.where`), found anew in each call.

    A call through the model's own surface is announced by :meth:`of_call`. One that goes past it
    (``model.lens.generate``) is known by its shape alone: numbers and tensors then count the
    prompt, tokens that are generated later are none of them, and padding is not looked at.

    ``chosen`` says whether any call so far had such a position.
    """

    def __init__(self, model: HookedModel, where: Positions, name: str) -> None:
        self.model, self.where, self.name = model, where, name
        self._of_call: Tensor | None = None
        self._prompt: Tensor | None = None  # flags of a prompt that went past the surface
        self.chosen = False

    @contextmanager
    def of_call(self, tokens: Tensor, mask: Tensor) -> Iterator[Bool[Tensor, "batch pos"]]:
        """Found in the tokens of a call, for as long as it runs."""
        outer = self._of_call
        self._of_call = resolve_positions(self.model, self.where, tokens, mask, self.name)
        self.chosen |= bool(self._of_call.any())
        try:
            yield self._of_call
        finally:
            self._of_call = outer

    @property
    def in_call(self) -> bool:
        """Whether a call runs that was announced."""
        return self._of_call is not None

    def flags(
        self,
        batch: int,
        length: int,
        device: torch.device,
        *,
        start: int = 0,
        fresh: bool = True,
    ) -> Bool[Tensor, "batch length"]:
        """True at the positions named, among ``length`` of the running call from ``start`` on.

        In a call that was not announced, ``fresh`` says that its first ``length`` positions are a
        prompt's; else it goes on from the prompt before.

        Raises:
            InterventionError: the call has other positions, or they cannot be counted.
        """
        if self._of_call is None:
            return self._by_shape(batch, length, device, start, fresh)
        found = self._of_call
        slots = slots_of(self.model)
        if slots is not None:
            found = as_slots(found, slots, self.name)
        if found.shape != (batch, length):
            raise InterventionError(
                f"{self.name} belong to a call of {list(found.shape)} positions, and the model "
                f"runs on {[batch, length]}; something else changed the batch or the length."
            )
        return found

    def flags_like(self, activation: Tensor) -> Bool[Tensor, "batch pos"]:
        """:meth:`flags` for an activation ``[batch pos ...]``.

        In a call that was not announced, one position is a token that is generated.

        Raises:
            InterventionError: there was no prompt of two tokens or more before it.
        """
        batch, length = activation.shape[:2]
        if self.in_call or length > 1 or self.where is None:
            flags = self.flags(batch, length, activation.device)
        elif self._prompt is None:
            raise InterventionError(
                f"the wrapped model was called on one position: whether that is a prompt, whose "
                f"{self.name} count, or goes on from a cache cannot be told. Call the model that "
                "load_model returned, or give a prompt of two tokens or more."
            )
        else:
            prompt = self._prompt.shape[1]
            flags = self.flags(batch, length, activation.device, start=prompt, fresh=False)
        if not self.in_call:
            self.chosen |= bool(flags.any())
        return flags

    def _by_shape(
        self, batch: int, length: int, device: torch.device, start: int, fresh: bool
    ) -> Bool[Tensor, "batch length"]:
        if self.where is None:
            return torch.ones((batch, length), dtype=torch.bool, device=device)
        if fresh:
            self._prompt = self._counted(batch, length, device)
        if self._prompt is None:
            raise InterventionError(
                "the model goes on from a cache that was filled outside the `with` block, so that "
                f"{self.name} cannot be counted; fill it inside."
            )
        if self._prompt.shape[0] != batch:
            raise InterventionError(
                f"{self.name} were counted in a prompt of {self._prompt.shape[0]} rows, and the "
                f"model goes on with {batch}; generate from the prompt that you gave."
            )
        generated = max(0, start + length - self._prompt.shape[1])
        return torch.nn.functional.pad(self._prompt, (0, generated), value=False)[
            :, start : start + length
        ]

    def _counted(
        self, batch: int, length: int, device: torch.device
    ) -> Bool[Tensor, "batch length"]:
        """The positions named in a prompt of which only the shape is known."""
        where = self.where
        if isinstance(where, Tensor):
            if where.shape != (batch, length):
                raise InterventionError(
                    f"{self.name} are {list(where.shape)} and the call {[batch, length]}; make "
                    "them from the batch that you run."
                )
            return where.to(device)
        listed = as_list(where)
        if any(isinstance(each, str) for each in listed):
            raise InterventionError(
                f"{self.name}={where!r} are words, and the wrapped model was called directly; call "
                "the model that load_model returned, or pass numbers."
            )
        grown = self._prompt is not None and length == self._prompt.shape[1] + 1
        if grown and any(each < 0 for each in listed):
            raise InterventionError(
                f"{self.name}={where!r} count from the end, and the wrapped model was called on "
                f"{length - 1} positions and then on {length}: a generation without a cache, whose "
                "end moves. Count from the start, or open a block for each call."
            )
        flags = torch.zeros((batch, length), dtype=torch.bool, device=device)
        flags[:, numbered(listed, length, self.name)] = True
        return flags
