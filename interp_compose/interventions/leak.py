"""How much of a token's information passes an attention knockout, measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from interp_compose._public import public, short
from interp_compose.errors import InterventionError, OptionError, TrainingModeError
from interp_compose.interventions.mask_attention import Mode, mask_attention
from interp_compose.interventions.select import (
    Heads,
    Positions,
    check_seed,
    resolve_positions,
)
from interp_compose.models.layers import Layers
from interp_compose.models.lens_model import LensModel
from interp_compose.models.texts import as_call
from interp_compose.tensors import seeded
from interp_compose.types import Inputs, Read

MOST_DRAWS: Final = 10_000


@dataclass(frozen=True)
class Leak:
    """What replacing the masked tokens by others changes elsewhere, all draws taken together.

    Attributes:
        largest: the largest difference in a logit (of an encoder: in a hidden state), at any
            position that could see a masked token: in a causal model those after the first one.
            0 means that nothing gets through.
        unmasked: the same without the mask, for scale.
        changed: share of these positions whose most likely token changed (NaN for encoders).
        unmasked_changed: the same without the mask.
        draws: how often the tokens were replaced.
    """

    largest: float
    unmasked: float
    changed: float
    unmasked_changed: float
    draws: int


@public
@torch.no_grad()
def attention_leak(
    model: LensModel,
    tokens: Inputs,
    *,
    keys: Positions,
    attention_mask: Int[Tensor, "batch pos"] | None = None,
    queries: Positions = None,
    layers: Layers = None,
    heads: Heads = None,
    mode: Mode = "exclude",
    draws: int = 8,
    seed: int = 0,
) -> Leak:
    """Knock out ``keys`` as :func:`.mask_attention.mask_attention` does, replace them, and compare.
    ``tokens`` are token ids, a text or several, as of a call of the model.

    Every token named is replaced by one drawn at random from the vocabulary, ``draws`` times, and
    all positions outside ``keys`` that could see one are compared with what they were. With
    ``mode="exclude"`` and no query, layer or head left out the answer is exactly 0; with
    ``"zero"`` (complexity control) it is not, because a score stays in the softmax's denominator.

    Raises:
        OptionError: ``keys`` None or none at all, less than one draw or more than 10,000, a seed
            below 0.
        TrainingModeError: dropout would pass for a leak.
        InterventionError: no other position can see the keys; inside a collapse, where positions
            are no longer tokens'; and whatever else :func:`.mask_attention.mask_attention` raises.
    """
    if model.training:
        raise TrainingModeError(
            f"{model.name!r} is in training mode, in which dropout, where it has any, would pass "
            "for a leak; call model.eval() first."
        )
    if not 1 <= draws <= MOST_DRAWS or keys is None:
        raise OptionError(
            f"keys={short(keys)}, draws={draws!r}: expected the keys whose tokens are to be "
            f"replaced, and 1 to {MOST_DRAWS} draws."
        )
    check_seed(seed)
    read: Read = "hidden" if model.bidirectional else "logits"
    tokens, attention_mask = as_call(model, tokens, attention_mask)
    # 1. The two runs that all draws are compared with: clean, and knocked out (below).
    clean = model.forward(tokens, attention_mask=attention_mask, read=read)
    mask = torch.ones_like(tokens) if attention_mask is None else attention_mask
    masked = resolve_positions(model, keys, tokens, mask, "keys")
    if not bool(masked.any()):
        raise OptionError(f"keys={keys!r} name no position, so there is nothing to replace.")
    flags = resolve_positions(model, queries, tokens, mask, "queries")  # before words are replaced
    how: dict[str, Any] = {"queries": flags, "layers": layers, "heads": heads, "mode": mode}
    compared = mask.bool() & ~masked & (model.predicts(tokens) | model.bidirectional)  # [batch pos]
    if not model.bidirectional:
        model.require("causal")
        compared &= masked.cumsum(dim=1) > 0  # a causal query sees what is before it
    if not bool(compared.any()):
        raise InterventionError(
            f"keys={keys!r}: no other position can see them, so there is nothing to measure. Mask "
            "tokens that others come after."
        )
    draws = int(draws)
    generator = seeded(int(seed))
    with_mask, without_mask = [], []  # (largest difference, share changed) of each draw
    knocked_out = _read(model, tokens, mask, masked, how, read)
    # 2. Other tokens at the masked positions, with the mask and without.
    for _ in range(draws):
        other = _replaced(model, tokens, masked, generator)
        out = _read(model, other, mask, masked, how, read)
        with_mask.append(_difference(knocked_out, out, compared))
        out = model.forward(other, attention_mask=mask, read=read)
        without_mask.append(_difference(clean, out, compared))
    # 3. Every draw compares as many positions, so the mean of shares is the share of all.
    changed, unmasked_changed = (
        float("nan") if model.bidirectional else sum(share for _, share in of_draws) / draws
        for of_draws in (with_mask, without_mask)
    )
    unmasked = max(largest for largest, _ in without_mask)
    if unmasked == 0:
        raise InterventionError(
            f"replacing keys={keys!r} changes no output of {model.name!r} without the mask either, "
            "so that a mask cannot be tested by it; end the interventions that are open, or name "
            "keys that the model reads."
        )
    return Leak(
        largest=max(largest for largest, _ in with_mask),
        unmasked=unmasked,
        changed=changed,
        unmasked_changed=unmasked_changed,
        draws=draws,
    )


def _read(
    model: LensModel,
    tokens: Tensor,
    mask: Tensor,
    masked: Tensor,
    how: Mapping[str, Any],
    read: Read,
) -> Tensor:
    with mask_attention(model, keys=masked, **how):
        out = model.forward(tokens, attention_mask=mask, read=read)
    if out.shape[:2] != tokens.shape:
        raise InterventionError(
            f"the model returned {list(out.shape[:2])} positions for {list(tokens.shape)} tokens; "
            "measure the leak outside a collapse."
        )
    return out


def _replaced(
    model: LensModel,
    tokens: Tensor,
    masked: Bool[Tensor, "batch pos"],
    generator: torch.Generator,
) -> Tensor:
    """Other tokens at the masked positions, never the same ones and never a model's padding."""
    # Of an encoder–decoder there are two vocabularies, each shifted within itself.
    sizes = [size for size in (model.d_vocab, model.n_ids - model.d_vocab) if size]
    # Below the size of the smaller vocabulary, so that none leads back to the token itself.
    shift = torch.randint(1, min(sizes), tuple(tokens.shape), generator=generator)
    other = model.shifted(tokens, shift.to(tokens.device))
    for _ in range(2):  # one step on, out of the padding, may lead back to the token itself
        unusable = other == tokens
        if model.pad_id is not None:
            unusable |= other == model.pad_id
        other = torch.where(unusable, (other + 1) % model.d_vocab, other)
    return torch.where(masked, other, tokens)


def _difference(
    before: Float[Tensor, "batch pos width"],
    after: Float[Tensor, "batch pos width"],
    compared: Bool[Tensor, "batch pos"],
) -> tuple[float, float]:
    """The largest difference, and the share of positions with another argmax."""
    before_rows, after_rows = before[compared].float(), after[compared].float()  # [compared width]
    changed = (before_rows.argmax(dim=-1) != after_rows.argmax(dim=-1)).float().mean()
    return float((before_rows - after_rows).abs().max()), float(changed)
