"""Options of init rate and weight decay on a task of sequences."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, Literal

from interp_compose._public import public
from interp_compose.papers.shared.grid.options import Looks, TokenBatches
from interp_compose.papers.shared.models.shape import DecoderShape
from interp_compose.studies.core.options import GridOptions, Output, Part, by_default
from interp_compose.training.config import Optimisation

GAMMAS: Final = "0.5,0.7"
"""The command's init rates, where none are given and no model is."""


@public
@dataclass(frozen=True, kw_only=True)
class TaskTraining(
    Looks,
    TokenBatches,
    Optimisation,
    DecoderShape,
    n_heads=4,
    d_mlp=256,
    epochs=20,
    schedule="cosine",
    warmup_steps=200,
    n_looks=10,
):
    """What every run has in common."""

    norm: Literal["pre", "post"] = "pre"
    """LayerNorm as in GPT-2 (pre), or after each sum."""


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
    """Numbers of training sequences, by commas; by default all that the task has. Each subset holds
    the sequences with a token that no other has, such as the words of COGS that are shown once."""
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

    def preset(self) -> str | None:
        """The file of the model that is named."""
        return None if self.paper is None else f"task_phases_{self.paper}"
