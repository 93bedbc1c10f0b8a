"""Activations of one call, by hook point: those named, those that a filter chooses, or all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose.errors import OptionError, did_you_mean, warn
from interp_compose.models.hook_proofs import field, instead_of
from interp_compose.models.hooks import check_point, hooked, matching_hooks, takes_hooks
from interp_compose.models.recompute import refuse_recording
from interp_compose.models.shown import READ_INSTEAD, hook_points
from interp_compose.types import HookFn, Read

if TYPE_CHECKING:
    from interp_compose.models.lens_model import LensModel
    from interp_compose.models.texts import Inputs

Names = str | Sequence[str] | Callable[[str], bool] | None
"""Hook points: one or several by name, those whose name a filter takes, or (None) all."""


class Activations(dict[str, Tensor]):
    """Activations by the names that were asked for.

    A key may be another name of the same hook point as well, or TransformerLens' short form:
    ``store["resid_pre", 2]``, ``store["pattern", -1]``, ``store["embed"]``.
    """

    def __init__(self, values: Mapping[str, Tensor], model: LensModel) -> None:
        super().__init__(values)
        self._model = model

    def __repr__(self) -> str:
        return f"<{len(self)} activations: {_some(list(self))}>"

    def __missing__(self, key: Any) -> Tensor:
        points = self._model.hook_dict
        kept = {id(points[name]): name for name in self}
        for name in self._spelled(key):
            if name in points and id(points[name]) in kept:
                self._model.proofs.prove_shown([name])
                return self[kept[id(points[name])]]
        raise OptionError(
            f"no activation {key!r} was kept{did_you_mean(str(key), self, 3)}; expected one of "
            f"{len(self)}, such as {_some(list(self), 3)}, or a short form: ('resid_pre', 0)."
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


def captured(
    model: LensModel,
    tokens: Inputs,
    names: Names,
    *,
    attention_mask: Int[Tensor, "batch pos"] | None,
    grad: bool,
    read: Read,
) -> tuple[Float[Tensor, "batch _ width"], Activations]:
    """The output that ``read`` names, and activations that are what their names say.

    Raises:
        OptionError: a name that the model does not have, or a filter that takes none.
        CapabilityError: a name of a hook point that shows something else than it is named for.
        InterventionError: a named hook point that never fired; of a filter's, that none did.
        UserWarning: a filter took hook points that show something else; they are left out.
    """
    options: Any = {"attention_mask": attention_mask, "grad": grad, "read": read}
    if isinstance(names, str) or not (names is None or callable(names)):
        exact = [names] if isinstance(names, str) else names
        model.proofs.prove_shown(exact)
        return read_at(model, tokens, exact, **options)
    matching = list(hook_points(model)) if names is None else matching_hooks(model, names)
    chosen = [name for name in matching if takes_hooks(model, name)]
    wrong = model.proofs.shown_otherwise(chosen)
    if len(wrong) == len(chosen):  # nothing is left: refused as if it had been named
        check_point(model, matching[0])
        model.proofs.prove_shown(chosen)
    if wrong:
        instead = "; ".join(dict.fromkeys(map(instead_of, wrong)))
        warn(
            f"{len(wrong)} of {len(chosen)} hook points of {model.architecture} show something "
            f"else than their names say, and are left out: {_some(list(wrong))}. Read instead: "
            f"{instead}. model.capture_as_shown reads them as they are.",
        )
    right = [name for name in chosen if name not in wrong]
    if names is None:
        right += _named_otherwise(model, wrong)
    return read_at(model, tokens, right, all_fire=False, **options)


def read_at(
    model: LensModel,
    tokens: Inputs,
    names: Sequence[str],
    *,
    attention_mask: Int[Tensor, "batch pos"] | None,
    grad: bool,
    read: Read,
    all_fire: bool = True,
) -> tuple[Float[Tensor, "batch _ width"], Activations]:
    """The output, and what hook points show. Unless all have to fire, one is enough."""
    store: dict[str, Tensor] = {}

    def storing(name: str) -> HookFn:
        def store_activation(activation: Tensor, hook: Any) -> None:
            if grad and not torch.is_grad_enabled():  # under use_reentrant=True
                refuse_recording(f"capture(grad=True) of {name}")
            store[name] = activation

        return store_activation

    with (
        torch.set_grad_enabled(grad),
        model.exclusive.held(model.name),
        hooked(model, [(name, storing(name)) for name in names], all_fire=all_fire),
    ):
        out = model.forward(tokens, attention_mask=attention_mask, read=read)
    return out, Activations({name: store[name] for name in names if name in store}, model)


def _named_otherwise(model: LensModel, names: Iterable[str]) -> list[str]:
    """Other names of these hook points, which say no more than they show."""
    points, others = model.hook_dict, dict[int, str]()
    wrong = {id(points[name]) for name in names}
    for name, point in points.items():
        if id(point) in wrong and field(name) not in READ_INSTEAD:
            others.setdefault(id(point), name)
    return list(others.values())


def _some(names: Sequence[str], n: int = 4) -> str:
    return ", ".join(names[:n]) + (f" and {len(names) - n} more" if len(names) > n else "")
