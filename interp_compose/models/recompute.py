"""Activation checkpointing: blocks whose activations are computed again in the backward pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial

from torch import nn
from torch.utils.checkpoint import checkpoint


@contextmanager
def recomputing(blocks: Iterable[nn.Module]) -> Iterator[None]:
    """Calls of ``blocks`` made inside the ``with`` block keep only their input and what hooks
    captured; the backward pass may come after it. Dropout draws the same mask both times.
    """
    changed = list(blocks)
    # Past a bridge's own __setattr__, which would set the wrapped module's forward.
    for block in changed:
        again = partial(checkpoint, block.forward, use_reentrant=False)
        object.__setattr__(block, "forward", again)
    try:
        yield
    finally:
        for block in changed:
            object.__delattr__(block, "forward")
