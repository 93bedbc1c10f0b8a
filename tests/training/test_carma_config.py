"""CARMA's settings: ranges, defaults, the paper's table, and what they make of residuals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from interp_compose.errors import LayerError, OptionError
from interp_compose.tasks.prompts import PAPER_MODELS
from interp_compose.training.carma import CarmaConfig, carma_terms, default_layers, total_loss
from interp_compose.training.config import TrainConfig
from interp_compose.training.losses import mutual_information_loss, stability_loss

# Appendix B.3, sentence by sentence: ending layers of IDM, of SC; λ of IDM, of SC.
IDM_ENDS = {"GPT2-S": 3, "GPT2-L": 8, "Gemma-2B": 10, "Llama-1B": 7, "Qwen-0.5B": 5, "Qwen-3B": 10}
SC_ENDS = {
    "GPT2-S": 4,
    "GPT2-L": 12,
    "Gemma-2B": 10,
    "Llama-1B": 7,
    "Llama-3B": 8,
    "Qwen-0.5B": 5,
    "Qwen-3B": 7,
}
IDM_WEIGHTS = {
    "GPT2-L": 0.3,
    "Gemma-2B": 0.3,
    "GPT2-S": 0.2,
    "Llama-1B": 0.4,
    "Llama-3B": 0.5,
    "Qwen-0.5B": 0.5,
    "Qwen-3B": 0.4,
}
SC_WEIGHTS = {"Qwen-0.5B": 0.4, "GPT2-S": 0.4, "GPT2-L": 0.4, "Llama-3B": 0.5, "Qwen-3B": 0.5}


@pytest.mark.parametrize("row", PAPER_MODELS, ids=lambda row: row.label)
def test_the_papers_settings_by_label_and_by_hub_name(row: Any) -> None:
    idm, sst = (CarmaConfig.from_paper(row.label, task=task) for task in ("idm", "sst"))
    assert CarmaConfig.from_paper(row.hub_name, task="idm") == idm
    assert CarmaConfig.from_paper(row.hub_name, task="sst") == sst
    assert idm.weight == IDM_WEIGHTS[row.label]
    assert sst.weight == SC_WEIGHTS.get(row.label, 0.3)
    assert sst.layers == (1, SC_ENDS[row.label])
    resolved = idm.resolved(row.n_layers)
    ends = (12, 8) if row.label == "Llama-3B" else (IDM_ENDS[row.label],) * 2
    assert (resolved.layers, resolved.stability_layers) == ((1, ends[0]), (1, ends[1]))
    assert sst.resolved(row.n_layers).stability_layers == sst.layers
    for config in (idm, sst):
        assert (config.mi_weight, config.stability_weight) == (0.2, 0.3)
        assert (config.temperature, config.negatives, config.unit) == (0.1, "all", "word")


# Batch sizes and epochs, sentence by sentence.
IDM_BATCH = {"Gemma-2B": 16, "GPT2-S": 16, "GPT2-L": 16, "Qwen-0.5B": 64}  # 32: Qwen-3B and Llamas
SC_BATCH = {"Llama-1B": 32, "Qwen-3B": 32, "Qwen-0.5B": 64}  # 16: GPTs, Gemma-2B, Llama-3B
IDM_TWO_EPOCHS = {"Gemma-2B", "GPT2-S", "GPT2-L"}
SC_THREE_EPOCHS = {"Gemma-2B", "Llama-1B"}


@pytest.mark.parametrize("row", PAPER_MODELS, ids=lambda row: row.label)
def test_the_papers_batch_sizes_and_epochs(row: Any) -> None:
    idm, sst = (TrainConfig.from_paper(row.label, task=task) for task in ("idm", "sst"))
    assert TrainConfig.from_paper(row.hub_name, task="sst") == sst
    assert (idm.batch_size, sst.batch_size) == (
        IDM_BATCH.get(row.label, 32),
        SC_BATCH.get(row.label, 16),
    )
    assert idm.epochs == (2 if row.label in IDM_TWO_EPOCHS else 3)
    assert sst.epochs == (3 if row.label in SC_THREE_EPOCHS else 2)
    for config in (idm, sst):
        same = replace(config, batch_size=16, epochs=3)
        assert same == TrainConfig()


def test_an_unknown_model_or_task_is_answered_with_the_known_ones() -> None:
    with pytest.raises(OptionError, match="no model 'gpt3'; expected one of gpt2 ") as caught:
        CarmaConfig.from_paper("gpt3", task="idm")
    for row in PAPER_MODELS:
        assert f"{row.hub_name} ({row.label})" in str(caught.value)
    with pytest.raises(OptionError, match="no model 'gpt3'; expected one of gpt2 "):
        TrainConfig.from_paper("gpt3", task="idm")


@pytest.mark.parametrize(
    ("n_layers", "expected"),
    [
        (2, (1, 1)),
        (3, (1, 1)),
        (4, (1, 1)),
        (6, (1, 1)),
        (12, (3, 4)),
        (24, (6, 10)),
        (36, (9, 16)),
    ],
)
def test_default_layers_are_the_papers(n_layers: int, expected: tuple[int, int]) -> None:
    assert default_layers(n_layers) == expected
    resolved = CarmaConfig().resolved(n_layers)
    assert resolved.layers == resolved.stability_layers == expected
    assert resolved.resolved(n_layers) == resolved


@pytest.mark.parametrize("n_layers", range(2, 100))
def test_default_layers_are_inside_every_model(n_layers: int) -> None:
    first, last = default_layers(n_layers)
    assert 1 <= first <= last <= n_layers - 1


def test_what_is_stated_stays() -> None:
    config = CarmaConfig(weight=0.5, layers=(2, 3), temperature=0.05)
    resolved = config.resolved(6)
    assert (resolved.layers, resolved.stability_layers) == ((2, 3), (2, 3))
    assert (resolved.weight, resolved.temperature) == (0.5, 0.05)
    own = CarmaConfig(stability_layers=(4, 5)).resolved(12)
    assert (own.layers, own.stability_layers) == ((3, 4), (4, 5))


def test_hooks_are_what_the_terms_read() -> None:
    config = CarmaConfig(layers=(1, 2), stability_layers=(4, 4))
    assert config.captured_layers(6) == [1, 2, 4, 5]
    assert config.hook_names(6) == [f"blocks.{k}.hook_resid_pre" for k in (1, 2, 4, 5)]
    assert config.hook_names(5) == [
        *(f"blocks.{k}.hook_resid_pre" for k in (1, 2, 4)),
        "blocks.4.hook_resid_post",
    ]
    assert CarmaConfig(layers=(3, 3)).captured_layers(4) == [3, 4]


def test_terms_read_their_own_layers() -> None:
    torch.manual_seed(0)
    ids = torch.tensor([[-1, 0, 0, 1, 2, 2, 2], [3, 3, 5, 5, 6, -1, -1]])
    resid = {layer: torch.randn(2, 7, 3) for layer in (1, 2, 4, 5)}
    config = CarmaConfig(layers=(1, 2), stability_layers=(4, 4), temperature=0.5).resolved(5)
    mi, stability = carma_terms(resid, ids, config, seed=0)
    expected = mutual_information_loss([resid[1], resid[2]], ids, temperature=0.5)
    assert torch.equal(mi, expected)
    assert torch.equal(stability, stability_loss([resid[4], resid[5]], ids >= 0))


def test_terms_draw_by_the_seed() -> None:
    torch.manual_seed(0)
    ids = torch.tensor([[0, 0, 1, 1, 2, 2, 3, 3, 4, 5, 6]])
    resid = {layer: torch.randn(1, 11, 3) for layer in (1, 2)}
    config = CarmaConfig(layers=(1, 1), negatives=1).resolved(4)
    one, same, other = (carma_terms(resid, ids, config, seed=s)[0] for s in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(one, mutual_information_loss([resid[1]], ids, negatives=1, seed=1))


def test_terms_need_stated_layers_and_their_residuals() -> None:
    resid, ids = {1: torch.randn(1, 4, 3)}, torch.tensor([[0, 0, 1, 1]])
    with pytest.raises(LayerError, match=r"layers=None .* call config.resolved\(n_layers\) first"):
        carma_terms(resid, ids, CarmaConfig(), seed=0)
    with pytest.raises(LayerError, match=r"no residual of layer 2 among \[1\]; capture what"):
        carma_terms(resid, ids, CarmaConfig(layers=(1, 1)).resolved(3), seed=0)


def test_the_total_is_equations_7_and_8() -> None:
    config = CarmaConfig(weight=0.25, mi_weight=0.5, stability_weight=0.1)
    task, mi, stability = torch.tensor(8.0), torch.tensor(3.0), torch.tensor(10.0)
    assert total_loss(task, mi, stability, config).item() == 0.75 * 8 + 0.25 * (1.5 + 1.0)
    assert total_loss(task, mi, stability, CarmaConfig(weight=0.0)).item() == 8


@pytest.mark.parametrize("name", ["weight", "mi_weight", "stability_weight"])
@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_weights_outside_zero_to_one_are_refused(name: str, value: float) -> None:
    with pytest.raises(OptionError, match=f"{name}={value!r}: expected a number between 0 and 1"):
        CarmaConfig(**{name: value})  # type: ignore[arg-type]
    assert CarmaConfig(weight=0.0, mi_weight=1.0, stability_weight=0.0).mi_weight == 1


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("temperature", 0.0, "temperature=0.0: expected a finite number above 0"),
        ("negatives", 0, "negatives=0: expected 'all', or how many"),
    ],
)
def test_options_without_meaning_are_refused(name: str, value: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        CarmaConfig(**{name: value})


@pytest.mark.parametrize("name", ["layers", "stability_layers"])
@pytest.mark.parametrize("value", [(0, 2), (3, 2), (-2, -1)])
def test_layers_reversed_or_below_1_are_refused(name: str, value: tuple[int, int]) -> None:
    with pytest.raises(LayerError, match="expected 1 ≤ first ≤ last") as caught:
        CarmaConfig(**{name: value})  # type: ignore[arg-type]
    assert f"{name}={value}" in str(caught.value)


def test_layers_outside_the_model_are_refused() -> None:
    assert CarmaConfig(layers=(1, 3)).resolved(4).layers == (1, 3)
    with pytest.raises(LayerError, match="^layers end at 4, outside the model: .* 1 … 3"):
        CarmaConfig(layers=(1, 4)).resolved(4)
    with pytest.raises(LayerError, match="^stability_layers end at 4, outside the model"):
        CarmaConfig(layers=(1, 1), stability_layers=(2, 4)).hook_names(4)
    with pytest.raises(LayerError, match="the model has n_layers=1"):
        CarmaConfig().resolved(1)
