"""A second model with the same weights, which can be trained while the first stays as it is."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from interp_compose.errors import CapabilityError, InterventionError
from interp_compose.models.hooks import in_evaluation_mode
from interp_compose.models.lens_model import LensModel


def copy_model(model: LensModel) -> LensModel:
    """A deep copy, proven to compute the same and to share no weight with the original.

    Hooks that came with the model are copied with it.

    Raises:
        InterventionError: hooks or ``pool_at`` blocks are open: they would be copied, and stay.
        CapabilityError: the copy computes something else, or shares memory with the original.
    """
    if model.active_hooks or model.wrappers or model.preparations:
        raise InterventionError(
            f"{model.name!r} has open interventions ({model.active_hooks or 'pool_at'}), which a "
            "copy would keep for good; end their `with` blocks first."
        )
    # What a call left behind, such as an attention pattern in its graph, cannot be copied as it is.
    left = [tensor for module in model.lens.modules() for tensor in vars(module).values()]
    memo = {id(t): t.detach() for t in left if isinstance(t, Tensor) and not t.is_leaf}
    twin = copy.deepcopy(model, memo)
    twin._built_in = twin._hooks_of_the_lens()
    addresses = {weight.data_ptr() for weight in model.parameters()}
    shared = [weight for weight in twin.parameters() if weight.data_ptr() in addresses]
    if shared or not _alike(model, twin):
        raise CapabilityError(
            f"{model.name!r} ({model.architecture}) cannot be copied: the copy "
            f"{'shares weights with it' if shared else 'computes something else'}. Load the model "
            "anew for each training instead."
        )
    return twin


@torch.no_grad()
def _alike(model: LensModel, twin: LensModel) -> bool:
    tokens = torch.arange(min(4, model.n_ctx), device=model.device)[None] % model.d_vocab
    with in_evaluation_mode(model.lens), in_evaluation_mode(twin.lens):
        # NaN is copied as NaN: a broken model is not the copy's fault.
        return torch.allclose(model(tokens), twin(tokens), rtol=0, atol=0, equal_nan=True)
