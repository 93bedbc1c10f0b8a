"""Masks, ablations, poolings and a user's own hooks, one inside the other."""

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
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.studies.cap.measure import cap_curve
from interp_compose.types import Example
from tests import architectures
from tests.interventions.shared import (
    MASK,
    THREE,
    TOKENS,
    assert_clean,
    keep_in,
    replaced,
    run,
    shared,
)
from tests.models.test_bridge import make
from tests.studies.conftest import splitting_tokenizer

pytestmark = pytest.mark.tl3


@pytest.fixture(params=THREE)
def model(request: pytest.FixtureRequest) -> LensModel:
    return shared(request.param)


# ---- masks in masks ----------------------------------------------------------------------


@torch.no_grad()
def test_two_masks_are_one_of_the_union(model: LensModel) -> None:
    for mode in ("exclude", "zero"):
        with mask_attention(model, keys=[2, 4], mode=mode) as union:
            expected = run(model, TOKENS, MASK)
        with (
            mask_attention(model, keys=2, mode=mode) as outer,
            mask_attention(model, keys=4, mode=mode) as inner,
        ):
            assert torch.equal(run(model, TOKENS, MASK), expected)
        assert outer.n_cut + inner.n_cut == union.n_cut
    with mask_attention(model, keys=2, heads=[0, 1]):
        expected = run(model, TOKENS, MASK)
    with mask_attention(model, keys=2, heads=0), mask_attention(model, keys=2, heads=[1]):
        assert torch.equal(run(model, TOKENS, MASK), expected)
    assert_clean(model)


@torch.no_grad()
def test_overlapping_masks_that_leave_no_key_empty_the_query() -> None:
    model = shared("GPT-2")
    with mask_attention(model, keys=[0, 1], queries=1) as one:
        expected = run(model, TOKENS)
    with (
        mask_attention(model, keys=[0], queries=1) as outer,
        mask_attention(model, keys=[0, 1], queries=1) as inner,
    ):
        assert torch.equal(run(model, TOKENS), expected)
    assert one.n_emptied == inner.n_emptied == 3 * 4 * 2
    assert outer.n_emptied == 0


@torch.no_grad()
def test_exclude_and_zero_together() -> None:
    """Key 1 out of the softmax, and key 3 out of what the softmax gave, in either order."""
    model = shared("Llama")
    scores: list[Tensor] = []
    patterns: list[Tensor] = []

    class Look:
        def scores(self, of: Tensor) -> Tensor:
            scores.append(of)
            return of

        def pattern(self, of: Tensor) -> Tensor:
            return of

    name = "blocks.0.attn.hook_pattern"
    for order in (("exclude", "zero"), ("zero", "exclude")):
        keys = {"exclude": 1, "zero": 3}
        with ExitStack() as blocks:
            blocks.enter_context(model.editing_attention({0: Look()}))
            for mode in order:
                blocks.enter_context(mask_attention(model, keys=keys[mode], mode=mode))
            _, found = model.capture(TOKENS, [name])
        patterns.append(found[name])
    assert torch.equal(patterns[0], patterns[1])
    for b in range(2):
        for h in range(4):
            for query in range(7):
                seen = [key for key in range(query + 1) if key != 1]
                total = sum(scores[0][b, h, query, key].double().exp() for key in seen)
                for key in range(7):
                    share = scores[0][b, h, query, key].double().exp() / total
                    expected = float(share) if key in seen and key != 3 else 0.0
                    assert abs(float(patterns[0][b, h, query, key]) - expected) < 1e-6


@torch.no_grad()
def test_a_block_in_itself_leaves_nothing_to_knock_out(model: LensModel) -> None:
    with (
        pytest.raises(InterventionError, match="another block may have knocked them out"),
        mask_attention(model, keys=2),
        mask_attention(model, keys=2),
    ):
        run(model, TOKENS)
    assert_clean(model)


# ---- with other edits --------------------------------------------------------------------


@torch.no_grad()
def test_with_ablations_and_a_users_hooks(model: LensModel) -> None:
    """The user's hooks see the edited pattern and the ablated head."""
    pattern: list[Tensor] = []
    z: list[Tensor] = []
    hooks = [("blocks.1.attn.hook_pattern", keep_in(pattern)), ("blocks.1.attn.hook_z", keep_in(z))]
    results = []
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        edits = [
            mask_attention(model, keys=2, layers=1),
            ablate(model, heads=[(1, 0)], neurons=[(0, 5)], positions=[3]),
            mask_residual(model, positions=5, layers=2),
        ]
        with ExitStack() as blocks:
            for place in order:
                blocks.enter_context(edits[place])
            blocks.enter_context(model.hooks(hooks))
            results.append(run(model, TOKENS))
        assert_clean(model)
    for result in results[1:]:
        assert torch.equal(result, results[0])
    for of, head in zip(pattern, z, strict=True):
        assert bool((of[:, :, :, 2] == 0).all())
        assert bool((head[:, 3, 0] == 0).all())
        assert bool((head[:, 3, 1] != 0).any())


