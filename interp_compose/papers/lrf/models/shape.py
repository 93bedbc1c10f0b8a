"""The shape of an encoder–decoder, but for what comes from its data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from interp_compose.settings import Settings

Positions = Literal["sinusoidal", "learned", "relative"]


@dataclass(frozen=True, kw_only=True)
class Seq2SeqShape(Settings):
    """The shape of an encoder–decoder, but for what comes from its data; the default is the
    smallest one that is published for compositional tasks (Ontañón et al. 2022: 2 + 2 layers, 64
    wide, 4 heads)."""

    n_encoder_layers: int = 2
    """Blocks of the encoder."""
    n_decoder_layers: int = 2
    """Blocks of the decoder."""
    d_model: int = 64
    """Width of the residual stream."""
    n_heads: int = 4
    """Heads of each attention."""
    d_mlp: int = 256
    """Neurons of a block."""
    positions: Positions = "sinusoidal"
    """Relative ones are those of Transformer-XL (Dai et al. 2019), in self-attention alone."""
    norm: Literal["pre", "post"] = "post"
    """LayerNorm after each sum (post; Vaswani et al. 2017), or before each sub-layer and at the end
    of each stack (pre)."""
    one_vocabulary: bool = False
    """Give source and target one vocabulary and one embedding, so that a word that is copied is the
    same token on both sides (Vaswani et al. 2017, section 3.4)."""
    dropout: float = 0.0
    """Dropout of embeddings and of what each sub-layer adds (Vaswani et al. 2017, section 5.4)."""
