"""What a block or a sublayer adds, dropped at chosen positions, against hooks written out here."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from interp_compose.errors import CapabilityError, InterventionError, LayerError, OptionError
from interp_compose.interventions.mask_residual import mask_residual
from interp_compose.interventions.pool_at import pool_at
from interp_compose.models.lens_model import LensModel
from tests.interventions.shared import (
    MASK,
    TOKENS,
    assert_clean,
    params,
    replaced,
    run,
    shared,
)

pytestmark = pytest.mark.tl3

GROUPS = torch.tensor([[-1, 0, 0, 1, 2, 2, 3], [-1, -1, -1, 0, 0, 0, 1]])


def residuals(model: LensModel, **options: Any) -> tuple[Tensor, Tensor]:
    """What enters and what leaves block 1."""
    names = ["blocks.1.hook_resid_pre", "blocks.1.hook_resid_post"]
    _, found = model.capture(TOKENS, names, read="hidden", **options)
    return found[names[0]], found[names[1]]


@torch.no_grad()
def test_what_leaves_a_block_is_what_entered_it(each: LensModel) -> None:
    model = each
    _, usual = residuals(model)
    with mask_residual(model, positions=[1, -2], layers=1) as record:
        entered, left = residuals(model)
    assert torch.equal(left[:, [1, 5]], entered[:, [1, 5]])
    rest = [0, 2, 3, 4, 6]
    assert torch.equal(left[:, rest], usual[:, rest])
    # A decoder's attention and MLP are silenced one by one.
    assert record.calls == 1
    assert record.n_changed == (4 if model.bidirectional else 8)
    assert_clean(model)


@torch.no_grad()
def test_every_layer_dropped_hands_on_the_embeddings(model: LensModel) -> None:
    name = f"blocks.{model.n_layers - 1}.hook_resid_post"
    first = model.resid_pre(TOKENS, 0, attention_mask=torch.ones_like(TOKENS))
    with mask_residual(model, positions=3):
        _, found = model.capture(TOKENS, [name], read="hidden")
    assert torch.equal(found[name][:, 3], first[:, 3])


@torch.no_grad()
@pytest.mark.parametrize("part", ["attn", "mlp"])
def test_a_sublayer_equals_a_hook_written_out(model: LensModel, part: str) -> None:
    if model.bidirectional:
        with (
            pytest.raises(CapabilityError, match="cannot do 'drop_parts'.*part='block'"),
            mask_residual(model, part=part),
        ):
            pass
        assert_clean(model)
        return

    def silence(out: Tensor, hook: Any) -> Tensor:
        out = out.clone()
        for row, position in ((0, 2), (0, 6), (1, 4)):
            out[row, position] = 0
        return out

    expected = model.run_with_hooks(
        TOKENS,
        [(f"blocks.{layer}.hook_{part}_out", silence) for layer in (0, 2)],
        attention_mask=MASK,
    )
    where = torch.zeros_like(TOKENS).bool()
    where[0, 2] = where[0, 6] = where[1, 4] = True
    with mask_residual(model, positions=where, layers=[0.0, 2], part=part) as record:
        found = run(model, TOKENS, MASK)
    assert torch.equal(found, expected)
    assert record.n_changed == 6


@torch.no_grad()
@pytest.mark.filterwarnings("ignore:.*name no position, so that nothing is edited")
def test_nothing_chosen_is_bit_equal(model: LensModel) -> None:
    clean = run(model, TOKENS, MASK)
    for part in ("block",) if model.bidirectional else ("block", "attn", "mlp"):
        with mask_residual(model, positions=[], part=part) as record:
            assert torch.equal(run(model, TOKENS, MASK), clean)
        assert record.calls == 1
        assert record.n_changed == 0
    assert torch.equal(run(model, TOKENS, MASK), clean)


@torch.no_grad()
def test_others_still_read_what_was_dropped() -> None:
    model = shared("GPT-2")
    with mask_residual(model, positions=2):
        one, other = run(model, TOKENS), run(model, replaced(TOKENS, 2))
    assert not torch.equal(one[:, -1], other[:, -1])


@torch.no_grad()
@pytest.mark.parametrize("name", params("BERT", "RoBERTa", "GPT-2"))
def test_an_edit_of_what_enters_is_handed_on(name: str) -> None:
    """Whichever block is opened first."""
    model = shared(name)

    def shift(resid: Tensor, hook: Any) -> Tensor:
        return resid + torch.linspace(-1, 1, resid.shape[-1])

    hook: Any = ("blocks.1.hook_resid_pre", shift)
    with model.hooks([hook]), mask_residual(model, positions=[1], layers=1):
        outside = residuals(model)[1][:, 1]
    with mask_residual(model, positions=[1], layers=1), model.hooks([hook]):
        inside = residuals(model)[1][:, 1]
    expected = residuals(model)[0][:, 1] + torch.linspace(-1, 1, model.d_model)
    assert torch.equal(outside, expected)
    assert torch.equal(inside, expected)


@torch.no_grad()
@pytest.mark.parametrize("name", params("BERT", "RoBERTa"))
def test_an_edit_of_what_attention_reads_is_not_handed_on(name: str) -> None:
    """It is no edit of the residual; whichever block is opened first."""
    model = shared(name)
    hook: Any = (model.entered(1), lambda resid, hook: resid * 0.5)
    usual = residuals(model)[1]
    with model.hooks([hook]), mask_residual(model, positions=[1], layers=1):
        outside = residuals(model)
    with mask_residual(model, positions=[1], layers=1), model.hooks([hook]):
        inside = residuals(model)
    for entered, left in (outside, inside):
        assert torch.equal(left[:, 1], entered[:, 1])
        assert not torch.equal(left[:, 2], usual[:, 2])  # where it is read
    point: Any = model.hook_dict[model.entered(1)]
    assert not point._forward_pre_hooks
    with pytest.raises(ZeroDivisionError), mask_residual(model, layers=1):
        raise ZeroDivisionError
    assert not point._forward_pre_hooks


@torch.no_grad()
@pytest.mark.parametrize("mode", ["broadcast", "collapse"])
@pytest.mark.parametrize("name", ["BERT", "Llama"])
def test_at_the_layer_of_a_pooling(name: str, mode: str) -> None:
    """The pooled vector passes the block unchanged, as by a hook of the test's own."""
    model = shared(name)
    post = "blocks.1.hook_resid_post"
    kept: list[Tensor] = []

    def keep(resid: Tensor, hook: Any) -> None:
        kept.append(resid)

    where = torch.zeros_like(TOKENS).bool()
    where[0, 4:6] = where[1, 3:6] = True  # unit 2 of the first row, unit 0 of the second
    for outer in (True, False):
        pooling = pool_at(model, 1, GROUPS, mode=mode)
        dropping = mask_residual(model, positions=where, layers=1)
        first, second = (dropping, pooling) if outer else (pooling, dropping)
        with first, second, model.hooks([(post, keep)]):
            run(model, TOKENS, MASK)
    resid = model.resid_pre(TOKENS, 1, attention_mask=MASK)
    expected = [resid[0, 4:6].mean(0), resid[1, 3:6].mean(0)]
    # Pooled, the rows have five slots, and three that stand at the right.
    slots = [(0, 4), (1, 5)] if mode == "broadcast" else [(0, 3), (1, 3)]
    assert len(kept) == 2
    for left in kept:
        for slot, pooled in zip(slots, expected, strict=True):
            torch.testing.assert_close(left[slot], pooled, atol=1e-6, rtol=1e-6)
    assert_clean(model)


def test_refusals() -> None:
    model = shared("GPT-2")
    with pytest.raises(
        OptionError, match="part='heads'; expected one of 'block', 'attn', 'cross_attn', 'mlp'"
    ):
        mask_residual(model, part="heads").__enter__()
    with pytest.raises(LayerError, match="layer 3 is outside"):
        mask_residual(model, layers=3).__enter__()
    with (
        pytest.raises(InterventionError, match=r"hook_attn_out.* never fired"),
        mask_residual(model, positions=0),
    ):
        pass
    assert_clean(model)


@torch.no_grad()
@pytest.mark.parametrize("name", params("GPT-2", "BERT"))
def test_what_is_dropped_already_is_said(name: str) -> None:
    model = shared(name)
    with (
        pytest.raises(InterventionError, match=r"mask_residual\(part='block'\) changed nothing"),
        mask_residual(model, positions=1, layers=1),
        mask_residual(model, positions=1, layers=1),
    ):
        run(model, TOKENS)
    assert_clean(model)
