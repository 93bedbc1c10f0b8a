"""The models of complexity control's section VII, as far as their settings are known."""

from __future__ import annotations

from typing import Final

from interp_compose.papers.complexity.studies.task_phases.options import TaskTraining

GPT2: Final = TaskTraining(
    n_layers=12,
    d_model=768,
    n_heads=12,
    d_mlp=3072,
    epochs=5000,
    batch_tokens=140 * 190,
    lr=5e-5,
    schedule="constant",
    warmup_steps=0,
)
"""GPT-2 small from scratch, as in the released settings of SCAN and COGS: 20 sequences of at most
190 tokens on each of 7 GPUs. Not as published: a step holds as many tokens, not sequences, and
there is no dropout."""
TWO_LAYERS: Final = TaskTraining(
    n_layers=2,
    d_model=400,
    n_heads=1,
    d_mlp=1200,
    norm="post",
    epochs=5000,
    batch_tokens=140 * 190,
    lr=5e-5,
    schedule="constant",
    warmup_steps=0,
)
"""The "simple 2-layer 1-head model" of addition (Fig. 7C). Its width is not stated; these are those
of the paper's other model of two layers and one head (Figs 4, 5A and 5B). Its training is not known
and is that of the other tasks."""
PRESETS: Final = {"gpt2": GPT2, "two-layers": TWO_LAYERS}
