"""What fuse-attention reads, by kind of token, and what is left without an earlier layer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from interp_compose.errors import InterventionError
from interp_compose.interventions.mask_attention import EdgeKnockout
from interp_compose.models.seq2seq import THIRD, SmallSeq2Seq
from interp_compose.studies.fusion.grammar import Marks
from interp_compose.studies.generalise.reads import STACKS, first_read, fuse_patterns, in_order
from interp_compose.text.vocabulary import BOS
from interp_compose.training.sequences import EncodedPair, exact_match, in_batches

Rows = list[dict[str, Any]]
ALL: Final = "all"
"""Every layer of a stack at once."""


@torch.no_grad()
def reads_by_kind(
    model: SmallSeq2Seq, pairs: Sequence[EncodedPair], marks: Sequence[Marks]
) -> tuple[Rows, Rows]:
    """What each head gives the outputs of earlier layers: means over the tokens of each kind.

    First a row for each stack, layer, head, kind and earlier layer: the ``weight``. Then a row for
    each stack, layer, head and kind: the ``entropy`` of a token's weights, −Σ w ln w, in nats, and
    its ``share`` of the largest that there is, the logarithm of the number of earlier layers (NaN
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
        for stack, found in index.items():
            counts[stack] += torch.bincount(found, minlength=len(kinds[stack]))
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
                share = nats / math.log(n_read) if n_read > 1 else math.nan
                entropies.append({**row, "entropy": nats, "share": share})
                reads += [
                    {**row, "earlier": earlier, "weight": float(weight) / n}
                    for earlier, weight in enumerate(weights[k, head], first_read(layer, n_read))
                ]
    return reads, entropies


def read_layers(model: SmallSeq2Seq) -> dict[str, dict[int, range]]:
    """For each stack with fuse-attention and each of its layers, which earlier layers it reads."""
    cfg = model.cfg
    depths = (cfg.n_encoder_layers, cfg.n_decoder_layers)
    return {
        stack: {
            layer: range(layer if third == "previous" else 0, layer + 1) for layer in range(depth)
        }
        for stack, third, depth in zip(STACKS, THIRD[cfg.fuse], depths, strict=True)
        if third in ("fuse", "previous")
    }


@contextmanager
def layer_cut(
    model: SmallSeq2Seq, stack: str, layers: Sequence[int], earlier: int
) -> Iterator[None]:
    """The output of an earlier layer is cut out of the fuse-attention of ``layers``.

    Its score is at the lowest number before the softmax, so that nothing of it reaches a query and
    the others share the weight. As in :func:`.mask_attention`, a query left without any key attends
    to nothing: its pattern is 0, and the sub-layer adds its b_O alone.

    Raises:
        InterventionError: one of ``layers`` has no fuse-attention that reads it; nothing was cut,
            since the model was never called.
    """
    reads = read_layers(model).get(stack, {})
    edits = {}
    for layer in layers:
        if earlier not in reads.get(layer, ()):
            raise InterventionError(
                f"{stack} layer {layer} has no fuse-attention that reads the output {earlier}; "
                f"there are {reads or 'none in this stack'}"
            )
        edits[layer] = EdgeKnockout(
            _only(earlier - reads[layer][0]), heads=None, before_softmax=True
        )
    hooks = [
        (f"{STACKS[stack]}.{layer}.fuse_attn.hook_{point}", _as_hook(getattr(edit, method)))
        for layer, edit in edits.items()
        for point, method in (("attn_scores", "scores"), ("pattern", "pattern"))
    ]
    with model.hooks(fwd_hooks=hooks):
        yield
    for layer, edit in edits.items():
        if int(edit.n_cut) == 0:
            raise InterventionError(
                f"nothing was cut out of {stack} layer {layer}: the model was not called inside "
                "the `with` block"
            )


def cut_rows(model: SmallSeq2Seq, pairs: Sequence[EncodedPair]) -> Rows:
    """Exact match that is left with one earlier layer cut out of the fuse-attention of one layer,
    or of all layers of a stack that read it.

    A row for each ``stack``, ``layers`` (a number or "all") and ``earlier``: ``n_right``, and of
    the model as it is ``n_clean``, of ``n`` pairs. None without fuse-attention.
    """
    n_clean = int(exact_match(model, pairs, BOS).sum())
    rows = []
    for stack, reads in read_layers(model).items():
        cuts = [(str(layer), [layer], earlier) for layer in reads for earlier in reads[layer]]
        for earlier in reads:  # what leaves layer i - 1 is read from layer i on
            of_all = [layer for layer in reads if earlier in reads[layer]]
            cuts.append((ALL, of_all, earlier))
        for name, layers, earlier in cuts:
            with layer_cut(model, stack, layers, earlier):
                n_right = int(exact_match(model, pairs, BOS).sum())
            row = {"stack": stack, "layers": name, "earlier": earlier}
            rows.append({**row, "n_right": n_right, "n_clean": n_clean, "n": len(pairs)})
    return rows


def _only(column: int) -> Any:
    """Every pair of a query and this key."""

    def pairs(scores: Float[Tensor, "batch head query key"]) -> Bool[Tensor, "batch query key"]:
        out = torch.zeros_like(scores[:, 0], dtype=torch.bool)
        out[..., column] = True
        return out

    return pairs


def _as_hook(edit: Any) -> Any:
    return lambda value, hook: edit(value)
