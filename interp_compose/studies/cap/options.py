"""Layer-wise CAP curves (CARMA, sections 4.3 and 5.1, appendix C.1): the study and its options.

One dataclass serves the API and the command line. The work is done in
``measure.py``; nothing heavy is imported until it is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

if TYPE_CHECKING:
    from interp_compose.studies.cap.result import CapCurve


@dataclass(frozen=True)
class CapConfig:
    """Layer-wise CAP curve of one model on one task: pool token activations into words or phrases
    at each layer, let the model run on, and see what accuracy is left."""

    model: str = "mini-idm"
    """Hub name ("gpt2"), folder, or shipped model (mini-base, mini-idm)."""
    task: str = "mini-idm"
    """idm, sst, mini-idm, mini-sst, or a JSONL file of prompts and answers."""
    out: Path = Path("out")
    """Folder for table, figures and per-example outcomes."""
    data_dir: Path | None = None
    """Where the task's data lies, for tasks that are not shipped."""
    split: Literal["train", "validation", "test"] = "test"
    """Part of the task to measure on."""
    unit: Literal["word", "pretoken", "phrase", "span"] = "word"
    """What is pooled: words, the tokenizer's own pretokens, phrases, or the data's spans."""
    labels: tuple[str, ...] | None = None
    """For phrases: constituents with these labels."""
    height: int | None = None
    """For phrases: the largest constituents of at most this height."""
    parser: Literal["benepar", "stanza", "spacy"] | None = None
    """For phrases: parse with this, instead of reading the data's own trees."""
    layers: Annotated[tuple[str, ...] | None, tyro.conf.arg(metavar="LAYER [LAYER ...]")] = None
    """Start layers (0 3 11) or depths (0.0 0.5 1.0); all by default."""
    pooling: tuple[Literal["mean", "max", "sum"], ...] = ("mean", "max", "sum")
    """Protocols."""
    mode: Literal["collapse", "broadcast"] = "collapse"
    """Shorten the sequence to its units, or keep its length."""
    controls: bool = True
    """Also keep the last token only, and pool spans of the same sizes at random places."""
    renumber: bool = False
    """After a collapse, number rotary positions 0, 1, 2, … anew."""
    batch_size: int | None = None
    """Examples per batch; chosen by memory where not given."""
    limit: int | None = None
    """Measure on the first so many examples."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:1."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Of weights and activations."""
    revision: str | None = None
    """Of a model on the hub."""
    seed: int = 42
    """For splitting the data and for the shuffled control."""
    answers: Literal["vocabulary", "labels"] = "vocabulary"
    """What the prediction is chosen among: all tokens, or the labels of a sentiment task."""
    overwrite: bool = False
    """Replace another run's result, or its unfinished batches, in the same folder."""
    quiet: Annotated[bool, tyro.conf.arg(aliases=["-q"])] = False
    """No progress bar, no table."""


def run(config: CapConfig) -> CapCurve:
    """Load, measure, and write ``out/``: results (Parquet, CSV), a figure as HTML and as PNG.

    An interrupted run resumes, batch by batch, when it is started again with the same options,
    and ends in the same result.

    Raises:
        InputError: ``out`` holds another run's result and ``overwrite`` is off.
        InputError, ModelError, MissingDataError: before work starts; nothing is written.
    """
    from interp_compose.checks import check_limit, layer_from_text
    from interp_compose.models.load import load_model
    from interp_compose.studies.cap.measure import measure, plan_cap
    from interp_compose.studies.core.output import held_folder, write_result
    from interp_compose.tasks.load import load_task

    check_limit(config.limit)
    model = load_model(
        config.model, device=config.device, dtype=config.dtype, revision=config.revision
    )
    task = load_task(config.task, model, data_dir=config.data_dir, seed=config.seed)
    examples = task.split(config.split)[: config.limit]
    plan = plan_cap(
        model,
        examples,
        unit=config.unit,
        labels=None if config.labels is None else frozenset(config.labels),
        height=config.height,
        parser=config.parser,
        pooling=config.pooling,
        mode=config.mode,
        layers=None if config.layers is None else [layer_from_text(text) for text in config.layers],
        controls=config.controls,
        renumber=config.renumber,
        batch_size=config.batch_size,
        seed=config.seed,
        answers=task.answer_set(config.answers),
        task=f"{task.name} ({config.split})",
    )
    with held_folder(config.out, plan.config, overwrite=config.overwrite):
        return measure(
            plan,
            progress=not config.quiet,
            resume=config.out / "batches",
            start_afresh=config.overwrite,
            keep=lambda curve: write_result(
                config.out, curve, curve.figures(), overwrite=config.overwrite
            ),
        )
