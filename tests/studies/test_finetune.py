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
)
from interp_compose.interventions.pool_at import pool_at
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
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
from tests.untyped import outcomes_of

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


@pytest.mark.usefixtures("untouched")
class TestRefusals:
    def test_an_empty_training_split(self, model: LensModel) -> None:
        refused(InputError, "the task's training split is empty.*make a Task", model, task_of([]))

    def test_patience_without_a_validation_split(
        self, model: LensModel, examples: list[Example]
    ) -> None:
        options = {"config": replace(QUICK, patience=3)}
        message = "patience=3 looks at validation accuracy, and .* is empty"
        refused(InputError, message, model, task_of(examples), **options)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_half_precision(
        self, dtype: torch.dtype, tokenizer: Any, examples: list[Example]
    ) -> None:
        half = load_model(architectures.build("Llama").to(dtype), tokenizer=tokenizer)
        message = f"weights in {str(dtype)[6:]}.*load it in float32.*precision=.bfloat16"
        refused(CapabilityError, message, half, task_of(examples))

    def test_an_encoder(self, tokenizer: Any, examples: list[Example]) -> None:
        encoder = load_model(architectures.build("BERT"), tokenizer=tokenizer)
        message = "is an encoder and predicts no next token; fine-tune a decoder"
        refused(CapabilityError, message, encoder, task_of(examples))

    def test_no_tokenizer(self, examples: list[Example]) -> None:
        bare = load_model(architectures.build("Llama"))
        refused(InputError, "came without a tokenizer", bare, task_of(examples))

    def test_an_answer_of_several_tokens(self, model: LensModel, examples: list[Example]) -> None:
        broken = [*examples, Example('x "', "zzzz")]
        refused(AnswerError, "zzzz", model, task_of(broken))
        refused(AnswerError, "zzzz", model, task_of(examples, broken))

    def test_a_prompt_longer_than_the_context(
        self, model: LensModel, examples: list[Example]
    ) -> None:
        longer = [*examples, Example("a " * 99 + '"', "b")]
        message = r"validation example 7: its prompt has \d+ tokens and .* reads 61"
        refused(InputError, message, model, task_of(examples, longer))

    def test_layers_outside_the_model(self, model: LensModel, examples: list[Example]) -> None:
        for layers in ((1, 3), (5, 7)):
            refused(
                LayerError,
                f"layers end at {layers[1]}, outside the model",
                model,
                task_of(examples),
                carma=CarmaConfig(layers=layers),
            )

    def test_carma_that_does_nothing(self, model: LensModel, examples: list[Example]) -> None:
        carma = CarmaConfig(mi_weight=0.0, stability_weight=0.0)
        message = "mi_weight and stability_weight are both 0"
        refused(InterventionError, message, model, task_of(examples), carma=carma)

    def test_words_of_one_token_each(self, model: LensModel) -> None:
        message = "not one of 2 training prompts has a word of several tokens"
        single = task_of([Example('x "', "a"), Example('a a "', "b")])
        refused(InterventionError, message, model, single, carma=CarmaConfig())

    def test_frozen_weights(self, tokenizer: Any, examples: list[Example]) -> None:
        frozen = load_model(architectures.build("Llama").requires_grad_(False), tokenizer=tokenizer)
        refused(InputError, "every weight of .* is frozen", frozen, task_of(examples))

    def test_a_folder_that_is_a_file(
        self, model: LensModel, examples: list[Example], tmp_path: Path
    ) -> None:
        (tmp_path / "file").touch()
        message = "is no folder and cannot be made one"
        refused(InputError, message, model, task_of(examples), folder=tmp_path / "file")


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


SCRIPT = """
import json
import numpy as np
import interp_compose as ic
from interp_compose.training.finetune import finetune
from interp_compose.training.config import TrainConfig
model = ic.load_model("mini-base", device="cpu")
task = ic.load_task("mini-idm", model)
short = TrainConfig(max_steps=1)
calls = {
    "a model's name": lambda: finetune("mini-base", task),
    "a task's name": lambda: finetune(model, "mini-idm"),
    "a list of examples": lambda: finetune(model, list(task.train)),
    "carma a dict": lambda: finetune(model, task, carma={"weight": 0.2}),
    "carma a flag": lambda: finetune(model, task, carma=True),
    "config a dict": lambda: finetune(model, task, config={"lr": 1e-3}),
    "a folder of 3": lambda: finetune(model, task, config=short, folder=3),
    "lr a text": lambda: TrainConfig(lr="1e-3"),
    "half a batch": lambda: TrainConfig(batch_size=2.5),
    "a schedule": lambda: TrainConfig(schedule="step"),
    "a precision": lambda: TrainConfig(precision="float16"),
    "a flag": lambda: TrainConfig(activation_checkpointing="yes"),
    "numpy's numbers": lambda: json.dumps(vars(TrainConfig(seed=np.int64(3), lr=np.float32(0.5)))),
}
"""
EXPECTED = {
    "a model's name": "OptionError: finetune: model='mini-base' is a str; expected a model from lo",
    "a task's name": "OptionError: finetune: task='mini-idm' is a str; expected a Task from load_t",
    "a list of examples": "OptionError: finetune: task=[Example(prompt='very sad is called a \"',",
    "carma a dict": "OptionError: finetune: carma={'weight': 0.2} is a dict; expected a CarmaConfi",
    "carma a flag": "OptionError: finetune: carma=True is a bool; expected a CarmaConfig or None",
    "config a dict": "OptionError: finetune: config={'lr': 0.001} is a dict; expected a TrainConfi",
    "a folder of 3": "OptionError: finetune: folder=3 is an int; expected a string or a path or No",
    "lr a text": "OptionError: TrainConfig: lr='1e-3' is a str; expected a number",
    "half a batch": "OptionError: TrainConfig: batch_size=2.5 is a float; expected an integer",
    "a schedule": "OptionError: TrainConfig: schedule='step'; expected one of 'cosine', '",
    "a precision": "OptionError: TrainConfig: precision='float16'; expected one of 'float",
    "a flag": "OptionError: TrainConfig: activation_checkpointing='yes' is a str; expected True or",
    "numpy's numbers": "accepted",
}


def test_untyped_input_is_refused_by_name() -> None:
    """In a process of its own, where no type checker stands in front."""
    outcomes = outcomes_of(SCRIPT)
    for name, expected in EXPECTED.items():
        assert outcomes[name].startswith(expected), name


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
    again = TrainingHistory.load(history.save(tmp_path / "result"))
    assert again.frame.equals(history.frame)
    assert again.representations.notna().all(axis=None)


def test_a_tracker_is_told_every_row_as_it_comes(model: LensModel, examples: list[Example]) -> None:
    told: list[dict[str, Any]] = []
    task = task_of(examples, examples[:3])
    _, history = finetune(model, task, config=QUICK, track=told.append, progress=False)
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
