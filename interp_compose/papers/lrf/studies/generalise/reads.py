"""What fuse-attention reads: means of its pattern over tokens, by layer, earlier layer and kind."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from interp_compose.papers.lrf.grammar import TokenKinds
from interp_compose.papers.lrf.models.seq2seq import SmallSeq2Seq
from interp_compose.papers.shared.text.vocabulary import BOS
from interp_compose.papers.shared.training.sequence_objective import (
    EncodedPair,
    SequenceBatch,
    TargetSequence,
    in_batches,
)
from interp_compose.training.objectives import Row

Rows = list[dict[str, Any]]
STACKS = {"encoder": "encoder_blocks", "decoder": "decoder_blocks"}


@dataclass(frozen=True, eq=False)
class WatchedSequence(TargetSequence):
    """The objective, which at each evaluation also looks at what fuse-attention reads.

    Attributes:
        marks: of the pairs of each split in ``curve``.
    """

    marks: Mapping[str, Sequence[TokenKinds]] = field(kw_only=True)

    def evaluate(self, trainer: Any) -> Mapping[str, Sequence[Row]]:
        measured: dict[str, Rows] = {"reads": [], "entropies": []}
        for split, pairs in self.curve.items():
            tables = reads_by_kind(trainer.model, pairs, self.marks[split])
            for rows, split_rows in zip(measured.values(), tables, strict=True):
                rows += [{"split": split, **row} for row in split_rows]
        return {**super().evaluate(trainer), **measured}


@torch.no_grad()
def reads_by_kind(
    model: SmallSeq2Seq, pairs: Sequence[EncodedPair], marks: Sequence[TokenKinds]
) -> tuple[Rows, Rows]:
    """What each head gives the outputs of earlier layers: means over the tokens of each kind.

    First a row for each stack, layer, head, kind and earlier layer: the ``weight``. Then a row for
    each stack, layer, head and kind: the ``entropy`` of a token's weights, −Σ w ln w, in nats, and
    its ``share`` of the largest that there is, the logarithm of the number of earlier layers (None
    where that is one). ``n`` counts tokens.
    """
    tokens = {"encoder": [one.source for one in marks], "decoder": [one.target for one in marks]}
    kinds = {stack: sorted({k for one in rows for k in one}) for stack, rows in tokens.items()}
    counts = {stack: torch.zeros(len(names), dtype=torch.long) for stack, names in kinds.items()}
    sums: dict[tuple[str, int], tuple[Tensor, Tensor]] = {}
    for places, batch in in_batches(pairs, BOS, model.b_U.device):
        index = {
            stack: torch.tensor([kinds[stack].index(kind) for i in places for kind in rows[i]])
            for stack, rows in tokens.items()
        }
        for stack, kind_ids in index.items():
            counts[stack] += torch.bincount(kind_ids, minlength=len(kinds[stack]))
        for (stack, layer), pattern in fuse_patterns(model, batch).items():
            weights = pattern.double().cpu()
            added = weights, torch.special.entr(weights).sum(dim=-1)
            if (stack, layer) not in sums:
                n = len(kinds[stack])
                nothing = [one.new_zeros(n, *one.shape[1:]) for one in added]
                sums[stack, layer] = nothing[0], nothing[1]
            for total, one in zip(sums[stack, layer], added, strict=True):
                total.index_add_(0, index[stack], one)
    reads, entropies = [], []
    for stack, layer in sorted(sums, key=in_order):
        weights, entropy = sums[stack, layer]
        _, n_heads, n_read = weights.shape
        for k, kind in enumerate(kinds[stack]):
            n = int(counts[stack][k])
            for head in range(n_heads):
                row = {"stack": stack, "layer": layer, "head": head, "kind": kind, "n": n}
                nats = float(entropy[k, head]) / n
                share = nats / math.log(n_read) if n_read > 1 else None
                entropies.append({**row, "entropy": nats, "share": share})
                reads += [
                    {**row, "earlier": earlier, "weight": float(weight) / n}
                    for earlier, weight in enumerate(weights[k, head], first_read(layer, n_read))
                ]
    return reads, entropies


def fuse_patterns(
    model: SmallSeq2Seq, batch: SequenceBatch
) -> dict[tuple[str, int], Float[Tensor, "token head earlier"]]:
    """The pattern of every fuse-attention, by stack and layer, at the tokens of a batch, one
    sequence after the other; padding is left out."""
    real = {"encoder": batch.source_mask.bool(), "decoder": batch.valid}
    patterns: dict[tuple[str, int], Tensor] = {}

    def keep(pattern: Float[Tensor, "batch head pos earlier"], hook: Any) -> None:
        blocks, layer, *_ = hook.name.split(".")
        stack = next(name for name, prefix in STACKS.items() if prefix == blocks)
        patterns[stack, int(layer)] = pattern.transpose(1, 2)[real[stack]]

    with model.hooks(fwd_hooks=[(lambda name: name.endswith("fuse_attn.hook_pattern"), keep)]):
        batch.hidden(model)
    return patterns


def first_read(layer: int, n_read: int) -> int:
    """The first of the ``n_read`` earlier layers' outputs that a fuse-attention reads; the last is
    that of the layer before."""
    return layer + 1 - n_read


def in_order(where: tuple[str, int]) -> tuple[int, int]:
    """What sorts stacks and layers: the encoder first."""
    stack, layer = where
    return list(STACKS).index(stack), layer
