"""Heads and neurons taken out: their activation at ``hook_z`` or ``hook_post`` replaced."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose._types import HookedModel, HookFn
from interp_compose.errors import InputError, OptionError
from interp_compose.interventions.edited import Edited
from interp_compose.interventions.places import Places
from interp_compose.interventions.where import (
    Heads,
    Layers,
    Positions,
    resolve_heads,
    resolve_layers,
    resolve_parts,
)

HOW = ("zero", "mean", "resample")


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
    (example, position), shared by all heads, neurons and layers, and the same in every call.
    The reference is run once, on entering, under whatever other interventions are open.

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
        InterventionError: on leaving, the model was never called, or no number changed.
    """
    if how not in HOW:
        raise OptionError(f"unknown how={how!r}: expected one of {', '.join(HOW)}")
    if heads is None and neurons is None:
        raise OptionError("nothing to ablate: name heads or neurons, such as heads=[(0, 3)].")
    if (how == "zero") != (reference is None):
        wanted = "none" if how == "zero" else "reference=tokens"
        raise OptionError(f"how={how!r} and reference do not fit: expected {wanted}.")
    places = Places(model, positions, "positions")
    chosen = resolve_layers(layers, model.n_layers)
    parts: dict[str, list[int]] = {}
    if heads is not None:
        for layer, of_layer in resolve_heads(heads, chosen, model.n_heads).items():
            parts[f"blocks.{layer}.attn.hook_z"] = of_layer
    if neurons is not None:
        for layer, of_layer in resolve_parts(neurons, chosen, model.d_mlp, "neuron").items():
            parts[f"blocks.{layer}.mlp.hook_post"] = of_layer
    pool = None if reference is None else _pool(model, list(parts), reference, reference_mask)
    record = Edited(f"ablate(how={how!r})")

    def replace(name: str, of_layer: Sequence[int]) -> HookFn:
        def edit(activation: Float[Tensor, "batch pos ..."], hook: Any) -> Tensor:
            here = places.flags_like(activation)
            if how == "zero" or pool is None:
                after = torch.zeros_like(activation)
            elif how == "mean":
                after = pool[name].float().mean(dim=0).to(activation.dtype).expand_as(activation)
            else:
                after = pool[name][_draws(activation, len(pool[name]), seed)]
            some = torch.zeros(activation.shape[2], dtype=torch.bool, device=activation.device)
            some[list(of_layer)] = True
            where = here[:, :, None] & some
            if activation.ndim == 3:  # neurons are numbers: each is a vector of one
                where, after, activation = where[..., None], after[..., None], activation[..., None]
                return record.replaced(activation, after, where)[..., 0]
            return record.replaced(activation, after, where[..., None])

        return edit

    @contextmanager
    def prepare(tokens: Tensor, mask: Tensor) -> Iterator[None]:
        record.calls += 1
        with places.of_call(tokens, mask) as found:
            record.chosen |= bool(found.any())
            yield

    hooks = [(name, replace(name, of_layer)) for name, of_layer in parts.items()]
    with model.preparing(prepare), model.hooks(hooks):
        yield record
    record.check()


@torch.no_grad()
def _pool(
    model: HookedModel, names: list[str], reference: Tensor, mask: Tensor | None
) -> dict[str, Tensor]:
    """The activations of every token of the reference: ``[token ...]``."""
    if reference.ndim != 2 or reference.is_floating_point() or reference.numel() == 0:
        raise InputError(
            f"reference is {list(reference.shape)} of {reference.dtype}; expected token ids "
            "[batch pos]."
        )
    mask = torch.ones_like(reference) if mask is None else mask
    if mask.shape != reference.shape or not bool(mask.any()):
        raise InputError(
            f"reference_mask is {list(mask.shape)} with {int(mask.sum())} tokens; expected "
            f"{list(reference.shape)}, 1 for real tokens."
        )
    _, found = model.capture(reference, names, attention_mask=mask, read="hidden")
    return {name: activation[mask.bool()] for name, activation in found.items()}


def _draws(activation: Tensor, n_tokens: int, seed: int) -> Int[Tensor, "batch pos"]:
    generator = torch.Generator().manual_seed(seed)
    draws = torch.randint(n_tokens, tuple(activation.shape[:2]), generator=generator)
    return draws.to(activation.device)
