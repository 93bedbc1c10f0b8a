"""How many runs a GPU trains at a time: as many as its memory holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch

from interp_compose.models.decoder import SmallDecoder
from interp_compose.studies.anchors.run import PhaseRun

NUMBER: Final = 4
"""Bytes of a weight or an activation."""
WEIGHTS: Final = 6
"""Times that a weight is held: itself, gradient, two moments, and two copies on the way."""
SLACK: Final = 2
"""Activations that backward needs beside those that forward keeps: as many again."""
SHARE: Final = 0.8
"""Of the GPU's memory; the rest is CUDA's own and lost between blocks."""


def run_bytes(run: PhaseRun) -> int:
    """What training such a run needs at most, about: weights, activations of a batch, data."""
    task = run.task
    shape = run.decoder_config(task)
    with torch.device("meta"):
        weights = sum(int(weight.numel()) for weight in SmallDecoder(shape).parameters())
    heads = shape.n_heads * shape.head_width
    of_token: int = 8 * run.d_model + 4 * heads + 2 * run.d_mlp + 2 * run.n_heads * task.length
    kept = of_token * run.batch_size * task.length * run.n_layers
    data = 2 * (task.length + 1) * (run.samples + 4 * run.n_test)  # integers are twice as long
    return NUMBER * (WEIGHTS * weights + SLACK * kept + data)


def at_a_time(runs: Sequence[PhaseRun], memory: int) -> int:
    """How many of these runs, the largest of them, a GPU of so many bytes trains together.

    It depends on the whole memory, not on what is free: a call that goes on where another stopped
    has to put the same runs together.
    """
    fit = int(SHARE * memory) // max(map(run_bytes, {run.kind for run in runs}))
    return max(1, min(fit, len(runs)))
