"""What can be asked of a comparison of encoder–decoders on compositional tasks."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from interp_compose._public import public
from interp_compose.studies.core.options import GridOptions, Output, Part


@public
@dataclass(frozen=True, kw_only=True)
class SequenceTraining:
    """What every run has in common."""

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
    positions: Literal["sinusoidal", "learned", "relative"] = "sinusoidal"
    """Of models whose name does not say."""
    one_vocabulary: bool = False
    """Give source and target one vocabulary and one embedding, so that a word that is copied is the
    same token on both sides (Vaswani et al. 2017, section 3.4)."""
    norm: Literal["pre", "post"] = "post"
    """LayerNorm after each sum (Vaswani et al. 2017), or before each sub-layer."""
    act: Literal["gelu", "relu"] = "relu"
    """Of the feed-forward parts."""
    dropout: float = 0.1
    """Of embeddings and of what sub-layers add."""
    epochs: int = 24
    """Passes over the training split."""
    max_steps: int | None = None
    """Stop after so many steps; the schedule ends there."""
    batch_tokens: int = 1536
    """Tokens per step at most, of source and target, padding included; sequences of about one
    length share a batch."""
    lr: float = 1e-3
    """Peak learning rate."""
    schedule: Literal["cosine", "linear", "constant", "inverse_sqrt"] = "linear"
    """Of the learning rate after the warm-up."""
    warmup_steps: int = 500
    """At most a tenth of the steps."""
    weight_decay: float = 0.0
    """Decoupled (AdamW's)."""
    label_smoothing: float = 0.0
    """Share of a target's probability that is spread over the vocabulary, in training."""
    n_looks: int = 12
    """Points of the learning curve, and one before training."""
    n_curve: int = 500
    """Sequences of each split, training's too, that it is measured on; at the end all are."""


@dataclass(frozen=True, kw_only=True)
class SeedOptions(GridOptions):
    """Which models are trained, and where."""

    seeds: int = 5
    """Runs of each model; runs of one seed see the same batches, and begin with the same weights
    where they have the same."""


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
    also with its positions, as in transformer-relative. The first is what others are compared
    with."""
    paper: Literal["cognition", "cfq"] | None = None
    """Take the setting in which LRF was evaluated as the defaults of all other options, as far as
    it is known; what differs is listed in docs/generalise.md. For a GPU."""
    source: Part[SequenceSource] = field(default_factory=SequenceSource)
    seeds: Part[SeedOptions] = field(default_factory=SeedOptions)
    run: Part[SequenceTraining] = field(default_factory=SequenceTraining)
    output: Part[Output] = field(default_factory=Output)

    def preset(self) -> GeneraliseCommand | None:
        """The command with the defaults of the setting that it names."""
        if self.paper is None:
            return None
        from interp_compose.papers.lrf.studies.generalise.presets import PRESETS

        source, run = PRESETS[self.paper]
        return GeneraliseCommand(models="transformer,lrf", source=source, run=run)
