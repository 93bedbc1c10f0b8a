"""Every intervention on small decoders, each against hooks or equations written out here."""

from __future__ import annotations

from typing import Any, get_args

import pytest
import torch
from torch import Tensor

from interp_compose.errors import CapabilityError
from interp_compose.interventions.ablate import ablate
from interp_compose.interventions.leak import attention_leak
from interp_compose.interventions.mask_attention import mask_attention
from interp_compose.interventions.mask_residual import mask_residual
from interp_compose.interventions.pool_at import pool_at
from interp_compose.interventions.pooling import How
from interp_compose.interventions.pooling_sweep import Mode
from interp_compose.models.lens_model import LensModel
from interp_compose.papers.complexity.models.small_decoder import small_decoder
from interp_compose.papers.shared.models.decoder import DecoderConfig, Norm
from tests.interventions.shared import MASK, TOKENS, assert_clean, replaced
from tests.interventions.test_cap_parity import (
    collapse_equals_the_in_place_reference,
    one_pass_equals_single_interventions,
)

pytestmark = pytest.mark.tl3

N_LAYERS = 3
FEW: tuple[How, ...] = ("mean", "max", "last")


def make(norm: str) -> LensModel:
    cfg = DecoderConfig(
        d_vocab=97, n_ctx=23, n_layers=N_LAYERS, d_model=20, n_heads=2, d_mlp=17, norm=norm
    )
    return small_decoder(cfg, init_rate=0.5, seed=0)


@pytest.fixture(scope="module", params=get_args(Norm))
def model(request: pytest.FixtureRequest) -> LensModel:
    """No test may change it."""
    return make(request.param)


# ---- pooling ------------------------------------------------------------------------------


def test_collapse_equals_the_in_place_reference(model: LensModel) -> None:
    for layer, side in enumerate(("left", "right", "left")):
        collapse_equals_the_in_place_reference(model, side, layer, FEW, 2e-5)
    assert_clean(model)


@pytest.mark.parametrize("mode", ["collapse", "broadcast"])
def test_one_pass_equals_one_intervention_at_a_time(model: LensModel, mode: Mode) -> None:
    one_pass_equals_single_interventions(model, mode, 40, [0, 1, 2], FEW, 2e-5)


@pytest.mark.filterwarnings("ignore:pooling at layer")  # nothing is pooled
@pytest.mark.parametrize("mode", ["collapse", "broadcast"])
@torch.no_grad()
def test_units_of_one_token_change_no_bit(model: LensModel, mode: str) -> None:
    clean = model(TOKENS, attention_mask=MASK)
    alone = torch.arange(7).expand_as(TOKENS).masked_fill(MASK == 0, -1)
    for layer in range(N_LAYERS):
        with pool_at(model, layer, alone, mode=mode):
            found = model(TOKENS, attention_mask=MASK)
        assert torch.equal(found[MASK.bool()], clean[MASK.bool()])


# ---- attention ----------------------------------------------------------------------------


@torch.no_grad()
def test_exclude_equals_a_softmax_over_the_others(model: LensModel) -> None:
    """Heads (0, 1) and (2, 0), queries 4 and 6, key 3."""

    def knock_out(head: int) -> Any:
        def edit(pattern: Tensor, hook: Any) -> Tensor:
            out = pattern.clone()
            out[:, head, [4, 6], 3] = 0
            return out / out.sum(-1, keepdim=True)

        return edit

    at = "attn.hook_pattern"
    hooks: list[Any] = [(f"blocks.0.{at}", knock_out(1)), (f"blocks.2.{at}", knock_out(0))]
    expected = model.run_with_hooks(TOKENS, hooks, attention_mask=MASK)
    with mask_attention(model, keys=3, queries=[4, 6], heads=[(0, 1), (2, 0)]) as record:
        found = model(TOKENS, attention_mask=MASK)
    real = MASK.bool()
    torch.testing.assert_close(found[real], expected[real], atol=1e-5, rtol=1e-5)
    assert record.n_cut == 8  # two heads, two rows, two queries
    assert_clean(model)


@torch.no_grad()
def test_zero_equals_a_hook_after_the_softmax(model: LensModel) -> None:
    def cut(pattern: Tensor, hook: Any) -> Tensor:
        out = pattern.clone()
        out[:, :, :, 2] = 0
        return out

    hooks: list[Any] = [(f"blocks.{layer}.attn.hook_pattern", cut) for layer in (1, 2)]
    expected = model.run_with_hooks(TOKENS, hooks, attention_mask=MASK)
    with mask_attention(model, keys=2, layers=[1, 2], mode="zero"):
        found = model(TOKENS, attention_mask=MASK)
    assert torch.equal(found[MASK.bool()], expected[MASK.bool()])
    assert not torch.equal(found, model(TOKENS, attention_mask=MASK))


