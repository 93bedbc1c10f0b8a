"""``pretrain``: encoders, with composition or without, trained on a text."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from interp_compose._public import public
from interp_compose.errors import CapabilityError, InputError, OptionError
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.models.memory import weights_digest
from interp_compose.papers.cat.models.bert import EncoderConfig, SmallEncoder
from interp_compose.papers.cat.models.from_bert import composed, encoder_from_bert
from interp_compose.papers.cat.models.init import init_bert
from interp_compose.papers.cat.models.shape import EncoderShape
from interp_compose.papers.cat.models.small_encoder import SmallEncoderModel
from interp_compose.papers.cat.studies.pretrain.data import (
    DataOptions,
    PretrainingData,
    kept,
    lexicon_of,
    prepared,
)
from interp_compose.papers.cat.studies.pretrain.options import (
    EncoderTraining,
    PretrainCommand,
    TextOptions,
)
from interp_compose.papers.cat.studies.pretrain.result import Pretrained
from interp_compose.papers.cat.tasks.mini_text import (
    NAME,
    VOCABULARY,
    mini_documents,
    mini_sememes,
)
from interp_compose.papers.cat.tasks.sememes import Sememes, load_sememes
from interp_compose.papers.cat.text.wordpiece import WordPieces, WordPieceTokenizer
from interp_compose.papers.cat.training.loss_weights import LossWeights
from interp_compose.papers.cat.training.pretraining import CatWeights, Pretraining, measured
from interp_compose.papers.cat.training.revival import Revival, RevivingTrainer
from interp_compose.papers.cat.training.sentences import Passages
from interp_compose.papers.cat.training.several_processes import (
    check_where,
    follow,
    is_follower,
    lead,
    leading,
)
from interp_compose.papers.shared.grid.options import TokenBatches, looking
from interp_compose.papers.shared.grid.sequence_run import keep_run, trained
from interp_compose.papers.shared.grid.start import check_shape_left_out, keep_start, kept_start
from interp_compose.papers.shared.models.shape import DecoderShape
from interp_compose.papers.works import WORKS
from interp_compose.runs.files import atomic_write, make_folder
from interp_compose.runs.folder import SweepPlan
from interp_compose.runs.sweep import check_options
from interp_compose.settings import identity_of
from interp_compose.studies.core.grid import Grid, seeds_of
from interp_compose.studies.core.keywords import keywords
from interp_compose.studies.core.options import GridOptions
from interp_compose.studies.core.output import check_folder
from interp_compose.training.config import InParts, Optimisation, TrainConfig
from interp_compose.training.loop import Trainer, trains

WORK: Final = "pretrain"
"""What a sweep calls these runs."""
TRAIN: Final = WORKS[WORK]
"""The function that trains them."""
PLACE: Final = ("model", "seed")
"""What runs of a sweep differ in."""
LEAST: Final = 5
"""Positions: [CLS], [SEP] twice, and two sentences of a token."""
VARIANTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "bert": {"composition": "none"},
    "cat": {"composition": "every"},
    "cat-last": {"composition": "last"},
    "cat-fixed": {"composition": "every", "composer": "fixed"},
    "cat-mlp": {"composition": "every", "composer": "mlp"},
    "cat-last-fixed": {"composition": "last", "composer": "fixed"},
    "cat-last-mlp": {"composition": "last", "composer": "mlp"},
}
"""What a model's name means."""


