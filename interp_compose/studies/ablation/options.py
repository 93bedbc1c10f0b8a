"""What can be asked of an ablation curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import tyro

from interp_compose.studies.core.options import AnswerOptions, Layers, TaskCommand


@dataclass(frozen=True, kw_only=True)
class AblationOptions(AnswerOptions):
    """What is measured, and how."""

    what: Literal["words", "heads", "layers", "attn", "cross_attn", "mlp"] = "words"
    """Attention to a word, heads, or what blocks, their (self-)attention, their cross-attention or
    their MLP add."""
    layers: Layers = None
    """Layers of the knockouts (0 3 11), or depths as floats from 0.0 to 1.0; all by default."""
    tagger: Annotated[
        Any, tyro.conf.arg(constructor=str, metavar="STR", help_behavior_hint="(default: unset)")
    ] = None
    """For words: tells kinds of words apart: "kind" (content, function, …; no model needed), a
    spaCy pipeline or its name, for parts of speech, or a function (text.tagging.tagger_of)."""
    reach: Literal["from", "at", "until"] | None = None
    """Knock out in layer ℓ and all above ("from", usual for words), in ℓ alone ("at", usual for
    all else), or in 0 … ℓ ("until")."""
    mode: Literal["exclude", "zero"] = "exclude"
    """For words: left out before the softmax, or set to zero after it, as the paper does; see
    mask_attention."""
    how: Literal["zero", "mean", "resample"] = "zero"
    """For heads: what replaces their output: zero, or "mean" or "resample" over all tokens of at
    most 64 of the examples, drawn by the seed and run clean. "resample" draws one of these tokens
    for each position of each example, the same one for all heads and layers."""


@dataclass(frozen=True, kw_only=True)
class AblationCommand(TaskCommand[AblationOptions]):
    """Ablation curve of one model on one task: knock out each word, each head or each block in
    turn, at each layer, and follow the answers."""
