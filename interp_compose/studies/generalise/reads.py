"""What fuse-attention reads: the mean of its pattern over tokens, by layer and earlier layer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from interp_compose.models.seq2seq import SmallSeq2Seq
from interp_compose.training.objectives import Row
from interp_compose.training.sequences import (
    EncodedPair,
    SequenceBatch,
    TargetSequence,
    in_batches,
)

STACKS = {"encoder": "encoder_blocks", "decoder": "decoder_blocks"}


@dataclass(frozen=True, eq=False)
class WatchedSequence(TargetSequence):
    """The objective, which at each evaluation also looks at what fuse-attention reads."""

    def evaluate(self, trainer: Any) -> Mapping[str, Sequence[Row]]:
        reads = [
            {"split": split, **row}
            for split, pairs in self.curve.items()
            for row in fuse_reads(trainer.model, pairs, self.bos)
        ]
        return {**super().evaluate(trainer), "reads": reads}


@torch.no_grad()
def fuse_reads(model: SmallSeq2Seq, pairs: Sequence[EncodedPair], bos: int) -> list[dict[str, Any]]:
    """A row for each stack, layer, head and earlier layer: the weight that its fuse-attention gives
    the output of that layer (0: the embeddings), a mean over the tokens of all pairs.

    None where the model has no fuse-attention.
    """
    totals: dict[tuple[str, int], Tensor] = {}
    counts: dict[tuple[str, int], int] = defaultdict(int)
    for _, batch in in_batches(pairs, bos, model.b_U.device):
        for where, pattern in fuse_patterns(model, batch).items():
            total = pattern.double().sum(dim=0).cpu()
            totals[where] = totals[where] + total if where in totals else total
            counts[where] += len(pattern)
    return [
        {"stack": stack, "layer": layer, "head": head, "earlier": earlier, "weight": weight}
        for (stack, layer), total in sorted(totals.items(), key=lambda one: in_order(one[0]))
        for head, weights in enumerate((total / counts[stack, layer]).tolist())
        for earlier, weight in enumerate(weights, start=first_read(layer, len(weights)))
    ]


def fuse_patterns(
    model: SmallSeq2Seq, batch: SequenceBatch
) -> dict[tuple[str, int], Float[Tensor, "token head earlier"]]:
    """The pattern of every fuse-attention, by stack and layer, at the tokens of a batch, one
    sequence after the other; padding is left out."""
    real = {"encoder": batch.source_mask.bool(), "decoder": batch.valid}
    found: dict[tuple[str, int], Tensor] = {}

    def keep(pattern: Float[Tensor, "batch head pos earlier"], hook: Any) -> None:
        blocks, layer, *_ = hook.name.split(".")
        stack = next(name for name, prefix in STACKS.items() if prefix == blocks)
        found[stack, int(layer)] = pattern.transpose(1, 2)[real[stack]]

    with model.hooks(fwd_hooks=[(_is_pattern, keep)]):
        batch.hidden(model)
    return found


def first_read(layer: int, n_read: int) -> int:
    """The first of the ``n_read`` earlier layers' outputs that a fuse-attention reads; the last is
    that of the layer before."""
    return layer + 1 - n_read


def in_order(where: tuple[str, int]) -> tuple[int, int]:
    """What sorts stacks and layers: the encoder first."""
    stack, layer = where
    return list(STACKS).index(stack), layer


def _is_pattern(name: str) -> bool:
    return name.endswith("fuse_attn.hook_pattern")
