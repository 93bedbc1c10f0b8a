"""Activations computed again: the same gradients, blocks run twice, nothing left behind; and
padding that stays finite in bfloat16."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch

from interp_compose.errors import CapabilityError, InterventionError
from interp_compose.interventions.mask_attention import mask_attention
from interp_compose.interventions.mask_residual import mask_residual
from interp_compose.interventions.pool_at import pool_at
from interp_compose.models import autocast as masked_scores
from interp_compose.models.autocast import finite_scores
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from tests.interventions.shared import make, params
from tests.interventions.two_stacks import joined, pair
from tests.models.test_copying import KINDS, TOKENS, equal
from tests.training.runs import hugging_face

MASK = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])


def loss_of(model: LensModel) -> torch.Tensor:
    """Of logits and of residuals captured inside and behind the recomputed blocks."""
    names = ["blocks.1.hook_resid_pre", f"blocks.{model.n_layers - 1}.hook_resid_post"]
    torch.manual_seed(5)
    logits, kept = model.capture(TOKENS, names, attention_mask=MASK, grad=True, read="last")
    captured = sum(kept[name][:, 2:].pow(2).mean() for name in names)
    return torch.logsumexp(logits[:, -1].float(), dim=-1).sum() + captured


def gradients(model: LensModel) -> list[torch.Tensor | None]:
    found = [None if weight.grad is None else weight.grad.clone() for weight in model.parameters()]
    model.lens.zero_grad(set_to_none=True)
    return found


@pytest.mark.tl3
@pytest.mark.parametrize("name", params(*KINDS, "HookedTransformer"))
def test_gradients_are_the_same_to_the_bit(name: str) -> None:
    model = make(name).train()
    loss_of(model).backward()
    expected = gradients(model)
    with model.activation_checkpointing():
        loss = loss_of(model)
    loss.backward()  # after the block
    pairs = zip(gradients(model), expected, strict=True)
    assert all(equal(one, other) for one, other in pairs)


def count_runs(model: LensModel) -> list[int]:
    """Runs of each block's MLP, counted at the start (a recomputed one may stop early)."""
    runs = [0] * model.n_layers
    for layer, block in enumerate(model.lens.blocks):

        def count(module: Any, args: Any, layer: int = layer) -> None:
            runs[layer] += 1

        block.mlp.register_forward_pre_hook(count)
    return runs


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_blocks_run_a_second_time_under_the_same_dropout(dropout: float) -> None:
    model = load_model(hugging_face(dropout=dropout)).train()
    loss_of(model).backward()
    expected = gradients(model)
    runs = count_runs(model)
    with model.activation_checkpointing():
        loss = loss_of(model)
        assert runs == [1, 1, 1]
    loss.backward()
    assert runs == [2, 2, 2]
    assert all(equal(a, b) for a, b in zip(gradients(model), expected, strict=True))


def test_blocks_are_as_before_however_the_block_ends() -> None:
    model = make("GPT-2")
    runs = count_runs(model)
    with pytest.raises(ZeroDivisionError), model.activation_checkpointing():
        raise ZeroDivisionError
    assert not any("forward" in vars(block) for block in model.lens.blocks)
    loss_of(model).backward()
    assert runs == [1, 1, 1]


def test_without_gradients_nothing_runs_twice() -> None:
    model = make("Llama")
    runs = count_runs(model)
    with torch.no_grad(), model.activation_checkpointing():
        logits = model(TOKENS)
    assert runs == [1, 1, 1]
    assert not logits.requires_grad


# ---- bfloat16 ------------------------------------------------------------------------------


@pytest.mark.tl3
@pytest.mark.parametrize("name", params(*KINDS, "HookedTransformer"))
def test_padding_is_finite_in_bfloat16(name: str) -> None:
    model = make(name)
    full = model(TOKENS, attention_mask=MASK)[:, -1].detach()
    with finite_scores(model):
        with torch.autocast("cpu", torch.bfloat16), model.activation_checkpointing():
            loss = loss_of(model)
            half = model(TOKENS, attention_mask=MASK)[:, -1].detach().float()
        loss.backward()
    torch.testing.assert_close(half, full, rtol=0, atol=0.15)
    found = gradients(model)
    assert any(gradient is not None for gradient in found)
    assert all(gradient is None or bool(gradient.isfinite().all()) for gradient in found)


def test_without_it_padding_is_not_finite() -> None:
    """Should this fail, TransformerLens has mended its mask and ``finite_scores`` can go."""
    model = make("GPT-2")
    with (
        torch.autocast("cpu", torch.bfloat16),
        pytest.raises(CapabilityError, match="makes NaN of batches padded on the left"),
    ):
        model(TOKENS, attention_mask=MASK)


def test_scores_of_float32_stay_and_nothing_is_left_behind() -> None:
    model = make("Llama")
    before = model(TOKENS, attention_mask=MASK)
    with finite_scores(model):
        torch.testing.assert_close(model(TOKENS, attention_mask=MASK), before, rtol=0, atol=0)
    points = [p for name, p in model.lens.hook_dict.items() if name.endswith("hook_attn_scores")]
    assert points
    assert not any(point._forward_hooks for point in points)


