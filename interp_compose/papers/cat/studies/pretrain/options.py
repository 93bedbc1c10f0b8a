"""What can be asked of the pre-training of encoders."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from interp_compose._public import public
from interp_compose.papers.cat.models.shape import EncoderShape
from interp_compose.papers.cat.training.loss_weights import LossWeights
from interp_compose.papers.shared.grid.options import Looks, TokenBatches
from interp_compose.settings import Settings
from interp_compose.studies.core.options import GridOptions, Output, Part
from interp_compose.training.config import InParts, Optimisation


@public
@dataclass(frozen=True, kw_only=True)
class EncoderTraining(
    Looks,
    InParts,
    TokenBatches,
    Optimisation,
    EncoderShape,
    LossWeights,
    n_ctx=64,
    epochs=100,
    max_steps=2000,
):
    """What every run has in common."""

    weight_decay: float = 0.01
    """Decoupled (AdamW's)."""
    revive_after: int | None = None
    """Steps after which a code that no word had since is moved to a random word of the step; by
    default codes are not moved."""
    frozen: bool = False
    """Leave the weights of a given model as they are, and train only what is added to it."""


@dataclass(frozen=True, kw_only=True)
class TextOptions(Settings):
    """How a text becomes data."""

    documents: Literal["blank-line", "file"] = "blank-line"
    """Documents are separated by blank lines, or each file is one."""
    held_out: float = 0.02
    """The share of documents on which is measured."""
    held_out_words: float = 0.1
    """The share of annotated words that guide nothing."""
    vocab_size: int = 8192
    """Entries of the vocabulary: pieces of words of the training part."""


@dataclass(frozen=True, kw_only=True)
class PretrainingSource(TextOptions):
    """Where text and sememes come from."""

    data_dir: Path | None = None
    """A text file, or a folder of them (.txt, .txt.gz), in UTF-8: a sentence a line. mini: a toy
    text, with annotations of its words."""
    sememes: Path | None = None
    """A folder with annotations in HowNet's scheme, for models that compose."""


@dataclass(frozen=True, kw_only=True)
class PretrainCommand:
    """Encoders pre-trained on text, from the same seeds on the same batches: BERT, and CAT, which
    composes words of the codes of a codebook."""

    models: str = "bert,cat-last"
    """By commas, of: bert, cat (every block composes, the paper's: at the size of the defaults it
    learns with --code-norm unit --guided 0.1 --sparsity 0.01, and otherwise composes all words into
    one vector), cat-last (the last one), and as controls of either cat-fixed, cat-last-fixed
    (random codes that are not trained), cat-mlp and cat-last-mlp (as many parameters in an MLP,
    without codes). The first is what others are compared with."""
    model: str | None = None
    """A pretrained BERT to start from (a hub name or a folder), with its tokenizer, instead of
    random weights. Its shape and vocabulary are its own: leave options of these out."""
    paper: bool = False
    """Take CAT's setting as the defaults of all other options, as far as it is known; what differs
    is listed in docs/cat.md. For a GPU."""
    source: Part[PretrainingSource] = field(default_factory=PretrainingSource)
    grid: Part[GridOptions] = field(default_factory=GridOptions)
    run: Part[EncoderTraining] = field(default_factory=EncoderTraining)
    output: Part[Output] = field(default_factory=Output)

    def preset(self) -> str | None:
        """The file of the paper's setting, where it is asked for."""
        return "pretrain" if self.paper else None