@torch.no_grad()
def test_a_query_without_keys_attends_to_nothing(model: LensModel) -> None:
    with mask_attention(model, keys=0, queries=0) as record:
        _, found = model.capture(TOKENS, ["blocks.1.attn.hook_pattern"])
    assert record.n_emptied == N_LAYERS * 2 * 2
    pattern = found["blocks.1.attn.hook_pattern"]
    assert float(pattern[:, :, 0].abs().max()) == 0.0


def test_leaks(model: LensModel) -> None:
    shut = attention_leak(model, TOKENS, keys=2, attention_mask=MASK, draws=3)
    assert shut.largest == shut.changed == 0.0
    assert shut.unmasked > 0.01
    leaky = attention_leak(model, TOKENS, keys=2, attention_mask=MASK, draws=3, mode="zero")
    assert leaky.largest > 0.01
    assert_clean(model)


@torch.no_grad()
def test_last_logits_under_a_mask(model: LensModel) -> None:
    """A training step's call is edited as well: positions by number, of the whole sequence."""
    with mask_attention(model, keys=2, layers=[0, 1]):
        expected = model(TOKENS)[:, -1]
        found = model.lens.last_logits(TOKENS)
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=2e-5)


# ---- heads, neurons, parts ----------------------------------------------------------------


@torch.no_grad()
def test_ablation_equals_weights_of_zero(model: LensModel) -> None:
    with ablate(model, heads=[(1, 0)], neurons=[(2, 5), (2, 11)]):
        found = model(TOKENS, attention_mask=MASK)
    edited = make(model.lens.cfg.norm)
    edited.lens.blocks[1].attn.W_O[0] = 0
    edited.lens.blocks[2].mlp.W_out[[5, 11]] = 0
    expected = edited(TOKENS, attention_mask=MASK)
    real = MASK.bool()
    torch.testing.assert_close(found[real], expected[real], atol=1e-5, rtol=1e-5)
    assert not torch.equal(found, model(TOKENS, attention_mask=MASK))
    with ablate(model, heads=1, layers=0, how="mean", reference=TOKENS.flip(0)) as record:
        model(TOKENS)
    assert record.n_changed == TOKENS.numel()
    assert_clean(model)


@pytest.mark.parametrize(
    ("norm", "part"), [("pre", "block"), ("query", "block"), ("pre", "attn"), ("query", "mlp")]
)
@torch.no_grad()
def test_summands_are_dropped(norm: str, part: str) -> None:
    model, edited = make(norm), make(norm)
    names = ["blocks.1.hook_resid_pre", "blocks.1.hook_resid_post"]
    with mask_residual(model, positions=[1, -2], layers=1, part=part) as record:
        _, found = model.capture(TOKENS, names)
    entered, left = (found[name][:, [1, 5]] for name in names)
    assert torch.equal(left, entered) == (part == "block")
    assert record.n_changed == (8 if part == "block" else 4)
    if part != "mlp":
        edited.lens.blocks[1].attn.W_O.zero_()
    if part != "attn":
        edited.lens.blocks[1].mlp.W_out.zero_()
    _, found = edited.capture(TOKENS, names)
    torch.testing.assert_close(left, found[names[1]][:, [1, 5]], atol=1e-5, rtol=1e-5)
    assert_clean(model)


@pytest.mark.parametrize("part", ["attn", "mlp"])
def test_what_is_no_summand_is_refused(part: str) -> None:
    model = make("post")
    with (
        pytest.raises(CapabilityError, match=r"norm='post'\) cannot do 'drop_parts'"),
        mask_residual(model, part=part),
    ):
        pass
    assert_clean(model)


@torch.no_grad()
def test_blocks_that_end_in_a_norm_can_be_passed() -> None:
    """As BERT's: attn.hook_in shows what entered, the last edit of hook_resid_pre included."""
    model = make("post")
    names = ["blocks.1.hook_resid_pre", "blocks.1.hook_resid_post"]

    def shift(resid: Tensor, hook: Any) -> Tensor:
        return resid + torch.linspace(-1, 1, resid.shape[-1])

    _, usual = model.capture(TOKENS, names)
    with (
        mask_residual(model, positions=[1, 5], layers=1),
        model.hooks([(names[0], shift)]),
    ):
        _, found = model.capture(TOKENS, names)
    entered, left = found[names[0]], found[names[1]]
    torch.testing.assert_close(entered, shift(usual[names[0]], None))
    assert torch.equal(left[:, [1, 5]], entered[:, [1, 5]])
    rest = [0, 2, 3, 4, 6]
    assert not torch.equal(left[:, rest], entered[:, rest])


@torch.no_grad()
def test_a_replaced_token_is_seen_by_later_ones_alone(model: LensModel) -> None:
    other = replaced(TOKENS, 3)
    one, two = model(TOKENS), model(other)
    assert torch.equal(one[:, :3], two[:, :3])
    assert bool(((one - two)[:, 3:].abs().amax(-1) > 1e-4).all())
