"""The setting of CAT (Huang et al. 2024, appendices A and B), as far as it is known.

The paper states 4 layers of width 768 with 12 heads, sequences of 128 tokens, 1,000 codes a block
and one for each sememe in the last, β = 0.1, and BERT's pre-training on BooksCorpus and Wikipedia:
batches of 256 sequences, a million steps, Adam at 1e-4 with 10,000 steps of warm-up, weight decay
0.01, dropout 0.1 and a vocabulary of 30,522 are BERT's.
"""

from __future__ import annotations

from typing import Final

from interp_compose.papers.cat.studies.pretrain.options import (
    EncoderTraining,
    PretrainCommand,
    PretrainingSource,
)
from interp_compose.studies.core.options import GridOptions

N_CTX: Final = 128
BATCH: Final = 256
MANY: Final = 1_000_000
"""Passes over the data; the number of steps ends training."""

PAPER: Final = PretrainCommand(
    paper=True,
    models="bert,cat",
    source=PretrainingSource(held_out=0.0005, vocab_size=30522),
    grid=GridOptions(seeds=1, where="here"),
    run=EncoderTraining(
        n_ctx=N_CTX,
        n_layers=4,
        d_model=768,
        n_heads=12,
        d_mlp=3072,
        n_codes=1000,
        dropout=0.1,
        epochs=MANY,
        max_steps=1_000_000,
        batch_tokens=BATCH * N_CTX,
        accumulate=4,
        precision="bfloat16",
        lr=1e-4,
        warmup_steps=10_000,
        n_looks=100,
    ),
)
