"""What can be asked of a comparison of encoder–decoders on compositional tasks."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from interp_compose._public import public
from interp_compose.papers.lrf.models.shape import Seq2SeqShape
from interp_compose.papers.shared.grid.options import Looks, TokenBatches
from interp_compose.studies.core.options import GridOptions, Output, Part
from interp_compose.training.config import Optimisation


@public
@dataclass(frozen=True, kw_only=True)
class SequenceTraining(
    Looks,
    TokenBatches,
    Optimisation,
    Seq2SeqShape,
    dropout=0.1,
    epochs=24,
    batch_tokens=1536,
):
    """What every run has in common."""

    act: Literal["gelu", "relu"] = "relu"
    """Of the feed-forward parts."""
    weight_decay: float = 0.0
    """Decoupled (AdamW's)."""
    label_smoothing: float = 0.0
    """Share of a target's probability that is spread over the vocabulary, in training."""


@dataclass(frozen=True, kw_only=True)
class SeedOptions(GridOptions):
    """Which models are trained, and where."""

    seeds: int = 5
    """Runs of each model; runs of one seed see the same batches, and begin with the same weights
    where they have the same."""
    exposures: int = 1
    """Of COGS: how often an epoch shows each line of exposure (the 143 words alone and the 12
    exposure examples), which alone show what the generalisation split tests; more repeats them."""
    exposures_of: Literal["tested", "others"] = "tested"
    """What is repeated: those lines, or as control as many others of about the same lengths, in as
    many steps."""


@dataclass(frozen=True, kw_only=True)
class SequenceSource:
    """Where the data come from."""

    task: str = "scan-length"
    """{sequences tasks}; scan-length-26 has another cutoff, addition-99 another largest number,
    prontoqa-1 another number of hops."""
    data_dir: Path | None = None
    """Folder of the data, where they are not generated."""
    limit: int | None = None
    """Take so many sequences of each split at most, drawn at random, the same ones for all
    seeds."""


@dataclass(frozen=True, kw_only=True)
class GeneraliseCommand:
    """Encoder–decoders trained on a compositional task, from the same seeds on the same batches:
    what they get right of what training does not show (SCAN, COGS; LRF)."""

    models: str = "transformer,lrf"
    """By commas, of: transformer, lrf, lrf-encoder, lrf-decoder, parameters, previous, deeper; each
    also with its positions, as in transformer-relative, instead of --positions. The first is what
    others are compared with."""
    paper: Literal["cognition", "cfq"] | None = None
    """Take the setting in which LRF was evaluated as the defaults of all other options, as far as
    it is known; what differs is listed in docs/generalise.md. For a GPU."""
    source: Part[SequenceSource] = field(default_factory=SequenceSource)
    seeds: Part[SeedOptions] = field(default_factory=SeedOptions)
    run: Part[SequenceTraining] = field(default_factory=SequenceTraining)
    output: Part[Output] = field(default_factory=Output)

    def preset(self) -> str | None:
        """The file of the setting that is named."""
        return None if self.paper is None else f"generalise_{self.paper}"
