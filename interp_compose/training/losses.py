"""CARMA's two regularisers on residual streams (section 3.2 and appendix D).

Both take captured residuals, ``[layer batch pos d_model]`` or a list of layers, and compute in
float32 whatever the model's dtype (float64 stays), under autocast as well. Nothing here loops over
tokens, words, pairs or layers, and the number of kernels does not depend on their number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import softplus

from interp_compose._public import public
from interp_compose.errors import OptionError
from interp_compose.tensors import cosines, full_precision, seeded, stack_layers, word_pairs

MOST_NEGATIVES: Final = 100_000
"""Negatives drawn for each anchor, at most; they are all held in memory."""
_NEVER = -1e30
"""A score whose exponential is 0. Minus infinity would make a NaN of a token without partners."""


@public
def mutual_information_loss(
    resid: Float[Tensor, "layer batch pos d_model"] | Sequence[Float[Tensor, "batch pos d_model"]],
    word_ids: Int[Tensor, "batch pos"],
    *,
    temperature: float = 0.1,
    negatives: Literal["all"] | int = "all",
    seed: int = 0,
) -> Float[Tensor, ""]:
    """InfoNCE between the tokens of a word, against the other words of its text (eq. 16).

    For anchor i at layer k, with s_j = cos(h_i, h_j) / temperature:
    log(Σ_pos exp s_j + Σ_neg exp s_j) − log Σ_pos exp s_j, in nats; the mean over all
    (layer, anchor). Eq. 5 sums the negatives outside the logarithm and would pull them closer.

    Positives are the other tokens of the same word (tokens of a row that share a ``word_ids``),
    negatives the tokens of the row's other words. A token without a positive or without a negative
    is no anchor. ``word_ids`` of -1 (BOS, specials, padding) belong to no set, and nothing that
    is there reaches the value or a gradient. Without any anchor the loss is a zero that can be
    propagated back. A zero vector has cosine 0 with every other and the gradient 0.

    ``negatives=n`` draws n negatives with replacement for each (layer, anchor), on the CPU from
    ``seed``, so that the draw is the same on every device. The authors' code draws five; unlike
    here it may draw padding, takes each pair of a word's tokens by itself where eq. 16 sums over
    the positives, and skips the last word.

    Raises:
        OptionError: a temperature that is not finite and above 0, or fewer than one negative.
        LayerError: no layers.
        InputError: shapes that disagree.
    """
    check_sampling(temperature, negatives)
    layers = stack_layers(resid, word_ids, at_least=1)
    # 1. Who is whose positive and negative: [batch pos pos], [batch pos pos], [batch pos].
    same, different = word_pairs(word_ids)
    anchor = _anchors(same, different)
    with full_precision(layers):
        scores = cosines(layers, word_ids >= 0) / temperature  # s: [layer batch pos pos]
        # 2. log P = log Σ_pos exp s_j and log N = log Σ_neg exp s_j, of every token.
        positive = _logsumexp(scores, same)  # [layer batch pos]
        if negatives == "all":
            negative = _logsumexp(scores, different)
        else:
            drawn = _draw(different, len(layers), negatives, seed)  # [layer batch pos n]
            negative = scores.gather(-1, drawn).logsumexp(-1)
        # 3. Eq. 16: log(P + N) − log P = log(1 + N/P), never below 0, and exact where it is small.
        per_anchor = softplus(negative - positive, threshold=40)  # [layer batch pos]
        return (per_anchor * anchor).sum() / (len(layers) * anchor.sum().clamp(min=1))


def count_anchors(word_ids: Int[Tensor, "batch pos"]) -> Int[Tensor, ""]:
    """Anchors of a batch, per layer: what its share in a mean over several batches goes by."""
    return _anchors(*word_pairs(word_ids)).sum()


@public
def stability_loss(
    resid: Float[Tensor, "layer batch pos d_model"] | Sequence[Float[Tensor, "batch pos d_model"]],
    mask: Int[Tensor, "batch pos"] | Bool[Tensor, "batch pos"],
    *,
    eps: float = 1e-8,
) -> Float[Tensor, ""]:
    """How far the residual moves from layer to layer, relative to its size (eq. 6).

    Σ_k E‖h_{k+1} − h_k‖² / (E‖h_k‖² + E‖h_{k+1}‖² + eps) over consecutive pairs of ``resid``, which
    holds layers l … K+1 for a sum over l … K; expectations are over the batch's tokens where
    ``mask`` is not 0. Leave BOS out of it: its norm would drown the rest. What is at masked
    positions reaches neither the value nor a gradient; without any token the loss is 0. The
    authors' code takes one pair fewer and averages over padding as well.

    Raises:
        LayerError: fewer than two layers.
        InputError: shapes that disagree.
    """
    layers = stack_layers(resid, mask, at_least=2)
    with full_precision(layers):
        # [layer batch·pos·d_model]
        flat = layers.masked_fill((mask == 0).unsqueeze(-1), 0).flatten(1)
        size = flat.square().sum(-1)  # [layer]: ‖h_k‖², summed over tokens
        moved = (flat[1:] - flat[:-1]).square().sum(-1)  # [layer-1]
        tokens = mask.count_nonzero().clamp(min=1)  # E = sum / tokens, which cancels but for eps
        # eq. 6
        return (moved / (size[1:] + size[:-1] + eps * tokens)).sum()


def check_sampling(temperature: float, negatives: Literal["all"] | int) -> None:
    """Refuse a temperature or a number of negatives that has no meaning.

    Raises:
        OptionError: a temperature that is not finite and above 0, or fewer than one negative.
    """
    if not 0 < temperature < math.inf:
        raise OptionError(
            f"temperature={temperature!r}: expected a finite number above 0, such as 0.1"
        )
    if negatives != "all" and not 1 <= negatives <= MOST_NEGATIVES:
        raise OptionError(
            f"negatives={negatives!r}: expected 'all', or how many to draw for each anchor (1 to "
            f"{MOST_NEGATIVES}; the authors' code draws 5)"
        )


def _anchors(
    same: Bool[Tensor, "batch pos pos"], different: Bool[Tensor, "batch pos pos"]
) -> Bool[Tensor, "batch pos"]:
    """Tokens with a positive and a negative."""
    return same.any(-1) & different.any(-1)


def _logsumexp(
    scores: Float[Tensor, "layer batch pos pos"], members: Bool[Tensor, "batch pos pos"]
) -> Float[Tensor, "layer batch pos"]:
    """log Σ exp over each token's members; where it has none, far below any score, but finite."""
    return scores.masked_fill(~members, _NEVER).logsumexp(-1)


def _draw(
    different: Bool[Tensor, "batch pos pos"], n_layers: int, n: int, seed: int
) -> Int[Tensor, "layer batch pos n"]:
    """Positions of ``n`` negatives, uniformly with replacement, for every layer and token.

    A draw is a rank among the token's negatives; the position is where their running count
    reaches it, so that nothing but a negative can be drawn. Where there is none: any position.
    """
    batch, pos, _ = different.shape
    running = different.cumsum(-1)  # [batch pos pos]
    generator = seeded(seed)
    numbers = torch.randint(2**62, (batch, pos, n_layers * n), generator=generator)
    # [batch pos layers·n], from 0; of 2⁶² numbers the modulo's bias is below any rounding
    rank = numbers.to(different.device) % running[..., -1:].clamp(min=1)
    positions = torch.searchsorted(running, rank + 1).clamp(max=pos - 1)
    # [layer batch pos n]
    by_layer: Tensor = positions.view(batch, pos, n_layers, n).permute(2, 0, 1, 3)
    return by_layer
