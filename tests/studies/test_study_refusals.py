"""What studies refuse in the same words, before any work: options, models, untyped input."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

import interp_compose as ic
from interp_compose.errors import (
    CapabilityError,
    InputError,
    LayerError,
    NonFiniteError,
    OptionError,
    TrainingModeError,
)
from interp_compose.models.capabilities import Capabilities
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.types import Example
from tests import architectures
from tests.studies import similarity_reference as slow
from tests.untyped import outcomes_of

STUDIES: dict[str, Any] = {
    "cap": ic.cap_curve,
    "ablation": ic.ablation_curve,
    "similarity": ic.similarity_curve,
}
every_study = pytest.mark.parametrize("study", STUDIES)


@contextmanager
def nothing_runs() -> Iterator[None]:
    """No module of any model is called, not even by a probe."""

    def refuse(module: torch.nn.Module, args: Any) -> None:
        raise AssertionError(f"{type(module).__name__} was called")

    handle = torch.nn.modules.module.register_module_forward_pre_hook(refuse)
    try:
        yield
    finally:
        handle.remove()


def measured(study: str, model: LensModel, examples: list[Example], **options: Any) -> Any:
    data: Any = slow.ROWS if study == "similarity" else examples
    return STUDIES[study](model, data, progress=False, **options)


def test_the_guard_of_these_tests_sees_a_call(examples: list[Example]) -> None:
    with nothing_runs(), pytest.raises(AssertionError, match="was called"):
        measured("cap", slow.wrapped("Llama"), examples)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"seed": -1}, OptionError, "seed=-1"),
        ({"batch_size": 0}, OptionError, "batch_size=0"),
        ({"layers": [3]}, LayerError, "layer 3 is outside the model: expected 0 … 2"),
        ({"unit": "syllable"}, OptionError, "unit='syllable'; expected one of"),
        ({"labels": frozenset({"NP"})}, OptionError, "labels"),
        ({"height": 2}, OptionError, "height"),
        ({"pooling": ("median",)}, OptionError, r"pooling\[0\]='median'; .*'mean', 'max', 'sum'"),
        ({"pooling": "median"}, OptionError, "pooling='median'"),
        ({"pooling": ()}, OptionError, "expected a sequence"),
        ({"pooling": ("mean", "mean")}, OptionError, "twice"),
    ],
)
@every_study
def test_an_option_that_cannot_be(
    model: LensModel,
    examples: list[Example],
    study: str,
    options: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    if study == "ablation" and "pooling" in options:
        return  # which pools nothing
    with nothing_runs(), pytest.raises(error, match=message) as refusal:
        measured(study, model, examples, **options)
    assert type(refusal.value) is error


@every_study
def test_a_model_that_cannot_be_measured(
    tokenizer: Any, examples: list[Example], study: str
) -> None:
    def built() -> Any:
        return architectures.build("Llama")

    foreign = load_model(built(), tokenizer=tokenizer)
    foreign.d_vocab = 5
    training = load_model(built().train(), tokenizer=tokenizer)
    for model, error, message in (
        (training, TrainingModeError, r"dropout, where it has any, .* call model\.eval\(\) first"),
        (load_model(built()), InputError, "came without a tokenizer"),
        (foreign, InputError, r"the tokenizer gives token \d+ and .* knows 5"),
    ):
        with nothing_runs(), pytest.raises(error, match=message):
            measured(study, model, examples)
    assert len(measured(study, training.eval(), examples, layers=[0]).frame)


@pytest.mark.parametrize(
    ("study", "instead"), [("cap", "similarity_curve"), ("ablation", r"model\.encode")]
)
def test_an_encoder_predicts_no_next_token(
    examples: list[Example], study: str, instead: str
) -> None:
    with pytest.raises(CapabilityError, match=f"BertForMaskedLM.* is an encoder .* {instead}"):
        measured(study, slow.wrapped("BERT"), examples)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize(
    ("study", "message"),
    [
        ("cap", "example . gives NaN .* without any intervention"),
        ("ablation", "example . gives NaN .* without any intervention"),
        ("similarity", r"row \d has no cosine at layer 3 without any intervention \(\d+ of"),
    ],
)
def test_weights_that_are_not_finite(
    tokenizer: Any, examples: list[Example], study: str, message: str, bad: float
) -> None:
    broken = architectures.build("Llama")
    with torch.no_grad():
        broken.lm_head.weight[7] = broken.model.norm.weight[3] = bad
    model = load_model(broken, tokenizer=tokenizer)
    with pytest.raises(NonFiniteError, match="gives NaN or infinite numbers on plain tokens"):
        measured(study, model, examples)
    model.proofs.take_over(
        Capabilities(load_model(architectures.build("Llama")).capabilities.probes)
    )
    with pytest.raises(NonFiniteError, match=message):
        measured(study, model, examples)


SCRIPT = """
import pandas as pd
import interp_compose as ic
model = ic.load_model("mini-base", device="cpu")
task = ic.load_task("mini-idm", model)
row = {"prompt": 'a young cat is called a "', "answer": "kitten"}
pairs = [{"text1": f"a b{n}", "text2": f"c{n} d", "score": n / 9} for n in range(4)]
ablation = lambda rows=(row,), **o: ic.ablation_curve(model, rows, progress=False, **o)
similarity = lambda **o: ic.similarity_curve(model, pairs, progress=False, **o)
found = ic.complexity.Mechanism.from_rows({}, {})
calls = {
    "examples": lambda: ablation("the sea"),
    "a row": lambda: ablation([row, None]),
    "what": lambda: ablation(what=None),
    "tagger": lambda: ablation(tagger=3),
    "controls": lambda: similarity(controls=1),
    "resume": lambda: similarity(resume=3),
    "embedding": lambda: ic.embed_texts(model, ["a"], embedding=["mean"]),
    "heads": lambda: ic.complexity_report(model, heads=3),
    "task": lambda: ic.finetune(model, "mini-idm"),
    "carma": lambda: ic.finetune(model, task, carma={"weight": 0.2}),
    "lr": lambda: ic.TrainConfig(lr="1e-3"),
    "fan_in": lambda: ic.complexity.PhaseRun(fan_in="x"),
    "runs": lambda: ic.complexity.mechanism(None, [0.8]),
    "method": lambda: found.plot_masked_key("umap"),
}
"""
"""In a process of its own, because in the tests beartype would be there first."""
EXPECTED = {
    "examples": "OptionError: ablation_curve: examples='the sea' is a str; expected a seq",
    "a row": "DataFormatError: example 1 is None",
    "what": "OptionError: ablation_curve: what=None; expected one of 'words'",
    "tagger": "OptionError: tagger=3: expected 'kind'",
    "controls": "OptionError: similarity_curve: controls=1 is an int; expected True or False",
    "resume": "OptionError: similarity_curve: resume=3 is an int; expected a string or a path or N",
    "embedding": "OptionError: embed_texts: embedding=['mean'] is a list; expected one of",
    "heads": "OptionError: complexity_report: heads=3 is an int; expected True or False",
    "task": "OptionError: finetune: task='mini-idm' is a str; expected a Task from load_t",
    "carma": "OptionError: finetune: carma={'weight': 0.2} is a dict; expected a CarmaConfi",
    "lr": "OptionError: TrainConfig: lr='1e-3' is a str; expected a number",
    "fan_in": "OptionError: PhaseRun: fan_in='x'; expected one of 'own', 'd_model'",
    "runs": "OptionError: mechanism: runs=None; expected a string or a path",
    "method": "OptionError: Mechanism.plot_masked_key: method='umap'; expected one of 'pca', 'ts",
}


def test_untyped_input_is_refused_by_name() -> None:
    outcomes = outcomes_of(SCRIPT)
    assert set(outcomes) == set(EXPECTED)
    for name, message in EXPECTED.items():
        assert outcomes[name].startswith(message), (name, outcomes[name])
