"""The same parity on the HookedTransformer that a user of transformer-lens 3.9 brings."""

from __future__ import annotations

import warnings
from importlib.metadata import version
from typing import Any

import pytest
import torch
import transformer_lens

from interp_compose.errors import OptionError
from interp_compose.interventions.pool_at import pool_at
from interp_compose.interventions.pooling import HOW
from interp_compose.models.hooked_transformer import HookedTransformerModel
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from tests.interventions.test_cap_parity import collapse_equals_the_in_place_reference, padded

pytestmark = [
    pytest.mark.tl3,
    pytest.mark.skipif(
        not version("transformer-lens").startswith("3."),
        reason="transformer-lens 4 removed HookedTransformer (make test-tl3 runs this)",
    ),
]


@pytest.fixture(scope="module", params=["standard", "rotary", "gqa"])
def model(request: pytest.FixtureRequest) -> LensModel:
    return load_model(make(request.param))


def make(kind: str, *, n_ctx: int = 61) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 3.9 announces the end of the class
        config = transformer_lens.HookedTransformerConfig(
            n_layers=3,
            d_model=40,
            n_heads=4,
            d_head=10,
            d_mlp=53,
            n_ctx=n_ctx,
            d_vocab=97,
            act_fn="gelu",
            normalization_type="LN",
            positional_embedding_type="standard" if kind == "standard" else "rotary",
            rotary_dim=None if kind == "standard" else 10,
            n_key_value_heads=2 if kind == "gqa" else None,
            seed=0,
            initializer_range=0.2,
            init_weights=True,
        )
        return transformer_lens.HookedTransformer(config).eval()


def test_a_hooked_transformer_is_wrapped(model: LensModel) -> None:
    assert isinstance(model, HookedTransformerModel)
    model.require("resume", "positions", "unembed", "edit_resid", "edit_pattern", "edit_scores")
    assert model.weight("W_Q").shape == (3, 4, 40, 10)
    with pytest.raises(OptionError, match="keeps its own"):
        load_model(model.lens, dtype="bfloat16")


@pytest.mark.parametrize("side", ["left", "right"])
def test_collapse_equals_the_in_place_reference(model: LensModel, side: str) -> None:
    for layer in range(model.n_layers):
        collapse_equals_the_in_place_reference(model, side, layer, HOW)


@torch.no_grad()
def test_the_rotation_is_lent_for_the_call_only() -> None:
    model = load_model(make("rotary"))
    tokens, mask, groups = padded("left")
    clean = model(tokens, attention_mask=mask)
    with pool_at(model, 0, groups, "mean"):
        model(tokens, attention_mask=mask)
    assert all("apply_rotary" not in vars(block.attn) for block in model.lens.blocks)
    assert torch.equal(model(tokens, attention_mask=mask), clean)
