"""What can be asked of the pre-training of encoders."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from interp_compose._public import public
from interp_compose.papers.cat.training.loss_weights import LossWeights
from interp_compose.studies.core.options import GridOptions, Output, Part


@public
@dataclass(frozen=True, kw_only=True)
class EncoderTraining(LossWeights):
    """What every run has in common."""

    n_ctx: int = 64
    """Tokens of a passage, special ones included."""
    n_layers: int = 4
    """Blocks."""
    d_model: int = 128
    """Width of the residual stream."""
    n_heads: int = 4
    """Heads of each attention."""
    d_mlp: int = 512
    """Neurons of a block."""
    n_codes: int = 1000
    """Codes of each block's codebook but the last one's, which has one for each sememe."""
    revive_after: int | None = None
    """Steps after which a code that no word had since is moved to a random word of the step; by
    default codes are not moved."""
    frozen: bool = False
    """Leave the weights of a given model as they are, and train only what is added to it."""
    code_norm: Literal["rms", "unit"] = "rms"
    """The norm of a word's weights where its codes are summed: that of RMSNorm (rms), the root of
    their number, or 1 (unit), with which training takes smaller steps; cat needs it (--models)."""
    level: Literal["word", "token"] = "word"
    """What is decomposed: words, each the mean of its tokens, or tokens."""
    dropout: float = 0.0
    """Of embeddings and of what attention and MLP add."""
    epochs: int = 100
    """Passes over the training passages, at most."""
    max_steps: int | None = 2000
    """Stop after so many steps; the schedule ends there."""
    batch_tokens: int = 2048
    """Tokens per step at most, padding included; passages of about one length share a batch."""
    accumulate: int = 1
    """Parts of a batch that are run one after another, where memory is short."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of the forward pass in training; what is measured is in float32."""
    lr: float = 1e-3
    """Peak learning rate."""
    schedule: Literal["cosine", "linear", "constant", "inverse_sqrt"] = "linear"
    """Of the learning rate after the warm-up."""
    warmup_steps: int = 500
    """At most a tenth of the steps."""
    weight_decay: float = 0.01
    """Decoupled (AdamW's)."""
    n_looks: int = 12
    """Points of the curve over training, and one before it."""
    n_curve: int = 500
    """Held-out passages that it is measured on; at the end all are."""


@dataclass(frozen=True, kw_only=True)
class PretrainingSource:
    """Where text and sememes come from."""

    data_dir: Path | None = None
    """A text file, or a folder of them (.txt, .txt.gz), in UTF-8: a sentence a line."""
    sememes: Path | None = None
    """A folder with annotations in HowNet's scheme, for models that compose."""
    documents: Literal["blank-line", "file"] = "blank-line"
    """Documents are separated by blank lines, or each file is one."""
    held_out: float = 0.02
    """The share of documents on which is measured."""
    held_out_words: float = 0.1
    """The share of annotated words that guide nothing."""
    vocab_size: int = 8192
    """Entries of the vocabulary: pieces of words of the training part."""


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

    def preset(self) -> PretrainCommand | None:
        """The command with the paper's defaults, where they are asked for."""
        if not self.paper:
            return None
        from interp_compose.papers.cat.studies.pretrain.presets import PAPER

        return PAPER
