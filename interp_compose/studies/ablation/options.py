"""Ablation curves (complexity control, section V): the study and its options.

One dataclass serves the API and the command line. The work is done in ``measure.py`` and
``measure.py``; nothing heavy is imported until it is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

if TYPE_CHECKING:
    from interp_compose.studies.ablation.result import AblationCurve


@dataclass(frozen=True)
class AblationConfig:
    """Ablation curve of one model on one task: knock out each word, each head or each block in
    turn, at each layer, and follow the answers."""

    model: str = "mini-idm"
    """Hub name ("gpt2"), folder, or shipped model (mini-base, mini-idm)."""
    task: str = "mini-idm"
    """idm, sst, mini-idm, mini-sst, or a JSONL file of prompts and answers."""
    out: Path = Path("out")
    """Folder for tables, figures and per-cell outcomes."""
    what: Literal["words", "heads", "layers", "attn", "mlp"] = "words"
    """Attention to a word, heads, or what blocks, their attention or their MLP add."""
    data_dir: Path | None = None
    """Where the task's data lies, for tasks that are not shipped."""
    split: Literal["train", "validation", "test"] = "test"
    """Part of the task to measure on."""
    unit: Literal["word", "pretoken", "phrase", "span"] = "word"
    """For words: words, the tokenizer's own pretokens, phrases, or the data's spans."""
    labels: tuple[str, ...] | None = None
    """For phrases: constituents with these labels."""
    height: int | None = None
    """For phrases: the largest constituents of at most this height."""
    parser: Literal["benepar", "stanza", "spacy"] | None = None
    """For phrases: parse with this, instead of reading the data's own trees."""
    tagger: str | None = None
    """For words: tell kinds of words apart: "kind" (content, function, …; no model needed), or a
    spaCy pipeline's name, for parts of speech."""
    reach: Literal["from", "at", "until"] | None = None
    """Knock out in layer ℓ and all above (usual for words), in ℓ alone (usual else), or up to ℓ."""
    mode: Literal["exclude", "zero"] = "exclude"
    """For words: cut before the softmax, or set to zero after it, as the paper does."""
    how: Literal["zero", "mean", "resample"] = "zero"
    """For heads: what stands in for their output."""
    layers: Annotated[tuple[str, ...] | None, tyro.conf.arg(metavar="LAYER [LAYER ...]")] = None
    """Layers (0 3 11) or depths (0.0 0.5 1.0); all by default."""
    batch_size: int | None = None
    """Examples per batch; chosen by memory where not given."""
    limit: int | None = None
    """Measure on so many examples, drawn at random by the seed."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:1."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Of weights and activations."""
    revision: str | None = None
    """Of a model on the hub."""
    seed: int = 42
    """For splitting the data, for --limit, and for what stands in for heads."""
    answers: Literal["vocabulary", "labels"] = "vocabulary"
    """What the prediction is chosen among: all tokens, or the labels of a sentiment task."""
    overwrite: bool = False
    """Replace another run's result, or its unfinished batches, in the same folder."""
    quiet: Annotated[bool, tyro.conf.arg(aliases=["-q"])] = False
    """No progress bar, no table."""


def run(config: AblationConfig) -> AblationCurve:
    """Load, measure, and write ``out/``: results (Parquet, CSV), figures as HTML and as PNG.

    An interrupted run resumes, batch by batch, when it is started again with the same options,
    and ends in the same result.

    Raises:
        InputError: ``out`` holds another run's result and ``overwrite`` is off.
        InputError, ModelError, MissingDataError: before work starts; nothing is written.
    """
    from interp_compose.checks import check_limit, drawn, layer_from_text
    from interp_compose.models.load import load_model
    from interp_compose.studies.ablation.measure import measure, plan_ablation
    from interp_compose.studies.core.output import held_folder, write_result
    from interp_compose.tasks.load import load_task

    check_limit(config.limit)
    model = load_model(
        config.model, device=config.device, dtype=config.dtype, revision=config.revision
    )
    task = load_task(config.task, model, data_dir=config.data_dir, seed=config.seed)
    examples = drawn(task.split(config.split), config.limit, config.seed)
    plan = plan_ablation(
        model,
        examples,
        what=config.what,
        unit=config.unit,
        labels=None if config.labels is None else frozenset(config.labels),
        height=config.height,
        parser=config.parser,
        tagger=config.tagger,
        reach=config.reach,
        mode=config.mode,
        how=config.how,
        layers=None if config.layers is None else [layer_from_text(text) for text in config.layers],
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
