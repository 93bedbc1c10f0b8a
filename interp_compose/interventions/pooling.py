"""Constituent-aware pooling: the tokens of a unit become one vector (paper 000, appendix C.1)."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose.errors import OptionError

HOW = ("mean", "max", "sum", "last", "first")


def pool_groups(
    activations: Float[Tensor, "batch pos d_model"],
    groups: Int[Tensor, "batch pos"],
    how: str,
    *,
    n_groups: int | None = None,
) -> Float[Tensor, "batch group d_model"]:
    """Pool the tokens of each group into one vector.

    ``r_i = α({h_j : x_j ∈ c_i})`` with α the elementwise mean, maximum or sum (paper 000,
    appendix C.1), or the group's last or first token alone (``"last"``, ``"first"``: deletion
    without pooling).

    Args:
        activations: any residual stream.
        groups: index of each token's group, -1 for tokens that belong to none (padding); their
            activations are never read, so that they may hold anything.
        how: one of :data:`HOW`.
        n_groups: width of the result; by default the largest index + 1.

    Returns:
        One vector per group; zeros where a group has no token. Sums run in float32 whatever the
        dtype and are rounded once. A group of one token returns it bit for bit.

    Raises:
        OptionError: an unknown ``how``.
    """
    if how not in HOW:
        raise OptionError(f"unknown pooling {how!r}: expected one of {', '.join(HOW)}")
    width = int(groups.max()) + 1 if n_groups is None else n_groups
    if how == "max":
        return _maximum(activations, groups, width)
    slots = torch.arange(width, device=groups.device)
    member = groups[:, None, :] == slots[None, :, None]  # [batch group pos]
    if how == "last":
        member = member & (member.cumsum(dim=2) == member.sum(dim=2, keepdim=True))
    elif how == "first":
        member = member & (member.cumsum(dim=2) == 1)
    kept = activations.float().masked_fill((groups < 0)[:, :, None], 0.0)
    weights = member.float()
    # A matrix product sums in a fixed order; scattered additions on a GPU would not.
    pooled = torch.einsum("bgp,bpd->bgd", weights, kept)
    if how == "mean":
        pooled = pooled / weights.sum(dim=2, keepdim=True).clamp(min=1.0)
    return pooled.to(activations.dtype)


def spread_groups(
    pooled: Float[Tensor, "batch group d_model"],
    groups: Int[Tensor, "batch pos"],
    activations: Float[Tensor, "batch pos d_model"],
) -> Float[Tensor, "batch pos d_model"]:
    """Give every token its group's vector; tokens without a group keep their activation."""
    index = groups.clamp(min=0)[:, :, None].expand(-1, -1, pooled.shape[2])
    return torch.where((groups >= 0)[:, :, None], pooled.gather(1, index), activations)


def _maximum(
    activations: Float[Tensor, "batch pos d_model"], groups: Int[Tensor, "batch pos"], width: int
) -> Float[Tensor, "batch group d_model"]:
    batch, _, d_model = activations.shape
    lowest = torch.full(
        (batch, width, d_model), -torch.inf, dtype=activations.dtype, device=activations.device
    )
    index = groups.clamp(min=0)[:, :, None].expand(-1, -1, d_model)
    kept = activations.masked_fill((groups < 0)[:, :, None], -torch.inf)
    highest = lowest.scatter_reduce(1, index, kept, reduce="amax", include_self=True)
    return highest.masked_fill(highest == -torch.inf, 0.0)
