"""What a comparison refuses before anything is trained, measured or written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, strategies as st

import interp_compose as ic
from interp_compose.errors import (
    AnswerError,
    CapabilityError,
    InputError,
    InterventionError,
    LayerError,
    MissingDataError,
    MissingPackageError,
    OptionError,
    PromptError,
    TrainingModeError,
)
from interp_compose.models.load import load_model
from interp_compose.papers.carma import measure as carma_compare, plan as carma_plan
from interp_compose.papers.carma.plan import checked_seeds
from interp_compose.papers.carma.synonyms.sources import ThesaurusSource
from interp_compose.training.carma import CarmaConfig
from interp_compose.training.config import TrainConfig
from interp_compose.types import Example
from tests import architectures
from tests.papers.carma.studies.carma_runs import (
    SYNONYMS,
    nothing_runs,
    tiny,
    tiny_model,
    tiny_plan,
    tiny_task,
    with_splits,
)
from tests.studies.conftest import splitting_tokenizer

LONG = Example(" ".join(["a small sea"] * 30) + ' "', "a")
SHORT = tuple(Example(f'{letter} "', "a") for letter in "abcd")  # every word is one token
TWO_TOKENS = Example('a small house "', "zebra")


def refused(error: type[Exception], message: str, tmp_path: Path, **options: Any) -> None:
    out = tmp_path / "out"
    with nothing_runs(), pytest.raises(error, match=message):
        tiny(**{"folder": out, **options})
    assert not out.exists()


@given(st.lists(st.integers(0, 2**40), min_size=1, unique=True))
def test_seeds_by_number_and_by_name(seeds: list[int]) -> None:
    assert checked_seeds(len(seeds)) == list(range(len(seeds)))
    assert checked_seeds(seeds) == checked_seeds(tuple(seeds)) == seeds  # in their order
    with pytest.raises(OptionError, match=f"name {min(seeds)} more than once"):
        checked_seeds([*seeds, min(seeds)])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"seeds": -2}, OptionError, "seeds=-2: expected 1 to 10000"),
        ({"seeds": 10**9}, OptionError, "seeds=1000000000: expected 1 to 10000"),
        ({"seeds": []}, OptionError, r"seeds=\[\]: expected 1 to 10000, or a list"),
        ({"seeds": [0, -1]}, OptionError, "seed=-1: expected an integer, 0 or more"),
        ({"seeds": [3, 1, 3]}, OptionError, r"seeds=\[3, 1, 3\] name 3 more than once"),
        ({"rates": []}, OptionError, r"rates=\[\]: expected shares of words, each once"),
        ({"rates": (0.25, 0.25)}, OptionError, "rates=.*each once"),
        ({"rates": [0.0]}, OptionError, r"rates hold 0.0; expected .* in \(0, 1\]"),
        ({"rates": [1.01]}, OptionError, "rates hold 1.01"),
        ({"rates": [float("nan")]}, OptionError, "rates hold nan"),
        (
            {"config": TrainConfig(seed=9)},
            OptionError,
            "config.seed=9 is not read here: give seeds",
        ),
        ({"versions": ("ft",)}, OptionError, "versions=.*expected two or all of"),
        ({"versions": ("ft", "ft")}, OptionError, "versions=.*each once"),
        ({"versions": ("ft", "CARMA")}, OptionError, "versions=.*expected two or all of"),
        ({"carma": CarmaConfig(weight=0.0)}, OptionError, r"λ \(weight\) is 0"),
        (
            {"carma": CarmaConfig(mi_weight=0.0, stability_weight=0.0)},
            InterventionError,
            "would do nothing",
        ),
        ({"carma": CarmaConfig(layers=(1, 3))}, LayerError, "layers end at 3, outside the model"),
        ({"layers": [3]}, LayerError, "layer 3 is outside the model"),
        ({"layers": [1.5]}, LayerError, "depth 1.5 is outside"),
        ({"layers": []}, LayerError, "no layers"),
        ({"synonyms": "thesaurus"}, OptionError, "synonyms 'thesaurus' are unknown"),
        ({"synonyms": "shipped"}, OptionError, "no synonyms are shipped for the task"),
        (
            {"synonyms": ThesaurusSource({"zebra": ["horse"]})},
            InterventionError,
            "nothing was replaced",
        ),
        (
            {"synonyms": ThesaurusSource({"sea": ["antidisestablishmentarianism" * 3]})},
            PromptError,
            r"test \(synonyms at 40%, seed 0\) example 4: its prompt has .* tokens",
        ),
        (
            {"task": with_splits(validation=()), "config": TrainConfig(patience=1)},
            InputError,
            "validation split is empty",
        ),
        ({"where": "workers", "folder": None}, OptionError, "where='workers' without a folder"),
        ({"workers": 2}, OptionError, "workers=2 with where='here'"),
        (
            {"answers": "foil"},
            OptionError,
            "answers='foil': expected 'vocabulary' or 'labels' here",
        ),
    ],
)
def test_options_that_cannot_be(
    options: dict[str, Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    refused(error, message, tmp_path, **options)


@pytest.mark.parametrize(
    ("splits", "error", "message"),
    [
        ({"test": ()}, InputError, "test split is empty"),
        ({"train": ()}, InputError, "training split is empty; a file of your own is all test"),
        ({"test": (TWO_TOKENS,)}, AnswerError, "zebra"),
        ({"train": (TWO_TOKENS,)}, AnswerError, "zebra"),
        ({"validation": (TWO_TOKENS,)}, AnswerError, "zebra"),
        ({"test": (LONG,)}, PromptError, "example 0: its prompt has .* tokens and .* reads 61"),
        ({"train": (LONG,)}, PromptError, "train example 0: its prompt"),
        ({"validation": (LONG,)}, PromptError, "validation example 0: its prompt"),
        ({"test": SHORT}, InterventionError, "pooling would change none of the 4 examples"),
        ({"train": SHORT}, InterventionError, "not one of 4 training prompts has a word"),
        ({"template": "no place"}, InputError, "template 'no place' has 0 places"),
        ({"template": "so {}"}, InputError, "example 0 has the prompt"),
    ],
)
def test_tasks_that_cannot_be_compared_on(
    splits: dict[str, Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    refused(error, message, tmp_path, task=with_splits(**splits))


def test_without_carma_its_words_are_not_asked_for() -> None:
    plan = tiny(task=with_splits(train=SHORT), versions=("original", "ft"))
    assert set(plan.frames["accuracy"]["version"]) == {"original", "ft"}


def encoder() -> Any:
    return load_model(architectures.build("BERT"), tokenizer=splitting_tokenizer())


def in_training_mode() -> Any:
    model = tiny_model()
    model.train()
    return model


def in_half_precision() -> Any:
    built = architectures.build("GPT-2").to(torch.bfloat16)
    return load_model(built, tokenizer=splitting_tokenizer())


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (encoder, CapabilityError, "is an encoder and predicts no next token"),
        (in_training_mode, TrainingModeError, "is in training mode"),
        (in_half_precision, CapabilityError, "has weights in bfloat16"),
        (lambda: load_model(architectures.build("GPT-2")), InputError, "without a tokenizer"),
    ],
)
def test_models_that_cannot_be_compared(
    make: Callable[[], Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    refused(error, message, tmp_path, model=make())


def test_open_interventions(tmp_path: Path) -> None:
    model = tiny_model()
    inside = pytest.raises(InterventionError, match="inside a block of pool_at")
    with nothing_runs(), inside, ic.pool_at(model, 1, torch.tensor([[0, 0, 1]])):
        tiny(folder=tmp_path, model=model)
    with model.hooks([("blocks.1.hook_resid_pre", lambda value, hook: None)]):
        model(torch.tensor([[3, 5]]))  # hooks that never fire are refused when they are closed
        refused(InterventionError, "open interventions", tmp_path, model=model)


def test_several_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    refused(InputError, r"WORLD_SIZE=2; .*ic\.finetune under accelerate launch", tmp_path)
    for alone in ("", "1"):
        monkeypatch.setenv("WORLD_SIZE", alone)
        refused(OptionError, "seeds=0", tmp_path, seeds=0)


@pytest.mark.parametrize(
    "error", [MissingDataError("no WordNet"), MissingPackageError("no TextBlob")]
)
def test_missing_synonyms_are_told_after_what_is_wrong_with_the_task(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody should get WordNet only to hear that the task cannot be trained on."""

    def missing(*args: Any, **options: Any) -> Any:
        raise error

    monkeypatch.setattr(carma_compare, "synonym_source", missing)
    refused(type(error), str(error), tmp_path, synonyms="wordnet")
    task = with_splits(train=())
    refused(InputError, "training split is empty", tmp_path, synonyms="wordnet", task=task)


