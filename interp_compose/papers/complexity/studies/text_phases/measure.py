"""``text_phases``: a grid of trainings on a text, and how well held-out text is predicted."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from interp_compose.errors import OptionError
from interp_compose.papers.complexity.grid.decoder_run import config_of_runs, runs_of, sizes_of
from interp_compose.papers.complexity.grid.settings import AXES, KEY
from interp_compose.papers.complexity.grid.together import plan_of, step_bytes
from interp_compose.papers.complexity.studies.text_phases.data import encoded
from interp_compose.papers.complexity.studies.text_phases.options import (
    TextPhasesCommand,
    TextTraining,
)
from interp_compose.papers.complexity.studies.text_phases.result import TextPhases
from interp_compose.papers.complexity.studies.text_phases.run import WORK, TextRun
from interp_compose.papers.shared.grid.grid import numbers, result_of_grid, run_grid
from interp_compose.papers.works import WORKS
from interp_compose.runs.sweep import check_options
from interp_compose.studies.core.keywords import keywords
from interp_compose.studies.core.options import GridOptions
from interp_compose.tasks.corpus import TextCorpus, load_text

MODULE: Final = WORKS[WORK]
"""Where the functions are that train them."""


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
    check_options(options.where, options.workers, options.slurm)
    runs = _runs(corpus, init_rates, weight_decays, options)
    encoded(corpus, runs[0].vocab_size).keep(Path(out).absolute())

    def bytes_of_each() -> int:
        first = runs[0]
        shape = first.shape(d_vocab=first.vocab_size, n_ctx=first.n_ctx)
        n_tokens = first.batch_size * first.n_ctx
        return step_bytes(shape, n_tokens, first.n_ctx, n_tokens)

    plan = plan_of(WORK, MODULE, runs, options, bytes_of_each)
    return result_of_grid(TextPhases, plan, KEY, _config(corpus, runs), out, options)


def _runs(
    corpus: TextCorpus,
    init_rates: Sequence[float],
    weight_decays: Sequence[float],
    options: TextPhasesOptions,
) -> list[TextRun]:
    shape = options.run or TextTraining()
    common, sizes = {**asdict(shape), "data": ""}, 0 if options.sizes is None else options.sizes
    planned = runs_of(TextRun, common, init_rates, weight_decays, sizes, options)
    data = encoded(corpus, shape.vocab_size)
    most = len(data.train) - 1
    runs = [
        replace(run, data=data.digest, size=most if options.sizes is None else run.size)
        for run in planned
    ]
    for run in runs:
        if run.seed == runs[0].seed:
            run.check(data)
    return runs


def _config(corpus: TextCorpus, runs: Sequence[TextRun]) -> dict[str, Any]:
    """What a result says of itself."""
    report = {**corpus.report, **encoded(corpus, runs[0].vocab_size).report}
    return config_of_runs(WORK, corpus.name, report, runs)


def run(command: TextPhasesCommand) -> TextPhases:
    """The command ``interp-compose phases --task text``: train what is missing, and write."""
    source = command.source
    if source.data_dir is None:
        raise OptionError("--data-dir is missing: expected a text file, or a folder of them")
    rates = numbers(command.gammas, "gammas")
    decays = numbers(command.weight_decays, "weight_decays")
    sizes = sizes_of(command.sizes)
    values: Mapping[str, Any] = {**vars(command.grid), "sizes": sizes, "run": command.run}
    options = TextPhasesOptions(**values)
    corpus = load_text(source.data_dir, documents=source.documents, held_out=source.held_out)
    return run_grid(
        command.output,
        TextPhases,
        _config(corpus, _runs(corpus, rates, decays, options)),
        list(AXES),
        lambda bar: text_phases(
            corpus, rates, decays, command.output.out, **{**values, "progress": bar}
        ),
    )
