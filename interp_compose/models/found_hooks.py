"""Every hook on a model that its frameworks did not add, in whatever way it was registered.

TransformerLens lists the hooks that were added at its hook points. A plain
``module.register_forward_hook`` on any part of the model changes results as well, and no list of
TransformerLens shows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import nn
from torch.nn.modules import module as torch_module

FRAMEWORKS = ("torch", "transformers", "transformer_lens", "accelerate", "interp_compose")
"""Packages whose hooks are part of how a model runs."""

KINDS = {
    "_forward_pre_hooks": "forward pre-hook",
    "_forward_hooks": "forward hook",
    "_backward_pre_hooks": "backward pre-hook",
    "_backward_hooks": "backward hook",
}


@dataclass(frozen=True)
class FoundHook:
    """A hook: where it is, as a result's config names it, and the identity of its handle."""

    name: str
    handle: int


def found_hooks(lens: Any, points: Mapping[str, Any]) -> list[FoundHook]:
    """Hooks at ``points`` (hook points by name), plain ones on any module, and global ones."""
    return [
        *_at_hook_points({**_of_other_wrappers(lens), **points}),
        *_on_modules(lens),
        *_global(),
    ]


def _at_hook_points(by_name: Mapping[str, Any]) -> Iterator[FoundHook]:
    """Each point under one of its names: ``attn.hook_z`` rather than ``attn.o.hook_in``."""
    # The last name of a point counts, so that those which say less come first.
    names = sorted(by_name, key=lambda name: (not name.endswith((".hook_in", ".hook_out")), name))
    points = {id(by_name[name]): (name, by_name[name]) for name in names}
    for name, point in points.values():
        # PyTorch runs them, whatever TransformerLens still lists.
        listed = {handle.hook.id: handle for handle in (*point.fwd_hooks, *point.bwd_hooks)}
        for hooks, kind in ((point._forward_hooks, ""), (point._backward_hooks, ": backward hook")):
            for number, hook in hooks.items():
                if of_a_framework(hook):  # TransformerLens' function around one that was added
                    yield FoundHook(name + kind, id(listed.get(number, hook)))


def _of_other_wrappers(lens: Any) -> dict[str, Any]:
    """Hook points inside the wrapped module, by their paths: what another wrapper put there."""
    module = getattr(lens, "original_model", None)
    parts = module.named_modules() if isinstance(module, nn.Module) else ()
    return {path: part for path, part in parts if hasattr(part, "fwd_hooks")}


def _on_modules(lens: Any) -> Iterator[FoundHook]:
    visited: set[int] = set()
    for root in (lens, getattr(lens, "original_model", None)):
        if not isinstance(root, nn.Module):
            continue
        for path, part in root.named_modules():
            if id(part) in visited:
                continue
            visited.add(id(part))
            for attribute, kind in KINDS.items():
                for hook in getattr(part, attribute).values():
                    if not of_a_framework(hook):
                        module = path.replace("._original_component", "") or "the whole model"
                        yield FoundHook(f"{module}: {kind} {_called(hook)}", id(hook))


def _global() -> Iterator[FoundHook]:
    for attribute in (f"_global{kind}" for kind in KINDS):
        for hook in getattr(torch_module, attribute).values():
            if not of_a_framework(hook):
                kind = KINDS[attribute.removeprefix("_global")]
                yield FoundHook(f"every module: {kind} {_called(hook)}", id(hook))


def of_the_user(handle: Any) -> bool:
    """Whether TransformerLens records that a hook is neither its own nor another framework's; 3.9
    records nothing."""
    function = getattr(handle, "user_hook", None)
    return function is not None and not of_a_framework(function)


def of_a_framework(hook: Any) -> bool:
    """Whether a function or callable object was written in one of :data:`FRAMEWORKS`."""
    while isinstance(hook, partial):
        hook = hook.func
    has_name = hasattr(hook, "__qualname__")
    module = str((hook if has_name else type(hook)).__module__ or "")
    return module.partition(".")[0] in FRAMEWORKS


def _called(hook: Any) -> str:
    while isinstance(hook, partial):
        hook = hook.func
    return str(getattr(hook, "__qualname__", type(hook).__qualname__))
