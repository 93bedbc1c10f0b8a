"""One pre-training run: an encoder, with composition or without, on a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from interp_compose._public import public
from interp_compose.errors import InputError, OptionError
from interp_compose.papers.cat.models.bert import EncoderConfig, SmallEncoder
from interp_compose.papers.cat.models.from_bert import composed
from interp_compose.papers.cat.models.init import init_bert
from interp_compose.papers.cat.models.small_encoder import SmallEncoderModel
from interp_compose.papers.cat.studies.pretrain.data import PretrainingData, kept, lexicon_of
from interp_compose.papers.cat.studies.pretrain.options import EncoderTraining
from interp_compose.papers.cat.tasks.sememes import Sememes
from interp_compose.papers.cat.text.wordpiece import WordPieces
from interp_compose.papers.cat.training.pretraining import CatWeights, Pretraining, measured
from interp_compose.papers.cat.training.revival import Revival, RevivingTrainer
from interp_compose.papers.cat.training.sentences import Passages
from interp_compose.papers.cat.training.several_processes import lead
from interp_compose.papers.shared.grid.sequence_run import keep_run, trained
from interp_compose.papers.shared.grid.start import kept_start
from interp_compose.training.config import TrainConfig
from interp_compose.training.loop import Trainer, trains

WORK: Final = "pretrain"
"""What a sweep calls these runs."""
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
SHAPE: Final = ("n_layers", "d_model", "n_heads", "d_mlp")
"""Options that a given model decides, and its context, of which ``n_ctx`` is what is used."""


@public
@dataclass(frozen=True, kw_only=True)
class PretrainingRun(EncoderTraining):
    """Everything that decides a run."""

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
        last = {"n_last_codes": None if sememes is None else len(sememes.names)}
        shape = _of(self, EncoderConfig) | dict(VARIANTS[self.model]) | last
        if start is None:
            return EncoderConfig(d_vocab=d_vocab, **shape)
        return replace(start, **{name: shape[name] for name in shape.keys() - {*SHAPE, "n_ctx"}})

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

    def train_config(self, lengths: Sequence[int]) -> TrainConfig:
        """AdamW, no decay on vectors.

        Raises:
            OptionError: a number that cannot be.
        """
        for name in ("n_looks", "n_curve", "revive_after"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise OptionError(f"{name}={value!r}: expected 1 or more")
        config = TrainConfig(**_of(self, TrainConfig), decay_vectors=False)
        total = config.total_steps(len(lengths), lengths)
        return replace(config, evaluate_every=max(1, -(-total // self.n_looks)))

    def weights(self) -> CatWeights:
        """Of CAT's losses."""
        return CatWeights(**_of(self, CatWeights))


def _of(run: PretrainingRun, kind: type) -> dict[str, Any]:
    names = {each.name for each in fields(kind)}
    return {name: value for name, value in asdict(run).items() if name in names}


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
