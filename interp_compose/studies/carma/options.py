"""CARMA beside plain fine-tuning: the study and its options.

One dataclass for the command line; the work is done in ``plan.py``, ``run.py`` and
``measure.py``. Nothing heavy is imported until it is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from interp_compose.studies.core.options import Layers

if TYPE_CHECKING:
    from interp_compose.models.lens_model import LensModel
    from interp_compose.studies.carma.result import Comparison
    from interp_compose.training.carma import CarmaConfig
    from interp_compose.training.config import TrainConfig


@dataclass(frozen=True)
class CarmaStudy:
    """A model as it is, fine-tuned, and fine-tuned with CARMA from the same start over the same
    batches: accuracy, CAP curves, consistency under synonyms and cost, paired by seed."""

    model: str = "mini-base"
    """Hub name ("gpt2"), folder, or shipped model (mini-base, mini-idm)."""
    task: str = "mini-idm"
    """idm, sst, mini-idm or mini-sst."""
    out: Path = Path("out")
    """Folder for report, tables, figures, and every run's weights and history."""
    data_dir: Path | None = None
    """Where the task's data lies, for tasks that are not shipped."""
    seeds: tuple[int, ...] = (5,)
    """One number: how many seeds; several: which ones."""
    paper: bool = False
    """Take λ, CARMA's last layers, batch size and epochs from appendix B.3 for this model and task.
    Not set as in the paper: the learning rate (its text has 0.006, its code 6e-5, which is used),
    γ, η and τ (its code's), the first layer (1), the warm-up (500 steps, at most a tenth)."""
    weight: float | None = None
    """λ, CARMA's share in the total loss (0.2)."""
    mi_weight: float | None = None
    """γ, weight of the mutual-information term (0.2)."""
    stability_weight: float | None = None
    """η, weight of the stability term (0.3)."""
    carma_layers: tuple[int, int] | None = None
    """First and last layer that CARMA acts on; about a third of the depth by default."""
    stability_layers: tuple[int, int] | None = None
    """The same for the stability term, where it differs."""
    temperature: float | None = None
    """τ of the mutual-information term (0.1)."""
    negatives: int | None = None
    """Draw so many negatives for each anchor (the authors' code: 5); by default all are used."""
    lr: float | None = None
    """Peak learning rate: 6e-5, or 1e-3 for models under 10 M parameters."""
    epochs: int | None = None
    """3, or 8 for models under 10 M parameters, or the paper's."""
    max_steps: int | None = None
    """Stop each training after so many steps."""
    batch_size: int | None = None
    """Examples per step: 16, or 32 for models under 10 M parameters, or the paper's."""
    accumulate: int | None = None
    """Parts of a batch that are run one after another."""
    schedule: Literal["cosine", "linear", "constant"] | None = None
    """Of the learning rate after the warm-up."""
    patience: int | None = None
    """Stop after so many evaluations without a better validation accuracy."""
    precision: Literal["float32", "bfloat16"] | None = None
    """Of the forward pass in training."""
    rates: tuple[float, ...] = (0.25, 0.4)
    """Shares of the words of the prompt's own text that are replaced by synonyms."""
    synonyms: str = "auto"
    """auto, shipped, wordnet, vectors (spaCy's), or a .json file: word -> list of synonyms."""
    frequency: Path | None = None
    """A table of word counts, to leave out rare synonyms (instead of the source's own)."""
    layers: Layers = None
    """Where CAP pools: layers (0 3 11) or depths (0.0 0.5 1.0); all by default."""
    answers: Literal["vocabulary", "labels"] = "vocabulary"
    """What a prediction is chosen among: all tokens, or the labels of a sentiment task (eq. 10)."""
    limit: int | None = None
    """Train, validate and test on so many examples each, drawn at random by --seed."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:1."""
    revision: str | None = None
    """Of a model on the hub."""
    seed: int = 42
    """For splitting the data, and for --limit."""
    where: Literal["here", "workers"] = "here"
    """Train in this process, or side by side in worker processes of one thread each."""
    workers: int | None = None
    """How many worker processes; by default one per core."""
    overwrite: bool = False
    """Replace another comparison's result in the same folder."""
    quiet: Annotated[bool, tyro.conf.arg(aliases=["-q"])] = False
    """No progress bars, no table."""


