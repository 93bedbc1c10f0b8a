"""What can be asked of encoders that `pretrain` trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from interp_compose.studies.core.options import ApiOnly, Output, Part, by_default


@dataclass(frozen=True, kw_only=True)
class EncodersOptions:
    """What is read of each encoder, and on how much."""

    models: ApiOnly[Sequence[str] | None] = None
    """Those to judge, in this order, the first of which others are compared with; None: all that
    are finished."""
    outputs: ApiOnly[Sequence[str]] = ("cont", "comp", "mix")
    """Of the last block's representations: contextual, composed, mixed. A model without codes has
    the first alone."""
    embeddings: ApiOnly[Sequence[str]] = ("cls", "mean")
    """Of a text: the first token, [CLS], or the mean over all tokens."""
    limit: int | None = None
    """Take the first so many pairs of each split."""
    progress: ApiOnly[bool] = True
    """Show a bar."""


@dataclass(frozen=True, kw_only=True)
class EncodersCommand:
    """Encoders that `interp-compose pretrain` trained, judged: how well the similarity of two
    phrases follows people's ratings, and how often a classifier on the frozen encoder tells
    paraphrases from others, from the contextual, the composed and the mixed vectors (CAT)."""

    runs: Path
    """The folder that was --out of `interp-compose pretrain`."""
    tasks: str
    """By commas, each as NAME=FOLDER: bird, paws-qqp; or NAME=FILE, a TSV or JSONL file of pairs
    with scores."""
    models: str | None = None
    """Those to judge, by commas, the first of which others are compared with; by default all that
    are finished."""
    outputs: Annotated[str, by_default("all that a model has")] = "cont,comp,mix"
    """By commas, of the last block's vectors: cont (contextual), comp (composed), mix."""
    embeddings: str = "cls,mean"
    """By commas, of a text: cls (its first token), mean (over all tokens)."""
    study: Part[EncodersOptions] = field(default_factory=EncodersOptions)
    output: Part[Output] = field(default_factory=Output)
