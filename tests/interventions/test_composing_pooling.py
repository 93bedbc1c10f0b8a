"""Masks and ablations around and inside a pooling: above a collapse they hold for units."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest
import torch
from torch import Tensor

from interp_compose.errors import InterventionError
from interp_compose.interventions.ablate import ablate
from interp_compose.interventions.mask_attention import mask_attention
from interp_compose.interventions.mask_residual import mask_residual
from interp_compose.interventions.pool_at import pool_at
from tests.interventions.shared import MASK, TOKENS, assert_clean, keep_in, params, run, shared

pytestmark = pytest.mark.tl3

POOLING = params("Gemma 2", "OPT", "BERT", "HookedTransformer")
GROUPS = torch.tensor([[-1, 0, 0, 1, 2, 2, 3], [-1, -1, -1, 0, 0, 0, 1]])
"""Pooled: [BOS, 0, 1, 2, 3] and, at the right, [BOS, 0, 1]."""


@pytest.mark.parametrize("name", POOLING)
@pytest.mark.parametrize("outside", [True, False])
@torch.no_grad()
def test_above_a_collapse_a_mask_holds_for_units(name: str, outside: bool) -> None:
    """Resumed here by hand, from a pooled residual and a mask without the units' layout."""
    model = shared(name)
    layer = 1
    keys = torch.zeros_like(TOKENS).bool()
    keys[0, [4, 5]] = keys[1, [3, 4, 5]] = True  # unit 2 of the first row, unit 0 of the second
    read: Any = "hidden" if model.bidirectional else "logits"
    masking, pooling = mask_attention(model, keys=keys), pool_at(model, layer, GROUPS)
    with ExitStack() as blocks:
        for block in (masking, pooling) if outside else (pooling, masking):
            blocks.enter_context(block)
        found = run(model, TOKENS, MASK)
    assert_clean(model)
    with mask_attention(model, keys=keys):  # layer 0, on tokens
        resid = model.resid_pre(TOKENS, layer, attention_mask=MASK)
        run(model, TOKENS, MASK)
    slots = torch.zeros(2, 5, model.d_model)
    units = [[[0], [1, 2], [3], [4, 5], [6]], [[2], [3, 4, 5], [6]]]
    mask, positions = torch.zeros(2, 5).long(), torch.zeros(2, 5).long()
    for row, of_row in enumerate(units):
        for slot, unit in enumerate(of_row, start=5 - len(of_row)):
            slots[row, slot] = resid[row, unit].double().mean(0).float()
            mask[row, slot] = 1
            positions[row, slot] = unit[-1] - (0 if row == 0 else 2)
    hidden = mask.clone()
    hidden[0, 3] = hidden[1, 3] = 0
    expected = model.resume(slots, layer, attention_mask=hidden, position_ids=positions, read=read)
    for row, rest in ((0, [0, 1, 2, 4]), (1, [2, 4])):
        torch.testing.assert_close(found[row, rest], expected[row, rest], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", POOLING)
@torch.no_grad()
def test_below_a_collapse_a_mask_holds_for_tokens(name: str) -> None:
    model = shared(name)
    read: Any = "hidden" if model.bidirectional else "logits"
    with mask_attention(model, keys=[5], layers=0), pool_at(model, 1, GROUPS):
        found = run(model, TOKENS, MASK)
    kept: list[Tensor] = []
    with mask_attention(model, keys=[5], layers=0):
        run_kept = ("blocks.1.hook_resid_pre", keep_in(kept))
        model.run_with_hooks(TOKENS, [run_kept], attention_mask=MASK, read="hidden")
    with pool_at(model, 1, GROUPS):
        put = ("blocks.1.hook_resid_pre", lambda resid, hook: kept[0])
        expected = model.run_with_hooks(TOKENS, [put], attention_mask=MASK, read=read)
    torch.testing.assert_close(found[:, 2:], expected[:, 2:], atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("name", POOLING)
@torch.no_grad()
def test_with_a_broadcast_positions_stay_tokens(name: str) -> None:
    model = shared(name)
    outs = []
    for outside in (True, False):
        masking = mask_attention(model, keys=[5])
        pooling = pool_at(model, 1, GROUPS, mode="broadcast")
        pattern: list[Tensor] = []
        with ExitStack() as blocks:
            for block in (masking, pooling) if outside else (pooling, masking):
                blocks.enter_context(block)
            blocks.enter_context(model.hooks([("blocks.2.attn.hook_pattern", keep_in(pattern))]))
            outs.append(run(model, TOKENS, MASK))
        assert bool((pattern[0][:, :, 2:, 5] == 0).all())  # but for padding, which nobody reads
        assert bool((pattern[0][:, :, 2:, 4] != 0).any())
    assert torch.equal(outs[0], outs[1])
    with pool_at(model, 1, GROUPS, mode="broadcast"):
        assert not torch.equal(run(model, TOKENS, MASK), outs[0])


@torch.no_grad()
def test_a_part_of_a_unit_is_refused_above_the_collapse() -> None:
    model = shared("GPT-2")
    blocks: list[Any] = [
        lambda: mask_attention(model, keys=4),
        lambda: mask_attention(model, queries=[-3]),
        lambda: ablate(model, heads=[0], positions=4),
        lambda: mask_residual(model, positions=[4]),
    ]
    for block in blocks:
        with (
            pytest.raises(InterventionError, match=r"hold some of the tokens \[4, 5\] of row 0"),
            block(),
            pool_at(model, 1, GROUPS),
        ):
            run(model, TOKENS, MASK)
        assert_clean(model)
    # A unit of one token, or layers below the collapse.
    with mask_attention(model, keys=6), pool_at(model, 1, GROUPS):
        run(model, TOKENS, MASK)
    with mask_attention(model, keys=4, layers=0), pool_at(model, 1, GROUPS):
        run(model, TOKENS, MASK)


@pytest.mark.parametrize("name", POOLING)
@torch.no_grad()
def test_ablation_above_a_collapse_holds_for_units(name: str) -> None:
    model = shared(name)
    where = torch.zeros_like(TOKENS).bool()
    where[0, 4:6] = where[1, 3:6] = True
    kept: list[Tensor] = []
    with (
        ablate(model, heads=[(2, 1)], positions=where) as record,
        pool_at(model, 1, GROUPS),
        model.hooks([("blocks.2.attn.hook_z", keep_in(kept))]),
    ):
        run(model, TOKENS, MASK)
    zero = (kept[0][:, :, 1] == 0).all(-1)
    assert bool(zero[0, 3])
    assert bool(zero[1, 3])
    assert not bool(zero[0, [0, 1, 2, 4]].any())
    assert not bool(zero[1, [2, 4]].any())
    assert record.n_changed == 2
