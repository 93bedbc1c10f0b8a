"""Heads and neurons taken out: their activation at ``hook_z`` or ``hook_post`` replaced."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose._public import public
from interp_compose.types import HookedModel, HookFn
from interp_compose.errors import InterventionError, OptionError
from interp_compose.interventions.record import Edited
from interp_compose.interventions.call_positions import Places
from interp_compose.interventions.ablate__reference import Fill, check_reference, fills
from interp_compose.interventions.select import (
    Heads,
    Layers,
    Positions,
    check_to_edit,
    resolve_heads,
    resolve_layers,
    resolve_parts,
)


@public
@contextmanager
def ablate(
    model: HookedModel,
    *,
    heads: Heads = None,
    neurons: Heads = None,
    layers: Layers = None,
    positions: Positions = None,
    how: str = "zero",
    reference: Int[Tensor, "batch pos"] | None = None,
    reference_mask: Int[Tensor, "batch pos"] | None = None,
    seed: int = 0,
) -> Iterator[Edited]:
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
        positions: see :func:`.masking.mask_attention`; None for all.
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
    places = Places(model, positions, "positions")
    chosen = resolve_layers(layers, model.n_layers)
    parts: dict[str, list[int]] = {}
    if heads is not None:
        for layer, of_layer in resolve_heads(heads, chosen, model.n_heads).items():
            parts[f"blocks.{layer}.attn.hook_z"] = of_layer
        model.require("edit_z")
    if neurons is not None:
        model.require("edit_post")
        for layer, of_layer in resolve_parts(neurons, chosen, model.n_neurons(), "neuron").items():
            parts[f"blocks.{layer}.mlp.hook_post"] = of_layer
    with torch.no_grad():
        put_in = fills(model, list(parts), how, reference, reference_mask, seed)
    record = Edited(f"ablate(how={how!r})")

    @contextmanager
    def prepare(tokens: Tensor, mask: Tensor) -> Iterator[None]:
        record.calls += 1
        with places.of_call(tokens, mask):
            yield

    hooks: list[tuple[str, HookFn]] = []
    for name, of_layer in parts.items():
        edit = _heads if name.endswith("hook_z") else _neurons
        hooks.append((name, edit(of_layer, put_in[name], places, record, model.n_heads)))
    with model.preparing(prepare), model.hooks(hooks):
        yield record
    record.check(places)


def _heads(
    heads: Sequence[int], fill: Fill, places: Places, record: Edited, n_heads: int
) -> HookFn:
    def edit(z: Float[Tensor, "batch pos head d_head"], hook: Any) -> Tensor:
        if z.ndim != 4 or z.shape[2] != n_heads:
            raise InterventionError(
                f"{hook.name} is {list(z.shape)}; expected [batch pos head d_head] of {n_heads} "
                "heads, so they cannot be told apart here. Ablate them by a hook of your own."
            )
        here = places.flags_like(z)[:, :, None] & _flags(heads, z)
        return record.replaced(z, fill(z), here[..., None])

    return edit


def _neurons(
    neurons: Sequence[int], fill: Fill, places: Places, record: Edited, n_heads: int
) -> HookFn:
    def edit(post: Float[Tensor, "batch pos d_mlp"], hook: Any) -> Tensor:
        here = places.flags_like(post)[:, :, None] & _flags(neurons, post)
        # Each neuron is a vector of one.
        return record.replaced(post[..., None], fill(post)[..., None], here[..., None])[..., 0]

    return edit


def _flags(numbers: Sequence[int], activation: Tensor) -> Tensor:
    """True at ``numbers`` of the third axis."""
    some = torch.zeros(activation.shape[2], dtype=torch.bool, device=activation.device)
    some[list(numbers)] = True
    return some
