"""One training run of the phase diagram: data, model, and what is measured while it learns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp_compose._public import public
from interp_compose.errors import CapabilityError, NonFiniteError, OptionError
from interp_compose.models.parts import Act, Biases
from interp_compose.papers.complexity.grid.decoder_run import complexity_of
from interp_compose.papers.complexity.models.init import FanIn, InitRates, init_scales, init_weights
from interp_compose.papers.complexity.models.small_decoder import SmallDecoderModel, save_decoder
from interp_compose.papers.complexity.studies.anchors.masked_outputs import MODES, circuit_numbers
from interp_compose.papers.complexity.studies.anchors.options import RunShape
from interp_compose.papers.complexity.tasks.anchor_record import task_of, with_groups
from interp_compose.papers.complexity.tasks.anchors import (
    MOST_SAMPLES,
    UNSEEN,
    AnchorData,
    AnchorTask,
    Modulus,
    violations,
)
from interp_compose.papers.shared.models.decoder import DecoderConfig, SmallDecoder
from interp_compose.papers.shared.training.parallel import Measure, NextOfSequence, ParallelTrainer
from interp_compose.runs.checkpoint import checkpoints_together, clear_together
from interp_compose.runs.files import atomic_write, json_bytes, remove
from interp_compose.settings import LATER, identity_of
from interp_compose.training.config import TrainConfig
from interp_compose.training.loop import run_training, trains
from interp_compose.training.objectives import Row

HISTORY: Final = "history.json"
CIRCUITS: Final = "circuits.json"
MODEL: Final = "model"
STREAMS: Final = ("train", "id", "ood", "init", "order")
MOST_SEED: Final = 2**32 // len(STREAMS) - 1
"""Each stream has a seed of its own, below 2³²."""


@public
@dataclass(frozen=True, kw_only=True)
class PhaseRun(RunShape):
    """Everything that decides a run. The default takes about 40 s of one core."""

    init_rate: float = 0.8
    """γ: every matrix starts with the deviation fan_in^-γ."""
    weight_decay: float = 0.01
    """Decoupled, on every parameter (AdamW's, of appendix A; section III-E adds λ‖W‖² to the loss
    instead, which is not offered)."""
    seed: int = 0
    """Of data, initialisation and order."""
    d_head: int | None = None
    act: Act = "gelu"
    biases: Biases = "all"
    fan_in: FanIn = "own"
    scale_writers: bool = False
    modulus: Modulus = "paper"
    violations: int = 0
    """Groups of anchor pairs whose target breaks the rule: the reasoning complexity."""
    hold_out: bool = True
    """Whether (c, d) and (d, c) are kept from training."""
    d_vocab: int | None = None
    """None: as few as the task needs."""
    own_task: Mapping[str, Any] | None = field(default=None, hash=False, metadata=LATER)
    """Plain values of a task other than the paper's (``task=`` of the studies); the four settings
    above but ``violations``, which counts its violating groups, are then its own."""
    n_test: int = 1000
    """Sequences on which each accuracy is measured."""
    final_lr: float = 1e-5
    """Learning rate at the end of the cosine."""
    warmup_steps: int = 500
    """At most a tenth of the steps."""
    evaluate_every: int = 100
    """Steps."""
    checkpoint_every: int | None = None
    """Steps; None: no checkpoints."""

    @property
    def task(self) -> AnchorTask:
        """The data's definition."""
        if self.own_task is not None:
            return with_groups(task_of(self.own_task), self.violations)
        return AnchorTask(
            unseen=UNSEEN if self.hold_out else (),
            modulus=self.modulus,
            violations=violations(self.violations),
            d_vocab=self.d_vocab,
        )

    def check(self) -> None:
        """Refuse what cannot be trained, before anything is.

        Raises:
            InputError: data, shape, schedule or rate that cannot be; each names its value.
        """
        for name in ("samples", "n_test", "steps", "evaluate_every"):
            value = getattr(self, name)
            most = MOST_SAMPLES if name in ("samples", "n_test") else math.inf
            if not 1 <= value <= most:
                limit = "or more" if most == math.inf else f"to {most}"
                raise OptionError(f"{name}={value!r}: expected a whole number, 1 {limit}")
        if not 0 <= self.seed <= MOST_SEED:
            raise OptionError(f"seed={self.seed!r}: expected a whole number from 0 to {MOST_SEED}")
        self.train_config()
        shape = self.decoder_config(self.task)
        with torch.device("meta"):
            model = SmallDecoder(shape)
        rates = InitRates(*[self.init_rate] * 4)
        init_scales(model, rates, fan_in=self.fan_in, scale_writers=self.scale_writers)

    @property
    def kind(self) -> PhaseRun:
        """The run without what may differ among runs that are trained as one program."""
        return replace(self, init_rate=0.0, weight_decay=0.0, seed=0, violations=0)

    @property
    def flops(self) -> float:
        """About how many floating-point operations its steps take: 6 for each weight and each token
        that it acts on, 2 forwards and 4 backwards.

        In the last layer all but keys and values act on the last token alone, as the unembedding
        does. Attention's scores, lookups and evaluations are left out.
        """
        shape = self.decoder_config(self.task)
        attention = 4 * shape.d_model * shape.n_heads * shape.head_width
        mlp = 2 * shape.d_model * shape.d_mlp
        of_all_tokens = (shape.n_layers - 1) * (attention + mlp) + attention / 2
        of_last_token = attention / 2 + mlp + shape.d_model * shape.d_vocab
        return 6.0 * self.steps * self.batch_size * (of_all_tokens * shape.n_ctx + of_last_token)

    def stream(self, name: str) -> int:
        """A seed of its own for each thing that is random, one of :data:`STREAMS`."""
        if name not in STREAMS:
            raise OptionError(f"stream {name!r}: expected one of {', '.join(STREAMS)}")
        return self.seed * len(STREAMS) + STREAMS.index(name)

    def decoder_config(self, task: AnchorTask) -> DecoderConfig:
        """The model's shape."""
        settings = {name: getattr(self, name) for name in _SHARED}
        return DecoderConfig(**{**settings, "d_vocab": task.vocabulary, "n_ctx": task.length})

    def model(self, task: AnchorTask) -> SmallDecoder:
        """The model as it starts."""
        model = SmallDecoder(self.decoder_config(task))
        init_weights(
            model,
            self.init_rate,
            seed=self.stream("init"),
            fan_in=self.fan_in,
            scale_writers=self.scale_writers,
        )
        return model

    def train_config(self) -> TrainConfig:
        """AdamW with warm-up and cosine."""
        return TrainConfig(
            lr=self.lr,
            final_lr=self.final_lr,
            weight_decay=self.weight_decay,
            epochs=self.steps * self.batch_size // self.samples + 1,
            max_steps=self.steps,
            batch_size=self.batch_size,
            warmup_steps=self.warmup_steps,
            schedule="cosine",
            clip=self.clip,
            evaluate_every=self.evaluate_every,
            checkpoint_every=self.checkpoint_every,
            seed=self.seed,
        )