def run(config: CarmaStudy) -> Comparison:
    """Load, train, measure, and write ``out/``: ``report.html``, tables, figures, and ``runs/``.

    An interrupted comparison goes on when it is started again with the same options; one that is
    finished is read from ``out``, and only its figures and report are made anew. With more seeds
    and ``overwrite``, the runs that are there are not trained again.

    Raises:
        InputError: ``out`` holds another run's result or runs, and ``overwrite`` is off.
        InputError, ModelError, MissingDataError: before work starts; nothing is written.
    """
    from interp_compose.checks import check_limit
    from interp_compose.models.load import load_model
    from interp_compose.runs.sweep import check_options
    from interp_compose.studies.carma.measure import carry_out, finished
    from interp_compose.studies.carma.plan import plan_comparison
    from interp_compose.studies.carma.result import Comparison
    from interp_compose.studies.core.output import held_folder, write_result
    from interp_compose.tasks.load import load_task
    from interp_compose.tasks.synonyms import synonym_source

    check_options(config.where, config.workers, None)
    carma = _carma(config)
    check_limit(config.limit)
    model = load_model(config.model, device=config.device, revision=config.revision)
    if config.paper:
        _check_depth(config.model, model.n_layers)
    task = load_task(config.task, model, data_dir=config.data_dir, seed=config.seed)
    plan = plan_comparison(
        model,
        _limited(task, config.limit, config.seed),
        seeds=config.seeds[0] if len(config.seeds) == 1 else config.seeds,
        carma=carma,
        config=_training(config, model),
        synonyms=lambda: synonym_source(
            config.synonyms,
            config.task,
            data_dir=config.data_dir if config.task == "idm" else None,
            frequency=config.frequency,
        ),
        rates=config.rates,
        layers=None if config.layers is None else list(config.layers),
        answers=config.answers,
    )
    with held_folder(config.out, Comparison, plan.config, overwrite=config.overwrite):
        comparison = finished(config.out, plan) or carry_out(
            plan,
            folder=config.out,
            where=config.where,
            workers=config.workers,
            progress=not config.quiet,
        )
        write_result(config.out, comparison, overwrite=config.overwrite)
    return comparison


def _check_depth(name: str, n_layers: int) -> None:
    """Refuse a model that has a paper's model's name and not its layers."""
    from interp_compose.errors import OptionError
    from interp_compose.tasks.prompts import PAPER_MODELS

    expected = {label: one.n_layers for one in PAPER_MODELS for label in (one.label, one.hub_name)}
    if n_layers != expected[name]:
        raise OptionError(
            f"{name!r} has {n_layers} layers here and {expected[name]} in the paper: its settings "
            "are not for this model; leave --paper out"
        )


def _carma(config: CarmaStudy) -> CarmaConfig:
    """CARMA's settings: the paper's or the defaults, and over them what was asked for."""
    from interp_compose.errors import OptionError
    from interp_compose.training.carma import CarmaConfig

    base = CarmaConfig()
    if config.paper:
        if config.task not in ("idm", "sst"):
            raise OptionError(
                f"CARMA has no task {config.task!r}; expected idm or sst, or leave --paper out"
            )
        base = CarmaConfig.from_paper(config.model, config.task)  # type: ignore[arg-type]
    asked = {
        "weight": config.weight,
        "mi_weight": config.mi_weight,
        "stability_weight": config.stability_weight,
        "layers": config.carma_layers,
        "stability_layers": config.stability_layers,
        "temperature": config.temperature,
        "negatives": config.negatives,
    }
    return replace(base, **_given(asked))


def _training(config: CarmaStudy, model: LensModel) -> TrainConfig:
    """The paper's or what is suggested for the model's size, and over it what was asked for."""
    from interp_compose.training.config import TrainConfig

    if config.paper:
        base = TrainConfig.from_paper(config.model, config.task)  # type: ignore[arg-type]
    else:
        base = TrainConfig.suggested(sum(weight.numel() for weight in model.parameters()))
    names = ("lr", "epochs", "max_steps", "batch_size", "accumulate", "schedule", "patience")
    asked = {name: getattr(config, name) for name in (*names, "precision")}
    return replace(base, **_given(asked))


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _limited(task: Any, limit: int | None, seed: int) -> Any:
    """The task with so many examples a split."""
    from interp_compose.checks import drawn

    if limit is None:
        return task
    return replace(
        task,
        train=drawn(task.train, limit, seed),
        validation=drawn(task.validation, limit, seed),
        test=drawn(task.test, limit, seed),
    )