def test_a_model_that_is_not_finite_all_the_same_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(masked_scores, "_bounded", lambda module, args, scores: scores)
    message = r'gives NaN on a padded batch in bfloat16; train with precision="float32"'
    with pytest.raises(CapabilityError, match=message), finite_scores(make("GPT-2")):
        pass


# ---- edits, and what others compute again ---------------------------------------------------


def half(activation: torch.Tensor, hook: Any) -> torch.Tensor:
    return activation * 0.5


@pytest.mark.filterwarnings("ignore:`gradient_checkpointing:FutureWarning")
@pytest.mark.parametrize("reentrant", [False, True])
def test_edits_under_checkpointing_of_hugging_face_are_refused(reentrant: bool) -> None:
    module = hugging_face(dropout=0.0)
    model = load_model(module).train()
    loss_of(model).backward()
    expected = gradients(model)
    module.gradient_checkpointing_enable({"use_reentrant": reentrant})
    module.train()
    refused = pytest.raises(InterventionError, match=r"model\.activation_checkpointing\(\)")
    loss_of(model).backward()  # the clean model may use it
    for one, other in zip(gradients(model), expected, strict=True):
        torch.testing.assert_close(one, other)
    with refused if reentrant else nullcontext():  # which takes captured tensors out of graphs
        model.capture(TOKENS, ["blocks.1.hook_attn_out"], grad=True)
    for call in (model, module):
        with refused, model.hooks([("blocks.1.hook_attn_out", half)]):
            call(TOKENS)
    later = model(TOKENS).square().sum()
    model.lens.eval()
    with mask_attention(model, keys=0, heads=1):
        with refused:
            later.backward()
        module.gradient_checkpointing_disable()
        model(TOKENS)


def test_checkpointing_twice_is_as_strict() -> None:
    model = make("GPT-2")
    with (
        model.hooks([("blocks.1.hook_attn_out", half)]),
        model.activation_checkpointing(),
        model.activation_checkpointing(),
    ):
        loss = model(TOKENS).square().sum()
    with pytest.raises(InterventionError, match=r"Call backward\(\) inside"):
        loss.backward()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("kind", ["hooks", "mask_attention", "pool_at"])
@torch.no_grad()
def test_no_trace_keeps_an_edit(kind: str) -> None:
    model = make("GPT-2")
    blocks: dict[str, Any] = {
        "hooks": lambda: model.hooks([("blocks.1.hook_attn_out", half)]),
        "mask_attention": lambda: mask_attention(model, keys=0),
        "pool_at": lambda: pool_at(model, 1, torch.zeros_like(TOKENS)),
    }
    refused = pytest.raises(InterventionError, match="trace the clean model, outside the block")
    with refused, blocks[kind]():
        traced: Any = (lambda ids: model(ids)) if kind == "pool_at" else model.lens
        torch.jit.trace(traced, (TOKENS,), check_trace=False)


@pytest.mark.parametrize("name", ["T5", "GPT-2"])
def test_what_edits_look_up_in_a_call_is_that_of_the_call(name: str) -> None:
    """Positions in a collapse and in two calls: the second computation has the first one's."""
    model = pair(name)[1] if name == "T5" else make(name)
    tokens = joined(pair("T5")[1])[0] if name == "T5" else TOKENS
    groups = torch.full_like(tokens, -1)
    groups[:, -2:] = 0
    where = torch.zeros_like(tokens, dtype=torch.bool)
    where[:, -2:] = True

    def grads(again: bool) -> list[torch.Tensor | None]:
        with (
            mask_residual(model, positions=where, layers=[1, -1]),
            mask_attention(model, keys=[1]),
            pool_at(model, 1, groups),
            model.activation_checkpointing() if again else nullcontext(),
        ):
            model(tokens)[:, -1].square().sum().backward()
        return gradients(model)

    for one, other in zip(grads(False), grads(True), strict=True):
        assert equal(one, other)


def test_broadcasts_of_several_calls_keep_their_units() -> None:
    model = make("GPT-2")
    groups = [torch.tensor([[0, 0, 1, 1, 1]]), torch.tensor([[0, 0, 0, 1, 1]])]

    def grads(again: bool) -> list[torch.Tensor | None]:
        words = iter(groups)
        with (
            pytest.MonkeyPatch.context() as patch,
            pool_at(model, 1, groups[0], mode="broadcast"),
            model.activation_checkpointing() if again else nullcontext(),
        ):
            patch.setattr(
                "interp_compose.interventions.pool_at.resolve_groups", lambda *_: next(words)
            )
            loss = model(TOKENS[:1]).square().sum() + model(TOKENS[:1]).pow(3).sum()
            loss.backward()
        return gradients(model)

    for one, other in zip(grads(False), grads(True), strict=True):
        assert equal(one, other)
