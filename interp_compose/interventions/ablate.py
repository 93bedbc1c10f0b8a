"""Heads and neurons ablated: their activation at ``hook_z`` or ``hook_post`` replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose._public import public
from interp_compose.errors import InputError, InterventionError, LayerError, OptionError
from interp_compose.interventions.call_positions import CallPositions
from interp_compose.interventions.record import AblationRecord
from interp_compose.interventions.select import (
    Heads,
    Positions,
    check_seed,
    check_to_edit,
    resolve_heads,
)
from interp_compose.models.block import intervention
from interp_compose.models.layers import Layers, resolve_layers
from interp_compose.models.lens_model import LensModel
from interp_compose.tensors import seeded
from interp_compose.types import HookFn, Side

How = Literal["zero", "mean", "resample"]
Attention = Literal["all", "self", "cross"]

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
    expected = f"expected token ids [batch pos] from 0 to {model.n_ids - 1}"
    if reference.numel() == 0:
        raise InputError(f"reference is {list(reference.shape)} of {reference.dtype}; {expected}.")
    lowest, highest = int(reference.min()), int(reference.max())
    if lowest < 0 or highest >= model.n_ids:
        raise InputError(f"reference holds {lowest} … {highest}; {expected}.")
    if reference.shape[1] > model.max_length:
        raise InputError(
            f"reference has {reference.shape[1]} positions and {model.name!r} reads "
            f"{model.max_length}; shorten it."
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
    sides: Mapping[str, Side],
    how: How,
    reference: Tensor | None,
    reference_mask: Tensor | None,
    seed: int,
) -> dict[str, Fill]:
    """By hook point, what takes an activation's place; the reference is run once, here. ``sides``
    are those of the layers of the hook points."""
    if reference is None:
        return dict.fromkeys(sides, torch.zeros_like)
    tokens = reference.long().to(model.device)
    mask = torch.ones_like(tokens) if reference_mask is None else reference_mask.to(tokens)
    _, activations = model.capture_as_shown(tokens, list(sides), attention_mask=mask, read="hidden")
    real = {side: model.own_mask(tokens, mask, side) for side in set(sides.values())}
    fill = _mean if how == "mean" else _drawn
    # Each activation [batch pos ...] at the real tokens of its side alone: [token ...].
    return {
        name: fill(vectors[real[sides[name]].to(vectors.device)], seed)
        for name, vectors in activations.items()
    }


def _mean(tokens: Float[Tensor, "token ..."], seed: int) -> Fill:
    wide_dtype = torch.promote_types(tokens.dtype, torch.float32)
    # [...]; in half precision rounded once
    mean = tokens.mean(dim=0, dtype=wide_dtype).to(tokens.dtype)
    return lambda activation: mean.expand_as(activation)


def _drawn(tokens: Float[Tensor, "token ..."], seed: int) -> Fill:
    return lambda activation: tokens[_draws(activation, len(tokens), seed)]  # [batch pos ...]


def _draws(activation: Tensor, n_tokens: int, seed: int) -> Int[Tensor, "batch pos"]:
    """Token numbers, the same for every activation of a shape ``[batch pos ...]``, so that heads
    and layers are replaced from one token."""
    generator = seeded(int(seed))
    # On the CPU, so that the draw is the same on every device.
    draws = torch.randint(n_tokens, tuple(activation.shape[:2]), generator=generator)
    return draws.to(activation.device)


@public
@intervention
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
    attention: Attention = "all",
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
        attention: which attentions' heads, where a layer has two: ``"self"``, ``"cross"`` or
            ``"all"``, both heads of a number.
        seed: of the draws.

    Yields:
        A record: ``calls``, and ``n_changed`` vectors.

    Raises:
        OptionError, LayerError, HeadError, InputError: on entering.
        PositionError, AlignmentError, InputError: at a call, positions that it does not have.
        CapabilityError: a probe shows that edits of these activations reach nothing.
        InterventionError: on leaving, the model was never called, or no number changed.
    """
    check_to_edit(model)
    if heads is None and neurons is None:
        raise OptionError("nothing to ablate: name heads or neurons, such as heads=[(0, 3)].")
    call_positions = CallPositions(model, positions, "positions")
    # 1. Hook points, what is ablated at each, and whose positions they have.
    chosen = resolve_layers(layers, model.n_layers)
    ablated: dict[str, list[int]] = {}  # by hook point, numbers of heads or neurons
    sides: dict[str, Side] = {}
    if heads is not None:
        for layer, numbers in resolve_heads(heads, chosen, model.n_layers, model.n_heads).items():
            for site in model.attention_sites(layer):
                if attention == "all" or (attention == "cross") == (site.name == "cross_attn"):
                    name = f"{model.prefix(layer)}.{site.name}.hook_z"
                    ablated[name], sides[name] = numbers, site.queries
        if not ablated:
            raise LayerError(f"attention={attention!r}: no layer of these has it.")
        model.require("edit_z")
    elif attention != "all":
        raise OptionError(f"attention={attention!r} has a meaning for heads alone: leave it out.")
    if neurons is not None:
        model.require("edit_post")
        by_layer = resolve_heads(
            neurons, chosen, model.n_layers, model.proofs.n_neurons(), "neuron"
        )
        for layer, numbers in by_layer.items():
            name = f"{model.prefix(layer)}.mlp.hook_post"
            ablated[name], sides[name] = numbers, model.side_of(layer)
    # 2. What takes its place: one run of the reference.
    check_reference(model, how, reference, reference_mask, seed)
    with torch.no_grad():
        fill = fills(model, sides, how, reference, reference_mask, seed)
    # 3. Hooks that put it there, in every call of the block.
    record = AblationRecord(f"ablate(how={how!r})")

    hooks: list[tuple[str, HookFn]] = [
        (
            name,
            _replacing(
                numbers,
                fill[name],
                call_positions,
                record,
                side=sides[name],
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
    side: Side,
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
        # [batch pos 1] & [part] -> [batch pos part 1]
        here = (call_positions.flags_like(activation, side)[:, :, None] & chosen)[..., None]
        new = fill(activation)
        if n_heads is None:  # each neuron is a vector of one
            return record.replaced(activation[..., None], new[..., None], here)[..., 0]
        return record.replaced(activation, new, here)

    return edit