@dataclass(frozen=True, kw_only=True)
class PretrainOptions(TextOptions, GridOptions):
    """What :func:`pretrain` takes by name."""

    sememes: Sememes | Mapping[str, Sequence[str]] | None = None
    """Annotations of words, for models that compose; also as ``{"ram": ["sheep", "male"]}``."""
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
        source: a text file, or a folder of them: a sentence a line. "mini": a toy text of 900
            documents, with sememes and a vocabulary of its own where none are given.
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
            none of the words that guide in the text; ``out`` holds another sweep.
        ModelError: runs failed; the others are kept. Names the first and its log.
    """
    check_where(options.where)
    if is_follower():
        follow(train_part)
        options = replace(options, progress=False)  # every run is done
        return _grid(source, models, out, options).train(out, options)
    with leading():
        return _grid(source, models, out, options).train(out, options)


def run(command: PretrainCommand) -> Pretrained:
    """The command ``interp-compose pretrain``."""
    source, output = command.source, command.output
    if source.data_dir is None:
        raise OptionError(
            "--data-dir is missing: expected a text file, a folder of them, or mini, a toy text"
        )
    if command.paper and command.model is not None:
        raise OptionError(
            f"--paper states a shape, and --model {command.model} has its own: leave one of them "
            "out"
        )
    options = PretrainOptions(
        **vars(command.grid),
        **source.values_of(TextOptions),
        sememes=None if source.sememes is None else load_sememes(source.sememes),
        model=None if command.model is None else load_model(command.model),
        run=command.run,
    )
    text, models = source.data_dir, command.models.split(",")
    if is_follower():
        return pretrain(text, models, output.out, **{**vars(options), "progress": False})

    def check(settings: Mapping[str, Any]) -> None:
        check_folder(output.out, Pretrained, settings, overwrite=output.overwrite)

    check_where(options.where)
    with leading():
        return _grid(text, models, output.out, options, check).command(output, options)


def _grid(
    source: str | os.PathLike[str],
    models: Sequence[str],
    out: str | os.PathLike[str],
    options: PretrainOptions,
    check: Callable[[Mapping[str, Any]], object] = lambda settings: None,
) -> Grid[Pretrained]:
    """The runs on a text, whose data are made in ``out`` where they are missing; ``check`` may
    refuse what a result would say of itself before the text is read."""
    check_options(options.where, options.workers, options.slurm)
    # 1. What is known, and refused, before the text is read.
    training, text = options.run or EncoderTraining(), options.values_of(TextOptions)
    sememes = options.sememes
    if isinstance(sememes, Mapping):
        sememes = Sememes.of(sememes)
    is_mini = _is_mini(source)
    if is_mini:
        sememes = sememes or mini_sememes()
        if options.model is None and text["vocab_size"] == TextOptions.vocab_size:
            text["vocab_size"] = VOCABULARY
    start, given = None, {}
    if options.model is not None:
        start = _start(options.model, options)
        given = {"model": options.model.name, "start": weights_digest(start)}
        training = replace(training, **start.lens.cfg.values_of(DecoderShape))
        text["vocab_size"] = len(start.tokenizer)
    runs = [
        PretrainingRun(
            **asdict(training), start=given.get("start", ""), data="", model=model, seed=seed
        )
        for seed in seeds_of(options)
        for model in models
    ]
    _check_models(models, runs, text["vocab_size"], sememes, start)
    data_options = DataOptions(**text)
    settings = {"study": WORK, **identity_of(training), **text, **given}
    check(settings)
    # 2. The data.
    folder = Path(out).absolute()
    path = folder / f"{NAME}.txt" if is_mini else Path(source)
    if is_mini:
        make_folder(folder)
        atomic_write(path, "\n\n".join(mini_documents()).encode())
    digest, report = prepared(
        path,
        sememes,
        data_options,
        folder,
        n_ctx=training.n_ctx,
        given=None if start is None else start.tokenizer,
    )

    def keep_all(folder: Path) -> None:
        if start is not None:
            keep_start(start, folder)

    return Grid(
        result=Pretrained,
        plan=SweepPlan(WORK, [identity_of(replace(run, data=digest)) for run in runs], None, TRAIN),
        place=PLACE,
        config={
            **settings,
            "task": path.resolve().name.partition(".")[0],
            "data": digest,
            "data_report": report,
            "models": list(models),
            "seeds": sorted({run.seed for run in runs}),
        },
        axes=("models", "seeds"),
        keep=keep_all,
    )


def _is_mini(source: str | os.PathLike[str]) -> bool:
    """Whether the toy text is meant.

    Raises:
        InputError: a file or a folder has its name.
    """
    if os.fspath(source) != NAME:
        return False
    if Path(source).exists():
        raise InputError(
            f"{NAME!r} is the toy text, and there is {Path(source).absolute()} as well: give its "
            "whole path if that is meant, or call from another folder"
        )
    return True


def _start(model: LensModel, options: PretrainOptions) -> SmallEncoderModel:
    """The given model, with a tokenizer as those that are made here; options that state another
    shape or vocabulary are refused."""
    start = encoder_from_bert(model)
    if start.lens.cfg.n_segments < 2:
        raise CapabilityError(
            f"the config of {model.name!r} states type_vocab_size = 1: expected 2 or more, since "
            "pre-training reads two sentences at once"
        )
    default = EncoderTraining()
    shape = start.lens.cfg.values_of(DecoderShape)
    check_shape_left_out(model, shape, options.run or default, default)
    start.tokenizer = WordPieceTokenizer.of(start.tokenizer)
    check_shape_left_out(model, {"vocab_size": len(start.tokenizer)}, options, TextOptions())
    return start


def _check_models(
    models: Sequence[str],
    runs: Sequence[PretrainingRun],
    vocab_size: int,
    sememes: Sememes | None,
    start: SmallEncoderModel | None,
) -> None:
    """That there are some, each once, also by what its name means; of each the first run's."""
    if not models:
        raise OptionError("models is empty: expected at least one, such as 'bert'")
    for model in models:
        if models.count(model) > 1:
            raise OptionError(f"models name {model!r} more than once; each run is done once")
    positive = runs[0].guided_positive
    if positive > 0 and not any(run.has_codes for run in runs[: len(models)]):
        raise OptionError(
            f"guided_positive={positive:g} acts on none of the models {', '.join(models)}, which "
            "have no codes: add a model that has some, such as 'cat-last', or leave it out"
        )
    known: dict[tuple[EncoderConfig, tuple[bool, ...]], str] = {}
    for run in runs[: len(models)]:
        cfg = run.check(vocab_size, sememes, None if start is None else start.lens.cfg)
        composing = tuple(map(cfg.composes, range(cfg.n_layers)))
        other = known.setdefault((replace(cfg, composition="none"), composing), run.model)
        if other != run.model:
            raise OptionError(
                f"models name {other!r} and {run.model!r}, which are the same model with these "
                "options; leave one of them out"
            )


