"""Hooks that TransformerLens does not list are seen, recorded, and never resumed over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import interp_compose as ic
from interp_compose.errors import InterventionError
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from tests import architectures
from tests.models.test_copying import KINDS
from tests.models.test_load import byte_level_tokenizer

TOKENS = torch.tensor([[5, 17, 3, 41, 29]])
EXAMPLES = [ic.Example("the shore of a sea", " a"), ic.Example("a young cat of the shore", " a")]


def gpt2() -> Any:
    return architectures.build("GPT-2")


@pytest.fixture(scope="module")
def small() -> LensModel:
    tokenizer = byte_level_tokenizer()
    return ic.complexity.small_decoder(
        ic.complexity.DecoderConfig(d_vocab=len(tokenizer), n_ctx=61, n_layers=2),
        init_rate=0.5,
        seed=0,
        tokenizer=tokenizer,
    )


def scaled(module: nn.Module, args: Any, out: Tensor, by: float = 1.5) -> Tensor:
    return out * by


class Scaled:
    def __call__(self, module: nn.Module, args: Any, out: Tensor) -> Tensor:
        return out * 1.5


def scaled_input(module: nn.Module, args: Any) -> Any:
    return (args[0] * 1.5, *args[1:])


PLACES: dict[str, Callable[[LensModel], nn.Module]] = {
    "a block": lambda model: model.lens.blocks[1],
    "a projection": lambda model: model.lens.blocks[1].mlp.out.original_component,
    "a hook point": lambda model: model.lens.blocks[1].hook_in,
    "the norm": lambda model: model.lens.ln_final,
}


@torch.no_grad()
@pytest.mark.parametrize("place", PLACES)
def test_a_hook_registered_after_loading_is_seen(place: str) -> None:
    model = load_model(gpt2())
    clean = model(TOKENS)
    assert model.active_hooks == []
    module = PLACES[place](model)
    handles = [
        module.register_forward_pre_hook(scaled_input),
        *(
            module.register_forward_hook(hook)
            for hook in (scaled, partial(scaled, by=2.0), Scaled())
            if place != "a block"
        ),
    ]
    assert not torch.equal(model(TOKENS), clean)
    found = " ".join(model.active_hooks)
    assert "forward pre-hook scaled_input" in found
    assert ("forward hook Scaled" in found) is (place != "a block")
    assert model.open_blocks.unversioned == model.active_hooks
    for handle in handles:
        handle.remove()
    assert model.active_hooks == []
    assert torch.equal(model(TOKENS), clean)


@torch.no_grad()
def test_a_hook_registered_before_loading_is_seen() -> None:
    module = gpt2()
    plain = module(TOKENS).logits
    module.transformer.h[1].register_forward_pre_hook(scaled_input)
    hooked = module(TOKENS).logits
    assert not torch.equal(hooked, plain)
    model = load_model(module)
    torch.testing.assert_close(model(TOKENS), hooked, atol=1e-5, rtol=1e-5)
    assert len(model.active_hooks) == 1
    assert "forward pre-hook scaled_input" in model.active_hooks[0]


def test_a_global_hook_is_seen() -> None:
    model = load_model(gpt2())
    handle = torch.nn.modules.module.register_module_forward_hook(lambda *args: None)
    try:
        assert model.active_hooks[0].startswith("every module: forward hook")
    finally:
        handle.remove()


class Identity:
    def scores(self, scores: Tensor) -> Tensor:
        return scores

    def pattern(self, pattern: Tensor) -> Tensor:
        return pattern


def test_edited_attentions_are_seen(small: LensModel) -> None:
    with small.editing_attention({1: Identity()}):
        assert small.active_hooks == ["blocks.1.attn: edited attention"]
        small(TOKENS)
    assert small.active_hooks == []


def test_a_hook_point_of_two_names_is_named_as_in_transformerlens() -> None:
    model = load_model(gpt2())
    for name in ("blocks.1.attn.hook_z", "blocks.1.mlp.hook_post", "blocks.1.hook_resid_post"):
        with model.hooks([(name, lambda activation, hook: activation)]):
            assert model.active_hooks == [name]
            model(TOKENS)


def test_interventions_are_seen_by_name(small: LensModel) -> None:
    groups = torch.tensor([[0, 0, 1, 2, 3]]).expand(len(TOKENS), -1)
    opened: dict[str, Any] = {
        "pool_at(layer=1, mode='collapse')": ic.pool_at(small, 1, groups),
        "mask_attention": ic.mask_attention(small, keys=[0]),
    }
    for name, block in opened.items():
        with block:
            assert small.active_hooks[0] == name
            small(TOKENS)
        assert small.active_hooks == []


@pytest.mark.parametrize("name", [*KINDS, "BERT", "RoBERTa"])
@torch.no_grad()
def test_what_the_frameworks_bring_is_not_the_users(name: str) -> None:
    model = architectures.load(name)
    assert model.active_hooks == []
    model.encode(TOKENS)
    assert model.active_hooks == []


# ---- resuming -------------------------------------------------------------------------------


def test_they_are_not_where_transformerlens_list_was_emptied() -> None:
    model = load_model(architectures.build("BERT"))
    with model.hooks([("blocks.1.hook_mlp_out", lambda activation, hook: activation * 2)]):
        for point in model.lens.hook_dict.values():
            point.fwd_hooks.clear()
        assert model.active_hooks == ["blocks.1.hook_mlp_out"]
        model(torch.tensor([[5, 6, 7]]))
    assert model.active_hooks == []


def curve(model: LensModel, folder: Path | None) -> ic.CapCurve:
    return ic.cap_curve(
        model,
        EXAMPLES,
        batch_size=1,
        layers=[1],
        pooling=["mean"],
        controls=False,
        progress=False,
        resume=folder,
    )


class Stops:
    """A hook of one strength that is interrupted at a call."""

    def __init__(self, strength: float, calls: int) -> None:
        self.strength, self.left = strength, calls

    def __call__(self, resid: Tensor, hook: Any) -> Tensor:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return resid * self.strength


def test_a_version_says_what_a_hook_computes(small: LensModel, tmp_path: Path) -> None:
    name = "blocks.0.hook_resid_post"

    def run(strength: float, version: str | None, folder: Path | None, calls: int = 99) -> Any:
        with small.hooks([(name, Stops(strength, calls))], version=version):
            return curve(small, folder)

    with pytest.raises(KeyboardInterrupt):
        run(2.0, "strength 2", tmp_path, calls=1)
    assert any(tmp_path.glob("*.parquet"))
    with pytest.raises(ic.errors.InputError, match="holds batches of a different run"):
        run(3.0, "strength 3", tmp_path)
    resumed = run(2.0, "strength 2", tmp_path)
    whole = run(2.0, None, None)
    assert resumed.frames["clean"].equals(whole.frames["clean"])
    assert resumed.config["active_hooks"] == [f"{name} (strength 2)"]
    assert whole.config["active_hooks"] == [name]
    with pytest.raises(
        InterventionError, match=r"resume=.*name of a hook or function does not tell.*version="
    ):
        run(3.0, None, tmp_path)


def test_nothing_is_resumed_over_a_plain_hook(small: LensModel, tmp_path: Path) -> None:
    handle = small.lens.blocks[0].register_forward_hook(scaled)
    try:
        with pytest.raises(InterventionError, match="blocks.0: forward hook scaled"):
            curve(small, tmp_path)
        assert not any(tmp_path.iterdir())
        found = curve(small, None).config["active_hooks"]
        assert found == ["blocks.0: forward hook scaled"]
    finally:
        handle.remove()


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    yield
    assert not torch.nn.modules.module._global_forward_hooks
