"""One training run: a decoder at an init rate and a weight decay, on text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from jaxtyping import Integer

from interp_compose._public import public
from interp_compose.errors import InputError, OptionError
from interp_compose.papers.complexity.grid.decoder_run import DecoderRun, inside
from interp_compose.papers.complexity.models.init import init_weights
from interp_compose.papers.complexity.models.small_decoder import SmallDecoderModel
from interp_compose.papers.complexity.studies.text_phases.data import TextData, kept
from interp_compose.papers.complexity.studies.text_phases.options import TextTraining
from interp_compose.papers.complexity.training.text import NextToken, Windows, total_loss
from interp_compose.papers.shared.grid.sequence_run import (
    PreparedRun,
    keep_run,
    train_alone,
    train_together,
)
from interp_compose.papers.shared.models.decoder import SmallDecoder
from interp_compose.training.loop import trains

WORK: Final = "text_phases"
"""What a sweep calls these runs."""


@public
@dataclass(frozen=True, kw_only=True)
class TextRun(DecoderRun, TextTraining):
    """Everything that decides a run."""

    def training(self, data: TextData) -> Integer[np.ndarray, "token"]:
        """The tokens of this run; those of a larger size begin with those of a smaller.

        Raises:
            InputError: the training part is shorter than a context.
            OptionError: a size that is, or that is more than there is.
        """
        most = len(data.train) - 1
        if most < self.n_ctx:
            raise InputError(
                f"the training part of the text has {most} tokens, and a context n_ctx="
                f"{self.n_ctx}; give more text, or take a shorter context"
            )
        if not self.n_ctx <= self.size <= most:
            raise OptionError(
                f"size={self.size}: expected n_ctx={self.n_ctx} to {most} training tokens"
            )
        return data.train[: self.size + 1]

    def check(self, data: TextData) -> None:
        """Refuse what cannot be trained, before anything is."""
        self.check_shape(self.shape(d_vocab=self.vocab_size, n_ctx=self.n_ctx))
        self.train_config(Windows.of(self.training(data), self.n_ctx).lengths)


def prepared(run: TextRun, out: Path) -> PreparedRun:
    """A run of the sweep in ``out``, before its first step."""
    data = kept(out, run.data)
    model = SmallDecoder(run.shape(d_vocab=run.vocab_size, n_ctx=run.n_ctx))
    assert run.init_rate is not None
    init_weights(model, run.init_rate, seed=run.seed)
    stream = run.training(data)
    windows = Windows.of(stream, run.n_ctx)
    held_out = Windows.by_document(data.held_out, run.n_ctx, 0)
    seen = Windows.by_document(stream[: run.n_curve * (run.n_ctx + 1)], run.n_ctx, 0)
    curve = {"held-out": held_out.first(run.n_curve), "train": seen.first(run.n_curve)}
    objective = NextToken(windows, curve)

    def keep(history: dict[str, Any], folder: Path) -> None:
        n = sum(held_out.lengths)
        measured = {"loss": total_loss(model, held_out) / n, "n": n, "n_bytes": data.held_out_bytes}
        record = {"run": asdict(run), **history, "held_out": [measured], "inside": inside(model)}
        decoder, name = model.cpu().eval(), f"γ = {run.init_rate:g}"
        keep_run(folder, record, SmallDecoderModel(decoder, name=name, tokenizer=data.tokenizer))

    return PreparedRun(model, objective, run.train_config(objective.lengths), keep)


@trains
def train(config: Mapping[str, Any], folder: Path) -> None:
    """History, loss and weights of a run into its folder."""
    train_alone(prepared(TextRun(**config), folder.parents[1]), folder)


@trains
def train_many(configs: Sequence[Mapping[str, Any]], folders: Sequence[Path]) -> None:
    """:func:`train` of several; those of one seed and size as one program."""
    runs = [TextRun(**config) for config in configs]
    starts = [prepared(run, folders[0].parents[1]) for run in runs]
    train_together(starts, [(run.seed, run.size) for run in runs], folders)
