"""What studies are asked: options, each declared once, for the API and for the command line.

A study's options are a dataclass of its ``options.py``. :func:`.keywords.keywords` makes them the
keywords of its public function, and a command is such a dataclass with the parts below: where the
model, the data and the output are. Nothing heavy is imported here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Generic, Literal, TypeVar

import tyro

O_co = TypeVar("O_co", covariant=True)
Part = Annotated[O_co, tyro.conf.OmitArgPrefixes]
"""A dataclass whose fields are the command's own options."""
ApiOnly = Annotated[O_co, tyro.conf.Fixed, tyro.conf.Suppress]
"""Options of the function that the command line sets by itself."""

Layers = Annotated[  # the command line takes one or several
    Sequence[int | float] | int | float | None,
    tyro.conf.arg(
        metavar="LAYER [LAYER ...]",
        constructor=tuple[int | float, ...] | None,
        help_behavior_hint="(default: unset)",
    ),
]
Labels = Annotated[frozenset[str] | None, tyro.conf.arg(metavar="LABEL [LABEL ...]")]
OnBad = Literal["refuse", "skip"]
Parser = Literal["benepar", "stanza", "spacy"]
How = Literal["mean", "max", "sum"]
Pooling = Annotated[  # the command line takes names alone
    Sequence[How | Callable[..., Any]] | How | Callable[..., Any],
    tyro.conf.arg(
        metavar="{mean,max,sum} [...]",
        constructor=tuple[How, ...],
        help_behavior_hint="(default: mean max sum)",
    ),
]
Answers = Annotated[
    Literal["vocabulary", "foil"] | Sequence[str],
    tyro.conf.arg(metavar="vocabulary|foil|labels|LABEL LABEL [...]"),
]


def by_default(value: str) -> Any:
    """Shows a default that is not the field's own, None, in the help."""
    return tyro.conf.arg(help_behavior_hint=f"(default: {value})")


OF_TASK: Final = ("labels",)
"""Answers as the command line writes those of the task."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is measured, and how."""

    batch_size: int | None = None
    """Examples or pairs per batch; by default what fits a fixed memory budget."""
    seed: int = 42
    """Of everything that is drawn at random: controls, examples, and splits of the data."""
    task: ApiOnly[str] = ""
    """A name for the figure's title."""
    progress: ApiOnly[bool] = True
    """Show a bar."""
    resume: ApiOnly[str | Path | None] = None
    """Folder in which finished batches are kept until the end, so that an interrupted call, made
    again, goes on and ends in the same result."""


@dataclass(frozen=True, kw_only=True)
class PromptOptions(Options):
    """What is measured, and how."""

    unit: Literal["word", "pretoken", "constituent", "span"] = "word"
    """Words as spaCy has them, words by the tokenizer's own marks ("pretoken"), constituents, or
    the data's spans."""
    labels: Labels = None
    """For constituents: those with these labels, such as NP."""
    height: int | None = None
    """For constituents: the largest of at most this height."""
    parser: Parser | None = None
    """For constituents: parse with this, instead of reading the data's own trees."""
    answers: Answers = "vocabulary"
    """What a prediction is chosen among: "vocabulary" (CARMA, eq. 9); a list of labels (eq. 10),
    such as those of a sentiment task ("labels" on the command line); or "foil", each example's
    answer and its own wrong alternative. Ranks and log-probabilities are then those among them."""
    on_bad: OnBad = "refuse"
    """What becomes of examples that cannot be measured (an answer of several tokens, a prompt that
    is too long): "refuse" names them, "skip" leaves them out, and the result counts them."""


@dataclass(frozen=True, kw_only=True)
class LongAnswers(Options):
    """What is measured, and how."""

    multi_token_answers: bool = False
    """Answers may be of several tokens. One is then right if each of its tokens is the most likely
    after those before it, and its log-probability is the sum of theirs."""


@dataclass(frozen=True, kw_only=True)
class AnswerOptions(LongAnswers, PromptOptions):
    """What is measured, and how."""


@dataclass(frozen=True, kw_only=True)
class Execution:
    """Where models are trained."""

    where: Literal["here", "workers", "slurm"] = "workers"
    """In this process (with a GPU, many at a time), one worker per core, or jobs of a cluster."""
    workers: int | None = None
    """How many workers, or jobs at a time."""
    slurm: ApiOnly[Mapping[str, Any] | None] = None
    """What the cluster's jobs ask for, see :class:`.runs.slurm.Cluster`."""
    progress: ApiOnly[bool] = True
    """Show a bar."""


@dataclass(frozen=True, kw_only=True)
class GridOptions(Execution):
    """Which models are trained, and where."""

    seeds: int = 3
    """Runs per cell of the grid, each with initialisation and order of its own; of anchor functions
    with data of its own as well."""
    first_seed: int = 0
    """The first of them."""


@dataclass(frozen=True, kw_only=True)
class StartModel:
    """Where the model comes from."""

    model: str = "mini-base"
    """Hub name ("gpt2"), folder, or shipped model (mini-base, mini-idm)."""
    name: str | None = None
    """What tables, figures and comparisons call the model; by default what --model says."""
    device: str = "auto"
    """auto (CUDA where there is one, else the CPU), cpu, cuda, cuda:1, or another that this PyTorch
    has here, such as mps."""
    revision: str | None = None
    """Of a model on the hub."""


@dataclass(frozen=True, kw_only=True)
class ModelSource(StartModel):
    """Where the model comes from."""

    model: str = "mini-idm"
    """Hub name ("gpt2"), folder, or shipped model (mini-base, mini-idm)."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Of weights and activations."""


@dataclass(frozen=True, kw_only=True)
class WholeTask:
    """Where the data come from."""

    task: str = "mini-idm"
    """{prompts tasks}, or a JSONL file of prompts and answers."""
    data_dir: Path | None = None
    """Folder of the task's data, for tasks that are not shipped."""
    limit: int | None = None
    """Take so many examples at most of each split that is used, drawn at random by --seed."""


@dataclass(frozen=True, kw_only=True)
class TaskSource(WholeTask):
    """Where the data come from."""

    split: Literal["train", "validation", "test"] = "test"
    """Part of the task to measure on."""


@dataclass(frozen=True, kw_only=True)
class Output:
    """What is written, and what is shown."""

    out: Annotated[Path, by_default("out/ and the command's name")] = Path("out")
    """Folder for tables and figures."""
    overwrite: bool = False
    """Replace another run's result, or its unfinished batches, in the same folder."""
    quiet: Annotated[bool, tyro.conf.arg(aliases=["-q"])] = False
    """No progress bar, no table."""


@dataclass(frozen=True, kw_only=True)
class SharedOutput(Output):
    """What is written, and what is shown."""

    shard: Annotated[str | None, tyro.conf.arg(metavar="I/N")] = None
    """Measure the I-th of N parts, as 2/8, of one result, where N processes or machines share the
    folder --out. The last of them writes the result, which is that of a single process."""


@dataclass(frozen=True, kw_only=True)
class TaskCommand(Generic[O_co]):
    """A study of one model on one task."""

    model: Part[ModelSource] = field(default_factory=ModelSource)
    task: Part[TaskSource] = field(default_factory=TaskSource)
    study: Part[O_co]
    output: Part[SharedOutput] = field(default_factory=SharedOutput)