_SHARED: Final = [
    field.name for field in fields(DecoderConfig) if field.name in PhaseRun.__dataclass_fields__
]


def sets_of(
    task: AnchorTask, samples: int, n_test: int, seed: Callable[[str], int]
) -> dict[str, AnchorData]:
    """Training data, the first ``n_test`` of it, and as many test sequences of each kind.

    ``swapped`` are the unseen ones with their anchors in the other order. Without unseen chains,
    there are neither.
    """
    train = task.sample("train", samples, seed=seed("train"))
    sets = {
        "train": train,
        "seen": train[: min(n_test, samples)],
        "id": task.sample("id", n_test, seed=seed("id")),
    }
    if task.unseen:
        sets["ood"] = task.sample("ood", n_test, seed=seed("ood"))
        sets["swapped"] = task.swapped(sets["ood"])
    return sets


Tensors = tuple[Int[Tensor, "run sample pos"], Int[Tensor, "run sample"]]
"""Tokens of every run, and the targets that follow."""


def stacked(runs: Sequence[Mapping[str, AnchorData]], device: str) -> dict[str, Tensors]:
    """Each set of all runs."""
    return {
        name: (
            torch.stack([sets[name].tokens for sets in runs]).to(device),
            torch.stack([sets[name].targets for sets in runs]).to(device),
        )
        for name in runs[0]
    }


