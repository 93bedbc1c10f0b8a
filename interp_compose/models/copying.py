"""Deep copies of a model, proven to compute the same."""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import Tensor

from interp_compose.errors import CapabilityError
from interp_compose.models.base import BaseModel
from interp_compose.models.effective_weights import deep_copied
from interp_compose.models.hooks import in_evaluation_mode
from interp_compose.models.open_blocks import OpenBlocks
from interp_compose.models.ready import check_unedited
from interp_compose.models.settled import settled

M = TypeVar("M", bound=BaseModel)


def copy_model(model: M, memo: dict[int, Any] | None = None) -> M:
    """A deep copy, proven to compute the same and to share no weight with the original; what
    :func:`copy.deepcopy` of a model gives.

    Hooks that TransformerLens or transformers added are copied with it. ``memo`` is deepcopy's.

    Raises:
        InterventionError: hooks or ``pool_at`` blocks are open: the copy would keep them.
        CapabilityError: the copy computes something else, or shares memory with the original.
    """
    check_unedited(model, "a copy would keep for good")
    # What a call left behind, such as an attention pattern in its graph, cannot be copied as it is.
    leftovers = [tensor for module in model.lens.modules() for tensor in vars(module).values()]
    memo = {} if memo is None else memo
    memo |= {id(t): t.detach() for t in leftovers if isinstance(t, Tensor) and not t.is_leaf}
    other = memo[id(model)] = object.__new__(type(model))
    vars(other).update(deep_copied(vars(model), memo))
    settled(other.lens)
    other.open_blocks = OpenBlocks(other)
    addresses = {weight.data_ptr() for weight in model.parameters()}
    shared = [weight for weight in other.parameters() if weight.data_ptr() in addresses]
    if shared or not _alike(model, other):
        raise CapabilityError(
            f"{model.name!r} ({model.architecture}) cannot be copied: the copy "
            f"{'shares weights with it' if shared else 'computes something else'}. Load the model "
            "again for each training instead."
        )
    return other


@torch.no_grad()
def _alike(model: BaseModel, other: BaseModel) -> bool:
    tokens = model.random_tokens(1, min(4, model.n_ctx), torch.Generator().manual_seed(0))
    tokens = tokens.to(model.device)
    with in_evaluation_mode(model.lens), in_evaluation_mode(other.lens):
        # NaN is copied as NaN: a broken model is not the copy's fault.
        return torch.allclose(
            model.forward(tokens), other.forward(tokens), rtol=0, atol=0, equal_nan=True
        )
