"""Attention masking acts on every architecture, leaks exactly nothing, and is gone afterwards."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor

from interp_compose.errors import OptionError
from interp_compose.interventions.mask_attention import mask_attention
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from tests.architectures import D_VOCAB, N_LAYERS
from tests.interventions.shared import (
    TOKENS,
    assert_clean,
    replaced,
    run,
    shared,
)

pytestmark = pytest.mark.tl3


@torch.no_grad()
def test_a_masked_token_moves_the_last_position_by_exactly_nothing(each: LensModel) -> None:
    model = each
    for position in (0, 2, 5):
        with mask_attention(model, keys=position) as record:
            one = run(model, TOKENS)[:, -1]
            other = run(model, replaced(TOKENS, position))[:, -1]
        assert torch.equal(one, other)
        assert record.calls == 2
        assert record.n_cut > 0


@torch.no_grad()
def test_one_open_layer_lets_it_through(model: LensModel) -> None:
    for open_layer in range(N_LAYERS):
        shut = [layer for layer in range(N_LAYERS) if layer != open_layer]
        with mask_attention(model, keys=2, layers=shut):
            one, other = run(model, TOKENS)[:, -1], run(model, replaced(TOKENS, 2))[:, -1]
        assert not torch.equal(one, other)


@torch.no_grad()
def test_zero_after_the_softmax_leaks(model: LensModel) -> None:
    with mask_attention(model, keys=2, mode="zero"):
        one, other = run(model, TOKENS)[:, -1], run(model, replaced(TOKENS, 2))[:, -1]
    assert (one - other).abs().max() > 0.01


@torch.no_grad()
def test_excluding_a_key_everywhere_is_the_models_own_mask(each: LensModel) -> None:
    model = each
    if not model.capabilities["resume"].held:
        pytest.skip("nothing to compare with: this architecture cannot resume")
    mask = torch.ones_like(TOKENS)
    hole = mask.clone()
    hole[:, 3] = 0
    resid = model.resid_pre(TOKENS, 0, attention_mask=mask)
    read: Any = "hidden" if model.bidirectional else "logits"
    positions = torch.arange(7).expand(2, -1)
    # ALiBi would count distances anew around the hole.
    if model.position_kind == "alibi":
        pytest.skip("ALiBi counts distances by the mask")
    expected = model.resume(resid, 0, attention_mask=hole, position_ids=positions, read=read)
    with mask_attention(model, keys=3):
        found = run(model, TOKENS)
    rest = [0, 1, 2, 4, 5, 6]
    torch.testing.assert_close(found[:, rest], expected[:, rest], atol=1e-5, rtol=1e-5)


@torch.no_grad()
@pytest.mark.filterwarnings("ignore:.*name no position, so that nothing is edited")
def test_a_mask_of_nothing_is_bit_equal(model: LensModel) -> None:
    clean = run(model, TOKENS)
    nobody = torch.zeros_like(TOKENS, dtype=torch.bool)
    for mode in ("exclude", "zero"):
        for keys in ([], nobody):
            with mask_attention(model, keys=keys, mode=mode) as record:
                assert torch.equal(run(model, TOKENS), clean)
            assert record.n_cut == record.n_emptied == 0
    assert torch.equal(run(model, TOKENS), clean)


@torch.no_grad()
@pytest.mark.parametrize(("side", "mode"), [("left", "exclude"), ("right", "zero")])
def test_batch_and_padding_change_nothing(model: LensModel, side: str, mode: str) -> None:
    rows = [[5, 17, 3, 41, 29, 11, 7], [13, 2, 89, 23]]
    alone = []
    for row in rows:
        with mask_attention(model, keys=[1, 2], queries=-1, layers=[0, 2], heads=[1], mode=mode):
            alone.append(run(model, torch.tensor([row]))[0])
    tokens = torch.full((2, 9), 71)
    mask = torch.zeros_like(tokens)
    keys, queries = torch.zeros_like(tokens).bool(), torch.zeros_like(tokens).bool()
    places = []
    for i, row in enumerate(rows):
        start = 9 - len(row) if side == "left" else 0
        places.append(slice(start, start + len(row)))
        tokens[i, places[i]], mask[i, places[i]] = torch.tensor(row), 1
        keys[i, start + 1 : start + 3] = True
        queries[i, start + len(row) - 1] = True
    with mask_attention(
        model, keys=keys, queries=queries, layers=[0, 2], heads=[(0, 1), (2, 1)], mode=mode
    ):
        together = run(model, tokens, mask)
    for i, place in enumerate(places):
        torch.testing.assert_close(together[i, place], alone[i], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("side", "mode"), [("left", "zero"), ("right", "exclude")])
@pytest.mark.parametrize("name", ["Gemma 2", "BERT"])
def test_the_other_padding_changes_nothing_either(name: str, side: str, mode: str) -> None:
    test_batch_and_padding_change_nothing(shared(name), side, mode)


@torch.no_grad()
def test_a_query_without_keys_attends_to_nothing(model: LensModel) -> None:
    captured: list[Tensor] = []

    def keep(z: Tensor, hook: Any) -> None:
        captured.append(z)

    with (
        mask_attention(model, keys=0, queries=0, layers=1) as record,
        model.hooks([("blocks.1.attn.hook_z", keep)]),
    ):
        out = run(model, TOKENS)
    # An encoder's first token still sees the others.
    assert record.n_emptied == (0 if model.bidirectional else 2 * model.n_heads)
    assert (captured[0][:, 0] == 0).all() != model.bidirectional
    assert out.isfinite().all()
    assert not torch.equal(out[:, 1:], run(model, TOKENS)[:, 1:])
    # Nothing of what comes later reaches it: the future stays hidden.
    with mask_attention(model, keys=0, queries=0):
        one, other = run(model, TOKENS)[:, 0], run(model, replaced(TOKENS, 6))[:, 0]
    assert torch.equal(one, other) != model.bidirectional


def slow_attention(
    q: Tensor, k: Tensor, v: Tensor, hidden: Tensor, *, mode: str, causal: bool
) -> Tensor:
    """Equation 5 of complexity control in float64, one head and one query at a time."""
    batch, length, n_heads, d_head = q.shape
    z = torch.zeros(q.shape, dtype=torch.float64)
    for b in range(batch):
        for h in range(n_heads):
            for i in range(length):
                seen = [j for j in range(length) if j <= i or not causal]
                kept = [j for j in seen if not hidden[b, h, i, j]]
                in_softmax = kept if mode == "exclude" else seen
                weight = {
                    j: math.exp(float(q[b, i, h].double() @ k[b, j, h].double()) / d_head**0.5)
                    for j in in_softmax
                }
                for j in kept:
                    z[b, i, h] += weight[j] / sum(weight.values()) * v[b, j, h].double()
    return z


@torch.no_grad()
@pytest.mark.parametrize("mode", ["exclude", "zero"])
@pytest.mark.parametrize("name", ["GPT-2", "OPT", "BERT"])
def test_heads_equal_a_slow_reference(name: str, mode: str) -> None:
    model = shared(name)
    keys = torch.tensor([[0, 0, 1, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0, 1]]).bool()
    queries = torch.tensor([[0, 0, 1, 1, 1, 0, 1], [1, 1, 1, 0, 0, 1, 1]]).bool()
    names = [f"blocks.1.attn.hook_{part}" for part in "qkvz"]
    read: Any = "hidden" if model.bidirectional else "logits"
    with mask_attention(model, keys=keys, queries=queries, layers=1, heads=[1, 3], mode=mode):
        _, found = model.capture(TOKENS, names, read=read)
    hidden = torch.zeros(2, 4, 7, 7, dtype=torch.bool)
    hidden[:, [1, 3]] = (queries[:, :, None] & keys[:, None, :])[:, None]
    q, k, v, z = (found[name].reshape(2, 7, 4, 10) for name in names)
    expected = slow_attention(q, k, v, hidden, mode=mode, causal=not model.bidirectional)
    torch.testing.assert_close(z.double(), expected, atol=1e-5, rtol=1e-5)


def test_an_unknown_mode() -> None:
    model = shared("GPT-2")
    with pytest.raises(OptionError, match="mode='drop'; expected one of 'exclude', 'zero'"):
        mask_attention(model, keys=2, mode="drop").__enter__()
    assert_clean(model)


@torch.no_grad()
def test_zero_empties_too() -> None:
    """Every entry of a query's row after the softmax: it attends to nothing, and is counted."""
    model = shared("GPT-2")
    with mask_attention(model, keys=None, queries=[3], layers=1, mode="zero") as record:
        _, found = model.capture(TOKENS, ["blocks.1.attn.hook_z"])
    assert bool((found["blocks.1.attn.hook_z"][:, 3] == 0).all())
    assert record.n_cut == 2 * 4 * 4
    assert record.n_emptied == 2 * 4


