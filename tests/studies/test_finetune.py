"""``finetune``: what it refuses before any work, and a run on a shipped task."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from interp_compose.errors import (
    AnswerError,
    CapabilityError,
    InputError,
    InterventionError,
    LayerError,
    OptionError,
)
from interp_compose.interventions.pool_at import pool_at
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.stats.intervals import wilson_interval
from interp_compose.tasks.load import load_task
from interp_compose.tasks.task import Task
from interp_compose.text.units import tokenize_prompts
from interp_compose.training import finetune as recipe
from interp_compose.training.carma import CarmaConfig
from interp_compose.training.config import TrainConfig
from interp_compose.training.finetune import encode_examples, finetune
from interp_compose.training.history import TrainingHistory
from interp_compose.types import Example
from tests import architectures

QUICK = TrainConfig(lr=1e-3, max_steps=2, batch_size=8, warmup_steps=0)


def task_of(train: list[Example], validation: list[Example] | None = None) -> Task:
    return Task("mine", "{}", tuple(train), tuple(validation or ()), (), {})


@pytest.fixture
def untouched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is refused is refused before a model is copied."""
    monkeypatch.setattr(recipe, "copy_model", lambda model: pytest.fail("work had begun"))


def refused(
    error: type[Exception], message: str, model: LensModel, task: Task, **options: Any
) -> None:
    with pytest.raises(error, match=message):
        finetune(model, task, progress=False, **options)


LONG = "zzzz"
"""Of several tokens."""


