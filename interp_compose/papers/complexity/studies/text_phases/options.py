"""Options of init rate and weight decay in language modelling."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from interp_compose._public import public
from interp_compose.papers.shared.grid.options import Looks
from interp_compose.papers.shared.models.shape import DecoderShape
from interp_compose.studies.core.options import GridOptions, Output, Part
from interp_compose.training.config import InParts, Optimisation


@public
@dataclass(frozen=True, kw_only=True)
class TextTraining(
    Looks,
    InParts,
    Optimisation,
    DecoderShape,
    d_model=128,
    n_heads=4,
    d_mlp=512,
    epochs=100,
    max_steps=2000,
    schedule="cosine",
    warmup_steps=200,
    n_looks=10,
    n_curve=200,
):
    """What every run has in common."""

    vocab_size: int = 2048
    """Entries of the vocabulary: bytes, and byte pairs that are merged on the training part."""
    n_ctx: int = 128
    """Tokens of a context."""
    batch_size: int = 16
    """Contexts per step."""


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

    def preset(self) -> str | None:
        """The file of the paper's setting, where it is asked for."""
        return "text_phases" if self.paper else None
