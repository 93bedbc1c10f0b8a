"""The setting of complexity control's Fig. 7D, as far as it is known.

The paper states GPT-2 medium, 40 billion training tokens, and SlimPajama's GitHub section, alone or
with its Wikipedia section. All else is a choice of ours: context and vocabulary are GPT-2's, and
learning rate, batch and warm-up of the size that is usual for a model of this shape.
"""

from __future__ import annotations

from typing import Final

from interp_compose.papers.complexity.studies.text_phases.options import (
    TextPhasesCommand,
    TextSource,
    TextTraining,
)
from interp_compose.studies.core.options import GridOptions

TOKENS: Final = 40_000_000_000
MANY: Final = 1_000_000
"""Passes over the data; the number of steps ends training."""
BATCH: Final = 512
N_CTX: Final = 1024

PAPER: Final = TextPhasesCommand(
    paper=True,
    source=TextSource(documents="file", held_out=0.0005),
    grid=GridOptions(seeds=1, where="here"),
    run=TextTraining(
        vocab_size=50257,
        n_ctx=N_CTX,
        n_layers=24,
        d_model=1024,
        n_heads=16,
        d_mlp=4096,
        epochs=MANY,
        max_steps=-(-TOKENS // (BATCH * N_CTX)),
        batch_size=BATCH,
        accumulate=128,
        precision="bfloat16",
        lr=3e-4,
        warmup_steps=2000,
        n_looks=200,
    ),
)
"""Not GPT-2's: embedding and unembedding are two matrices, without dropout."""