@pytest.mark.parametrize(
    ("error", "message", "more", "validation", "options"),
    [
        (InputError, "patience=3 looks at validation accuracy, and .* is empty", [], None,
         {"config": replace(QUICK, patience=3)}),
        (AnswerError, LONG, [Example('x "', LONG)], None, {}),
        (AnswerError, "training and CARMA's measures are of", [], [Example('x "', LONG)], {}),
        (InputError, r"validation example 0: its prompt has \d+ tokens and .* reads 61", [],
         [Example("a " * 99 + '"', "b")], {}),
        (LayerError, "layers end at 3, outside the model", [], None,
         {"carma": CarmaConfig(layers=(1, 3))}),
        (LayerError, "layers end at 7, outside the model", [], None,
         {"carma": CarmaConfig(layers=(5, 7))}),
        (InterventionError, "mi_weight and stability_weight are both 0", [], None,
         {"carma": CarmaConfig(mi_weight=0.0, stability_weight=0.0)}),
        (OptionError, "checkpoint_every=2 without a folder", [], None,
         {"config": replace(QUICK, checkpoint_every=2)}),
        (OptionError, "evaluate_every=2 looks at the validation split, .* is empty", [], None,
         {"config": replace(QUICK, evaluate_every=2)}),
        (InputError, "is no folder and cannot be made one", [], None, {"folder": __file__}),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("untouched")
def test_what_cannot_be_trained_on_is_refused(
    model: LensModel,
    examples: list[Example],
    error: type[Exception],
    message: str,
    more: list[Example],
    validation: list[Example] | None,
    options: dict[str, Any],
) -> None:
    refused(error, message, model, task_of([*examples, *more], validation), **options)


@pytest.mark.usefixtures("untouched")
def test_tasks_that_hold_nothing_to_learn_are_refused(model: LensModel) -> None:
    refused(InputError, "the task's training split is empty.*Divide it", model, task_of([]))
    single = task_of([Example('x "', "a"), Example('a a "', "b")])
    message = "not one of 2 training prompts has a word of several tokens"
    refused(InterventionError, message, model, single, carma=CarmaConfig())


@pytest.mark.usefixtures("untouched")
def test_models_that_cannot_be_trained_are_refused(tokenizer: Any, examples: list[Example]) -> None:
    llama = architectures.build
    for source, error, message in (
        (llama("Llama").half(), CapabilityError, "weights in float16.*precision=.bfloat16"),
        (llama("Llama").bfloat16(), CapabilityError, "weights in bfloat16.*load it in float32"),
        (llama("BERT"), CapabilityError, "predicts no next token; fine-tune a decoder"),
        (llama("Llama").requires_grad_(False), InputError, "every weight of .* is frozen"),
    ):
        model = load_model(source, tokenizer=tokenizer)
        refused(error, message, model, task_of(examples))
    bare = load_model(llama("Llama"))
    refused(InputError, "came without a tokenizer", bare, task_of(examples))


def test_stability_alone_needs_no_long_words(model: LensModel) -> None:
    single = task_of([Example('x "', "a"), Example('a a "', "b")])
    for carma in (CarmaConfig(mi_weight=0.0), CarmaConfig(weight=0.0)):
        _, history = finetune(model, single, carma=carma, config=QUICK, progress=False)
        assert len(history.frame) == 2
        assert (history.frame["mi"] == 0).all()


def test_open_interventions_are_refused(model: LensModel, examples: list[Example]) -> None:
    task = task_of(examples)
    hook = ("blocks.1.hook_resid_pre", lambda activation, hook: None)
    with pytest.raises(InterventionError) as refusal, model.hooks([hook]):
        finetune(model, task, config=QUICK, progress=False)
    assert "open interventions" in str(refusal.value)
    prompt = tokenize_prompts(model.tokenizer, examples[:1])[0]
    groups = torch.from_numpy(prompt.groups)[None]
    with pytest.raises(InterventionError, match="pool_at"), pool_at(model, 1, groups):
        finetune(model, task, config=QUICK, progress=False)


@pytest.mark.parametrize("off", [torch.no_grad, torch.inference_mode])
def test_gradients_that_the_caller_turned_off_change_nothing(
    off: type[torch.no_grad], model: LensModel, examples: list[Example]
) -> None:
    task = task_of(examples)
    usual = finetune(model, task, config=QUICK, progress=False).model
    with off():
        twin = finetune(model, task, config=QUICK, progress=False).model
    pairs = list(zip(usual.parameters(), twin.parameters(), strict=True))
    assert all(torch.equal(one, other) for one, other in pairs)


def test_training_that_moves_no_weight_is_an_error(
    model: LensModel, examples: list[Example]
) -> None:
    task = task_of(examples, examples)
    still = replace(QUICK, lr=1e-50)
    with pytest.raises(InterventionError, match=r"not one weight .* moved in 2 steps \(lr=1e-50"):
        finetune(model, task, config=still, progress=False)
    with pytest.warns(UserWarning, match="never rose above the untrained model's"):
        finetune(model, task, config=replace(still, patience=1), progress=False)


# ---- runs ----------------------------------------------------------------------------------


def test_encoding(model: LensModel, examples: list[Example]) -> None:
    items = encode_examples(model, examples, unit="word", which="train")
    prompts = tokenize_prompts(model.tokenizer, examples)
    for item, prompt, example in zip(items, prompts, examples, strict=True):
        assert item.ids.tolist() == prompt.ids.tolist()
        assert item.words.tolist() == prompt.groups.tolist()
        assert model.tokenizer.decode([item.answer]) == example.answer
    assert encode_examples(model, [], unit="word", which="train") == []


def test_units_are_whose_tokens_belong_together(model: LensModel, examples: list[Example]) -> None:
    ends = [example.prompt.index(" ") for example in examples[:5]]
    spans = [
        replace(example, spans=((0, end), (end, len(example.prompt))))
        for example, end in zip(examples, ends, strict=False)
    ]
    items = encode_examples(model, spans, unit="span", which="train")
    assert all(set(item.words) == {-1, 0, 1} for item in items)


def test_a_few_prompts_of_a_shipped_task_are_learnt_and_the_result_is_kept(tmp_path: Path) -> None:
    model = load_model("mini-base", device="cpu")
    task = load_task("mini-idm", model)
    few = replace(task, train=task.train[:12], validation=task.train[:12])
    config = TrainConfig(lr=1e-3, epochs=12, batch_size=12, evaluate_every=6, seed=1)
    trained, history = finetune(
        model, few, carma=CarmaConfig(), config=config, folder=tmp_path, progress=False
    )
    losses, scores = history.frame["task_loss"], history.evaluations["accuracy"]
    assert losses.iloc[-1] < 0.3 * losses.iloc[0]
    assert scores.iloc[-1] > scores.iloc[0]
    assert history.frame[["mi", "stability"]].notna().all(axis=None)
    assert history.config["train"]["seed"] == 1
    assert history.config["carma"]["layers"]
    assert {"torch", "interp_compose"} <= set(history.versions)
    assert trained.tokenizer is not None
    assert (model.name, trained.name) == (
        "mini-base",
        "mini-base · fine-tuned with CARMA on mini-idm",
    )
    again = TrainingHistory.load(history.save(tmp_path / "result"))
    assert again.frame.equals(history.frame)
    assert again.representations.notna().all(axis=None)
    for value, column in (("loss", "task_loss"), ("accuracy", "accuracy")):
        figure = again.plot(value)
        batches, validation = figure.chart.panels[0].lines
        assert batches.y == history.frame[column].tolist()  # so few that each is a point
        assert validation.x == [0, 6, 12]
        assert validation.y == history.evaluations[value].tolist()
        assert figure.chart.title == f"mini-base: {value} in training (CARMA)"
    low, high = wilson_interval(12 * history.evaluations["accuracy"].to_numpy(), 12)
    assert (validation.low, validation.high) == (low.tolist(), high.tolist())


def test_a_tracker_is_told_every_row_as_it_comes(model: LensModel, examples: list[Example]) -> None:
    told: list[dict[str, Any]] = []
    task = task_of(examples, examples[:3])
    trained, history = finetune(model, task, config=QUICK, track=told.append, progress=False)
    assert trained.name == f"{model.name} · fine-tuned on {task.name}"
    steps = [row for row in told if "lr" in row]
    assert [row["loss"] for row in steps] == history.frame["loss"].tolist()
    assert not [row for row in steps if "mi" in row]  # plain fine-tuning has no such number
    scores = [row for row in told if "validation/accuracy" in row]
    assert [row["step"] for row in scores] == history.evaluations["step"].tolist()
    assert all(value is not None for row in told for value in row.values())
    assert "layer 1/stable_rank" in set().union(*told)


def test_pythons_random_state_is_kept_even_by_the_first_call() -> None:
    code = """
import random
random.seed(7)
before = random.getstate()
from dataclasses import replace
import interp_compose as ic
model = ic.load_model("mini-base")
task = ic.load_task("mini-idm", model)
few = replace(task, train=task.train[:4], validation=())
state = random.getstate()
ic.finetune(model, few, config=ic.TrainConfig(max_steps=1), progress=False)
assert random.getstate() == state
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=300)
