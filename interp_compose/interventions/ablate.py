"""Heads and neurons ablated: their activation at ``hook_z`` or ``hook_post`` replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose._public import public
from interp_compose.errors import InputError, InterventionError, OptionError
from interp_compose.interventions.call_positions import CallPositions
from interp_compose.interventions.record import AblationRecord
from interp_compose.interventions.select import (
    Heads,
    Layers,
    Positions,
    check_seed,
    check_to_edit,
    resolve_heads,
    resolve_layers,
)
from interp_compose.models.lens_model import LensModel
from interp_compose.tensors import seeded
from interp_compose.types import HookFn

How = Literal["zero", "mean", "resample"]

Fill = Callable[[Float[Tensor, "batch pos ..."]], Float[Tensor, "batch pos ..."]]
"""From an activation, what takes its place; of the same shape."""


def check_reference(
    model: LensModel,
    how: How,
    reference: Tensor | None,
    reference_mask: Tensor | None,
    seed: int,
) -> None:
    """Refuse, before any call, a reference that does not fit ``how`` or the model.

    Raises:
        OptionError: a reference missing or superfluous, or a seed out of range.
        InputError: no token ids, or a mask that does not fit them.
    """
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
    model: LensModel,
    names: Sequence[str],
    how: How,
    reference: Tensor | None,
    reference_mask: Tensor | None,
    seed: int,
) -> dict[str, Fill]:
    """By hook point, what takes an activation's place; the reference is run once, here."""
    if reference is None:
        return dict.fromkeys(names, torch.zeros_like)
    tokens = reference.long().to(model.device)
    mask = torch.ones_like(tokens) if reference_mask is None else reference_mask.to(tokens)
    _, activations = model.capture(tokens, list(names), attention_mask=mask, read="hidden")
    real = mask.bool()
    fill = _mean if how == "mean" else _drawn
    return {name: fill(activation[real], seed) for name, activation in activations.items()}


def _mean(tokens: Float[Tensor, "token ..."], seed: int) -> Fill:
    wide = torch.promote_types(tokens.dtype, torch.float32)
    mean = tokens.mean(dim=0, dtype=wide).to(tokens.dtype)
    return lambda activation: mean.expand_as(activation)


def _drawn(tokens: Float[Tensor, "token ..."], seed: int) -> Fill:
    return lambda activation: tokens[_draws(activation, len(tokens), seed)]


def _draws(activation: Tensor, n_tokens: int, seed: int) -> Int[Tensor, "batch pos"]:
    """Token numbers, the same for every activation of a shape ``[batch pos ...]``, so that heads
    and layers are replaced from one token."""
    generator = seeded(int(seed))
    draws = torch.randint(n_tokens, tuple(activation.shape[:2]), generator=generator)
    return draws.to(activation.device)


@public
@contextmanager
def ablate(
    model: LensModel,
    *,
    heads: Heads = None,
    neurons: Heads = None,
    layers: Layers = None,
    positions: Positions = None,
    how: How = "zero",
    reference: Int[Tensor, "batch pos"] | None = None,
    reference_mask: Int[Tensor, "batch pos"] | None = None,
    seed: int = 0,
) -> Iterator[AblationRecord]:
    """Replace what heads (``attn.hook_z``) or neurons (``mlp.hook_post``) give, in every call.

    ``how="zero"`` puts 0 in its place, ``"mean"`` the mean over all tokens of ``reference``,
    ``"resample"`` what one token of ``reference``, drawn at random, had: one draw for each
    (example, position), shared by all heads, neurons and layers, and the same in every call of that
    shape. The reference is run once, on entering, under whatever other interventions are open: to
    take it from the clean model, open this block outside the others.

    Args:
        model: from :func:`load_model`.
        heads, neurons: numbers that hold in each of ``layers``, or (layer, number) pairs. At least
            one of the two.
        layers: numbers or depths; None for all. A pair's layer has to be among them.
        positions: see :func:`.mask_attention.mask_attention`; None for all.
        how: ``"zero"``, ``"mean"`` or ``"resample"``.
        reference, reference_mask: token ids and which of them are no padding; for ``"mean"`` and
            ``"resample"``.
        seed: of the draws.

    Yields:
        A record of what was done.

    Raises:
        OptionError, LayerError, HeadError, InputError: on entering.
        PositionError, AlignmentError, InputError: at a call, positions that it does not have.
        CapabilityError: a probe shows that edits of these activations reach nothing.
        InterventionError: on leaving, the model was never called, or no number changed.
    """
    check_to_edit(model)
    if heads is None and neurons is None:
        raise OptionError("nothing to ablate: name heads or neurons, such as heads=[(0, 3)].")
    check_reference(model, how, reference, reference_mask, seed)
    call_positions = CallPositions(model, positions, "positions")
    chosen = resolve_layers(layers, model.n_layers)
    ablated: dict[str, list[int]] = {}  # by hook point, numbers of heads or neurons
    if heads is not None:
        for layer, numbers in resolve_heads(heads, chosen, model.n_heads).items():
            ablated[f"blocks.{layer}.attn.hook_z"] = numbers
        model.require("edit_z")
    if neurons is not None:
        model.require("edit_post")
        for layer, numbers in resolve_heads(neurons, chosen, model.n_neurons(), "neuron").items():
            ablated[f"blocks.{layer}.mlp.hook_post"] = numbers
    with torch.no_grad():
        fill = fills(model, list(ablated), how, reference, reference_mask, seed)
    record = AblationRecord(f"ablate(how={how!r})")

    hooks: list[tuple[str, HookFn]] = [
        (
            name,
            _replacing(
                numbers,
                fill[name],
                call_positions,
                record,
                n_heads=model.n_heads if name.endswith("hook_z") else None,
            ),
        )
        for name, numbers in ablated.items()
    ]
    with record.editing(model, hooks, call_positions):
        yield record


def _replacing(
    numbers: Sequence[int],
    fill: Fill,
    call_positions: CallPositions,
    record: AblationRecord,
    *,
    n_heads: int | None,
) -> HookFn:
    """A hook that replaces heads ``[batch pos head d_head]`` or, where ``n_heads`` is None, neurons
    ``[batch pos d_mlp]``."""

    def edit(activation: Float[Tensor, "batch pos part *d_head"], hook: Any) -> Tensor:
        if n_heads is not None and (activation.ndim != 4 or activation.shape[2] != n_heads):
            raise InterventionError(
                f"{hook.name} is {list(activation.shape)}; expected [batch pos head d_head] of "
                f"{n_heads} heads, so heads cannot be distinguished here. Ablate them in your own "
                "hook."
            )
        chosen = torch.zeros(activation.shape[2], dtype=torch.bool, device=activation.device)
        chosen[list(numbers)] = True
        here = (call_positions.flags_like(activation)[:, :, None] & chosen)[..., None]
        new = fill(activation)
        if n_heads is None:  # each neuron is a vector of one
            return record.replaced(activation[..., None], new[..., None], here)[..., 0]
        return record.replaced(activation, new, here)

    return edit
