"""What a comparison will do, settled and checked before any of it is done."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool

from interp_compose.checks import check_unread, drawn, sample_note
from interp_compose.errors import InputError, OptionError
from interp_compose.models.layers import resolve_layers
from interp_compose.models.lens_model import LensModel
from interp_compose.models.memory import weights_digest
from interp_compose.models.ready import check_model, check_unedited
from interp_compose.papers.carma.options import CarmaCommand, CarmaSettings, TrainSettings
from interp_compose.papers.carma.synonyms.replace import (
    Template,
    content_words,
    replace_synonyms,
    words_of,
)
from interp_compose.papers.carma.synonyms.sources import SynonymSource
from interp_compose.papers.carma.tables import TABLES, VERSIONS
from interp_compose.runs.sweep import Where
from interp_compose.studies.cap.measure import PreparedCap, prepare_cap
from interp_compose.studies.cap.options import CapOptions
from interp_compose.studies.core.options import Execution, Layers
from interp_compose.tasks.prompts import PAPER_MODELS
from interp_compose.tasks.task import Task
from interp_compose.training.carma import CarmaConfig
from interp_compose.training.config import TrainConfig
from interp_compose.training.data import TrainingExample
from interp_compose.training.finetune import check_training, encode_examples
from interp_compose.training.history import Tracker
from interp_compose.types import Example

MOST_SEEDS = 10_000
"""More are almost certainly a mistake."""


@dataclass(frozen=True, kw_only=True)
class CompareOptions(Execution):
    """What :func:`.measure.compare` takes beside a model and a task."""

    versions: Sequence[str] = field(default=VERSIONS, kw_only=False)
    """Two or all of "original", "ft" and "carma"."""
    seeds: int | Sequence[int] = 5
    """How many (0, 1, 2, …), or which; differences are paired by seed."""
    carma: CarmaConfig | None = None
    """By default :class:`CarmaConfig` with its own defaults."""
    config: TrainConfig | None = None
    """Of both trainings; by default :meth:`TrainConfig.suggested`. Its seed is given by
    ``seeds``."""
    synonyms: str | Path | SynonymSource = "auto"
    """A source, or what :func:`.synonyms.load.synonym_source` takes."""
    rates: Sequence[float] = (0.25, 0.4)
    """Shares of the words of each prompt's own text (not the template's) that are replaced; texts
    with too few words that have a synonym fall short, and the result's table "doses" says by how
    much."""
    layers: Layers = None
    """Where CAP pools: integers, or depths from 0.0 to 1.0; all by default."""
    answers: str = "vocabulary"
    """What a prediction is chosen among wherever accuracy is read: ``"vocabulary"`` (eq. 9), or
    ``"labels"``, those of a sentiment task (eq. 10). The loss stays over the vocabulary."""
    folder: str | Path | None = None
    """Where each run is kept when it is done (tables, weights, history) and while it is going on
    (checkpoints), under ``runs/``; an interrupted comparison, called again, goes on from there, and
    so does one with more seeds or other versions. :func:`sweep_status` lists the runs."""
    where: Where = "here"
    """As :func:`run_sweep` has it: in this process, in worker processes of one thread each, or in
    jobs of a cluster. Elsewhere than here it needs a ``folder``."""
    watch: Callable[[str], Tracker] | None = None
    """Given the name of each training, as ``"ft, seed 0"``, returns what is told of its steps, such
    as an :func:`ic.watch <.watch.measure.watch>` of the model with a ``path`` of that name; in this
    process alone. Runs that are finished already are not trained again, nor watched."""


@dataclass(frozen=True)
class Replacement:
    """The test prompts of one seed with a share of their words replaced, as every version reads
    them."""

    seed: int
    rate: float
    items: Sequence[TrainingExample]
    changed: Bool[np.ndarray, "example"]
    """In which of them a word was replaced."""


@dataclass(frozen=True)
class ComparePlan:
    """A comparison whose input has been checked; ``config`` is what the result says of itself."""

    model: LensModel
    task: str
    train: Sequence[TrainingExample]
    validation: Sequence[TrainingExample]
    test: Sequence[Example]
    cap: PreparedCap
    training: TrainConfig
    carma: CarmaConfig
    replaced: Sequence[Replacement]
    config: Mapping[str, Any]
    drawn: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    """The tables "replacements" and "doses"."""


def plan_comparison(
    model: LensModel,
    task: Task,
    options: CompareOptions,
    source_of: Callable[[str | Path], SynonymSource],
) -> ComparePlan:
    """The arguments are :func:`.measure.compare`'s, and so is what they raise.

    ``source_of`` finds synonyms that are asked for by name. It is called last, when nothing else is
    left to be refused.
    """
    _check_alone()
    check_model(model)
    check_unedited(model, "only one of the versions would feel")
    versions, rates, synonyms = options.versions, options.rates, options.synonyms
    _check_versions(versions)
    seeds = checked_seeds(options.seeds)
    _check_rates(rates)
    layers = resolve_layers(options.layers, model.n_layers)
    carma = (options.carma or CarmaConfig()).resolved(model.n_layers)
    if carma.weight == 0:
        raise OptionError("λ (weight) is 0: both versions would be the same; expected above 0")
    config = options.config or TrainConfig.suggested(sum(w.numel() for w in model.parameters()))
    check_unread("config", config, TrainConfig(), seed="seeds")
    if not task.test:
        raise InputError("the task's test split is empty; there is nothing to compare on.")
    candidates = task.answer_set(options.answers)
    cap = plan_of_test(model, task, layers, candidates)
    train = encode_examples(model, task.train, unit=carma.unit, which="train", answers=candidates)
    validation = encode_examples(
        model, task.validation, unit=carma.unit, which="validation", answers=candidates
    )
    check_training(model, train, validation, config, carma if "carma" in versions else None)
    source = source_of(synonyms) if isinstance(synonyms, str | Path) else synonyms
    replaced, tables = _replaced(model, task, source, seeds, rates, candidates)
    settings = {
        "study": "carma",
        "model": model.name,
        "architecture": model.architecture,
        "task": task.name,
        "versions": list(versions),
        "seeds": seeds,
        "rates": [float(rate) for rate in rates],
        "rates_of": "words of the text",
        "answers": candidates if isinstance(candidates, str) else list(candidates),
        "n_layers": model.n_layers,
        "layers": layers,
        "carma": asdict(carma),
        "train": {key: value for key, value in asdict(config).items() if key != "seed"},
        "total_steps": config.total_steps(len(train)),
        "warmup": config.warmup_of(config.total_steps(len(train))),
        "synonyms": dict(source.settings),
        "n_train": len(train),
        "n_validation": len(validation),
        "n_test": len(task.test),
        "task_sha256": _digest(task),
        "synonyms_sha256": _synonyms_digest(task, source),
        "weights_sha256": weights_digest(model),
        "device": model.device.type,
        "dtype": str(model.dtype).removeprefix("torch."),
    }
    data = (train, validation, task.test)
    return ComparePlan(model, task.name, *data, cap, config, carma, replaced, settings, tables)


def checked_seeds(seeds: int | Sequence[int]) -> list[int]:
    """A number n stands for the seeds 0 … n-1.

    Raises:
        OptionError: no seed, one that is no integer of 0 or more, or one that is named twice.
    """
    if not 1 <= (seeds if isinstance(seeds, int) else len(seeds)) <= MOST_SEEDS:
        raise OptionError(
            f"seeds={seeds!r}: expected 1 to {MOST_SEEDS}, or a list of seeds such as [0, 1, 2]"
        )
    chosen = list(range(seeds) if isinstance(seeds, int) else seeds)
    for seed in sorted(chosen):
        if seed < 0:
            raise OptionError(f"seed={seed!r}: expected an integer, 0 or more")
        if chosen.count(seed) > 1:
            raise OptionError(
                f"seeds={chosen} name {seed} more than once; the same run twice is no second "
                "observation: name each seed once"
            )
    return chosen


def _check_alone() -> None:
    """Several processes would each train every version, and write the same files."""
    count = os.environ.get("WORLD_SIZE") or "1"
    if count != "1":
        raise InputError(
            f"a comparison runs in one process, and this is one of WORLD_SIZE={count}; start it "
            "without accelerate launch or torchrun. To share one training out, call ic.finetune "
            "under accelerate launch."
        )


def _check_versions(versions: Sequence[str]) -> None:
    known = all(name in VERSIONS for name in versions)
    if not known or len(versions) < 2 or len(set(versions)) != len(versions):
        raise OptionError(f"versions={versions!r}: expected two or all of {VERSIONS}, each once")


def _check_rates(rates: Sequence[float]) -> None:
    for rate in rates:
        if not 0 < rate <= 1:
            raise OptionError(f"rates hold {rate!r}; expected shares of words in (0, 1], as 0.25")
    if not rates or len(set(rates)) != len(rates):
        raise OptionError(f"rates={rates!r}: expected shares of words, each once, as (0.25, 0.4)")


def plan_of_test(
    model: LensModel, task: Task, layers: Sequence[int], answers: str | Sequence[str]
) -> PreparedCap:
    """Word-level CAP curves of the test split, without controls."""
    options = CapOptions(layers=layers, controls=False, seed=0, answers=answers, task=task.name)
    return prepare_cap(model, task.test, options, within=True)


def _replaced(
    model: LensModel,
    task: Task,
    synonyms: SynonymSource,
    seeds: Sequence[int],
    rates: Sequence[float],
    answers: str | Sequence[str],
) -> tuple[list[Replacement], dict[str, pd.DataFrame]]:
    """The test prompts of each seed and rate, every word that was replaced, and the doses."""
    replacements: list[Replacement] = []
    rows: dict[str, list[pd.DataFrame]] = {"replacements": [], "doses": []}
    for seed in seeds:
        for rate in rates:
            result = replace_synonyms(
                task.test, synonyms, rate=rate, seed=seed, template=task.template
            )
            title = f"test (synonyms at {rate:.0%}, seed {seed})"
            items = encode_examples(
                model, result.examples, unit="word", which=title, answers=answers
            )
            changed = np.zeros(len(items), dtype=bool)
            changed[result.frame["example"].unique()] = True
            replacements.append(Replacement(seed, float(rate), items, changed))
            sentences = result.sentences().assign(rate=float(rate), seed=seed)
            rows["doses"].append(sentences)
            words = result.frame.rename(columns={"start": "position"})
            rows["replacements"].append(words.merge(sentences, on="example"))
    return replacements, {
        name: TABLES[name].of(pd.concat(each, ignore_index=True)) for name, each in rows.items()
    }


def _digest(task: Task) -> str:
    digest = sha256()
    for split in (task.train, task.validation, task.test):
        for one in split:
            digest.update(json.dumps([one.prompt, one.answer, one.tree, one.spans]).encode())
    return digest.hexdigest()


def _synonyms_digest(task: Task, source: SynonymSource) -> str:
    """Of the candidates of every word that may be replaced, whatever the seeds."""
    template = Template.of(task.template)
    texts = [template.text(one.prompt, row) for row, one in enumerate(task.test)]
    words = {word.text.lower() for text in texts for word in content_words(text, words_of(text))}
    known = [[word, *(one.word for one in source.candidates(word, None))] for word in sorted(words)]
    return sha256(json.dumps(known).encode()).hexdigest()


def carma_of(command: CarmaCommand) -> CarmaConfig:
    """CARMA's settings: the paper's or the defaults, and over them what was asked for."""
    base, task = CarmaConfig(), command.task.task
    if command.study.paper:
        if task not in ("idm", "sst"):
            raise OptionError(
                f"CARMA has no task {task!r}; expected idm or sst, or leave --paper out"
            )
        base = CarmaConfig.from_paper(command.model.model, task)  # type: ignore[arg-type]
    settings = _given(command.carma)
    if "carma_layers" in settings:
        settings["layers"] = settings.pop("carma_layers")
    return replace(base, **settings)


def training_of(command: CarmaCommand, n_parameters: int) -> TrainConfig:
    """The paper's or what is suggested for the model's size, and over it what was asked for."""
    if command.study.paper:
        paper_task: Any = command.task.task
        base = TrainConfig.from_paper(command.model.model, paper_task)
    else:
        base = TrainConfig.suggested(n_parameters)
    return replace(base, **_given(command.training))


def _given(settings: CarmaSettings | TrainSettings) -> dict[str, Any]:
    return {name: value for name, value in vars(settings).items() if value is not None}


def limited(task: Task, limit: int | None, seed: int) -> Task:
    """The task with so many examples a split."""
    if limit is None:
        return task
    return replace(
        task,
        name=f"{task.name}{sample_note(limit, seed)}",
        train=drawn(task.train, limit, seed),
        validation=drawn(task.validation, limit, seed),
        test=drawn(task.test, limit, seed),
    )


def check_depth(name: str, n_layers: int) -> None:
    """Refuse a model that has a paper's model's name and not its layers."""
    expected = {label: one.n_layers for one in PAPER_MODELS for label in (one.label, one.hub_name)}
    if n_layers != expected[name]:
        raise OptionError(
            f"{name!r} has {n_layers} layers here and {expected[name]} in the paper: its settings "
            "are not for this model; leave --paper out"
        )
