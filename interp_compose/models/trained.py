"""Somebody's model while it is trained, as a :class:`.lens_model.LensModel` for the time of a look.

What this library wraps without changing it is looked at where it is. A Hugging Face model would be
changed by TransformerLens' bridge (its fused projections are split, so that an optimiser would
train weights that no longer act): each look wraps a copy of it, whose logits are compared with the
module's own as :func:`.load.load_model` compares them, and which is gone after the look.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from torch import Tensor, nn

from interp_compose.errors import CapabilityError
from interp_compose.models.capabilities import Capabilities
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.models.untouched import untouched
from interp_compose.models.weight_matrices import check_plain

SHARDED: Final = {
    "DataParallel",
    "DistributedDataParallel",
    "FullyShardedDataParallel",
    "FSDPModule",
    "DeepSpeedEngine",
}
"""Names of classes that spread a module over devices or processes."""


class TrainedModel:
    """A model that is trained by somebody else.

    Args:
        source: a loaded model, or what :func:`.load.load_model` wraps.
        tokenizer: for a ``source`` that is no loaded model.

    Raises:
        CapabilityError: a part of it is compiled or sharded; or the model cannot be loaded.
        OptionError: it is no model.
    """

    def __init__(self, source: LensModel | nn.Module, *, tokenizer: Any = None) -> None:
        module = source.lens if isinstance(source, LensModel) else source
        check_alone(module)
        self.module: nn.Module = module
        self._tokenizer = tokenizer
        # Outcomes alone: what proves them would keep the copy of the first look in memory.
        self._proven = Capabilities()
        self._lens: LensModel | None = None
        if isinstance(source, LensModel):
            self._lens = source
        elif not hasattr(source, "config") or hasattr(source, "cfg"):
            with untouched(module):
                self._lens = load_model(source, tokenizer=tokenizer)

    @contextmanager
    def looked_at(self) -> Iterator[LensModel]:
        """The model with its present weights, for a ``with`` block; training is not affected
        (:func:`.untouched.untouched`)."""
        with untouched(self.module):
            lens = self._copied() if self._lens is None else self._lens
            check_plain(lens)
            yield lens

    def _copied(self) -> LensModel:
        lens = load_model(copied_module(self.module), tokenizer=self._tokenizer)
        lens.proofs.take_over(self._proven)
        return lens


def check_alone(module: nn.Module) -> None:
    """Refuse a module of which a part is compiled, or spread over devices or processes.

    Raises:
        CapabilityError: names the part and its class, and what to pass instead.
    """
    for name, part in module.named_modules():
        where = f"its part {name!r}" if name else "the model"
        kind = type(part).__name__
        if hasattr(part, "_orig_mod") or getattr(part, "_compiled_call_impl", None) is not None:
            raise CapabilityError(
                f"{where} ({kind}) is compiled by torch.compile, which leaves out hooks; pass the "
                "module that was compiled (compiled._orig_mod): its weights are the same ones. "
                "After module.compile(), train without it."
            )
        if SHARDED & {base.__name__ for base in type(part).__mro__}:
            raise CapabilityError(
                f"{where} is a {kind}, spread over devices or processes; of DataParallel and "
                "DistributedDataParallel pass .module, in one process; of a sharded model measure "
                "its saved weights."
            )


def copied_module(module: nn.Module) -> nn.Module:
    """A copy in evaluation mode, without gradients and without the autocast that accelerate puts
    around a forward pass."""
    memo: dict[int, Any] = {
        id(weight): nn.Parameter(weight.detach().clone(), requires_grad=False)
        for weight in module.parameters()
    }
    # what a call left behind in its graph cannot be copied as it is
    leftovers = [value for part in module.modules() for value in vars(part).values()]
    memo |= {id(t): t.detach() for t in leftovers if isinstance(t, Tensor) and not t.is_leaf}
    twin = copy.deepcopy(module, memo)
    if "_original_forward" in vars(twin):
        del twin._original_forward
        vars(twin).pop("forward", None)
    return twin.eval()
