"""A comparison small enough to be run many times: a tiny model, a made-up task and thesaurus."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.papers.carma import run as carma_run
from interp_compose.papers.carma.measure import compare
from interp_compose.papers.carma.plan import CompareOptions, ComparePlan, plan_comparison
from interp_compose.papers.carma.result import Comparison
from interp_compose.papers.carma.synonyms.load import synonym_source
from interp_compose.papers.carma.synonyms.sources import ThesaurusSource
from interp_compose.runs.sweep import sweep_status
from interp_compose.tasks.task import Task
from interp_compose.training import loop
from interp_compose.training.config import TrainConfig
from interp_compose.types import Example
from tests import architectures
from tests.studies.conftest import splitting_tokenizer

TEXTS = (
    *("a small house", "the mother of a father", "someone who bakes bread", "a wooden house"),
    *("the shore of a sea", "bread in the mountains", "a small sea", "the father of a mother"),
)
SYNONYMS = {
    "house": ["cabin", "hut", "home"],
    "bread": ["loaf", "toast"],
    "mother": ["mum", "mama"],
    "sea": ["ocean", "lake", "deep"],
}
SETTINGS = TrainConfig(lr=1e-2, batch_size=4, epochs=1, checkpoint_every=1)
TIMES = ("seconds", "step_seconds")


def tiny_model(seed: int = 0) -> LensModel:
    """Three layers, and a tokenizer that splits most words."""
    return load_model(architectures.build("GPT-2", seed=seed), tokenizer=splitting_tokenizer())


@cache
def _shared_model() -> LensModel:
    """A comparison leaves its model as it was: what the model can do is proven once."""
    return tiny_model()


def tiny_task() -> Task:
    """Eight texts, in all three splits, each with a letter as its answer."""
    rows = tuple(
        Example(f'{text} "', letter) for text, letter in zip(TEXTS, "abcdabcd", strict=True)
    )
    return Task("made-up", '{} "', rows, rows[:5], rows, {"source": "a test"})


TINY: dict[str, Any] = {"seeds": 1, "config": SETTINGS, "rates": (0.4,), "layers": [1]}
TINY |= {"synonyms": ThesaurusSource(SYNONYMS)}


def tiny(model: LensModel | None = None, task: Task | None = None, **options: Any) -> Comparison:
    """A comparison of :func:`tiny_model` on :func:`tiny_task`, one layer, one seed, one rate."""
    given = {**TINY, "progress": False, **options}
    return compare(model or _shared_model(), task or tiny_task(), **given)


def tiny_plan(
    model: LensModel | None = None, task: Task | None = None, **options: Any
) -> ComparePlan:
    """That of :func:`tiny`."""
    asked, named = CompareOptions(**TINY | options), partial(synonym_source, task="made-up")
    return plan_comparison(model or _shared_model(), task or tiny_task(), asked, named)


@contextmanager
def counted() -> Iterator[list[str]]:
    """What is trained in the ``with`` block, in order: like "ft, seed 0"."""
    real, trained = carma_run.finetune_on, []

    def count(*args: Any, **options: Any) -> Any:
        trained.append(options["title"].partition(" ")[2])  # after "2/3 "
        return real(*args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(carma_run, "finetune_on", count)
        yield trained


@contextmanager
def nothing_runs() -> Iterator[None]:
    """Neither a training nor a measurement may be started in the ``with`` block."""

    def fail(*args: Any, **options: Any) -> Any:
        raise AssertionError("work was started")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(carma_run, "finetune_on", fail)
        patch.setattr(carma_run, "measured", fail)
        yield


@contextmanager
def dies_at_step(number: int) -> Iterator[None]:
    """The optimiser step ``number``, counted over all runs from 1, is interrupted."""
    real, steps = loop.Trainer.train_step, [0]

    def step(*args: Any, **options: Any) -> Any:
        steps[0] += 1
        if steps[0] == number:
            raise KeyboardInterrupt
        return real(*args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop.Trainer, "train_step", step)
        yield


def assert_same(one: Comparison, other: Comparison) -> None:
    """Two comparisons that differ in nothing but the time they took."""
    assert one.config == other.config
    for name, frame in one.frames.items():
        if name == "overhead":
            continue
        times = [column for column in TIMES if column in frame]
        pd.testing.assert_frame_equal(
            frame.drop(columns=times), other.frames[name].drop(columns=times)
        )


def run_folder(folder: Path, version: str, seed: int = 0) -> Path:
    """Of a comparison's run, by the table of its sweep; the last one that was asked for."""
    runs = sweep_status(folder)
    mine = [version == v and seed in s for v, s in zip(runs["version"], runs["seeds"], strict=True)]
    return folder / "runs" / str(runs["hash"][mine].iloc[-1])


def states(folder: Path) -> dict[str, str]:
    """Of each run of a comparison, by its name."""
    runs = sweep_status(folder)
    names = [carma_run.run_name(run) for run in runs.to_dict("records")]
    return dict(zip(names, runs["state"], strict=True))


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file under a folder, by its path."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def with_splits(**splits: Any) -> Task:
    """:func:`tiny_task` with other splits."""
    return replace(tiny_task(), **splits)
