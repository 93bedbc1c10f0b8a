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
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from interp_compose._types import AttentionEdit
from interp_compose.errors import InterventionError

SOFTMAX = (torch.nn.functional.softmax, torch.softmax, torch.Tensor.softmax)


class AroundSoftmax(TorchFunctionMode):
    """Inside its ``with`` block, an edit gets what enters and what leaves a softmax over four axes.

    ``calls`` counts them.
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


class EditedForward:
    """An attention's forward pass under an edit; ``runs`` counts its calls."""

    def __init__(self, layer: int, forward: Callable[..., Any], edit: AttentionEdit) -> None:
        self.layer, self.forward, self.edit = layer, forward, edit
        self.runs = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with AroundSoftmax(self.edit) as mode:
            out = self.forward(*args, **kwargs)
        if mode.calls != 1:
            raise InterventionError(
                f"the attention of layer {self.layer} ran {mode.calls} softmaxes over [batch head "
                "query key] where one was expected, so it cannot be edited. Load the model "
                "with eager attention, and take no such softmax in a hook of your own."
            )
        self.runs += 1
        return out

    def __deepcopy__(self, memo: dict[int, Any]) -> EditedForward:
        raise InterventionError(
            f"the attention of layer {self.layer} is under an edit, which a copy of the model "
            "would keep for good; end the `with` block first."
        )


@contextmanager
def edited_attention(
    attentions: Mapping[int, nn.Module], edits: Mapping[int, AttentionEdit]
) -> Iterator[None]:
    """Each layer's attention under its edit for the length of a ``with`` block.

    Raises:
        InterventionError: at once, an attention that runs no softmax over four axes, or several;
            on leaving, one that was never run.
    """
    under = {
        layer: EditedForward(layer, attention.forward, edits[layer])
        for layer, attention in attentions.items()
    }
    with ExitStack() as replaced:
        for layer, attention in attentions.items():
            replaced.enter_context(_forward(attention, under[layer]))
        yield
    silent = [layer for layer, edited in under.items() if edited.runs == 0]
    if silent:
        raise InterventionError(
            f"the attention of layers {silent} never ran. Run the model inside the `with` block."
        )


@contextmanager
def _forward(module: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """``module`` runs ``forward`` instead of its own; blocks that nest leave in order."""
    before = module.__dict__.get("forward")
    # Past the bridge's own __setattr__, which would set the wrapped module's forward.
    object.__setattr__(module, "forward", forward)
    try:
        yield
    finally:
        if before is None:
            object.__delattr__(module, "forward")
        else:
            object.__setattr__(module, "forward", before)


@contextmanager
def unedited(attentions: Iterable[nn.Module]) -> Iterator[None]:
    """Attentions without the edits of the blocks that are open, for the length of a block."""
    lifted = [
        (attention, attention.__dict__["forward"])
        for attention in attentions
        if isinstance(attention.__dict__.get("forward"), EditedForward)
    ]
    for attention, edited in lifted:
        own = edited
        while isinstance(own, EditedForward):
            own = own.forward
        object.__setattr__(attention, "forward", own)
    try:
        yield
    finally:
        for attention, edited in lifted:
            object.__setattr__(attention, "forward", edited)
