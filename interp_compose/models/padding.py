"""Whether padding makes NaN of real tokens: tried once for each dtype in which a model runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from jaxtyping import Int
from torch import Tensor

from interp_compose.errors import CapabilityError

if TYPE_CHECKING:
    from interp_compose.models.lens_model import LensModel


class PaddingProof:
    """What was found of a model so far."""

    def __init__(self, model: LensModel) -> None:
        self._model = model
        self._holds: dict[torch.dtype, bool] = {}

    def check(self, mask: Int[Tensor, "batch pos"]) -> None:
        """Refuse padding in float64 where it makes NaN of real tokens.

        transformers' eager attention takes its softmax in float32 on many architectures, where the
        lowest float64, which it puts at masked keys, is minus infinity; padding on the left then
        attends to nothing but minus infinity.

        Raises:
            CapabilityError: it does.
        """
        model, dtype = self._model, self._model.dtype
        if dtype != torch.float64 or model.is_proving or bool(mask.all()):
            return
        if dtype not in self._holds:
            length = min(3, model.n_ctx)
            tokens = model.random_tokens(1, length, torch.Generator().manual_seed(0))
            padded = torch.ones_like(tokens)
            padded[0, 0] = 0
            with torch.no_grad():
                hidden = model.probing(tokens, padded, read="hidden")
            self._holds[dtype] = bool(hidden[:, 1:].isfinite().all())
        if not self._holds[dtype]:
            raise CapabilityError(
                f"{model.architecture} in float64 makes NaN of padded batches: transformers takes "
                "this attention's softmax in float32. Run texts of one length at a time, or load "
                "the model in float32."
            )
