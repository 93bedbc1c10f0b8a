"""What can be asked of init rate and weight decay on a task of sequences."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, Literal

from interp_compose._public import public
from interp_compose.studies.core.options import GridOptions, Output, Part, by_default

GAMMAS: Final = "0.5,0.7"
"""The command's init rates, where none are given and no model is."""


@public
@dataclass(frozen=True, kw_only=True)
class TaskTraining:
    """What every run has in common."""

    n_layers: int = 2
    """Blocks."""
    d_model: int = 64
    """Width of the residual stream."""
    n_heads: int = 4
    """Attention heads of a block."""
    d_mlp: int = 256
    """Neurons of a block."""
    norm: Literal["pre", "post"] = "pre"
    """LayerNorm as in GPT-2 (pre), or after each sum."""
    epochs: int = 20
    """Passes over the training sequences."""
    max_steps: int | None = None
    """Stop after so many steps; the schedule ends there."""
    batch_tokens: int = 2048
    """Tokens per step at most, padding included; sequences of about one length share a batch."""
    lr: float = 1e-3
    """Peak learning rate."""
    schedule: Literal["cosine", "linear", "constant", "inverse_sqrt"] = "cosine"
    """Of the learning rate after the warm-up."""
    warmup_steps: int = 200
    """At most a tenth of the steps."""
    n_looks: int = 10
    """Points of the learning curve, and one before training."""
    n_curve: int = 500
    """Sequences of each split, training's too, that it is measured on; at the end all are."""


@dataclass(frozen=True, kw_only=True)
class TaskOfSequences:
    """Where the data come from."""

    task: str = "scan-turn-left"
    """{sequences tasks}; scan-length-26 has another cutoff, addition-99 another largest number,
    prontoqa-1 another number of hops; text and concept-graphs are studies of their own."""
    data_dir: Path | None = None
    """Folder of the data, where they are not generated."""


@dataclass(frozen=True, kw_only=True)
class TaskPhasesCommand:
    """Does a small initialisation, or more weight decay, make a decoder find the rule of a task
    (complexity control, section VII)? The task's source is the prompt, its target what follows.
    `interp-compose phases --task scan-turn-left` is the same with that task."""

    gammas: Annotated[str | None, by_default("0.5,0.7; none with --model")] = None
    """Init rates: from:to:step, or a list by commas."""
    weight_decays: str = "0.01,0.1"
    """The same of weight decays."""
    sizes: str | None = None
    """Numbers of training sequences, by commas; by default all that the task has."""
    paper: Literal["gpt2", "two-layers"] | None = None
    """Take one of the paper's models as the defaults of shape and training, as far as they are
    known: GPT-2 small, or addition's of two layers and one head. For a GPU; what differs is listed
    in docs/task-phases.md."""
    model: str | None = None
    """Fine-tune this GPT-2 (hub name, such as gpt2, or folder) instead of training from scratch;
    its shape is the runs'."""
    source: Part[TaskOfSequences] = field(default_factory=TaskOfSequences)
    grid: Part[GridOptions] = field(default_factory=GridOptions)
    run: Part[TaskTraining] = field(default_factory=TaskTraining)
    output: Part[Output] = field(default_factory=Output)

    def preset(self) -> TaskPhasesCommand | None:
        """The command with the defaults of the model that it names."""
        if self.paper is None:
            return None
        from interp_compose.papers.complexity.studies.task_phases.presets import PRESETS

        return TaskPhasesCommand(run=PRESETS[self.paper])
