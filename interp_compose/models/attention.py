"""Edits of attention where every architecture computes it: around its softmax.

TransformerLens shows scores and pattern at hook points. On some architectures (OPT, GPT-J, BERT,
RoBERTa, its own small decoder) they are shown after the wrapped module has used them, and an edit
is lost. What all have in common is one softmax over ``[batch head query key]`` inside the
attention's forward pass. It is intercepted by torch's own means for that, a
:class:`~torch.overrides.TorchFunctionMode`, which is active inside the attentions to edit and
nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from interp_compose.errors import InterventionError
from interp_compose.models.hooks import Edit
from interp_compose.models.recompute import acted, set_forward
from interp_compose.tensors import softmax_over_keys
from interp_compose.types import AttentionEdit, Side

Key = TypeVar("Key")


@dataclass(frozen=True)
class AttentionSite:
    """One attention of a model.

    Attributes:
        layer: its layer.
        name: of its module in the block.
        queries, keys: whose positions these have, in an encoder–decoder.
    """

    layer: int
    name: str = "attn"
    queries: Side = None
    keys: Side = None

    def __str__(self) -> str:
        return str(self.layer) if self.name == "attn" else f"{self.layer} ({self.name})"


SOFTMAX = (
    torch.nn.functional.softmax,
    torch.softmax,
    torch.Tensor.softmax,
    softmax_over_keys,
)


class AroundSoftmax(TorchFunctionMode):
    """Inside its ``with`` block, an edit gets what enters and what leaves a softmax over four axes.

    ``calls`` counts these softmaxes.
    """

    def __init__(self, edit: AttentionEdit) -> None:
        super().__init__()
        self.edit = edit
        self.calls = 0

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func not in SOFTMAX or not args or args[0].ndim != 4:
            return func(*args, **kwargs)
        self.calls += 1
        scores = self.edit.scores(args[0])
        return self.edit.pattern(func(scores, *args[1:], **kwargs))


class EditedForward(Edit):
    """An attention's forward pass under the edits that are open, the outermost first."""

    def __init__(
        self, layer: object, forward: Callable[..., Any], *, before: Callable[..., Any] | None
    ) -> None:
        self.layer, self.forward = layer, forward
        self.what = f"an edit of the attention of layer {layer}"
        self.before = before
        """What the module's ``__dict__`` held: None where it ran its class's forward."""
        self.edits: list[AttentionEdit] = []
        self.runs: dict[int, int] = {}
        """Calls so far under each edit, by its identity."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for edit in self.edits:
            acted(self.what, edit, partial(self.is_open, edit))
        with ExitStack() as active:
            modes = [AroundSoftmax(edit) for edit in self.edits]
            for mode in reversed(modes):  # the outermost edit acts first
                active.enter_context(mode)
            out = self.forward(*args, **kwargs)
        for mode in modes:
            if mode.calls != 1:
                raise InterventionError(
                    f"the attention of layer {self.layer} ran {mode.calls} softmaxes over [batch "
                    "head query key] where one was expected, so it cannot be edited. Load the "
                    "model with eager attention, and compute no such softmax in your own hooks."
                )
            self.runs[id(mode.edit)] = self.runs.get(id(mode.edit), 0) + 1
        return out

    def is_open(self, edit: AttentionEdit) -> bool:
        """Whether the block of ``edit`` has not ended."""
        return any(other is edit for other in self.edits)


@contextmanager
def edited_attention(
    attentions: Mapping[Key, nn.Module], edits: Mapping[Key, AttentionEdit]
) -> Iterator[None]:
    """Each attention under its edit for the length of a ``with`` block; keys are what messages call
    its layer.

    Raises:
        InterventionError: at once, an attention that runs no softmax over four axes, or several;
            on leaving, one that was never run.
    """
    with ExitStack() as opened:
        forwards = {
            layer: opened.enter_context(_edited(layer, attention, edits[layer]))
            for layer, attention in attentions.items()
        }
        yield
        lost = [key for key, one in forwards.items() if not _runs(attentions[key], one)]
        silent = [layer for layer, one in forwards.items() if id(edits[layer]) not in one.runs]
    if lost:
        raise InterventionError(
            f"the edited attention of layer {lost[0]} was replaced inside the `with` block, so "
            "that calls after that ran without the edit; leave the modules of open blocks alone."
        )
    if silent:
        raise InterventionError(
            f"the attention of layers [{', '.join(map(str, silent))}] never ran. Run the model "
            "inside the `with` block."
        )


@contextmanager
def _edited(layer: object, module: nn.Module, edit: AttentionEdit) -> Iterator[EditedForward]:
    """One more edit of ``module``; in whatever order blocks end, each removes its own edit, and the
    last one restores the module."""
    forward = vars(module).get("forward")
    if not isinstance(forward, EditedForward):
        forward = EditedForward(layer, module.forward, before=forward)
        set_forward(module, forward)
    forward.edits.append(edit)
    try:
        yield forward
    finally:
        last = max(index for index, other in enumerate(forward.edits) if other is edit)
        del forward.edits[last]
        if not forward.edits and _runs(module, forward):
            set_forward(module, forward.before)


def _runs(module: nn.Module, forward: EditedForward) -> bool:
    return vars(module).get("forward") is forward


def is_edited(attention: nn.Module) -> bool:
    return isinstance(vars(attention).get("forward"), EditedForward)


@contextmanager
def unedited(attentions: Iterable[nn.Module]) -> Iterator[None]:
    """Attentions without the edits of the blocks that are open, for the length of a block."""
    removed = [
        (attention, vars(attention)["forward"]) for attention in attentions if is_edited(attention)
    ]
    for attention, edited in removed:
        set_forward(attention, edited.before)
    try:
        yield
    finally:
        for attention, edited in removed:
            set_forward(attention, edited)
