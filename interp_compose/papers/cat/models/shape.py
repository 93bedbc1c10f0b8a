"""The shape of a small encoder, as far as it does not come from its data or its name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from interp_compose.papers.shared.models.shape import DecoderShape


@dataclass(frozen=True, kw_only=True)
class EncoderShape(DecoderShape, n_layers=4, d_model=128, n_heads=4, d_mlp=512):
    """The shape of a small encoder, as far as it does not come from its data or its name."""

    n_ctx: int = 128
    """Tokens of a text or a pair, special ones included, at most."""
    n_codes: int = 1000
    """Codes of each block's codebook but the last one's, which has one for each sememe."""
    code_norm: Literal["rms", "unit", "none"] = "rms"
    """The norm of a word's weights where its codes are summed: that of RMSNorm (rms), the root of
    their number, or 1 (unit), which gives the same functions and with which training takes smaller
    steps; a model of which every block composes needs it (cat). Or no norm at all (none): weights
    are the cosines above 0, also in the losses."""
    level: Literal["word", "token"] = "word"
    """What is decomposed: words, each the mean of its tokens (CAT, footnote 2), or tokens."""
    dropout: float = 0.0
    """Dropout of embeddings and of what attention and MLP add; BERT has that of patterns too."""
