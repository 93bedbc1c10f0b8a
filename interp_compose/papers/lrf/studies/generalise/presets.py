"""The settings in which LRF was evaluated, as far as they are known.

The text at hand ends before its experiments. They build on those of Dangle (Zheng and Lapata 2022)
and of CoGnition's authors (Li et al. 2021), whose released settings these are.
"""

from __future__ import annotations

from typing import Final

from interp_compose.papers.lrf.studies.generalise.options import SequenceSource, SequenceTraining

Setting = tuple[SequenceSource, SequenceTraining]
MANY: Final = 1_000_000
"""Passes over the data; the number of steps ends training."""

COGNITION: Final = (
    SequenceSource(task="cognition"),
    SequenceTraining(
        n_encoder_layers=6,
        n_decoder_layers=6,
        d_model=512,
        n_heads=4,
        d_mlp=1024,
        dropout=0.3,
        epochs=MANY,
        max_steps=100_000,
        batch_tokens=8192,
        lr=5e-4,
        schedule="inverse_sqrt",
        warmup_steps=4000,
        label_smoothing=0.1,
    ),
)
"""fairseq's ``transformer_iwslt_de_en``. Not as published: targets are characters, where the
authors merge them into 2,000 units; the last weights are taken, not those of the best BLEU; weight
decay is 0; a batch's tokens are those of source and target."""
CFQ: Final = (
    SequenceSource(task="cfq-mcd1"),
    SequenceTraining(
        n_encoder_layers=12,
        n_decoder_layers=2,
        d_model=768,
        n_heads=12,
        d_mlp=3072,
        act="gelu",
        positions="learned",
        epochs=MANY,
        max_steps=45_000,
        batch_tokens=4096,
        lr=1e-4,
        schedule="inverse_sqrt",
        warmup_steps=4000,
        weight_decay=0.001,
    ),
)
"""An encoder of RoBERTa-base's shape. Not as published: it starts at random where RoBERTa's weights
are pretrained; the decoder's depth and the size of a batch are not known."""
PRESETS: Final[dict[str, Setting]] = {"cognition": COGNITION, "cfq": CFQ}
