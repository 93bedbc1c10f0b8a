"""What can be asked of encoders that `pretrain` trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from interp_compose.studies.core.options import ApiOnly, Execution, Output, Part, by_default


@dataclass(frozen=True, kw_only=True)
class EncodersOptions(Execution):
    """What is read of each encoder, and on how much."""

    models: ApiOnly[Sequence[str] | None] = None
    """Those to judge, in this order, the first of which others are compared with; None: all that
    are finished."""
    outputs: ApiOnly[Sequence[str]] = ("cont", "comp", "mix")
    """Of the last block's representations: contextual, composed, mixed. A model without codes has
    the first alone."""
    embeddings: ApiOnly[Sequence[str]] = ("cls", "mean")
    """Of a text: the first token, [CLS], or the mean over all tokens."""
    tuned: ApiOnly[Sequence[str]] = ("frozen",)
    """On labelled tasks and questions: "frozen", a classifier (an MLP) of the vectors of an encoder
    that stays as it is; "end-to-end", encoder and classifier together."""
    shares: ApiOnly[Sequence[float]] = (1.0,)
    """Of the training texts, those of a smaller share among those of a larger."""
    epochs: int | None = None
    """Passes over the training texts; by default 20 frozen, 4 end to end."""
    lr: float | None = None
    """Peak learning rate; by default 1e-3 frozen, 1e-4 end to end."""
    batch_size: int = 32
    """Texts, or windows of contexts, of an optimiser step."""
    limit: int | None = None
    """Take so many texts, pairs or questions of each split at most, drawn at random, the same ones
    for all seeds."""


@dataclass(frozen=True, kw_only=True)
class EncodersCommand:
    """Encoders that `interp-compose pretrain` trained, judged: how well the similarity of two
    phrases follows people's ratings, and how right a classifier is on labelled texts, on the frozen
    encoder or tuned with it, and the answers to questions on a text, from the contextual, the
    composed and the mixed vectors (CAT)."""

    runs: Path
    """The folder that was --out of `interp-compose pretrain`."""
    tasks: str
    """By commas, each as NAME=FOLDER: {pairs tasks}, labelled texts ({labelled tasks}), and
    {spans tasks}; or NAME=FILE, a TSV or JSONL file of pairs with scores."""
    models: str | None = None
    """Those to judge, by commas, the first of which others are compared with; by default all that
    are finished."""
    outputs: Annotated[str, by_default("all that a model has")] = "cont,comp,mix"
    """By commas, of the last block's vectors: cont (contextual), comp (composed), mix."""
    embeddings: str = "cls,mean"
    """By commas, of a text: cls (its first token), mean (over all tokens). Answers to questions are
    read from each word's vector."""
    tuned: str = "frozen"
    """By commas, on labelled tasks and questions: frozen (an MLP on the vectors of an encoder that
    stays as it is), end-to-end. After end-to-end, pairs without training texts are judged again."""
    shares: str = "1"
    """By commas, of the training texts: from 0 to 1. A smaller share is part of a larger."""
    study: Part[EncodersOptions] = field(default_factory=EncodersOptions)
    output: Part[Output] = field(default_factory=Output)