def test_the_source_is_known_by_its_candidates_and_not_by_its_name() -> None:
    digests = {
        carma_plan._synonyms_digest(tiny_task(), ThesaurusSource(mapping))
        for mapping in (
            SYNONYMS,
            {**SYNONYMS, "zebra": ["horse"]},  # of no text: the same
            {**SYNONYMS, "sea": ["lake", "water", "deep"]},
        )
    }
    assert len(digests) == 2


def test_a_plan_says_what_it_will_train_on() -> None:
    config = TrainConfig(max_steps=3)
    plan = tiny_plan(seeds=[5, 2], config=config, rates=[0.25, 1.0], layers=[1.0, 0])
    assert plan.training == config
    asked = {name: plan.cap.config[name] for name in ("layers", "pooling", "controls", "unit")}
    assert asked == {
        "layers": [0, 2], "pooling": ["mean", "max", "sum"], "controls": False, "unit": "word"
    }  # fmt: skip
    assert [(one.seed, one.rate) for one in plan.replaced] == [(5, 0.25), (5, 1), (2, 0.25), (2, 1)]
    assert [len(plan.train), len(plan.validation)] == [8, 5]
    assert plan.config["train"]["max_steps"] == plan.config["total_steps"] == 3
    assert "seed" not in plan.config["train"]
    assert plan.carma.layers == plan.carma.stability_layers == (1, 1)
    assert {len(one.items) for one in plan.replaced} == {8}
    by_default = tiny_plan(config=None, layers=None)
    assert by_default.training == TrainConfig.suggested(1000)  # of a model of that size
    assert by_default.config["layers"] == [0, 1, 2]
