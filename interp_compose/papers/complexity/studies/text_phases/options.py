"""What can be asked of init rate and weight decay in language modelling."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from interp_compose._public import public
from interp_compose.studies.core.options import GridOptions, Output, Part


@public
@dataclass(frozen=True, kw_only=True)
class TextTraining:
    """What every run has in common."""

    vocab_size: int = 2048
    """Entries of the vocabulary: bytes, and byte pairs that are merged on the training part."""
    n_ctx: int = 128
    """Tokens of a context."""
    n_layers: int = 2
    """Blocks."""
    d_model: int = 128
    """Width of the residual stream."""
    n_heads: int = 4
    """Attention heads of a block."""
    d_mlp: int = 512
    """Neurons of a block."""
    epochs: int = 100
    """Passes over the training tokens, at most."""
    max_steps: int | None = 2000
    """Stop after so many steps; the schedule ends there."""
    batch_size: int = 16
    """Contexts per step."""
    accumulate: int = 1
    """Parts of a batch that are run one after another, where memory is short."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of the forward pass in training; what is measured is in float32."""
    lr: float = 1e-3
    """Peak learning rate."""
    schedule: Literal["cosine", "linear", "constant", "inverse_sqrt"] = "cosine"
    """Of the learning rate after the warm-up."""
    warmup_steps: int = 200
    """At most a tenth of the steps."""
    n_looks: int = 10
    """Points of the learning curve, and one before training."""
    n_curve: int = 200
    """Windows of held-out and of training documents that it is measured on; at the end all of the
    held-out part is."""


@dataclass(frozen=True, kw_only=True)
class TextSource:
    """Where the text comes from."""

    data_dir: Path | None = None
    """A text file, or a folder of them (.txt, .txt.gz), in UTF-8."""
    documents: Literal["blank-line", "file"] = "blank-line"
    """Documents are separated by blank lines, or each file is one."""
    held_out: float = 0.05
    """Share of documents that is held out."""


@dataclass(frozen=True, kw_only=True)
class TextPhasesCommand:
    """Does a small initialisation, or more weight decay, lower the perplexity of held-out text
    (complexity control, section VII, Fig. 7D)? `interp-compose phases --task text` is the same."""

    gammas: str = "0.5,0.7"
    """Init rates: from:to:step, or a list by commas."""
    weight_decays: str = "0.01,0.1"
    """The same of weight decays."""
    sizes: str | None = None
    """Numbers of training tokens, by commas; by default all."""
    paper: bool = False
    """Take GPT-2 medium's shape and 40 billion training tokens, as in Fig. 7D, as the defaults of
    all other options; what is not the paper's is listed in docs/task-phases.md. For a GPU."""
    source: Part[TextSource] = field(default_factory=TextSource)
    grid: Part[GridOptions] = field(default_factory=GridOptions)
    run: Part[TextTraining] = field(default_factory=TextTraining)
    output: Part[Output] = field(default_factory=Output)

    def preset(self) -> TextPhasesCommand | None:
        """The command with the defaults of the paper's setting, where it is asked for."""
        if not self.paper:
            return None
        from interp_compose.papers.complexity.studies.text_phases.presets import PAPER

        return PAPER