class Evaluation:
    """Accuracies, commutativity and complexity of every model that is trained."""

    SHARES: Final = {"seen": "train", "id": "id", "ood": "ood"}

    def __init__(self, sets: Mapping[str, Tensors]) -> None:
        self.sets = sets

    def __call__(self, trainer: ParallelTrainer) -> list[dict[str, Any]]:
        predictions = {
            name: trainer.predict(tokens)
            for name, (tokens, _) in self.sets.items()
            if name != "train"
        }
        shares = {
            measure: (predictions[name] == self.sets[name][1]).double().mean(1).tolist()
            for name, measure in self.SHARES.items()
            if name in predictions
        }
        if "swapped" in predictions:
            commutativity = (predictions["ood"] == predictions["swapped"]).double().mean(1)
            shares["commutativity"] = commutativity.tolist()
        trainer.copy_to_models()
        return [
            {**{name: values[i] for name, values in shares.items()}, **_complexity(model)}
            for i, model in enumerate(trainer.models)
        ]


def query_neurons(model: SmallDecoder) -> Float[Tensor, "neuron d_model"]:
    """W_Q of the first layer, heads merged: a row is a neuron's input weights."""
    neurons: Tensor = model.W_Q[0].detach().mT.flatten(0, 1)
    return neurons


def _complexity(model: Any) -> dict[str, float | None]:
    W_Q = query_neurons(model)
    if not bool(W_Q.isfinite().all()):
        return {"stable_rank": None, "mean_abs_cosine": None}
    return complexity_of(W_Q)


@trains
def train_together(
    runs: Sequence[PhaseRun],
    folders: Sequence[Path],
    data: Sequence[Mapping[str, AnchorData]],
    measure: Callable[[Mapping[str, Tensors]], Measure],
    *,
    until: Callable[[Sequence[Sequence[Row]]], bool] | None = None,
) -> ParallelTrainer:
    """Runs of one shape as one program, on the GPU where there is one, from their checkpoint where
    there is one.

    Args:
        data: of each run, sets of sequences by name, "train" among them.
        measure: given the sets of all runs, what measures the models at an evaluation.
        until: see :class:`.ParallelTrainer`.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    sets = stacked(data, device)
    models = [run.model(run.task).to(device) for run in runs]
    seeds = tuple(run.stream("order") for run in runs)
    objective = NextOfSequence(*sets["train"], seeds, measure(sets))
    decays = [run.weight_decay for run in runs]
    trainer = ParallelTrainer(models, decays, objective, runs[0].train_config(), until=until)
    checkpoints = checkpoints_together(folders) if runs[0].checkpoint_every else None
    run_training(trainer, checkpoints=checkpoints, progress=False)
    return trainer


def train(configs: Sequence[Mapping[str, Any]], folders: Sequence[Path]) -> None:
    """History, weights and what masks show of each run into its folder."""
    runs = [PhaseRun(**config) for config in configs]
    task = runs[0].task
    data = [sets_of(task, run.samples, run.n_test, run.stream) for run in runs]
    trainer = train_together(runs, folders, data, Evaluation)
    for run, folder, rows, model in zip(runs, folders, trainer.rows, trainer.models, strict=True):
        remove(folder / MODEL)  # of an attempt that was killed
        decoder = cast(SmallDecoder, model.cpu().eval())
        lens = SmallDecoderModel(decoder, name=f"γ = {run.init_rate:g}")
        save_decoder(lens, folder / MODEL)
        circuits = []
        try:
            if rows[-1]["finite"]:
                circuits = _circuits(lens, task)
        except NonFiniteError:
            rows[-1]["finite"] = False
        atomic_write(folder / CIRCUITS, json_bytes(circuits))
        atomic_write(folder / HISTORY, json_bytes({"run": identity_of(run), "rows": rows}))
    clear_together(folders)


def _circuits(model: SmallDecoderModel, task: AnchorTask) -> list[dict[str, Any]]:
    """What masks show; nothing where the model has collapsed, so that no edit of its attention
    changes its output.

    Raises:
        NonFiniteError: finite weights, so large that outputs are not.
    """
    try:
        return [{"mode": mode, **circuit_numbers(model, task, mode=mode)} for mode in MODES]
    except CapabilityError:
        return []
