"""What can be asked of a comparison of CARMA with plain fine-tuning."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from interp_compose.studies.core.options import (
    Execution,
    Layers,
    Output,
    Part,
    StartModel,
    WholeTask,
    by_default,
)


@dataclass(frozen=True, kw_only=True)
class CarmaSettings:
    """CARMA's settings: what is not given is the paper's with --paper, else the default."""

    weight: Annotated[float | None, by_default("0.2")] = None
    """λ, CARMA's share in the total loss."""
    mi_weight: Annotated[float | None, by_default("0.2")] = None
    """γ, weight of the mutual-information term."""
    stability_weight: Annotated[float | None, by_default("0.3")] = None
    """η, weight of the stability term."""
    carma_layers: Annotated[tuple[int, int] | None, by_default("about a third of the depth")] = None
    """First and last layer that CARMA acts on."""
    stability_layers: Annotated[tuple[int, int] | None, by_default("the same")] = None
    """The same for the stability term, where it differs."""
    temperature: Annotated[float | None, by_default("0.1")] = None
    """τ of the mutual-information term."""
    negatives: Annotated[int | None, by_default("all")] = None
    """Draw so many negatives for each anchor (the authors' code: 5)."""


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """Both trainings: what is not given is the paper's, or goes by the model's size."""

    lr: Annotated[float | None, by_default("6e-5, or 1e-3 under 10 M parameters")] = None
    """Peak learning rate."""
    epochs: Annotated[int | None, by_default("3, or 8 under 10 M parameters")] = None
    """Passes over the training data."""
    max_steps: int | None = None
    """Stop each training after so many steps."""
    batch_size: Annotated[int | None, by_default("16, or 32 under 10 M parameters")] = None
    """Examples per step."""
    accumulate: Annotated[int | None, by_default("1")] = None
    """Parts of a batch that are run one after another."""
    schedule: Annotated[
        Literal["cosine", "linear", "constant", "inverse_sqrt"] | None,
        by_default("linear, or cosine under 10 M parameters"),
    ] = None
    """Of the learning rate after the warm-up."""
    patience: int | None = None
    """Stop after so many evaluations without a better validation accuracy."""
    precision: Annotated[Literal["float32", "bfloat16"] | None, by_default("float32")] = None
    """Of the forward pass in training."""


@dataclass(frozen=True, kw_only=True)
class CompareSettings:
    """What is compared, and how."""

    seeds: tuple[int, ...] = (5,)
    """One number: how many seeds; several: which ones."""
    paper: bool = False
    """Take λ, CARMA's last layers, batch size and epochs from appendix B.3 for this model and task.
    Not set as in the paper: the learning rate (its text has 0.006, its code 6e-5, which is used),
    γ, η and τ (its code's), the first layer (1), the warm-up (500 steps, at most a tenth)."""
    rates: tuple[float, ...] = (0.25, 0.4)
    """Shares of the words of the prompt's own text that are replaced by synonyms."""
    synonyms: str = "auto"
    """auto, shipped, wordnet, vectors (spaCy's), or a .json file of words with their synonyms."""
    frequency: Path | None = None
    """A table of word counts, to leave out rare synonyms (instead of the source's own)."""
    layers: Layers = None
    """Where CAP pools: layers (0 3 11) or depths (0.0 0.5 1.0); all by default."""
    answers: Literal["vocabulary", "labels"] = "vocabulary"
    """What a prediction is chosen among: all tokens, or the labels of a sentiment task (eq. 10)."""
    seed: int = 42
    """For splitting the data, and for --limit, whose examples are drawn at random."""


@dataclass(frozen=True, kw_only=True)
class CarmaCommand:
    """A model as it is, fine-tuned, and fine-tuned with CARMA from the same start over the same
    batches: accuracy, CAP curves, consistency under synonyms and cost, paired by seed."""

    model: Part[StartModel] = field(default_factory=StartModel)
    task: Part[WholeTask] = field(default_factory=WholeTask)
    study: Part[CompareSettings] = field(default_factory=CompareSettings)
    carma: Part[CarmaSettings] = field(default_factory=CarmaSettings)
    training: Part[TrainSettings] = field(default_factory=TrainSettings)
    execution: Part[Execution] = field(default_factory=lambda: Execution(where="here"))
    output: Part[Output] = field(default_factory=Output)
