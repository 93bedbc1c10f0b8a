"""How a model is trained: one frozen dataclass, for plain fine-tuning and for CARMA alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from interp_compose._public import public
from interp_compose.errors import OptionError
from interp_compose.settings import Settings
from interp_compose.training.order import token_batches
from interp_compose.training.paper_settings import PaperTask, paper_settings

Schedule = Literal["cosine", "linear", "inverse_sqrt", "constant"]
Precision = Literal["float32", "bfloat16"]

SMALL_MODEL = 10_000_000
"""Parameters below which :meth:`TrainConfig.suggested` trains hotter and longer."""


@dataclass(frozen=True, kw_only=True)
class Steps(Settings):
    """How long a model is trained, and at which learning rate."""

    lr: float = 1e-3
    """Peak learning rate."""
    epochs: int = 3
    """Passes over the training data, at most."""
    max_steps: int | None = None
    """Stop after so many optimiser steps; the schedule ends there."""
    warmup_steps: int = 500
    """Steps of linear warm-up; at most a tenth of all."""


@dataclass(frozen=True, kw_only=True)
class Optimisation(Steps):
    """How long a model is trained, and at which learning rates."""

    schedule: Schedule = "linear"
    """Course of the learning rate after the warm-up: linearly or by half a cosine to the final one;
    by the inverse square root of the step (Vaswani et al. 2017); or constant."""


@dataclass(frozen=True, kw_only=True)
class InParts(Settings):
    """How a step is computed where memory is short."""

    accumulate: int = 1
    """Parts of a batch that (each process) runs one after another (gradient accumulation)."""
    precision: Precision = "float32"
    """Precision of the forward pass in training; weights, gradients, losses and what is measured
    are float32."""


@public
@dataclass(frozen=True, kw_only=True)
class TrainConfig(InParts, Optimisation, lr=6e-5):
    """AdamW with a warm-up and a schedule.

    The defaults are those of CARMA where its text and the released code agree, and else the code's
    (but for the batch size, which is the text's smallest): its learning rate of 6e-5 (the text's
    0.006 is a hundred times that of any fine-tuning we know of), 500 steps of warm-up, gradients
    clipped to norm 1.
    """

    batch_size: int = 16
    """Examples per optimiser step, over all parts and processes."""
    batch_tokens: int | None = None
    """Instead of :attr:`batch_size`: tokens per optimiser step at most, padding included, in
    batches of examples of about one length. A longer example is a batch of its own."""
    final_lr: float = 0.0
    """Learning rate at which a linear or a cosine schedule ends."""
    beta1: float = 0.9
    """Decay rate of AdamW's first moment."""
    beta2: float = 0.999
    """Decay rate of AdamW's second moment."""
    weight_decay: float = 0.01
    """Weight decay, decoupled as AdamW's is."""
    decay_vectors: bool = True
    """Whether biases and norms' weights decay as well, or only matrices and embeddings."""
    label_smoothing: float = 0.0
    """Share of the target's probability that is spread over the whole vocabulary (Szegedy et al.
    2016); in training alone, evaluations are of the target itself."""
    clip: float | None = 1.0
    """Norm to which gradients are clipped; None: not at all."""
    evaluate_every: int | None = None
    """Steps between evaluations on the validation split; by default one epoch."""
    checkpoint_every: int | None = None
    """Steps between checkpoints; by default one with each evaluation."""
    patience: int | None = None
    """Evaluations without a better validation accuracy after which training stops; the best
    weights are returned. None: train to the end, return the last ones."""
    activation_checkpointing: bool = False
    """Recompute each block in the backward pass instead of keeping its activations."""
    seed: int = 0
    """Seed of order, dropout and drawn negatives."""

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "accumulate"):
            self._check_whole(name, 1)
        for name in ("batch_tokens", "max_steps", "evaluate_every", "checkpoint_every", "patience"):
            if getattr(self, name) is not None:
                self._check_whole(name, 1)
        self._check_whole("warmup_steps", 0)
        self._check_whole("seed", 0)
        self._check_number("lr", positive=True, most=1e30)
        if self.clip is not None:
            self._check_number("clip", positive=True)
        self._check_number("weight_decay", positive=False)
        self._check_number("final_lr", positive=False)
        if self.final_lr and self.schedule not in ("linear", "cosine"):
            raise OptionError(
                f"final_lr={self.final_lr!r} has no meaning for schedule={self.schedule!r}, only "
                "for 'linear' and 'cosine': leave it out"
            )
        for name in ("beta1", "beta2", "label_smoothing"):
            value: float = getattr(self, name)
            if not 0 <= value < 1:
                raise OptionError(f"{name}={value!r}: expected a number, 0 or more and below 1")
        if self.accumulate > self.batch_size and self.batch_tokens is None:
            raise OptionError(
                f"accumulate={self.accumulate} parts of a batch of {self.batch_size}: expected at "
                "most one part per example"
            )

    @classmethod
    def suggested(cls, n_parameters: int) -> TrainConfig:
        """The paper's settings, or, for models below 10 M parameters, ones that let them learn.

        Those small models (the shipped ones) were not pretrained on much: they train at 1e-3 in
        batches of 32, for 8 epochs.
        """
        if n_parameters >= SMALL_MODEL:
            return cls()
        return cls(lr=1e-3, epochs=8, batch_size=32, schedule="cosine")

    @classmethod
    def from_paper(cls, model: str, task: PaperTask) -> TrainConfig:
        """Batch size and epochs of CARMA's appendix B.3 for one of its models, by hub name or
        label; all else is :class:`TrainConfig`'s own.

        Not the paper's: the learning rate, which its text gives as 0.006 and its released code as
        6e-5 (the default); and the warm-up, which is at most a tenth of the run where the paper
        has 500 steps.

        Raises:
            OptionError: a model or a task that the paper does not have.
        """
        stated = paper_settings(model, task)
        return cls(batch_size=stated.batch_size, epochs=stated.epochs)

    def total_steps(self, n_examples: int, lengths: Sequence[int] | None = None) -> int:
        """Optimiser steps of the whole run; the last batch of an epoch may be smaller.

        Raises:
            OptionError: as :meth:`steps_per_epoch`.
        """
        steps = self.epochs * self.steps_per_epoch(n_examples, lengths)
        return steps if self.max_steps is None else min(steps, self.max_steps)

    def steps_per_epoch(self, n_examples: int, lengths: Sequence[int] | None = None) -> int:
        """Batches in one pass over so many examples; with :attr:`batch_tokens` of these ``lengths``
        (tokens).

        Raises:
            OptionError: fewer than no examples; a budget of tokens, and no lengths.
        """
        if n_examples < 0:
            raise OptionError(f"n_examples={n_examples}: expected 0 or more")
        if self.batch_tokens is None or not n_examples:
            return math.ceil(n_examples / self.batch_size)
        if lengths is None or len(lengths) != n_examples:
            raise OptionError(
                f"batch_tokens={self.batch_tokens}: the number of batches depends on the lengths "
                f"of the examples; expected lengths of {n_examples}, got "
                f"{'none' if lengths is None else len(lengths)}"
            )
        return len(token_batches(sorted(lengths), self.batch_tokens)) - 1

    def warmup_of(self, total: int) -> int:
        """Steps of warm-up in a run of ``total``."""
        return min(self.warmup_steps, total // 10)

    def lr_at(self, step: int, total: int) -> float:
        """Learning rate of optimiser step ``step`` (from 0) of ``total``.

        Raises:
            OptionError: a step outside the run.
        """
        if not 0 <= step < total:
            raise OptionError(f"step={step}: expected 0 … {total - 1}, for total={total} steps")
        # 1. Linear warm-up: above 0 at the first step, the whole rate at its last.
        warmup = self.warmup_of(total)
        if step < warmup:
            return self.lr * (step + 1) / warmup
        # 2. Then down: 0 of the way at the first step after it, never all of it at the last.
        done = (step - warmup) / max(total - warmup, 1)
        if self.schedule == "linear":
            return self.final_lr + (self.lr - self.final_lr) * (1 - done)
        if self.schedule == "cosine":
            share = 0.5 * (1 + math.cos(math.pi * done))
            return self.final_lr + (self.lr - self.final_lr) * share
        if self.schedule == "inverse_sqrt":
            # the whole rate at step + 1 = warmup
            return self.lr * math.sqrt(max(warmup, 1) / (step + 1))
        return self.lr

    def _check_whole(self, name: str, least: int) -> None:
        value: int = getattr(self, name)
        if value < least:
            raise OptionError(f"{name}={value!r}: expected an integer, {least} or more")

    def _check_number(self, name: str, *, positive: bool, most: float = math.inf) -> None:
        value: float = getattr(self, name)
        if not math.isfinite(value) or value < 0 or (positive and value == 0):
            least = "above 0" if positive else "0 or more"
            raise OptionError(f"{name}={value!r}: expected a finite number {least}")
        if value > most:
            raise OptionError(f"{name}={value!r}: expected at most {most:g}")
