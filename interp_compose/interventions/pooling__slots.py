"""Where each token of a batch goes when its sequence is pooled.

A *slot* is a position of the pooled sequence. Every unit (word, phrase) is one slot, every
special token keeps a slot of its own, padding has none (-1). Pooled sequences are aligned to the
right, so that the prediction position is always the last slot, whatever side was padded before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from interp_compose.tensors import positions_from_mask
from interp_compose.errors import SpanError

NONE = -1


@dataclass(frozen=True)
class Slots:
    """The pooled layout of a batch.

    Attributes:
        of_token: slot of each token, -1 for padding; right-aligned.
        n_slots: width of the pooled batch.
        mask: 1 where a slot holds something.
        last_token: index in the full sequence of each slot's last token (0 in empty slots).
    """

    of_token: Int[Tensor, "batch pos"]
    n_slots: int
    mask: Int[Tensor, "batch group"]
    last_token: Int[Tensor, "batch group"]

    @classmethod
    def from_groups(
        cls, groups: Int[Tensor, "batch pos"], attention_mask: Int[Tensor, "batch pos"]
    ) -> Slots:
        """From unit indices: -1 marks tokens that stay alone (specials), and padding.

        Reads the groups row by row: make slots on the CPU and move them with :meth:`to`.

        Raises:
            SpanError: the tokens of a unit are not next to one another, or a group is below -1.
        """
        if bool((groups < NONE).any()):
            raise SpanError(f"group {int(groups.min())}: expected 0 or more, or -1 for no group")
        valid = attention_mask.bool()
        groups = groups.masked_fill(~valid, NONE)
        before = torch.full_like(groups, NONE - 1)
        before[:, 1:] = groups[:, :-1]
        starts = valid & ((groups == NONE) | (groups != before))
        ordinal = starts.long().cumsum(dim=1)  # 1-based, constant inside a unit
        counts = ordinal.amax(dim=1, keepdim=True)
        _refuse_scattered(groups, starts)
        n_slots = int(counts.max())
        of_token = (ordinal - 1 + n_slots - counts).masked_fill(~valid, NONE)
        index = torch.arange(groups.shape[1], device=groups.device).expand_as(groups)
        last_token = torch.zeros(
            (groups.shape[0], n_slots), dtype=torch.long, device=groups.device
        ).scatter_reduce_(
            1, of_token.clamp(min=0), index.masked_fill(~valid, 0), reduce="amax", include_self=True
        )
        slot = torch.arange(n_slots, device=groups.device)
        mask = (slot[None, :] >= n_slots - counts).long()
        return cls(of_token, n_slots, mask, last_token.masked_fill(mask == 0, 0))

    def to(self, device: torch.device) -> Slots:
        """The same layout on another device."""
        return Slots(
            self.of_token.to(device),
            self.n_slots,
            self.mask.to(device),
            self.last_token.to(device),
        )

    def rows(self, chosen: Int[Tensor, "row"]) -> Slots:
        """The layout of the rows at these indices, as wide as before."""
        return Slots(
            self.of_token[chosen], self.n_slots, self.mask[chosen], self.last_token[chosen]
        )

    @property
    def sizes(self) -> Int[Tensor, "batch group"]:
        """Tokens in each slot."""
        ones = (self.of_token >= 0).long()
        return torch.zeros_like(self.mask).scatter_add_(1, self.of_token.clamp(min=0), ones)

    @property
    def affected(self) -> Int[Tensor, "batch"]:
        """1 for the rows that pooling changes: those with a slot of several tokens."""
        return (self.sizes > 1).any(dim=1).long()

    def positions(
        self, token_positions: Int[Tensor, "batch pos"], *, renumber: bool = False
    ) -> Int[Tensor, "batch group"]:
        """What rotary embeddings read: the position of each slot's last token, or 0, 1, 2, …"""
        if renumber:
            return positions_from_mask(self.mask)
        return token_positions.gather(1, self.last_token).masked_fill(self.mask == 0, 0)


def shuffled_groups(
    groups: Sequence[int], *, seed: int, example: int, keep_last: bool = True
) -> list[int]:
    """The same unit sizes at random places: pooling that ignores where words begin and end.

    Specials (-1) stay where they are and, with ``keep_last``, the last unit, from which a model
    predicts the next token. Seeded by ``(seed, example)``, so that an example is shuffled alike in
    any batch.
    """
    ids = np.asarray(groups)
    pooled = ids[ids >= 0]
    if pooled.size == 0:
        return list(groups)
    sizes = np.bincount(pooled - pooled.min())
    moved = len(sizes) - int(keep_last)
    sizes[:moved] = np.random.default_rng([seed, example]).permutation(sizes[:moved])
    shuffled = np.repeat(np.arange(len(sizes)), sizes)
    out = ids.copy()
    out[ids >= 0] = shuffled
    return [int(unit) for unit in out]


def _refuse_scattered(groups: Int[Tensor, "batch pos"], starts: Tensor) -> None:
    for row in range(groups.shape[0]):
        opened = groups[row][starts[row] & (groups[row] != NONE)]
        if opened.numel() != opened.unique().numel():
            raise SpanError(
                f"groups of row {row} are scattered: {groups[row].tolist()}; the tokens of a unit "
                "must be next to one another."
            )
