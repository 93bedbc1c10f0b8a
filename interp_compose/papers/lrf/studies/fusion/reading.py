"""What is left of a model without an earlier layer in its fuse-attention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from interp_compose.errors import InterventionError
from interp_compose.interventions.mask_attention import EdgeKnockout
from interp_compose.papers.lrf.models.seq2seq import THIRD, SmallSeq2Seq
from interp_compose.papers.lrf.studies.generalise.reads import STACKS
from interp_compose.papers.shared.text.vocabulary import BOS
from interp_compose.papers.shared.training.sequence_objective import EncodedPair, exact_match

Rows = list[dict[str, Any]]
ALL: Final = "all"
"""Every layer of a stack at once."""


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
    """The output of an earlier layer is knocked out of the fuse-attention of ``layers``.

    Its score is at the lowest number before the softmax, so that nothing of it reaches a query and
    the others share the weight. As in :func:`.mask_attention`, a query left without any key attends
    to nothing: its pattern is 0, and the sub-layer adds its b_O alone.

    Raises:
        InterventionError: one of ``layers`` has no fuse-attention that reads it; nothing was
            knocked out, since the model was never called.
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
                f"nothing was knocked out of {stack} layer {layer}: the model was not called "
                "inside the `with` block"
            )


def cut_rows(model: SmallSeq2Seq, pairs: Sequence[EncodedPair]) -> Rows:
    """Exact match that is left with one earlier layer knocked out of the fuse-attention of one
    layer, or of all layers of a stack that read it.

    A row for each ``stack``, ``layers`` (a number or "all") and ``earlier``: ``n_right``, and of
    the model as it is ``n_clean``, of ``n`` pairs. None without fuse-attention.
    """
    n_clean = int(exact_match(model, pairs, BOS).sum())
    rows = []
    for stack, reads in read_layers(model).items():
        cuts = [(str(layer), [layer], earlier) for layer in reads for earlier in reads[layer]]
        for earlier in reads:  # what leaves layer i - 1 is read from layer i on
            reading_layers = [layer for layer in reads if earlier in reads[layer]]
            cuts.append((ALL, reading_layers, earlier))
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
