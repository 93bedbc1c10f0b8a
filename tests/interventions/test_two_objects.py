"""Two objects around one ``lens`` are one model: blocks of either act, and count, on both."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from interp_compose.errors import InterventionError
from interp_compose.interventions.ablate import ablate
from interp_compose.interventions.mask_attention import mask_attention
from interp_compose.interventions.mask_residual import mask_residual
from interp_compose.interventions.pool_at import pool_at
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from tests.interventions.shared import MASK, TOKENS, keep_in
from tests.models.test_bridge import make


@pytest.fixture(scope="module", params=["shallow copy", "loaded again"])
def pair(request: pytest.FixtureRequest) -> tuple[LensModel, LensModel]:
    model = make("GPT-2")
    if request.param == "shallow copy":
        return model, copy.copy(model)
    return model, load_model(model.lens, tokenizer=model.tokenizer)


@torch.no_grad()
def test_positions_are_counted_in_the_pooled_sequence(pair: tuple[LensModel, LensModel]) -> None:
    groups = torch.full_like(TOKENS, -1)
    groups[:, 2:5] = 0  # later positions move by 2
    model, other = pair
    with pool_at(model, 1, groups):
        with mask_attention(model, keys=5, layers=1):
            masked = model(TOKENS)
        with ablate(model, heads=(1, 0), positions=5):
            ablated = model(TOKENS)
        plain = model(TOKENS)
    assert not torch.equal(masked, plain)
    assert not torch.equal(ablated, plain)
    for pooled, edited, called in ((model, other, model), (other, model, other), (other,) * 3):
        with pool_at(pooled, 1, groups):
            with mask_attention(edited, keys=5, layers=1):
                assert torch.equal(called(TOKENS), masked)
            with ablate(edited, heads=(1, 0), positions=5):
                assert torch.equal(called(TOKENS), ablated)
        assert model.active_hooks == other.active_hooks == []


@torch.no_grad()
def test_positions_from_the_end_stay_those_of_the_prompt(pair: tuple[LensModel, LensModel]) -> None:
    model, other = pair
    blocks: list[tuple[Any, dict[str, Any]]] = [
        (mask_attention, {"keys": [-2]}),
        (mask_residual, {"positions": [-2], "layers": [0]}),
    ]
    for block, options in blocks:
        expected: torch.Tensor | None = None
        for edited, called in ((model, model), (model, other), (other, model)):
            with block(edited, **options):
                generated = called.generate(TOKENS, attention_mask=MASK, max_new_tokens=4)
            expected = generated if expected is None else expected
            assert torch.equal(generated, expected)


def test_what_is_open_is_told_by_both(pair: tuple[LensModel, LensModel]) -> None:
    model, other = pair
    groups = torch.zeros_like(TOKENS)
    with other.hooks([("blocks.1.hook_resid_post", keep_in([]))]):
        assert model.active_hooks == other.active_hooks == ["blocks.1.hook_resid_post"]
        model(TOKENS)
    with pool_at(other, 1, groups):
        model(TOKENS)
        with pytest.raises(InterventionError, match="inside pool_at"), pool_at(model, 1, groups):
            pass
    assert model.active_hooks == other.active_hooks == []
