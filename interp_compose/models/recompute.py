"""Activation checkpointing: blocks whose activations are computed again in the backward pass.

The second computation runs under the hooks and edits that are open then. So those that acted in a
block's forward pass are recorded, and the backward pass is refused under others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial

from torch import nn
from torch.utils.checkpoint import checkpoint

from interp_compose.errors import InterventionError

Acted = dict[int, tuple[str, Callable[[], bool]]]
"""Edits by identity: what each is called, and whether it is still open."""

_RECORDS: list[Acted] = []
"""Of the checkpointed blocks that are running now, the innermost last."""


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
    """Record that ``edit`` changed an activation, if a checkpointed block is running."""
    if _RECORDS:
        _RECORDS[-1][id(edit)] = (what, still_open)


def _both_computations() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    first: Acted = {}
    return _recording(first), _same_as(first)


@contextmanager
def _recording(record: Acted) -> Iterator[None]:
    _RECORDS.append(record)
    try:
        yield
    finally:
        _RECORDS.pop()


@contextmanager
def _same_as(first: Acted) -> Iterator[None]:
    closed = [what for what, still_open in first.values() if not still_open()]
    again: Acted = {}
    try:
        if not closed:
            with _recording(again):
                yield
    finally:
        new = [what for edit, (what, _) in again.items() if edit not in first]
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
    before = vars(module).get("forward")
    set_forward(module, forward)
    try:
        yield
    finally:
        set_forward(module, before)


def set_forward(module: nn.Module, forward: Callable[..., object] | None) -> None:
    """``module`` runs ``forward``, or its class's where that is None."""
    # Past the bridge's own __setattr__, which would set the wrapped module's forward.
    if forward is None:
        object.__delattr__(module, "forward")
    else:
        object.__setattr__(module, "forward", forward)
