"""``text_phases``: a grid of trainings on a text, and how well held-out text is predicted."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from jaxtyping import Integer

from interp_compose._public import public
from interp_compose.errors import InputError, OptionError
from interp_compose.papers.complexity.grid.decoder_grid import (
    decoder_grid,
    of_all,
    places_of,
    sizes_of,
    trainers,
)
from interp_compose.papers.complexity.grid.decoder_run import DecoderRun, inside
from interp_compose.papers.complexity.grid.together import step_bytes
from interp_compose.papers.complexity.models.init import init_weights
from interp_compose.papers.complexity.models.small_decoder import SmallDecoderModel
from interp_compose.papers.complexity.studies.text_phases.data import TextData, encoded, kept
from interp_compose.papers.complexity.studies.text_phases.options import (
    TextPhasesCommand,
    TextTraining,
)
from interp_compose.papers.complexity.studies.text_phases.result import TextPhases
from interp_compose.papers.complexity.training.text import NextToken, Windows, total_loss
from interp_compose.papers.shared.grid.sequence_run import PreparedRun, keep_run
from interp_compose.papers.shared.models.decoder import SmallDecoder
from interp_compose.studies.core.grid import Grid, numbers
from interp_compose.studies.core.keywords import keywords
from interp_compose.studies.core.options import GridOptions
from interp_compose.tasks.corpus import TextCorpus, load_text

WORK: Final = "text_phases"


@dataclass(frozen=True, kw_only=True)
class TextPhasesOptions(GridOptions):
    """What :func:`text_phases` takes by name."""

    sizes: Sequence[int] | None = None
    """Numbers of training tokens; None: all that the text has."""
    run: TextTraining | None = None
    """Shape and training of every run."""


@keywords(TextPhasesOptions)
def text_phases(
    corpus: TextCorpus,
    init_rates: Sequence[float],
    weight_decays: Sequence[float],
    out: str | os.PathLike[str],
    options: TextPhasesOptions,
) -> TextPhases:
    """Train a language model for every init rate, weight decay, number of training tokens and seed,
    and measure the perplexity of held-out text (complexity control, section VII, Fig. 7D).

    Byte pairs are merged on the training part alone, the same for all runs. The training documents,
    one after another with a token between them, are cut into windows of ``n_ctx`` predicted tokens;
    each token is predicted from those before it in its window, which may be of another document.
    Every token of the held-out documents is predicted once, from those before it in its window of
    its own document: the first from the token that precedes every document alone. Nothing is
    selected: the weights after the last step are measured.

    Runs that ``out`` holds already are not done again; a call that is interrupted goes on from
    their checkpoints.

    Args:
        corpus: from :func:`load_text`.
        init_rates: γ; a larger one is a smaller initialisation.
        weight_decays: of AdamW, on every parameter.
        out: folder for the runs: data, histories and weights.
        options: every option.

    Raises:
        OptionError: a grid that is empty or repeats; a shape, a rate, a vocabulary or a size that
            cannot be.
        InputError: the training part is shorter than a context; ``out`` holds another sweep.
        ModelError: runs failed; the others are kept. Names the first and its log.
    """
    return _grid(corpus, init_rates, weight_decays, options).train(out, options)


def run(command: TextPhasesCommand) -> TextPhases:
    """The command ``interp-compose phases --task text``."""
    source = command.source
    if source.data_dir is None:
        raise OptionError("--data-dir is missing: expected a text file, or a folder of them")
    rates = numbers(command.gammas, "gammas")
    decays = numbers(command.weight_decays, "weight_decays")
    sizes = sizes_of(command.sizes)
    options = TextPhasesOptions(**vars(command.grid), sizes=sizes, run=command.run)
    corpus = load_text(source.data_dir, documents=source.documents, held_out=source.held_out)
    return _grid(corpus, rates, decays, options).command(command.output, options)


def _grid(
    corpus: TextCorpus,
    init_rates: Sequence[float],
    weight_decays: Sequence[float],
    options: TextPhasesOptions,
) -> Grid[TextPhases]:
    shape = options.run or TextTraining()
    places = places_of(init_rates, weight_decays, options.sizes, options)
    data = encoded(corpus, shape.vocab_size)
    most = len(data.train) - 1
    runs = [TextRun(**asdict(shape), **place, data=data.digest) for place in of_all(places, most)]

    def bytes_of_each() -> int:
        n_tokens = shape.batch_size * shape.n_ctx
        of_run = runs[0].shape(d_vocab=shape.vocab_size, n_ctx=shape.n_ctx)
        return step_bytes(of_run, n_tokens, shape.n_ctx, n_tokens)

    return decoder_grid(
        TextPhases,
        WORK,
        runs,
        options,
        task=corpus.name,
        report={**corpus.report, **data.report},
        check=lambda run: run.check(data),
        keep=data.keep,
        bytes_of_each=bytes_of_each,
    )


@public
@dataclass(frozen=True, kw_only=True)
class TextRun(DecoderRun, TextTraining):
    """The configuration of a run: its hash names the run's folder."""

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

    def keep(recorded: dict[str, Any], folder: Path) -> None:
        n = sum(held_out.lengths)
        measured = {"loss": total_loss(model, held_out) / n, "n": n, "n_bytes": data.held_out_bytes}
        metadata = {"run": asdict(run), **recorded}
        metadata |= {"held_out": [measured], "inside": inside(model)}
        decoder, name = model.cpu().eval(), f"γ = {run.init_rate:g}"
        keep_run(folder, metadata, SmallDecoderModel(decoder, name=name, tokenizer=data.tokenizer))

    return PreparedRun(model, objective, run.train_config(objective.lengths), keep)


train, train_many = trainers(TextRun, prepared)
