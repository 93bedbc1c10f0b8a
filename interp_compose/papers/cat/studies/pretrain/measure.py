"""``pretrain``: a sweep of pre-training, done where runs are missing, and what came of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from interp_compose.errors import CapabilityError, OptionError
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.models.memory import weights_digest
from interp_compose.papers.cat.models.bert import EncoderConfig
from interp_compose.papers.cat.models.from_bert import encoder_from_bert
from interp_compose.papers.cat.models.small_encoder import SmallEncoderModel
from interp_compose.papers.cat.studies.pretrain.data import DataOptions, prepared
from interp_compose.papers.cat.studies.pretrain.options import EncoderTraining, PretrainCommand
from interp_compose.papers.cat.studies.pretrain.result import Pretrained
from interp_compose.papers.cat.studies.pretrain.run import (
    PLACE,
    SHAPE,
    WORK,
    PretrainingRun,
    train_part,
)
from interp_compose.papers.cat.tasks.sememes import Sememes, load_sememes
from interp_compose.papers.cat.text.wordpiece import WordPieceTokenizer
from interp_compose.papers.cat.training.several_processes import (
    check_where,
    follow,
    is_follower,
    leading,
)
from interp_compose.papers.shared.grid.start import check_shape_left_out, keep_start
from interp_compose.papers.works import WORKS
from interp_compose.runs.folder import SweepPlan
from interp_compose.runs.sweep import check_options
from interp_compose.studies.core.grid import result_of_grid, run_grid, seeds_of
from interp_compose.studies.core.keywords import keywords
from interp_compose.studies.core.options import GridOptions
from interp_compose.studies.core.output import check_folder
from interp_compose.tasks.corpus import Documents

TRAIN: Final = WORKS[WORK]
"""The function that trains them."""
AXES: Final = ("models", "seeds")


@dataclass(frozen=True, kw_only=True)
class PretrainOptions(GridOptions):
    """What :func:`pretrain` takes by name."""

    sememes: Sememes | None = None
    """Annotations of words, for models that compose."""
    documents: Documents = "blank-line"
    """Documents are separated by blank lines, or each file is one."""
    held_out: float = 0.02
    """The share of documents on which is measured."""
    held_out_words: float = 0.1
    """The share of annotated words that guide nothing."""
    vocab_size: int = 8192
    """Entries of the vocabulary: pieces of words of the training part."""
    model: LensModel | None = None
    """A pretrained BERT to start from, with its tokenizer, instead of random weights. Its shape
    and vocabulary are its own: what ``run`` states of these is left at the defaults."""
    run: EncoderTraining | None = None
    """Shape and training of every run."""


@keywords(PretrainOptions)
def pretrain(
    source: str | os.PathLike[str],
    models: Sequence[str],
    out: str | os.PathLike[str],
    options: PretrainOptions,
) -> Pretrained:
    """Pre-train encoders on a text, and measure BERT's tasks on documents that are held out.

    Masked words and next sentences, as BERT (Devlin et al. 2019), and for models that compose CAT's
    guided decomposition and semantics composition (Huang et al. 2024, section 4). All models of a
    seed see the same batches, masked alike, and begin with the same weights where they have the
    same. Nothing is selected: the weights after the last step are measured.

    Runs that ``out`` holds already are not done again; a call that is interrupted goes on from
    their checkpoints.

    Under ``torchrun`` or ``accelerate launch`` the processes share each batch of each run out
    (``where="here"``), one run after another; the first writes, and all return the result.

    Args:
        source: a text file, or a folder of them: a sentence a line.
        models: "bert", "cat" (every block composes), "cat-last" (the last one), and as controls
            "cat-fixed" and "cat-last-fixed" (random codes that are not trained), "cat-mlp" and
            "cat-last-mlp" (as many parameters in an MLP, without codes). Others are compared with
            the first.
        out: folder for the runs: data, histories and weights.
        options: every option.

    Raises:
        MissingDataError, DataFormatError: no text, or none in UTF-8.
        OptionError: no model, one that is unknown or named twice; a shape, a share or a vocabulary
            that cannot be, or that the given model has otherwise.
        CapabilityError: the given model is no BERT.
        InputError: a part of the text without a document; a model that composes without sememes;
            ``out`` holds another sweep.
        ModelError: runs failed; the others are kept. Names the first and its log.
    """
    check_options(options.where, options.workers, options.slurm)
    check_where(options.where)

    def result(options: PretrainOptions) -> Pretrained:
        runs, config = _planned(Path(source), Path(out).absolute(), models, options)
        plan = SweepPlan(WORK, [asdict(run) for run in runs], None, TRAIN)
        return result_of_grid(Pretrained, plan, PLACE, config, out, options)

    if is_follower():
        follow(train_part)
        return result(replace(options, progress=False))  # every run is done
    with leading():
        return result(options)


class _Asked(NamedTuple):
    """What is known before the text is read: the runs, but for their data; how these are made; the
    model that training starts from; and what a result says of all that."""

    runs: list[PretrainingRun]
    data_options: DataOptions
    start: SmallEncoderModel | None
    config: dict[str, Any]


def _resolved(models: Sequence[str], options: PretrainOptions) -> _Asked:
    """Refuse what cannot be."""
    if not models:
        raise OptionError("models is empty: expected at least one, such as 'bert'")
    for model in models:
        if models.count(model) > 1:
            raise OptionError(f"models name {model!r} more than once; each run is done once")
    training = options.run or EncoderTraining()
    shape, vocab_size, config, start = asdict(training), options.vocab_size, {}, None
    if options.model is not None:
        start = encoder_from_bert(options.model)
        if start.lens.cfg.n_segments < 2:
            raise CapabilityError(
                f"the config of {options.model.name!r} states type_vocab_size = 1: expected 2 or "
                "more, since pre-training reads two sentences at once"
            )
        given_shape = {name: getattr(start.lens.cfg, name) for name in SHAPE}
        check_shape_left_out(options.model, given_shape, training, EncoderTraining())
        start.tokenizer = WordPieceTokenizer.of(start.tokenizer)
        size = {"vocab_size": len(start.tokenizer)}
        check_shape_left_out(options.model, size, options, PretrainOptions())
        vocab_size, config = size["vocab_size"], {"model": options.model.name}
        shape |= given_shape
    digest: dict[str, Any] = {} if start is None else {"start": weights_digest(start)}
    runs = [
        PretrainingRun(**shape, **digest, data="", model=model, seed=seed)
        for seed in seeds_of(options)
        for model in models
    ]
    known: dict[tuple[EncoderConfig, tuple[bool, ...]], str] = {}
    for run in runs[: len(models)]:
        cfg = run.check(vocab_size, options.sememes, None if start is None else start.lens.cfg)
        composing = tuple(map(cfg.composes, range(cfg.n_layers)))
        other = known.setdefault((replace(cfg, composition="none"), composing), run.model)
        if other != run.model:
            raise OptionError(
                f"models name {other!r} and {run.model!r}, which are the same model with these "
                "options; leave one of them out"
            )
    data_options = DataOptions(
        documents=options.documents,
        held_out=options.held_out,
        vocab_size=vocab_size,
        held_out_words=options.held_out_words,
    )
    config = {"study": WORK, **shape, **vars(data_options), **config, **digest}
    return _Asked(runs, data_options, start, config)


def _planned(
    source: Path, out: Path, models: Sequence[str], options: PretrainOptions
) -> tuple[list[PretrainingRun], dict[str, Any]]:
    """The runs, and what a result says of itself; the data, and the model that they start from, are
    written where they are missing."""
    runs, data_options, start, settings = _resolved(models, options)
    given = None if start is None else start.tokenizer
    digest, report = prepared(
        source, options.sememes, data_options, out, n_ctx=runs[0].n_ctx, given=given
    )
    if start is not None:
        keep_start(start, out)
    runs = [replace(run, data=digest) for run in runs]
    config = {
        **settings,
        "task": source.resolve().name.partition(".")[0],
        "data": digest,
        "data_report": report,
        "models": list(models),
        "seeds": sorted({run.seed for run in runs}),
    }
    return runs, config


def run(command: PretrainCommand) -> Pretrained:
    """The command ``interp-compose pretrain``: train what is missing, and write."""
    source, output = command.source, command.output
    if source.data_dir is None:
        raise OptionError("--data-dir is missing: expected a text file, or a folder of them")
    if command.paper and command.model is not None:
        raise OptionError(
            f"--paper states a shape, and --model {command.model} has its own: leave one of them "
            "out"
        )
    arguments = {
        **vars(command.grid),
        "documents": source.documents,
        "held_out": source.held_out,
        "held_out_words": source.held_out_words,
        "vocab_size": source.vocab_size,
        "sememes": None if source.sememes is None else load_sememes(source.sememes),
        "model": None if command.model is None else load_model(command.model),
        "run": command.run,
    }
    options, text = PretrainOptions(**arguments), source.data_dir
    models = command.models.split(",")
    settings = _resolved(models, options).config
    if is_follower():
        return pretrain(text, models, output.out, **{**arguments, "progress": False})
    # before data are made
    check_folder(output.out, Pretrained, settings, overwrite=output.overwrite)
    _, config = _planned(text, output.out.absolute(), models, options)
    return run_grid(
        output,
        Pretrained,
        config,
        AXES,
        lambda bar: pretrain(text, models, output.out, **{**arguments, "progress": bar}),
    )