@torch.no_grad()
def test_every_way_of_calling(model: LensModel) -> None:
    with mask_attention(model, keys=[2]) as record:
        hidden = model.encode(TOKENS, attention_mask=MASK)
        _, found = model.capture(TOKENS, [], attention_mask=MASK, read="hidden")
        hooked = model.run_with_hooks(TOKENS, [], attention_mask=MASK, read="hidden")
        assert torch.equal(
            model.encode(replaced(TOKENS, 2), attention_mask=MASK)[:, 3:], hidden[:, 3:]
        )
        assert found == {}
        assert torch.equal(hooked, hidden)
        if not model.bidirectional:
            logits = model(TOKENS, attention_mask=MASK)
            last = model.forward(TOKENS, attention_mask=MASK, read="last")
            torch.testing.assert_close(last[:, -1], logits[:, -1], atol=1e-5, rtol=1e-5)
    assert record.calls == (4 if model.bidirectional else 6)
    assert not torch.equal(model.encode(TOKENS, attention_mask=MASK), hidden)


@torch.no_grad()
def test_inference_mode_and_two_models_at_once() -> None:
    one, two = shared("GPT-2"), shared("OPT")
    clean = run(two, TOKENS)
    with mask_attention(one, keys=2) as outer:
        expected = run(one, TOKENS)
        assert torch.equal(run(two, TOKENS), clean)
        with mask_attention(two, keys=4) as inner, torch.inference_mode():
            assert torch.equal(run(one, TOKENS), expected)
            assert not torch.equal(run(two, TOKENS), clean)
        run(one, TOKENS)
    assert (outer.calls, inner.calls) == (3, 1)
    assert outer.n_cut % 3 == 0
    assert inner.n_cut > 0
    with ablate(one, heads=[1]) as record:
        with torch.inference_mode():
            run(one, TOKENS)
        run(one, TOKENS)
    assert record.n_changed == 2 * 3 * 2 * 7


def test_dropout_in_training_mode() -> None:
    model = make("GPT-2").train()
    with ExitStack() as block, torch.no_grad():
        with pytest.warns(UserWarning, match="is in training mode: dropout"):
            block.enter_context(mask_attention(model, keys=2))
        torch.manual_seed(0)
        one = run(model, TOKENS)
        torch.manual_seed(0)
        other = run(model, replaced(TOKENS, 2))
        assert not torch.equal(one, run(model, TOKENS))  # dropout is on
    assert torch.equal(one[:, 3:], other[:, 3:])
    assert model.training


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("GPT-2", torch.bfloat16),
        ("GPT-J", torch.float16),
        ("BLOOM", torch.bfloat16),
        ("BERT", torch.float16),
    ],
)
@torch.no_grad()
def test_half_precision_knocks_out_as_exactly(name: str, dtype: torch.dtype) -> None:
    """GPT-J computes scores in float32 and masks them by float16's lowest number."""
    model = load_model(architectures.build(name).to(dtype))
    with mask_attention(model, keys=2):
        one, other = run(model, TOKENS, MASK), run(model, replaced(TOKENS, 2), MASK)
    assert torch.equal(one[:, 3:], other[:, 3:])
    assert bool(one.isfinite().all())
    if model.bidirectional:
        return
    with mask_attention(model, keys=2, queries=2) as record:  # its first token, in the second row
        one, other = run(model, TOKENS, MASK), run(model, replaced(TOKENS, 6), MASK)
    assert torch.equal(one[:, 2], other[:, 2])
    assert record.n_emptied == 2 * 3 * 4  # no look at the future, nor at the padding


