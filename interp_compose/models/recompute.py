"""Activation checkpointing: blocks whose activations are computed again in the backward pass.

The second computation runs under the hooks and edits that are open then. So those that acted in a
block's forward pass are recorded, and the backward pass is refused under others. No edit acts under
checkpointing that is not this one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from inspect import currentframe
from typing import Any, TypeVar

import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.utils import checkpoint as torchs
from torch.utils.checkpoint import checkpoint

from interp_compose.errors import InterventionError

Acted = dict[int, tuple[str, Callable[[], bool]]]
"""Edits by identity: what each is called, and whether it is still open."""

Value = TypeVar("Value")


@dataclass
class Computation:
    """One computation of a checkpointed block: the edits that acted, and what they looked up in
    the call of the model, which is over when the block is computed again."""

    acted: Acted = field(default_factory=dict)
    kept: dict[Hashable, Any] = field(default_factory=dict)


_RECORDS: list[Computation] = []
"""The computations of the checkpointed blocks that run now, the innermost last."""


@contextmanager
def recomputing(blocks: Iterable[nn.Module]) -> Iterator[None]:
    """Calls of ``blocks`` made inside the ``with`` block keep only their input and what hooks
    captured; the backward pass may come after it. Dropout draws the same mask both times.
    """
    with ExitStack() as replaced:
        for block in blocks:
            again = partial(
                checkpoint, block.forward, use_reentrant=False, context_fn=_both_computations
            )
            replaced.enter_context(running(block, again))
        yield


def acted(what: str, edit: object, still_open: Callable[[], bool]) -> None:
    """Record that ``edit`` changes an activation, if a checkpointed block is running."""
    refuse_recording(what)
    for record in _RECORDS:
        record.acted[id(edit)] = (what, still_open)


def refuse_recording(what: str) -> None:
    """Refuse to act where a trace of torch, or checkpointing by someone else, records.

    Raises:
        InterventionError: says what to do instead.
    """
    if torch._C._is_tracing() or get_proxy_mode() is not None:
        raise InterventionError(
            f"{what} acts inside torch.jit.trace, torch.export or make_fx, whose result would keep "
            "it after the `with` block; trace the clean model, outside the block."
        )
    if _checkpoints() > len(_RECORDS):
        raise InterventionError(
            f"{what} would act in a block that is computed again in the backward pass, maybe "
            "without it, so that gradients would be wrong. Switch that off (gradient_"
            "checkpointing_disable(), torch.utils.checkpoint), and call the model inside model."
            "activation_checkpointing(), and backward() inside the same blocks of edits."
        )


def _checkpoints() -> int:
    """How many computations under torch's checkpointing are running, one inside the other."""
    # Without gradients only the reentrant kind does anything, and it runs its blocks so.
    graph = torch.is_grad_enabled()
    entries = ("checkpoint", "recompute_fn", "backward") if graph else ("forward",)
    frame, count = currentframe(), 0
    while frame is not None:
        code, frame = frame.f_code, frame.f_back
        count += code.co_name in entries and code.co_filename == torchs.__file__
    return count


def recalled(key: Hashable, look_up: Callable[[], Value]) -> Value:
    """What ``look_up`` gives; in the second computation of a block what it gave in the first."""
    kept = _RECORDS[-1].kept if _RECORDS else {}
    value: Value = kept[key] if key in kept else kept.setdefault(key, look_up())
    return value


def _both_computations() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    first = Computation()
    return _recording(first), _same_as(first)


@contextmanager
def _recording(record: Computation) -> Iterator[None]:
    _RECORDS.append(record)
    try:
        yield
    finally:
        _RECORDS.pop()


@contextmanager
def _same_as(first: Computation) -> Iterator[None]:
    closed = [what for what, still_open in first.acted.values() if not still_open()]
    again = Computation(kept=first.kept)
    try:
        if not closed:
            with _recording(again):
                yield
    finally:
        new = [what for edit, (what, _) in again.acted.items() if edit not in first.acted]
        if closed or new:
            raise InterventionError(
                f"a block under activation_checkpointing() is computed again in the backward pass, "
                f"and {(closed or new)[0]} acted in {'the first' if closed else 'the second'} "
                "computation alone, so that gradients would be wrong. Call backward() inside the "
                "`with` blocks of the edits under which the model ran, and of no others."
            )


@contextmanager
def running(module: nn.Module, forward: Callable[..., object]) -> Iterator[None]:
    """``module`` runs ``forward`` for the length of a ``with`` block."""
    outer = vars(module).get("forward")
    set_forward(module, forward)
    try:
        yield
    finally:
        set_forward(module, outer)


def set_forward(module: nn.Module, forward: Callable[..., object] | None) -> None:
    """``module`` runs ``forward``, or its class's where that is None."""
    # Past the bridge's own __setattr__, which would set the wrapped module's forward.
    if forward is None:
        object.__delattr__(module, "forward")
    else:
        object.__setattr__(module, "forward", forward)
