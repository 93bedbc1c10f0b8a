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
from interp_compose.training.sequences import EncodedPair, TargetSequence, in_batches

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
    counts: dict[str, int] = defaultdict(int)
    for _, batch in in_batches(pairs, bos, model.b_U.device):
        real = {"encoder": batch.source_mask.bool(), "decoder": batch.valid}
        for stack, where in real.items():
            counts[stack] += int(where.sum())

        def add(pattern: Float[Tensor, "batch head pos layer"], hook: Any) -> None:
            blocks, layer, *_ = hook.name.split(".")
            stack = next(name for name, prefix in STACKS.items() if prefix == blocks)
            chosen = pattern.transpose(1, 2)[real[stack]]  # noqa: B023  called in this very turn
            key = stack, int(layer)
            total = chosen.double().sum(dim=0).cpu()
            totals[key] = totals[key] + total if key in totals else total

        with model.hooks(fwd_hooks=[(_is_pattern, add)]):
            batch.hidden(model)
    return [
        {"stack": stack, "layer": layer, "head": head, "earlier": earlier, "weight": weight}
        for (stack, layer), total in sorted(totals.items(), key=lambda one: _place(*one[0]))
        for head, weights in enumerate((total / counts[stack]).tolist())
        for earlier, weight in enumerate(weights)
    ]


def _place(stack: str, layer: int) -> tuple[int, int]:
    return list(STACKS).index(stack), layer


def _is_pattern(name: str) -> bool:
    return name.endswith("fuse_attn.hook_pattern")
