"""What a comparison refuses before anything is trained, measured or written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import interp_compose as ic
from interp_compose._public import public
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
from interp_compose.studies.carma import measure as carma_compare, plan as carma_plan
from interp_compose.studies.carma.plan import checked_seeds
from interp_compose.text.synonyms.sources import ThesaurusSource
from interp_compose.training.carma import CarmaConfig
from interp_compose.training.config import TrainConfig
from interp_compose.types import Example
from tests import architectures
from tests.studies.carma_runs import (
    SYNONYMS,
    nothing_runs,
    tiny,
    tiny_model,
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
        tiny(folder=out, **options)
    assert not out.exists()


# ---- seeds, rates, versions ---------------------------------------------------------------


@given(st.integers(1, 200))
def test_a_number_of_seeds(n: int) -> None:
    assert checked_seeds(n) == list(range(n))


@given(st.lists(st.integers(0, 2**40), min_size=1, unique=True))
def test_seeds_by_name_keep_their_order(seeds: list[int]) -> None:
    assert checked_seeds(seeds) == checked_seeds(tuple(seeds)) == seeds
    with pytest.raises(OptionError, match=f"name {min(seeds)} more than once"):
        checked_seeds([*seeds, min(seeds)])


seeds_of = public(checked_seeds)


def test_numbers_of_numpy_are_numbers() -> None:
    found = seeds_of([np.int64(3), 1])
    assert found == [3, 1]
    assert {type(seed) for seed in found} == {int}
    assert seeds_of(np.int32(2)) == [0, 1]
    assert seeds_of({1, 0}) == [0, 1]


@pytest.mark.parametrize(
    ("seeds", "message"),
    [
        (0, "seeds=0: expected 1 to 10000"),
        (-2, "seeds=-2: expected 1 to 10000"),
        (10**9, "seeds=1000000000: expected 1 to 10000"),
        (range(10**9), r"seeds=range\(0, 1000000000\) is a range; expected at most 1000000"),
        ([], r"seeds=\[\]: expected how many"),
        ((), r"seeds=\(\): expected how many"),
        ([0, -1], "seed=-1: expected an integer, 0 or more"),
        ([0, 1.5], r"seeds\[1\]=1.5 is a float; expected an integer"),
        ([True], r"seeds\[0\]=True is a bool; expected an integer"),
        (True, "seeds=True is a bool; expected an integer or a sequence"),
        (1.0, "seeds=1.0 is a float; expected an integer or a sequence"),
        ("3", "seeds='3' is a str; expected an integer or a sequence"),
        (None, "seeds=None; expected an integer or a sequence"),
        ([3, 1, 3], r"seeds=\[3, 1, 3\] name 3 more than once"),
    ],
)
def test_seeds_that_are_none(seeds: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        seeds_of(seeds)


@pytest.mark.parametrize(
    "rates", [[], "0.25", 0.25, None, [0.0], [-0.1], [1.01], [float("nan")], [True], ["0.25"]]
)
def test_rates_outside_zero_to_one(rates: Any) -> None:
    with pytest.raises(OptionError, match=r"rates(=| hold |\[0\]=)"):
        public(carma_plan._check_rates)(rates)


def test_a_rate_named_twice(tmp_path: Path) -> None:
    refused(OptionError, "rates=.*each once", tmp_path, rates=(0.25, 0.25))
    carma_plan._check_rates([1.0, 0.25])


@pytest.mark.parametrize(
    "versions",
    [[], ["ft"], ["ft", "ft"], ["ft", "CARMA"], "ft", None, [["ft"], ["carma"]], ["ft", 3]],
)
def test_versions_that_are_none(versions: Any) -> None:
    with pytest.raises(
        OptionError, match=r"versions=.*expected two or all of|versions(\[\d\])?=.*; expected a s"
    ):
        public(carma_plan._check_versions)(versions)


def test_bad_options_reach_nobody(tmp_path: Path) -> None:
    refused(OptionError, "more than once", tmp_path, seeds=[1, 1])
    refused(OptionError, "seeds=0", tmp_path, seeds=0)
    refused(OptionError, "expected two or all", tmp_path, versions=("ft",))
    refused(OptionError, "shares of words", tmp_path, rates=(0.0,))


# ---- CARMA's settings ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["weight", "mi_weight", "stability_weight"])
@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_weights_outside_zero_to_one(name: str, value: float, tmp_path: Path) -> None:
    with nothing_runs(), pytest.raises(OptionError, match=f"{name}={value}: expected a number"):
        tiny(folder=tmp_path, carma=CarmaConfig(**{name: value}))


def test_settings_under_which_carma_would_do_nothing(tmp_path: Path) -> None:
    refused(OptionError, r"λ \(weight\) is 0", tmp_path, carma=CarmaConfig(weight=0.0))
    nothing = CarmaConfig(mi_weight=0.0, stability_weight=0.0)
    refused(InterventionError, "would do nothing", tmp_path, carma=nothing)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"carma": CarmaConfig(layers=(1, 3))}, r"layers end at 3, outside the model.* 1 … 2"),
        ({"carma": CarmaConfig(stability_layers=(2, 9))}, "stability_layers end at 9"),
        ({"layers": [3]}, "layer 3 is outside the model"),
        ({"layers": [-1]}, "layer -1 is outside"),
        ({"layers": [1.5]}, "depth 1.5 is outside"),
        ({"layers": []}, "no layers"),
    ],
)
def test_layers_outside_the_model(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    refused(LayerError, message, tmp_path, **options)


def test_layers_reversed() -> None:
    with pytest.raises(LayerError, match=r"layers=\(2, 1\): expected 1 ≤ first ≤ last"):
        CarmaConfig(layers=(2, 1))


# ---- the task -----------------------------------------------------------------------------


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


def test_patience_without_validation(tmp_path: Path) -> None:
    config = TrainConfig(patience=1)
    task = with_splits(validation=())
    refused(InputError, "validation split is empty", tmp_path, task=task, config=config)


def test_a_replaced_prompt_that_grows_too_long(tmp_path: Path) -> None:
    source = ThesaurusSource({"sea": ["antidisestablishmentarianism" * 3]})
    message = r"test \(synonyms at 40%, seed 0\) example 4: its prompt has .* tokens"
    refused(PromptError, message, tmp_path, synonyms=source)


def test_no_word_has_a_synonym(tmp_path: Path) -> None:
    source = ThesaurusSource({"zebra": ["horse"]})
    refused(InterventionError, "nothing was replaced", tmp_path, synonyms=source)


# ---- the model ----------------------------------------------------------------------------


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
    monkeypatch.setenv("WORLD_SIZE", "")
    carma_plan._check_alone()
    monkeypatch.setenv("WORLD_SIZE", "1")
    carma_plan._check_alone()


# ---- synonyms -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [MissingDataError("no WordNet"), MissingPackageError("no TextBlob")]
)
def test_missing_synonyms(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*args: Any, **options: Any) -> Any:
        raise error

    monkeypatch.setattr(carma_compare, "synonym_source", missing)
    refused(type(error), str(error), tmp_path, synonyms="auto")


def test_what_is_wrong_with_the_task_is_told_before_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody should get WordNet only to hear that the task cannot be trained on."""

    def missing(*args: Any, **options: Any) -> Any:
        raise MissingDataError("no WordNet")

    monkeypatch.setattr(carma_compare, "synonym_source", missing)
    task = with_splits(train=())
    refused(InputError, "training split is empty", tmp_path, synonyms="wordnet", task=task)


