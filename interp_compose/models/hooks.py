"""Hooks for the length of a block: which fired, and which edited, by a new tensor or in place."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from interp_compose.errors import (
    InputError,
    InterventionError,
    OptionError,
    first_line,
)
from interp_compose.models.recompute import acted
from interp_compose.types import HookFn


class HookLog:
    """Watches hook functions from inside the calls that TransformerLens makes of them."""

    def __init__(self) -> None:
        self.open = True
        self._fired: dict[str, bool] = {}
        self._edited: set[str] = set()
        self._returned: set[str] = set()
        self._compared: dict[str, bool] = {}

    def watching(self, fn: HookFn, name: str, *, compare: bool = False) -> HookFn:
        """``fn``, with a note of whether it ran and whether it edited the activation; with
        ``compare``, by the numbers before and after."""
        self._fired.setdefault(name, False)
        called = _as_called(fn, name)
        # What is written through `.data` does not count as an edit in place.
        compare = compare or "data" in getattr(getattr(fn, "__code__", None), "co_names", ())

        def hook_fn(activation: Tensor, hook: Any) -> Tensor | None:
            self._fired[name] = True
            version = _version(activation)  # an edit in place shows in its counter alone
            before = activation.detach().clone() if compare else None
            result = called(activation, hook)
            if result is not None:
                self._returned.add(name)
                _check_result(result, activation, name)
                if isinstance(result, nn.Parameter):  # a module that keeps it would take it over
                    result = result.view_as(result)
            in_place = _version(activation) != version
            if before is not None:
                in_place = in_place or not torch.equal(activation, before)
                after = activation if result is None else result
                changed = not torch.equal(after, before)
                self._compared[name] = self._compared.get(name, False) or changed
            if in_place and (result is None or result is activation):
                # Norms of TransformerLens take an edit for one by the tensor that a hook returns.
                result = activation.view_as(activation)
            if in_place or (result is not None and result is not activation):
                self._edited.add(name)
                # A block that is computed again in the backward pass has to have the same edits.
                acted(f"the edit at {name}", fn, lambda: self.open)
            return result

        return hook_fn

    @property
    def silent(self) -> list[str]:
        """Hook points that were never reached."""
        return [name for name, fired in self._fired.items() if not fired]

    @property
    def any_fired(self) -> bool:
        """Whether a hook point was reached."""
        return any(self._fired.values())

    @property
    def edited(self) -> list[str]:
        """Hook points at which an activation was edited so far."""
        return sorted(self._edited)

    @property
    def unchanged(self) -> list[str]:
        """Hook points whose activations were compared, and in every call had the same numbers."""
        return sorted(name for name, changed in self._compared.items() if not changed)

    @property
    def read(self) -> list[str]:
        """Hook points at which every function only looked: it returned None, and edited nothing."""
        fired = {name for name, fired in self._fired.items() if fired}
        return sorted(fired - self._edited - self._returned)


def _check_result(result: object, activation: Tensor, name: str) -> None:
    """Refuse, by name, what cannot replace an activation."""
    place = f"on {activation.device}"
    expected = f"a tensor {list(activation.shape)} of {activation.dtype} {place}"
    returned = f"a {type(result).__name__}"
    if isinstance(result, Tensor):
        cast = torch.is_autocast_enabled(activation.device.type)
        placed = result.layout == activation.layout and result.device == activation.device
        fits = placed and result.shape == activation.shape
        if fits and (result.dtype == activation.dtype or cast):
            return
        where = f"on {result.device}" if result.layout == torch.strided else str(result.layout)
        returned = f"a tensor {[*result.shape]} of {result.dtype} {where}"
    raise InterventionError(
        f"the hook at {name} returned {returned}; expected {expected} like the activation that it "
        "got, or None"
    )


def _version(activation: Tensor) -> int:
    """Number of in-place edits; 0 for tensors made under inference_mode, which do not count."""
    return 0 if activation.is_inference() else activation._version


def _as_called(fn: Any, name: str) -> HookFn:
    """``fn`` as a function of two: of an activation and its hook point, which goes to its argument
    "hook", as in TransformerLens, or else is the second.

    Raises:
        OptionError: it cannot be called so.
    """
    expected = (
        "expected a function of an activation and its hook point that returns a tensor or None, "
        "such as lambda activation, hook: activation * 0.5"
    )
    try:
        call_signature = signature(fn.forward if isinstance(fn, nn.Module) else fn)
    except (TypeError, ValueError):  # written in C: what it takes shows in a call

        def tried(activation: Tensor, hook: Any) -> Any:
            try:
                return fn(activation, hook)
            except TypeError as misfit:
                raise OptionError(
                    f"the hook at {name}: {first_line(misfit)}; {expected}"
                ) from misfit

        return tried
    named = (p for p in call_signature.parameters.values() if p.kind is not p.POSITIONAL_ONLY)
    by_name = "hook" in (p.name for p in named)
    try:  # bind() tests whether the arguments fit, and calls nothing
        call_signature.bind(*[None] * (2 - by_name), **{"hook": None} if by_name else {})
    except TypeError as misfit:
        raise OptionError(f"the hook at {name} takes {call_signature}: {expected}") from misfit
    return (lambda activation, hook: fn(activation, hook=hook)) if by_name else fn


class Edit:
    """What acts for the length of a block, and cannot be copied or pickled with the model: the copy
    would keep it for good."""

    what: str

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise InterventionError(
            f"{self.what} is inside a `with` block, and a copy of the model, or a pickle, would "
            "keep its edit for good; end the block first."
        )


class Installed(Edit):
    """Replaces a PyTorch hook of ``module``: it calls the function that ``handle`` is of.
    ``kind`` is the module's dictionary of such hooks."""

    def __init__(
        self, module: nn.Module, handle: Any, what: str, kind: str = "_forward_hooks"
    ) -> None:
        self.module, self.handle, self.what, self.kind = module, handle, what, kind
        # Put in the place of the function: PyTorch calls what it finds under the handle's id, and
        # whoever removes the handle removes this object with it.
        hooks = getattr(module, kind)
        self._call, hooks[handle.id] = hooks[handle.id], self

    def __call__(self, *args: Any) -> Any:
        return self._call(*args)

    @property
    def acts(self) -> bool:
        """Whether nobody removed it."""
        return getattr(self.module, self.kind).get(self.handle.id) is self


