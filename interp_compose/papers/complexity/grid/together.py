"""How many decoders a GPU trains as one program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import torch

from interp_compose.papers.complexity.grid.decoder_run import DecoderRun
from interp_compose.papers.shared.models.decoder import DecoderConfig, SmallDecoder
from interp_compose.papers.shared.training.parallel import ONE_MODEL_ONLY
from interp_compose.papers.works import WORKS
from interp_compose.runs.folder import SweepPlan
from interp_compose.settings import identity_of
from interp_compose.studies.core.options import Execution

NUMBER: Final = 4
"""Bytes of a weight or an activation."""
WEIGHTS: Final = 6
"""Times that a weight is held: itself, gradient, two moments, and two copies on the way."""
SLACK: Final = 2
"""Activations that backward needs beside those that forward keeps: as many again."""
LOGITS: Final = 3
"""Times that logits are held: themselves, their softmax, and its gradient."""
OF_ONE: Final = {name: ONE_MODEL_ONLY[name] for name in ("accumulate", "precision")}
"""Options of a run with which it is trained alone, where they have another value."""
SHARE: Final = 0.8
"""Of the GPU's memory; the rest is CUDA's own and lost between blocks."""


def step_bytes(shape: DecoderConfig, n_tokens: int, length: int, n_predicted: int) -> int:
    """What a training step of a decoder needs at most, about: weights, and activations of so many
    tokens in sequences of so many, of which so many predict one."""
    with torch.device("meta"):
        weights = sum(int(weight.numel()) for weight in SmallDecoder(shape).parameters())
    heads = shape.n_heads * shape.head_width
    of_token: int = 8 * shape.d_model + 4 * heads + 2 * shape.d_mlp + 2 * shape.n_heads * length
    logits = LOGITS * n_predicted * shape.d_vocab
    return NUMBER * (WEIGHTS * weights + SLACK * of_token * n_tokens * shape.n_layers + logits)


def fit(bytes_of_each: int, n: int, memory: int) -> int:
    """How many of ``n`` runs a GPU of so many bytes trains together, at least one.

    It depends on the whole memory, not on what is free: a call that goes on where another stopped
    has to put the same runs together.
    """
    return max(1, min(int(SHARE * memory) // bytes_of_each, n))


def plan_of(
    work: str,
    runs: Sequence[DecoderRun],
    execution: Execution,
    bytes_of_each: Callable[[], int],
) -> SweepPlan:
    """Runs one by one (``train`` of the work's module); with a GPU, and ``where`` "here", as
    many at a time as its memory holds of those that follow each other and see the same batches
    (``train_many``)."""
    configs, module = [identity_of(run) for run in runs], WORKS[work]
    alike = len({(run.init_rate, run.weight_decay) for run in runs})
    of_one = any(configs[0].get(name, value) != value for name, value in OF_ONE.items())
    if execution.where == "here" and alike > 1 and not of_one and torch.cuda.is_available():
        memory = torch.cuda.get_device_properties(0).total_memory
        return SweepPlan(work, configs, fit(bytes_of_each(), alike, memory), f"{module}:train_many")
    return SweepPlan(work, configs, None, f"{module}:train")
