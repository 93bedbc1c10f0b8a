"""A copy computes the same, learns by itself, and leaves the original alone."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch

from interp_compose.errors import CapabilityError, InterventionError
from interp_compose.interventions.pool_at import pool_at
from interp_compose.models import copying
from interp_compose.models.copying import copy_model
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.text.units import tokenize_prompts
from interp_compose.types import Example
from tests import architectures
from tests.interventions.shared import make, params
from tests.studies.conftest import splitting_tokenizer

KINDS = ("GPT-2", "Gemma 2", "GPT-NeoX", "OPT", "BLOOM", "Falcon", "native", "small, post")
"""Attention split and fused, grouped and not, computed by TransformerLens and by the module."""
TOKENS = torch.tensor([[3, 4, 5, 6, 7], [8, 9, 10, 11, 12]])


def gradients(model: LensModel) -> list[torch.Tensor | None]:
    loss = torch.logsumexp(model(TOKENS)[:, -1], dim=-1).sum()
    loss.backward()
    return [None if weight.grad is None else weight.grad.clone() for weight in model.parameters()]


def equal(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    if one is None or other is None:
        return one is other
    return torch.equal(one, other)


@pytest.mark.tl3
@pytest.mark.parametrize("name", params(*KINDS, "HookedTransformer"))
def test_a_copy_has_the_same_gradients_and_gives_the_original_none(name: str) -> None:
    model = make(name)
    model(TOKENS)  # in a graph, of which some wrappers keep a part
    copied = copy_model(model)
    assert list(copied.active_hooks) == []
    of_the_copy = gradients(copied)
    assert all(weight.grad is None for weight in model.parameters())
    assert any(gradient is not None for gradient in of_the_copy)
    pairs = zip(of_the_copy, gradients(model), strict=True)
    assert all(equal(one, other) for one, other in pairs)
    with torch.no_grad():
        before = model(TOKENS)
        for weight in copied.parameters():
            weight.zero_()
        assert torch.equal(model(TOKENS), before)
        assert not torch.equal(copied(TOKENS), before)


@pytest.mark.tl3
@pytest.mark.parametrize("name", params(*KINDS, "HookedTransformer"))
def test_a_copy_outlives_the_original(name: str) -> None:
    model = load_model(architectures.build(name)) if name in architectures.BUILDERS else make(name)
    copied = copy_model(model)
    with torch.no_grad():
        before = model(TOKENS)
        lens = weakref.ref(model.lens)
        del model
        gc.collect()
        assert lens() is None or name not in architectures.BUILDERS
        assert torch.equal(copied(TOKENS), before)
        again = copy_model(copied)
        del copied
        gc.collect()
        assert torch.equal(again(TOKENS), before)


@architectures.needs_tl4
@torch.no_grad()
def test_a_copy_of_two_stacks_runs_its_own_weights() -> None:
    model = load_model(architectures.build("T5"))
    tokens = model.random_tokens(2, 6, torch.Generator().manual_seed(0))
    copied, of_target = copy_model(model), model.predicts(tokens)
    clean = model(tokens)[of_target]
    assert torch.equal(copied(tokens)[of_target], clean)
    for weight in copied.parameters():
        weight.zero_()
    assert torch.equal(model(tokens)[of_target], clean)
    assert not torch.equal(copied(tokens)[of_target], clean)


@torch.no_grad()
def test_a_forward_pass_of_ones_own_reads_the_copy() -> None:
    module = architectures.build("Llama")
    first, second = (layer.mlp.down_proj for layer in module.model.layers[:2])
    through = first.forward
    first.forward = lambda x: 2 * through(x)
    second.forward = lambda x, own=second: 2 * torch.nn.functional.linear(x, own.weight)
    model = load_model(module)
    copied = copy_model(model)
    for one in (copied, model):
        for weight in one.parameters():
            weight.mul_(1.5)
        if one is copied:
            assert not torch.equal(copied(TOKENS), model(TOKENS))
    assert torch.equal(copied(TOKENS), model(TOKENS))


def test_a_broken_model_is_copied_as_it_is() -> None:
    model = make("GPT-2")
    with torch.no_grad():
        next(model.parameters())[0, 0] = float("nan")
    assert bool(copy_model(model)(TOKENS * 0).isnan().any())


def test_modes_and_frozen_weights_are_copied() -> None:
    model = make("Llama")
    model.lens.blocks[1].train()
    first = next(model.parameters())
    first.requires_grad_(False)
    copied = copy_model(model)
    assert [m.training for m in copied.lens.modules()] == [m.training for m in model.lens.modules()]
    assert [w.requires_grad for w in copied.parameters()] == [
        w.requires_grad for w in model.parameters()
    ]


def test_open_interventions_are_refused() -> None:
    model = load_model(architectures.build("Llama"), tokenizer=splitting_tokenizer())
    where = "blocks.1.hook_resid_pre"
    hooks = model.hooks([(where, lambda activation, hook: None)])
    with pytest.raises(InterventionError) as refusal, hooks:
        copy_model(model)
    assert "open interventions" in str(refusal.value)
    assert "blocks.1." in str(refusal.value)
    prompt = tokenize_prompts(model.tokenizer, [Example("a small house", "x")])[0]
    groups = torch.from_numpy(prompt.groups)[None]
    with pytest.raises(InterventionError, match="pool_at"), pool_at(model, 1, groups):
        copy_model(model)
    copy_model(model)


def test_a_copy_that_shares_or_differs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make("Llama")
    other = load_model(architectures.build("Llama", seed=1))
    monkeypatch.setattr(copying, "deep_copied", lambda one, memo: one)
    with pytest.raises(CapabilityError, match="the copy shares weights with it. Load the model"):
        copy_model(model)
    monkeypatch.setattr(copying, "deep_copied", lambda one, memo: vars(other))
    with pytest.raises(CapabilityError, match="the copy computes something else"):
        copy_model(model)


def test_the_copy_keeps_what_the_model_knows() -> None:
    tokenizer: Any = splitting_tokenizer()
    model = load_model(architectures.build("Gemma 2"), tokenizer=tokenizer)
    copied = copy_model(model)
    for name in ("name", "architecture", "n_layers", "d_model", "n_ctx", "window", "pad_id"):
        assert getattr(copied, name) == getattr(model, name)
    text = "a small house"
    assert copied.tokenizer(text).input_ids == tokenizer(text).input_ids
