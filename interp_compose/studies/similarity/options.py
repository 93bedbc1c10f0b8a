"""What can be asked of a model's agreement with people."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from interp_compose.studies.core.options import (
    Labels,
    Layers,
    ModelSource,
    OnBad,
    Options,
    Parser,
    Part,
    Pooling,
    SharedOutput,
)


@dataclass(frozen=True, kw_only=True)
class SimilarityOptions(Options):
    """What is measured, and how."""

    unit: Literal["text", "word", "constituent"] = "text"
    """What becomes one vector: whole texts, words, or constituents. Special tokens stay."""
    labels: Labels = None
    """For constituents: those with these labels, such as NP."""
    height: int | None = None
    """For constituents: the largest of at most this height."""
    parser: Parser | None = None
    """For constituents: parse with this, instead of reading the data's own trees."""
    layers: Layers = None
    """Where to pool: layers (0 3 11), or depths as floats from 0.0 to 1.0; all by default. Of an
    encoder also the number of its layers: what leaves the last block, which is in no default."""
    pooling: Pooling = ("mean", "max", "sum")
    """How the tokens of a unit become one vector; in Python, functions of your own as well."""
    controls: bool = True
    """Also "last" and "first" (keep one token of each unit, drop the others: deletion without
    pooling) and, for words and constituents, "shuffled" (mean over spans of the same sizes at
    random places)."""
    embedding: Literal["mean", "cls", "last", "model"] = "mean"
    """Of a text: mean, first token (encoders), last token (decoders), or what the folder of a
    sentence-transformers model states."""
    on_bad: OnBad = "refuse"
    """What becomes of pairs that cannot be measured (a text that is too long, a row without a
    score): "refuse" names them, "skip" leaves them out, and the result counts them."""


@dataclass(frozen=True, kw_only=True)
class PairSource:
    """Where the pairs come from."""

    task: str = "bird"
    """{pairs tasks}, or a TSV or JSONL file of pairs."""
    data_dir: Path | None = None
    """Folder of the task's data."""
    split: Literal["train", "test"] = "test"
    """Part of the task to measure on."""
    limit: int | None = None
    """Measure on so many pairs at most, drawn at random by --seed."""


@dataclass(frozen=True, kw_only=True)
class AnyModel(ModelSource):
    """Where the model comes from."""

    model: str = field()  # without the default of its base
    """Hub name ("sentence-transformers/all-MiniLM-L6-v2", "gpt2") or folder."""
    output: Literal["cont", "comp", "mix"] | None = None
    """Of an encoder that composes words of codes, which of the last block's vectors are read:
    contextual, composed or mixed; by default what the model was saved with."""


@dataclass(frozen=True, kw_only=True)
class SimilarityCommand:
    """Agreement of one model with people's judgements of text pairs: pool texts, words or
    constituents at each layer, let the model run on, and see how well the similarity of two texts
    still follows the ratings."""

    model: Part[AnyModel]
    task: Part[PairSource] = field(default_factory=PairSource)
    study: Part[SimilarityOptions] = field(default_factory=SimilarityOptions)
    output: Part[SharedOutput] = field(default_factory=SharedOutput)
