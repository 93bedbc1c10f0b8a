"""Activations by name, by a filter and all at once: each is what its name says, or is told of."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

from interp_compose.errors import CapabilityError, InterventionError, OptionError
from interp_compose.interventions.pool_at import pool_at
from interp_compose.models.copying import copy_model
from tests import architectures
from tests.interventions.shared import MASK, TOKENS, assert_clean, make, shared

pytestmark = pytest.mark.filterwarnings("ignore:.*hook points of")


@torch.no_grad()
@pytest.mark.parametrize("name", ["GPT-2", "Gemma 2", "BERT", "small, pre"])
def test_all_hook_points_each_as_it_is_read_alone(name: str) -> None:
    model = shared(name)
    logits, cache = model.run_with_cache(TOKENS, attention_mask=MASK)
    assert torch.equal(logits, model(TOKENS, attention_mask=MASK))
    assert len({id(model.hook_dict[name]) for name in cache}) == len(cache) > 10 * model.n_layers
    chosen = [f"blocks.1.{one}" for one in ("hook_resid_pre", "hook_attn_out", "mlp.hook_post")]
    _, named = model.capture(TOKENS, chosen, attention_mask=MASK)
    assert list(named) == chosen
    assert all(torch.equal(cache[name], named[name]) for name in named)
    assert not any(value.requires_grad for value in cache.values())
    assert_clean(model)


@torch.no_grad()
def test_a_filter_takes_names_and_one_name_is_one() -> None:
    model = shared("GPT-2")
    _, cache = model.run_with_cache(TOKENS, lambda name: name.endswith("hook_resid_pre"))
    assert list(cache) == [f"blocks.{layer}.hook_resid_pre" for layer in range(3)]
    _, one = model.run_with_cache(TOKENS, "blocks.2.hook_resid_pre")
    assert torch.equal(one["blocks.2.hook_resid_pre"], cache["blocks.2.hook_resid_pre"])
    with pytest.raises(OptionError, match="no hook point matches"):
        model.run_with_cache(TOKENS, lambda name: name == "nowhere")
    with pytest.raises(OptionError, match=r"no hook can be added at 'blocks.0.attn.hook_result'"):
        model.run_with_cache(TOKENS, lambda name: "hook_result" in name)


def test_what_a_call_does_not_pass_through_is_left_out() -> None:
    model = shared("Llama")
    _, some = model.capture(TOKENS, lambda name: "0.attn.hook_" in name, grad=True)
    assert "blocks.0.attn.hook_hidden_states" not in some
    assert some["blocks.0.attn.hook_z"].requires_grad
    with pytest.raises(InterventionError, match=r"blocks\.0\.attn\.hook_hidden_states.*never"):
        model.run_with_cache(TOKENS, lambda name: "0.attn.hook_hidden" in name)


@torch.no_grad()
def test_short_forms_and_other_names() -> None:
    model = shared("GPT-2")
    _, cache = model.run_with_cache(TOKENS)
    for key, name in {
        ("resid_pre", 2): "blocks.2.hook_resid_pre",
        ("pattern", -1): "blocks.2.attn.hook_pattern",
        ("post", 0): "blocks.0.mlp.hook_post",
        "embed": "hook_embed",
        "blocks.1.hook_in": "blocks.1.hook_resid_pre",
    }.items():
        assert torch.equal(cache[key], cache[name])  # type: ignore[index]
    missing: list[Any] = ["nowhere", ("resid_pre", 3), 3]
    for key in missing:
        with pytest.raises(OptionError, match="no activation .* expected one of .* and"):
            cache[key]
    assert repr(cache).startswith(f"<{len(cache)} activations: ")
    assert type(copy.deepcopy(cache)) is dict


@architectures.needs_tl4
@torch.no_grad()
def test_what_is_shown_otherwise_is_left_out_and_told() -> None:
    """On BitNet hook_z is what enters the output projection: read by that name, it is right."""
    model = make("BitNet")
    tokens = TOKENS[:1]
    with pytest.warns(UserWarning, match=r"3 of \d+ hook points of BitNet.*hook_z.*o\.hook_in"):
        _, cache = model.run_with_cache(tokens)
    assert not any(name.endswith("hook_z") for name in cache)
    _, shown = model.capture_as_shown(tokens, ["blocks.0.attn.hook_z"])
    assert torch.equal(cache["blocks.0.attn.o.hook_in"], shown["blocks.0.attn.hook_z"])
    keys: list[Any] = ["blocks.0.attn.hook_z", ("z", 0)]
    for key in keys:
        with pytest.raises(CapabilityError, match=r"hook_z.*Read instead: o\.hook_in"):
            cache[key]
    with pytest.warns(UserWarning, match=r"1 of 2 hook points .* left out: blocks.1.attn.hook_z"):
        _, some = model.run_with_cache(
            tokens, lambda name: name[:16] == "blocks.1.attn.ho" and name[-2:] in ("_z", "_v")
        )
    assert list(some) == ["blocks.1.attn.hook_v"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.run_with_cache(tokens, lambda name: name.endswith("hook_pattern"))
    copied = copy_model(model)  # what was found of the model is true of its copy
    with pytest.raises(CapabilityError, match="hook_z"):
        copied.capture(tokens, ["blocks.2.attn.hook_z"])


@torch.no_grad()
@pytest.mark.parametrize("name", ["GPT-2", "BERT"])
def test_a_collapse_does_not_embed_its_units(name: str) -> None:
    model = shared(name)
    groups = torch.tensor([[0, 0, 1, 1, 2, 3, 3], [-1, -1, 0, 0, 1, 2, 3]])
    seen: list[Tensor] = []
    clean = model.run_with_cache(TOKENS, attention_mask=MASK, read="hidden")[1]
    hooks = [("pos_embed.hook_out", lambda value, hook: seen.append(value))]
    with pool_at(model, 1, groups), model.hooks(hooks):
        pooled = model.run_with_cache(TOKENS, attention_mask=MASK, read="hidden")[1]
    assert torch.equal(pooled["pos_embed.hook_out"], clean["pos_embed.hook_out"])
    assert len(seen) == 1
    assert pooled["resid_post", 0].shape[1] == 7  # type: ignore[index]
    assert pooled["resid_pre", 2].shape[1] == 4  # type: ignore[index]


@pytest.mark.parametrize("name", ["GPT-2", "Llama", "OPT", "BERT", "native"])
def test_gradients_with_respect_to_what_is_captured_are_those_of_edits(name: str) -> None:
    """At each point, the derivative along a direction is what a small edit along it does."""
    model = architectures.load(name)
    tokens = torch.tensor([[5, 17, 3, 41, 29]])
    shown = (
        "resid_pre",
        "resid_post",
        "attn.hook_z",
        "attn.hook_v",
        "attn.hook_q",
        "mlp.hook_post",
    )
    for place in shown:
        point = f"blocks.1.{place}" if "." in place else f"blocks.1.hook_{place}"
        logits, cache = model.capture(tokens, [point], grad=True)
        out = logits[0, 2, 7]
        (gradient,) = torch.autograd.grad(out, [cache[point]])
        assert torch.equal(logits, model(tokens))
        direction = torch.randn(gradient.shape, generator=torch.Generator().manual_seed(0))
        moved = []
        for step in (1e-2, -1e-2):
            with (
                torch.no_grad(),
                model.hooks([(point, lambda value, hook, move=step * direction: value + move)]),
            ):
                moved.append(model(tokens)[0, 2, 7].item())
        slope = (moved[0] - moved[1]) / 2e-2
        assert slope == pytest.approx(
            (gradient * direction).sum().item(), rel=0.1, abs=2e-3
        )  # ReLU has kinks


def test_an_attribute_of_transformer_lens_cache_is_named() -> None:
    """Where the wrapped model has such a cache; else, and of any other, as of every object."""
    _, cache = shared("GPT-2").run_with_cache(TOKENS)
    with pytest.raises(AttributeError, match=r"lens\.run_with_cache\(tokens\)\[1\]\.logit_attrs"):
        _ = cache.logit_attrs  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"has no attribute 'nowhere'$"):
        _ = cache.nowhere  # type: ignore[attr-defined]
    _, cache = shared("small, pre").run_with_cache(TOKENS)
    with pytest.raises(AttributeError, match=r"has no attribute 'logit_attrs'$"):
        _ = cache.logit_attrs  # type: ignore[attr-defined]
    assert copy.copy(cache).keys() == cache.keys()
