"""What can be asked of a watcher of a training."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from interp_compose.studies.core.options import How, Layers
from interp_compose.tasks.examples import ExampleRows
from interp_compose.tasks.pairs import PairRow
from interp_compose.tasks.rows import Tables
from interp_compose.training.history import Tracker

MeasureName = Literal[
    "stable_rank",
    "frobenius_norm",
    "effective_rank",
    "spectral_entropy",
    "mean_abs_cosine",
    "cap",
    "attention_leak",
    "agreement",
]


@dataclass(frozen=True, kw_only=True)
class WatchOptions:
    """What is measured while a model is trained, and how often."""

    measures: Sequence[MeasureName] = ("stable_rank", "frobenius_norm")
    """Of weight matrices: "stable_rank", "frobenius_norm", "effective_rank", "spectral_entropy"
    and "mean_abs_cosine" (condensation). Of ``examples``: "cap", accuracy after pooling, and
    "attention_leak", what later tokens still know of words whose attention is knocked out. Of
    ``pairs``: "agreement" with people."""
    every: int = 50
    """Steps between two looks; step 0 is the model as it was given."""
    budget: float | None = 0.02
    """Share of the training time that looks may take: looks that would exceed it are skipped, and
    recorded as skipped. None: every look is taken, whatever it takes."""
    matrices: Sequence[str] | None = None
    """Of which weights, by the names of :data:`~.weight_matrices.MATRICES`, heads merged; by
    default all matrices in blocks."""
    examples: ExampleRows | None = None
    """Prompts with their answers, such as some of a task's validation split."""
    pairs: Iterable[PairRow] | Tables | None = None
    """Judged pairs of texts, for "agreement"."""
    layers: Layers = None
    """Of "cap", "attention_leak" and "agreement": layers, or depths as floats from 0.0 to 1.0; all
    by default."""
    unit: Literal["word", "pretoken", "constituent", "span"] = "word"
    """Of ``examples``: what is pooled, or knocked out. Of pairs whole texts are pooled."""
    pooling: Sequence[How] | How = ("mean",)
    """How the tokens of a unit become one vector."""
    tokenizer: Any = None
    """For a model that was not loaded with :func:`load_model`."""
    path: str | os.PathLike[str] | None = None
    """A JSONL file, made if needed, to which each look is appended as it comes."""
    also: Tracker | None = None
    """Told every row that the watcher is told, and every number measured, as
    ``layer 2/W_Q/stable_rank``; such as ``wandb.log``."""
    clock: Callable[[], float] = time.perf_counter
    """Seconds, for the budget."""
