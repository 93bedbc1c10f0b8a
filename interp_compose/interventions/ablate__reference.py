"""What is put in the place of an ablated activation: nothing, a mean, or another token's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose.types import HookedModel
from interp_compose.errors import InputError, OptionError
from interp_compose.interventions.select import check_seed

HOW = ("zero", "mean", "resample")

Fill = Callable[[Float[Tensor, "batch pos ..."]], Float[Tensor, "batch pos ..."]]
"""From an activation, what takes its place; of the same shape."""


def check_reference(
    model: HookedModel,
    how: str,
    reference: Tensor | None,
    reference_mask: Tensor | None,
    seed: int,
) -> None:
    """Refuse, before any call, a reference that does not fit ``how`` or the model.

    Raises:
        OptionError: an unknown ``how``, a reference missing or superfluous, or no whole seed.
        InputError: no token ids, or a mask that does not fit them.
    """
    if how not in HOW:
        raise OptionError(f"unknown how={how!r}: expected one of {', '.join(HOW)}")
    check_seed(seed)
    if how == "zero":
        if reference is not None or reference_mask is not None:
            raise OptionError("how='zero' needs no reference; leave it out, or choose how='mean'.")
        return
    if reference is None:
        raise OptionError(f"how={how!r} needs token ids to take from: pass reference=tokens.")
    expected = f"expected token ids [batch pos] from 0 to {model.d_vocab - 1}"
    if reference.numel() == 0:
        raise InputError(f"reference is {list(reference.shape)} of {reference.dtype}; {expected}.")
    lowest, highest = int(reference.min()), int(reference.max())
    if lowest < 0 or highest >= model.d_vocab:
        raise InputError(f"reference holds {lowest} … {highest}; {expected}.")
    if reference.shape[1] > model.n_ctx:
        raise InputError(
            f"reference has {reference.shape[1]} positions and {model.name!r} reads {model.n_ctx}; "
            "shorten it."
        )
    if reference_mask is None:
        return
    expected = f"expected a tensor {list(reference.shape)}, 1 for real tokens and 0 for padding"
    if not bool(((reference_mask == 0) | (reference_mask == 1)).all()):
        raise InputError(f"reference_mask holds other numbers than 0 and 1; {expected}.")
    if not bool(reference_mask.bool().any(dim=1).all()):
        row = int((~reference_mask.bool().any(dim=1)).nonzero()[0])
        raise InputError(f"reference_mask has no token in row {row}; {expected}.")


def fills(
    model: HookedModel,
    names: Sequence[str],
    how: str,
    reference: Tensor | None,
    reference_mask: Tensor | None,
    seed: int,
) -> dict[str, Fill]:
    """By hook point, what takes an activation's place; the reference is run once, here."""
    if reference is None:
        return dict.fromkeys(names, torch.zeros_like)
    tokens = reference.long().to(model.device)
    mask = torch.ones_like(tokens) if reference_mask is None else reference_mask.to(tokens)
    _, found = model.capture(tokens, list(names), attention_mask=mask, read="hidden")
    real = mask.bool()
    put_in = _mean if how == "mean" else _drawn
    return {name: put_in(activation[real], seed) for name, activation in found.items()}


def _mean(tokens: Float[Tensor, "token ..."], seed: int) -> Fill:
    wide = torch.promote_types(tokens.dtype, torch.float32)
    mean = tokens.mean(dim=0, dtype=wide).to(tokens.dtype)
    return lambda activation: mean.expand_as(activation)


def _drawn(tokens: Float[Tensor, "token ..."], seed: int) -> Fill:
    return lambda activation: tokens[_draws(activation, len(tokens), seed)]


def _draws(activation: Tensor, n_tokens: int, seed: int) -> Int[Tensor, "batch pos"]:
    """The same for every activation of a shape ``[batch pos ...]``: heads and layers stay one."""
    generator = torch.Generator().manual_seed(int(seed))
    draws = torch.randint(n_tokens, tuple(activation.shape[:2]), generator=generator)
    return draws.to(activation.device)