@public
@dataclass(frozen=True, kw_only=True)
class PretrainingRun(EncoderTraining):
    """The configuration of a run: its hash names the run's folder."""

    data: str
    """Digest of the data, kept beside the runs."""
    model: str
    """One of :data:`VARIANTS`."""
    seed: int = 0
    start: str = ""
    """Digest of the model that training starts from, kept beside the runs; empty: none."""

    def model_config(
        self, d_vocab: int, sememes: Sememes | None, start: EncoderConfig | None = None
    ) -> EncoderConfig:
        """The model's shape; that of a given one, but for how it composes.

        Raises:
            OptionError: no such model, or a shape that cannot be.
            InputError: a model with codes, and no sememes for the last block's.
        """
        if self.model not in VARIANTS:
            raise OptionError(f"model {self.model!r}: expected one of {', '.join(VARIANTS)}")
        if self.composes and sememes is None:
            raise InputError(
                f"the model {self.model!r} needs sememes, which guide the codes of its last block: "
                "give the folder of annotations (sememes), or leave the model out"
            )
        shape = {**self.values_of(EncoderShape), **VARIANTS[self.model]}
        shape["n_last_codes"] = None if sememes is None else len(sememes.names)
        if start is None:
            return EncoderConfig(d_vocab=d_vocab, **shape)
        # What a given model decides; of its context, n_ctx is what is used.
        return replace(start, **shape | start.values_of(DecoderShape) | {"n_ctx": start.n_ctx})

    def check(
        self, vocab_size: int, sememes: Sememes | None, start: EncoderConfig | None = None
    ) -> EncoderConfig:
        """The same before the text is read; what else cannot be is refused as well.

        Raises:
            OptionError, InputError: as :meth:`model_config` and :meth:`train_config`.
        """
        config = self.model_config(max(vocab_size, 1), sememes, start)
        if self.n_ctx < LEAST:
            raise OptionError(
                f"n_ctx={self.n_ctx}: expected {LEAST} or more, for three special tokens and two "
                "sentences"
            )
        if self.n_ctx > config.n_ctx:
            raise OptionError(
                f"n_ctx={self.n_ctx}: expected at most {config.n_ctx}, the given model's context"
            )
        if self.frozen and start is None:
            raise OptionError(
                "frozen=True without a model whose weights could be left as they are: give one "
                "(model=…, --model), or leave it out"
            )
        self.weights()
        self.train_config([self.n_ctx])
        return config

    def made(self, data: PretrainingData, out: Path) -> SmallEncoderModel:
        """The model of a sweep in ``out``, before its first step."""
        if not self.start:
            lens = SmallEncoder(self.model_config(len(data.tokenizer), data.guiding))
            init_bert(lens, seed=self.seed)
            return SmallEncoderModel.with_tokenizer(lens, data.tokenizer, name=self.model)
        plain = kept_start(out, self.start, SmallEncoderModel)
        config = self.model_config(0, data.guiding, plain.lens.cfg)
        return composed(plain, config, seed=self.seed, frozen=self.frozen)

    @property
    def composes(self) -> bool:
        """Whether the model has composed vectors."""
        return bool(VARIANTS[self.model]["composition"] != "none")

    @property
    def has_codes(self) -> bool:
        """Whether composed vectors are sums of codes."""
        variant = VARIANTS.get(self.model, {})
        return variant.get("composition", "none") != "none" and variant.get("composer") != "mlp"

    def train_config(self, lengths: Sequence[int]) -> TrainConfig:
        """AdamW, no decay on vectors.

        Raises:
            OptionError: a number that cannot be.
        """
        for name in ("n_looks", "n_curve", "revive_after"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise OptionError(f"{name}={value!r}: expected 1 or more")
        config = TrainConfig(
            **self.values_of(Optimisation, InParts, TokenBatches),
            weight_decay=self.weight_decay,
            decay_vectors=False,
            seed=self.seed,
        )
        total = config.total_steps(len(lengths), lengths)
        return looking(config, total, self.n_looks)

    def weights(self) -> CatWeights:
        """Of CAT's losses."""
        return CatWeights(**self.values_of(LossWeights))


def train(config: Mapping[str, Any], folder: Path) -> None:
    """History, measures and weights of a run into its folder; by all processes, where there are
    several, of which the others :func:`.several_processes.follow` this one."""
    lead(train_part, config, folder)


@trains
def train_part(config: Mapping[str, Any], folder: Path, is_main: bool) -> None:
    """The same, by each process; the first alone writes."""
    run = PretrainingRun(**config)
    data = kept(folder.parents[1], run.data)
    wrapped = run.made(data, folder.parents[1])
    model = wrapped.lens.train()
    held_out = Passages.of(data.held_out, run.n_ctx)
    objective = Pretraining(
        Passages.of(data.train, run.n_ctx),
        WordPieces.of(data.tokenizer),
        None if data.guiding is None else lexicon_of(data.tokenizer, data.guiding),
        run.weights(),
        run.composes,
        curve=held_out.first(run.n_curve),
    )
    kind: type[Trainer[Any]] = Trainer
    if run.revive_after is not None:
        objective = replace(objective, revival=Revival(model, run.revive_after))
        kind = RevivingTrainer
    history = trained(model, objective, run.train_config(objective.lengths), folder, kind)
    if not is_main:
        return
    final = measured(objective, model.eval(), held_out)
    record = {"run": asdict(run), **history, "held_out": final["curve"], "codes": final["codes"]}
    record["codes_curve"] = history.get("codes", [])
    wrapped.lens.cpu().eval()
    keep_run(folder, record, wrapped)
