"""Constituent-aware pooling: the tokens of a unit become one vector (CARMA, appendix C.1)."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from interp_compose._public import public
from interp_compose.errors import OptionError

MOST_GROUPS = 1_000_000
HOW = ("mean", "max", "sum", "last", "first")


@public
def pool_groups(
    activations: Float[Tensor, "batch pos d_model"],
    groups: Int[Tensor, "batch pos"],
    how: str,
    *,
    n_groups: int | None = None,
) -> Float[Tensor, "batch group d_model"]:
    """Pool the tokens of each group into one vector.

    ``r_i = α({h_j : x_j ∈ c_i})`` with α the elementwise mean, maximum or sum (CARMA,
    appendix C.1), or the group's last or first token alone (``"last"``, ``"first"``: deletion
    without pooling).

    Args:
        activations: any residual stream.
        groups: index of each token's group, -1 for tokens that belong to none (padding); their
            activations are never read, so that they may hold anything.
        how: one of :data:`HOW`.
        n_groups: width of the result; by default the largest index + 1.

    Returns:
        One vector per group; zeros where a group has no token. ``"last"`` and ``"first"`` return
        that token bit for bit, and so does every pooling of a group of one token. Sums run in
        float32, or in float64 where the activations are, and are rounded once. A NaN or an
        infinity stays in its own group.

    Raises:
        OptionError: an unknown ``how``; an index beyond ``n_groups``.
    """
    if how not in HOW:
        raise OptionError(f"unknown pooling {how!r}: expected one of {', '.join(HOW)}")
    largest = int(groups.max()) if groups.numel() else -1
    width = largest + 1 if n_groups is None else n_groups
    if not largest < width <= MOST_GROUPS:
        raise OptionError(
            f"groups up to {largest} in n_groups={n_groups}: expected a width above the largest "
            f"index and at most {MOST_GROUPS}"
        )
    if how in ("last", "first"):
        return _one_token(activations, groups, width, how)
    if how == "max":
        highest = _extreme(activations, groups, width, "amax", outside=-torch.inf)
        return highest.masked_fill(~_members(groups, width).any(2)[:, :, None], 0.0)
    precise = torch.float64 if activations.dtype == torch.float64 else torch.float32
    weights = _members(groups, width).to(precise)
    kept = activations.to(precise).masked_fill((groups < 0)[:, :, None], 0.0)
    finite = kept.isfinite()
    # A matrix product sums in a fixed order; scattered additions on a GPU would not.
    pooled = torch.einsum("bgp,bpd->bgd", weights, kept.masked_fill(~finite, 0.0))
    if how == "mean":
        pooled = pooled / weights.sum(dim=2, keepdim=True).clamp(min=1.0)
    if not bool(finite.all()):  # 0 · inf would make NaN of every other group
        rest = kept.masked_fill(finite, 0.0)
        for reduce in ("amax", "amin"):
            pooled = pooled + _extreme(rest, groups, width, reduce, outside=0.0)
    return pooled.to(activations.dtype)


def _members(groups: Int[Tensor, "batch pos"], width: int) -> Bool[Tensor, "batch group pos"]:
    """Which tokens are in which group."""
    return groups[:, None, :] == torch.arange(width, device=groups.device)[None, :, None]


def spread_groups(
    pooled: Float[Tensor, "batch group d_model"],
    groups: Int[Tensor, "batch pos"],
    activations: Float[Tensor, "batch pos d_model"],
) -> Float[Tensor, "batch pos d_model"]:
    """Give every token its group's vector; tokens without a group keep their activation."""
    index = groups.clamp(min=0)[:, :, None].expand(-1, -1, pooled.shape[2])
    return torch.where((groups >= 0)[:, :, None], pooled.gather(1, index), activations)


def _one_token(
    activations: Float[Tensor, "batch pos d_model"],
    groups: Int[Tensor, "batch pos"],
    width: int,
    how: str,
) -> Float[Tensor, "batch group d_model"]:
    """Each group's last or first token."""
    batch, length = groups.shape
    outside = -1 if how == "last" else length
    index = torch.full((batch, width), outside, device=groups.device, dtype=torch.long)
    place = torch.arange(length, device=groups.device).expand(batch, length)
    place = place.masked_fill(groups < 0, outside)
    reduce = "amax" if how == "last" else "amin"
    index = index.scatter_reduce(1, groups.clamp(min=0).long(), place, reduce=reduce)
    empty = (index < 0) | (index >= length)
    rows = torch.arange(batch, device=groups.device)[:, None]
    return activations[rows, index.clamp(0, length - 1)].masked_fill(empty[:, :, None], 0.0)


def _extreme(
    activations: Float[Tensor, "batch pos d_model"],
    groups: Int[Tensor, "batch pos"],
    width: int,
    reduce: str,
    *,
    outside: float,
) -> Float[Tensor, "batch group d_model"]:
    """Elementwise maximum (``"amax"``) or minimum (``"amin"``) of a group and ``outside``."""
    batch, _, d_model = activations.shape
    start = activations.new_full((batch, width, d_model), outside)
    index = groups.clamp(min=0)[:, :, None].expand(-1, -1, d_model).long()
    kept = activations.masked_fill((groups < 0)[:, :, None], outside)
    return start.scatter_reduce(1, index, kept, reduce=reduce, include_self=True)
