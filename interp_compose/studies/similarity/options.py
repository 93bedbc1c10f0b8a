"""CAP against human judgements: the study and its options.

One dataclass serves the API and the command line. The work is done in
``measure.py``; nothing heavy is imported until it is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

if TYPE_CHECKING:
    from interp_compose.studies.similarity.result import SimilarityCurve


@dataclass(frozen=True)
class SimilarityConfig:
    """Agreement of one model with people's judgements of text pairs: pool phrases or words at
    each layer, let the model run on, and see how well the similarity of two texts still follows
    the ratings."""

    model: str
    """Hub name ("sentence-transformers/all-MiniLM-L6-v2", "gpt2") or folder."""
    task: str = "bird"
    """bird, paws-qqp, or a TSV or JSONL file of pairs."""
    out: Path = Path("out")
    """Folder for tables and figures."""
    data_dir: Path | None = None
    """Where the task's data lies."""
    split: Literal["train", "test"] = "test"
    """Part of the task to measure on."""
    unit: Literal["phrase", "word", "constituent"] = "phrase"
    """What is pooled: whole texts, words, or constituents."""
    labels: tuple[str, ...] | None = None
    """For constituents: those with these labels."""
    height: int | None = None
    """For constituents: the largest of at most this height."""
    parser: Literal["benepar", "stanza", "spacy"] | None = None
    """For constituents: parse with this, instead of reading the data's own trees."""
    layers: Annotated[tuple[str, ...] | None, tyro.conf.arg(metavar="LAYER [LAYER ...]")] = None
    """Start layers (0 3 5) or depths (0.0 0.5 1.0); all by default."""
    pooling: tuple[Literal["mean", "max", "sum"], ...] = ("mean", "max", "sum")
    """Protocols."""
    controls: bool = True
    """Also keep the last or the first token only; for words and constituents also pool spans of
    the same sizes at random places."""
    embedding: Literal["mean", "cls", "last", "model"] = "mean"
    """Of a text: mean, first token (encoders), last word (decoders), or what the model states."""
    batch_size: int | None = None
    """Pairs per batch; chosen by memory where not given."""
    limit: int | None = None
    """Measure on the first so many pairs."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:1."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Of weights and activations."""
    revision: str | None = None
    """Of a model on the hub."""
    seed: int = 42
    """For the shuffled control."""
    overwrite: bool = False
    """Replace another run's result, or its unfinished batches, in the same folder."""
    quiet: Annotated[bool, tyro.conf.arg(aliases=["-q"])] = False
    """No progress bar, no table."""


def run(config: SimilarityConfig) -> SimilarityCurve:
    """Load, measure, and write ``out/``: results (Parquet, CSV), figures as HTML and as PNG.

    An interrupted run resumes, batch by batch, when it is started again with the same options,
    and ends in the same result.

    Raises:
        InputError: ``out`` holds another run's result and ``overwrite`` is off.
        InputError, ModelError, MissingDataError: before work starts; nothing is written.
    """
    from interp_compose.checks import layer_from_text
    from interp_compose.errors import OptionError
    from interp_compose.models.load import load_model
    from interp_compose.studies.core.output import held_folder, write_result
    from interp_compose.studies.similarity.measure import measure, plan_similarity
    from interp_compose.tasks.load import load_pairs

    if config.limit is not None and config.limit < 1:
        raise OptionError(f"limit={config.limit}: expected at least 1 pair, or leave it out")
    task = load_pairs(config.task, data_dir=config.data_dir)
    pairs = task.split(config.split)[: config.limit]
    if not pairs:
        raise OptionError(
            f"split {config.split!r} of {config.task!r} holds no pairs; a file of your own is all "
            "test split: leave --split out"
        )
    model = load_model(
        config.model, device=config.device, dtype=config.dtype, revision=config.revision
    )
    plan = plan_similarity(
        model,
        pairs,
        unit=config.unit,
        labels=None if config.labels is None else frozenset(config.labels),
        height=config.height,
        parser=config.parser,
        pooling=config.pooling,
        layers=None if config.layers is None else [layer_from_text(text) for text in config.layers],
        controls=config.controls,
        embedding=config.embedding,
        batch_size=config.batch_size,
        seed=config.seed,
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
