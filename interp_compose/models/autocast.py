"""Padding under bfloat16 autocast, where a mask made for float32 overflows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from interp_compose.errors import CapabilityError
from interp_compose.models.hooks import in_evaluation_mode
from interp_compose.models.lens_model import LensModel


@contextmanager
def finite_scores(model: LensModel) -> Iterator[None]:
    """Attention scores stay above minus infinity for the length of a ``with`` block.

    A mask holds float32's least number, which TransformerLens' attention rounds to bfloat16's
    minus infinity. A padded position that attends to nothing but padding then has a softmax of NaN,
    and the NaN reaches every other token.

    Raises:
        CapabilityError: a padded batch of two is not finite in bfloat16 all the same.
    """
    points = {
        id(point): point
        for name, point in model.hook_dict.items()
        if name.endswith("attn.hook_attn_scores")
    }
    handles = [point.register_forward_hook(_bounded) for point in points.values()]
    model.proofs.scores_are_finite = True
    try:
        _prove(model)
        yield
    finally:
        model.proofs.scores_are_finite = False
        for handle in handles:
            handle.remove()


def _bounded(module: nn.Module, args: Any, scores: Tensor) -> Tensor:
    return scores.clamp(min=torch.finfo(scores.dtype).min)


@torch.no_grad()
def _prove(model: LensModel) -> None:
    width = min(3, model.n_ctx)
    tokens = torch.ones((2, width), dtype=torch.long, device=model.device)
    mask = torch.ones_like(tokens)
    mask[0, :-1] = 0
    with in_evaluation_mode(model.lens):
        if not bool(model(tokens, attention_mask=mask).isfinite().all()):
            return  # the weights themselves are broken
        with torch.autocast(model.device.type, torch.bfloat16):
            logits = model(tokens, attention_mask=mask)
    if not bool(logits.isfinite().all()):
        raise CapabilityError(
            f"{model.name!r} ({model.architecture}) gives NaN on a padded batch in bfloat16; train "
            'with precision="float32".'
        )
