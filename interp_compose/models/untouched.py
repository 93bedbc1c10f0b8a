"""A model that is trained is looked at, and trains on as if nobody had looked."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
import torch
from torch import nn

from interp_compose.models.hooks import in_evaluation_mode


@contextmanager
def random_states_kept(module: nn.Module) -> Iterator[None]:
    """After the ``with`` block Python's, NumPy's and PyTorch's random states (those of the CUDA
    devices of ``module`` as well) are what they were."""
    cuda = {weight.device.index for weight in module.parameters() if weight.device.type == "cuda"}
    seen = random.getstate()
    drawn = np.random.get_state()  # noqa: NPY002  the global one, which data loaders draw from
    with torch.random.fork_rng(devices=sorted(cuda)):
        try:
            yield
        finally:
            random.setstate(seen)
            np.random.set_state(drawn)  # noqa: NPY002


@contextmanager
def untouched(module: nn.Module) -> Iterator[None]:
    """``module`` in evaluation mode, without gradients and autocast, for a ``with`` block.

    Afterwards each part of it has its own mode back, and random states are what they were
    (:func:`random_states_kept`). ``.grad`` is left alone.
    """
    with ExitStack() as during:
        during.enter_context(random_states_kept(module))
        during.enter_context(in_evaluation_mode(module))
        during.enter_context(torch.no_grad())
        for kind in sorted({weight.device.type for weight in module.parameters()}):
            during.enter_context(torch.autocast(kind, enabled=False))
        yield
