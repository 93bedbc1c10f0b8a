"""An independent CAP: nothing leaves the sequence.

The pooled vector is written at each unit's last token, and the unit's other tokens are hidden as
keys in that layer and all later ones. No code is shared with the library: plain Python loops over
float64 vectors, and TransformerLens' own hook points.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from interp_compose.models.lens_model import LensModel


def units_of(groups: Tensor) -> list[list[list[int]]]:
    """Positions of every unit of every row; a token of group -1 is not a unit."""
    rows = []
    for row in groups.tolist():
        rows.append([[i for i, g in enumerate(row) if g == unit] for unit in sorted({*row} - {-1})])
    return rows


def pool(vectors: Tensor, how: str) -> Tensor:
    vectors = vectors.double()
    if how == "last":
        return vectors[-1]
    if how == "first":
        return vectors[0]
    if how == "max":
        return torch.stack([max(column) for column in vectors.T])
    total = torch.zeros(vectors.shape[1], dtype=torch.float64)
    for vector in vectors:
        total = total + vector
    return total / len(vectors) if how == "mean" else total


def in_place_cap(
    model: LensModel, tokens: Tensor, mask: Tensor, groups: Tensor, layer: int, how: str
) -> Tensor:
    """Logits at every position of the full sequence; read them at units' last tokens."""
    hidden = torch.zeros(tokens.shape, dtype=torch.bool)
    for row, units in enumerate(units_of(groups)):
        for unit in units:
            for position in unit[:-1]:
                hidden[row, position] = True

    def write(resid: Tensor, hook: Any) -> Tensor:
        out = resid.clone()
        for row, units in enumerate(units_of(groups)):
            for unit in units:
                out[row, unit[-1]] = pool(resid[row, unit], how).to(resid.dtype)
        return out

    def knock_out(pattern: Tensor, hook: Any) -> Tensor:  # [batch head query key]
        # Dropping keys and dividing by what is left is the softmax over the other keys.
        left = pattern.masked_fill(hidden[:, None, None, :], 0.0)
        return left / left.sum(dim=-1, keepdim=True).clamp(min=1e-30)

    if not model.capabilities["edit_pattern"].held:
        # The same, with the mask of the call in the hook's place.
        resid = write(model.resid_pre(tokens, layer, attention_mask=mask), None)
        return model.resume(
            resid,
            layer,
            attention_mask=mask.masked_fill(hidden, 0),
            position_ids=(mask.cumsum(dim=1) - 1).clamp(min=0),
            read="logits",
        )
    hooks: list[Any] = [(f"blocks.{layer}.hook_resid_pre", write)]
    hooks += [(f"blocks.{k}.attn.hook_pattern", knock_out) for k in range(layer, model.n_layers)]
    return model.run_with_hooks(tokens, hooks, attention_mask=mask)