@torch.no_grad()
def test_attention_sinks_are_no_positions() -> None:
    """GPT-OSS adds a column to its scores, which takes the weight that no key gets."""
    torch.manual_seed(0)
    config = hf.GptOssConfig(
        vocab_size=D_VOCAB - 1,
        hidden_size=64,  # its experts' kernel wants multiples of 16 bytes
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=61,
        num_local_experts=4,
        num_experts_per_tok=2,
        initializer_range=0.2,
    )
    model = load_model(hf.GptOssForCausalLM(config).eval())
    with mask_attention(model, keys=2) as record:
        one, other = run(model, TOKENS), run(model, replaced(TOKENS, 2))
    # Which tokens an expert gets changes its rounding.
    torch.testing.assert_close(one[:, 3:], other[:, 3:], atol=1e-4, rtol=1e-4)
    assert record.n_cut == 2 * 2 * 4 * 2 * 5
    assert (run(model, TOKENS) - run(model, replaced(TOKENS, 2)))[:, 3:].abs().max() > 0.01
    with mask_attention(model, keys=0, queries=0) as record:
        one, other = run(model, TOKENS), run(model, replaced(TOKENS, 6))
    torch.testing.assert_close(one[:, :6], other[:, :6], atol=1e-4, rtol=1e-4)
    assert record.n_emptied == 0  # its sink is left
    assert_clean(model)
