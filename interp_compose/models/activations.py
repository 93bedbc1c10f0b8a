"""Activations of one call, by hook point: those named, those that a filter chooses, or all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose.errors import OptionError, did_you_mean
from interp_compose.models.base import BaseModel
from interp_compose.models.recompute import refuse_recording
from interp_compose.types import HookFn, Inputs, Read

Names = str | Sequence[str] | Callable[[str], bool] | None
"""Hook points: one or several by name, those whose name a filter takes, or (None) all."""


class Activations(dict[str, Tensor]):
    """Activations by the names that were given.

    A key may be another name of the same hook point as well, or TransformerLens' short form:
    ``store["resid_pre", 2]``, ``store["pattern", -1]``, ``store["embed"]``.
    """

    def __init__(
        self,
        values: Mapping[str, Tensor],
        model: BaseModel,
        check: Callable[[Sequence[str]], None] = lambda names: None,
    ) -> None:
        super().__init__(values)
        self._model = model
        self._check = check  # refuses a name of what a hook point does not show

    def __repr__(self) -> str:
        return f"<{len(self)} activations: {some(list(self))}>"

    if not TYPE_CHECKING:  # a type checker refuses unknown names itself

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}{self._theirs(name)}",
                name=name,
            )

    def _theirs(self, name: str) -> str:
        """Where TransformerLens has an attribute of its cache."""
        lens = getattr(vars(self).get("_model"), "lens", None)
        if name.startswith("_") or not hasattr(type(lens), "to_tokens"):  # made here
            return ""
        from transformer_lens import ActivationCache

        if not hasattr(ActivationCache, name):
            return ""
        return (
            f"; TransformerLens' own cache has it: tokens, _ = model.tokenize(text); "
            f"model.lens.run_with_cache(tokens)[1].{name}"
        )

    def __missing__(self, key: Any) -> Tensor:
        points = self._model.hook_dict
        kept = {id(points[name]): name for name in self}
        for name in self._spelled(key):
            if name in points and id(points[name]) in kept:
                self._check([name])
                return self[kept[id(points[name])]]
        raise OptionError(
            f"no activation {key!r} was kept{did_you_mean(str(key), self, 3)}; expected one of "
            f"{len(self)}, such as {some(list(self), 3)}, or a short form: ('resid_pre', 0)."
        )

    def _spelled(self, key: Any) -> list[str]:
        """What a key may mean, in full."""
        try:
            from transformer_lens.utilities import get_act_name
        except ImportError:  # 3.9
            from transformer_lens.utils import get_act_name

        model, n_layers = self._model, self._model.n_layers
        short = key if isinstance(key, tuple) else (key,)
        layer = short[1] if len(short) > 1 else None
        if isinstance(layer, int) and -n_layers <= layer < 0:
            layer = layer + n_layers
            short = (short[0], layer, *short[2:])
        spelled: list[str] = [key] if isinstance(key, str) else []
        with suppress(TypeError, ValueError, AttributeError, KeyError):  # no short form
            full = get_act_name(*short)
            spelled.append(full)
            if isinstance(layer, int) and 0 <= layer < n_layers:
                spelled.append(full.replace(f"blocks.{layer}.", f"{model.prefix(layer)}.", 1))
        return spelled

    def __reduce__(self) -> Any:
        return dict, (dict(self),)  # a copy, and what is pickled, is a dictionary


def read_at(
    model: BaseModel,
    tokens: Inputs,
    names: Sequence[str],
    *,
    attention_mask: Int[Tensor, "batch pos"] | None = None,
    grad: bool = False,
    read: Read = "logits",
    all_fire: bool = True,
    check: Callable[[Sequence[str]], None] = lambda names: None,
) -> tuple[Float[Tensor, "batch _ width"], Activations]:
    """The output, and what hook points show. Unless all have to fire, one is enough; ``check``
    refuses names by which the activations cannot be looked up later."""
    store: dict[str, Tensor] = {}

    def storing(name: str) -> HookFn:
        def store_activation(activation: Tensor, hook: Any) -> Tensor | None:
            if grad and not torch.is_grad_enabled():  # under use_reentrant=True
                refuse_recording(f"capture(grad=True) of {name}")
            store[name] = activation
            # What is shown in another shape is beside the model's path, unless it is handed back.
            is_beside = grad and getattr(hook, "hook_conversion", None) is not None
            return activation if is_beside else None

        return store_activation

    with (
        torch.set_grad_enabled(grad),
        model.open_blocks.held(),
        model.open_blocks.hooked([(name, storing(name)) for name in names], all_fire=all_fire),
    ):
        out = model.forward(tokens, attention_mask=attention_mask, read=read)
    return out, Activations({name: store[name] for name in names if name in store}, model, check)


def some(names: Sequence[str], n: int = 4) -> str:
    return ", ".join(names[:n]) + (f" and {len(names) - n} more" if len(names) > n else "")
