"""One training run: data, model, and what it gets right in the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, get_args

from interp_compose._public import public
from interp_compose.errors import OptionError
from interp_compose.papers.lrf.grammar import marks_of
from interp_compose.papers.lrf.models.init import init_xavier
from interp_compose.papers.lrf.models.seq2seq import Positions, Seq2SeqConfig, SmallSeq2Seq
from interp_compose.papers.lrf.models.small_seq2seq import SmallSeq2SeqModel
from interp_compose.papers.lrf.studies.generalise.options import SequenceTraining
from interp_compose.papers.lrf.studies.generalise.reads import WatchedSequence
from interp_compose.papers.shared.grid.sequence_data import SequenceData, kept
from interp_compose.papers.shared.grid.sequence_run import accuracy, keep_run, trained
from interp_compose.papers.shared.text.vocabulary import BOS
from interp_compose.training.config import TrainConfig
from interp_compose.training.loop import trains

WORK: Final = "generalise"
"""What a sweep calls these runs."""
PLACE: Final = ("model", "seed")
"""What runs of a sweep differ in."""
VARIANTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "transformer": {"fuse": "none"},
    "lrf": {"fuse": "both"},
    "lrf-encoder": {"fuse": "encoder"},
    "lrf-decoder": {"fuse": "decoder"},
    "parameters": {"fuse": "parameters"},
    "previous": {"fuse": "previous"},
    "deeper": {"fuse": "none", "more_layers": 1},
}
"""What a model's name means. ``more_layers`` are of each stack."""
OPTIONS: Final = [each.name for each in fields(SequenceTraining)]

SHAPE: Final = [name for name in OPTIONS if name in Seq2SeqConfig.__dataclass_fields__]
TRAINING: Final = [name for name in OPTIONS if name in TrainConfig.__dataclass_fields__]


@public
@dataclass(frozen=True, kw_only=True)
class SequenceRun(SequenceTraining):
    """Everything that decides a run."""

    data: str
    """Digest of the data, which :func:`.data.keep` wrote beside the runs."""
    model: str
    """One of :data:`VARIANTS`, or that with its positions: "lrf-relative"."""
    seed: int = 0

    def kept(self, folder: Path) -> SequenceData:
        """The data, which lie beside the run's folder."""
        return kept(folder.parents[1], self.data, one_vocabulary=self.one_vocabulary)

    def model_config(self, data: SequenceData) -> Seq2SeqConfig:
        """The model's shape.

        Raises:
            OptionError: no such model, or a shape that cannot be.
        """
        shape: dict[str, Any] = {name: getattr(self, name) for name in SHAPE}
        shape |= _changes(self.model)
        n_more = shape.pop("more_layers", 0)
        for stack in ("n_encoder_layers", "n_decoder_layers"):
            shape[stack] += n_more
        sizes = {"d_vocab": len(data.source), "d_vocab_out": len(data.target)}
        return Seq2SeqConfig(**shape | sizes, n_ctx=data.longest)

    def train_config(self, lengths: Sequence[int]) -> TrainConfig:
        """AdamW with β₂ = 0.98 (Vaswani et al. 2017, section 5.3).

        Raises:
            OptionError: a number that cannot be.
        """
        for name in ("n_looks", "n_curve"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name}={getattr(self, name)!r}: expected 1 or more")
        settings = {name: getattr(self, name) for name in TRAINING}
        config = TrainConfig(**settings, seed=self.seed, beta2=0.98)
        total = config.total_steps(len(lengths), lengths)
        return replace(config, evaluate_every=max(1, -(-total // self.n_looks)))


def _changes(model: str) -> dict[str, Any]:
    """What a model's name says of its shape."""
    variant, _, positions = model.rpartition("-")
    if positions in get_args(Positions):
        name, change = variant, {"positions": positions}
    else:
        name, change = model, {}
    if name not in VARIANTS:
        raise OptionError(
            f"model {model!r}: expected one of {', '.join(VARIANTS)}, or one of them with its "
            "positions, as in lrf-relative"
        )
    return {**VARIANTS[name], **change}


@trains
def train(config: Mapping[str, Any], folder: Path) -> None:
    """History, accuracy and weights of a run into its folder."""
    run = SequenceRun(**config)
    data = run.kept(folder)
    model = SmallSeq2Seq(run.model_config(data))
    init_xavier(model, seed=run.seed)
    curve = data.sample(run.n_curve)
    objective = WatchedSequence(
        data.splits["train"],
        BOS,
        curve=curve,
        label_smoothing=run.label_smoothing,
        marks={split: marks_of(data, pairs) for split, pairs in curve.items()},
    )
    history = trained(model, objective, run.train_config(objective.lengths), folder)
    record = {"run": asdict(run), **history, "accuracy": accuracy(model, data)}
    words = {"source_words": data.source, "target_words": data.target}
    keep_run(folder, record, SmallSeq2SeqModel(model.cpu().eval(), name=run.model, **words))