# ---- gradients ---------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["exclude", "zero"])
def test_gradients(model: LensModel, mode: str) -> None:
    """Finite, also through queries without any key; none reaches a token that is hidden."""
    grads: dict[str, Tensor] = {}

    def leaf(resid: Tensor, hook: Any) -> Tensor:
        resid = resid.detach().requires_grad_()
        grads["resid"] = resid
        return resid

    with (
        mask_attention(model, keys=[0, 2], mode=mode) as record,
        model.hooks([("blocks.0.hook_resid_pre", leaf)]),
    ):
        out = run(model, TOKENS)
    assert model.bidirectional or record.n_emptied > 0
    torch.logsumexp(out[:, [1, 3, 4, 5, 6]], dim=-1).sum().backward()
    grad = grads["resid"].grad
    assert grad is not None
    assert bool(grad.isfinite().all())
    assert bool((grad[:, [1, 3, 4, 5, 6]] != 0).any())
    assert bool((grad[:, [0, 2]] == 0).all()) == (mode == "exclude")
    for weight in model.parameters():
        assert weight.grad is None or bool(weight.grad.isfinite().all())
        weight.grad = None


def test_checkpointed_blocks_are_masked_again_in_the_backward_pass() -> None:
    model = make("GPT-2")

    def gradients() -> list[Tensor]:
        found = [weight.grad.clone() for weight in model.parameters() if weight.grad is not None]
        for weight in model.parameters():
            weight.grad = None
        return found

    with mask_attention(model, keys=[2, 4]):
        run(model, TOKENS).square().mean().backward()
        expected = gradients()
        with model.activation_checkpointing():
            out = run(model, TOKENS)
        out.square().mean().backward()
        found = gradients()
    assert len(found) == len(expected) > 10
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


# ---- what leaves nothing behind ----------------------------------------------------------


@torch.no_grad()
def test_exceptions_of_all_kinds_leave_nothing(model: LensModel) -> None:
    clean = run(model, TOKENS)

    def bad(activation: Tensor, hook: Any) -> Tensor:
        raise ZeroDivisionError

    def everything() -> ExitStack:
        blocks = ExitStack()
        blocks.enter_context(mask_attention(model, keys=2))
        blocks.enter_context(ablate(model, heads=[0]))
        blocks.enter_context(mask_residual(model, positions=3))
        blocks.enter_context(mask_attention(model, keys=4))
        return blocks

    with pytest.raises(ZeroDivisionError), everything():
        raise ZeroDivisionError
    assert_clean(model)
    with pytest.raises(ZeroDivisionError), everything():
        model.run_with_hooks(TOKENS, [("blocks.1.attn.hook_z", bad)], read="hidden")
    assert_clean(model)
    with everything():
        with pytest.raises(ZeroDivisionError):
            model.run_with_hooks(TOKENS, [("blocks.1.attn.hook_z", bad)], read="hidden")
        run(model, TOKENS)  # the blocks go on
    assert_clean(model)
    assert torch.equal(run(model, TOKENS), clean)


def test_a_block_in_which_nothing_runs_says_so() -> None:
    model = shared("GPT-2")
    with pytest.raises(InterventionError, match="never ran"), mask_attention(model, keys=2):
        pass
    assert_clean(model)


@torch.no_grad()
def test_keys_that_no_query_sees_say_so(model: LensModel) -> None:
    if model.bidirectional:
        pytest.skip("an encoder's queries see all keys")
    with (
        pytest.raises(InterventionError, match=r"=\[5, 6\], queries=\[2\]\) knocked out nothing"),
        mask_attention(model, keys=[5, 6], queries=[2]),
    ):
        run(model, TOKENS)
    assert_clean(model)


def test_recipes_refuse_a_model_inside_a_block() -> None:
    tokenizer = splitting_tokenizer()
    model = make("GPT-2")
    model.tokenizer = tokenizer
    for block in (
        mask_attention(model, keys=2),
        ablate(model, heads=[0]),
        mask_residual(model, positions=1),
    ):
        with block:
            with pytest.raises(InterventionError, match="is inside a block of pool_at, mask_att"):
                cap_curve(model, [Example("a", "b")])
            run(model, TOKENS)
        assert_clean(model)


@torch.no_grad()
def test_what_is_proven_is_the_model_itself_not_the_open_edits() -> None:
    fresh = make("OPT")  # nothing about it is known yet
    keys = torch.zeros_like(TOKENS, dtype=torch.bool)
    keys[:, 2] = True
    with mask_attention(fresh, keys=keys) as masked:
        with ablate(fresh, neurons=[0, 1]):  # counts neurons by a call on one token
            fresh(TOKENS)
        entries = masked.n_cut
    known = shared("OPT")
    known.require("mask_attention")
    with mask_attention(known, keys=keys) as again:
        known(TOKENS)
    assert entries == again.n_cut
    assert fresh.capabilities.probes == known.capabilities.probes