@dataclass(frozen=True, eq=False)
class OpenBlock:
    """A block of an intervention, by its name, and the hooks without which it does not act."""

    name: str
    hooks: Sequence[Installed]

    @property
    def acts(self) -> bool:
        """Whether all of its hooks are where it put them."""
        return all(hook.acts for hook in self.hooks)


def check_installed(hooks: Iterable[Installed]) -> None:
    """Refuse a model from which hooks of an open block were removed.

    Raises:
        InterventionError: names the first.
    """
    for hook in hooks:
        if not hook.acts:
            raise InterventionError(
                f"{hook.what} was removed inside its `with` block, by reset_hooks("
                "including_permanent=True) or its like, so that calls after that ran without it; "
                "leave the hooks of open blocks alone."
            )


def check_call(tokens: Tensor, attention_mask: Tensor | None) -> None:
    """Refuse, by name, a batch without tokens, and a mask that is not its mask."""
    for ids in (tokens, attention_mask):
        if ids is not None and (not ids.numel() or ids.dtype not in (torch.int64, torch.int32)):
            raise InputError(
                f"a tensor {list(ids.shape)} of {ids.dtype}; expected tokens, positions and masks "
                "[batch pos] of int64, at least one position"
            )
    if attention_mask is not None:
        check_mask(attention_mask)


def check_mask(attention_mask: Tensor) -> None:
    """Refuse a mask of other numbers than 0 and 1, from which positions would be counted wrongly,
    and rows without a token.

    Raises:
        InputError: names the number, or the row.
    """
    other = attention_mask[(attention_mask != 0) & (attention_mask != 1)]
    if len(other):
        raise InputError(
            f"attention_mask holds {int(other[0])}: expected 1 for real tokens and 0 for padding "
            "alone. Numbers of segments in a packed row are not supported: give each text a row."
        )
    empty = (attention_mask.sum(dim=1) == 0).nonzero()
    if len(empty):
        raise InputError(
            f"row {int(empty[0])} of attention_mask has no real token; leave the row out."
        )


@contextmanager
def without_hooks(points: Iterable[nn.Module]) -> Iterator[None]:
    """Hook points whose hooks do not fire for the length of a ``with`` block."""
    removed = [(point, point._forward_hooks) for point in points]
    # An empty dictionary in the place of theirs: no handle is touched, and their order stays.
    for point, _ in removed:
        point._forward_hooks = OrderedDict()
    try:
        yield
    finally:
        for point, hooks in removed:
            point._forward_hooks = hooks


@contextmanager
def in_evaluation_mode(lens: nn.Module) -> Iterator[None]:
    """Evaluation mode for the length of a ``with`` block; each module gets its own mode back.

    A bridge sets the mode of the module that it wraps, of which some parts, such as GPT-2's dropout
    after the embeddings, are no parts of the bridge.
    """
    wrapped = getattr(lens, "original_model", None)
    parts = {*lens.modules(), *(wrapped.modules() if isinstance(wrapped, nn.Module) else ())}
    modes = {module: module.training for module in parts}
    try:
        if any(modes.values()):
            lens.eval()
        yield
    finally:
        # One by one, since train(mode) of a module sets all modules inside it alike.
        for module, mode in modes.items():
            if module.training != mode:
                module.training = mode