def test_an_unknown_source(tmp_path: Path) -> None:
    refused(OptionError, "synonyms 'thesaurus' are unknown", tmp_path, synonyms="thesaurus")
    refused(OptionError, "no synonyms are shipped for the task", tmp_path, synonyms="shipped")


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
    task = tiny_task()
    plan = carma_plan.plan_comparison(
        tiny_model(),
        task,
        seeds=[5, 2],
        carma=None,
        config=TrainConfig(max_steps=3, seed=9),
        synonyms=lambda: ThesaurusSource(SYNONYMS),
        rates=[0.25, 1.0],
        layers=[1.0, 0],
    )
    assert [carma_plan.run_config(plan, seed).seed for seed in plan.seeds] == [5, 2]
    assert replace(carma_plan.run_config(plan, 5), seed=9) == plan.training
    asked = {name: plan.cap.config[name] for name in ("layers", "pooling", "controls", "unit")}
    assert asked == {
        "layers": [0, 2], "pooling": ["mean", "max", "sum"], "controls": False, "unit": "word"
    }  # fmt: skip
    assert [(one.seed, one.rate) for one in plan.replaced] == [(5, 0.25), (5, 1), (2, 0.25), (2, 1)]
    assert [len(plan.train), len(plan.validation)] == [8, 5]
    assert plan.config["train"]["max_steps"] == plan.config["total_steps"] == 3
    assert plan.carma.layers == plan.carma.stability_layers == (1, 1)
    assert {len(one.items) for one in plan.replaced} == {8}


def test_the_default_training_is_what_is_suggested_for_the_size() -> None:
    plan = carma_plan.plan_comparison(
        tiny_model(),
        tiny_task(),
        seeds=1,
        carma=None,
        config=None,
        synonyms=lambda: ThesaurusSource(SYNONYMS),
        rates=[0.25],
        layers=None,
    )
    assert plan.training == TrainConfig.suggested(1000)
    assert plan.config["layers"] == [0, 1, 2]
