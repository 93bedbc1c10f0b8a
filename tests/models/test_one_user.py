"""One thread or task at a time; whatever the order in which blocks end, nothing is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from interp_compose.errors import CapabilityError, InputError, InterventionError, ModelInUseError
from interp_compose.interventions.ablate import ablate
from interp_compose.interventions.mask_attention import mask_attention
from interp_compose.interventions.mask_residual import mask_residual
from interp_compose.interventions.pool_at import pool_at
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from tests import architectures
from tests.architectures import load as make
from tests.interventions.shared import shared
from tests.studies.conftest import splitting_tokenizer

TOKENS = torch.tensor([[5, 17, 3, 41, 29]])
GROUPS = torch.tensor([[0, 0, 1, 1, 2]])
BLOCKS: dict[str, Callable[[LensModel], AbstractContextManager[Any]]] = {
    "mask": lambda model: mask_attention(model, keys=[1]),
    "another mask": lambda model: mask_attention(model, keys=[3], mode="zero"),
    "hook": lambda model: model.hooks([("blocks.1.hook_resid_pre", lambda x, hook: x * 1.5)]),
    "ablation": lambda model: ablate(model, heads=[(0, 0)]),
    "residual": lambda model: mask_residual(model, positions=[2], part="attn"),
    "broadcast": lambda model: pool_at(model, 1, GROUPS, mode="broadcast"),
}


@torch.no_grad()
@pytest.mark.tl3
@pytest.mark.parametrize("name", ["GPT-2", "small, pre"])
@pytest.mark.parametrize("kinds", list(permutations(BLOCKS, 2)), ids="-".join)
def test_blocks_may_end_in_any_order(name: str, kinds: tuple[str, str]) -> None:
    model = shared(name)
    clean = model(TOKENS)
    first, second = (BLOCKS[kind](model) for kind in kinds)
    with BLOCKS[kinds[1]](model):
        alone = model(TOKENS)
    first.__enter__()
    second.__enter__()
    model(TOKENS)
    first.__exit__(None, None, None)
    assert torch.equal(model(TOKENS), alone)  # the second still acts, and nothing of the first
    second.__exit__(None, None, None)
    assert torch.equal(model(TOKENS), clean)
    assert (model.active_hooks, model.open_blocks.wraps_calls) == ([], False)


def in_thread(work: Callable[[], Any]) -> BaseException | None:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).exception()


@torch.no_grad()
@pytest.mark.parametrize("kind", BLOCKS)
def test_another_thread_is_refused_inside_a_block(kind: str) -> None:
    model = shared("GPT-2")
    clean = model(TOKENS)
    with BLOCKS[kind](model):
        edited = model(TOKENS)
        for work in (
            lambda: model(TOKENS),
            lambda: model.capture(TOKENS, ["blocks.0.hook_resid_pre"]),
            lambda: model.resid_pre(TOKENS, 1, attention_mask=torch.ones_like(TOKENS)),
            lambda: mask_attention(model, keys=[0]).__enter__(),
        ):
            refusal = in_thread(work)
            assert isinstance(refusal, ModelInUseError)
            assert "another thread or asyncio task" in str(refusal)
        assert torch.equal(model(TOKENS), edited)
    assert in_thread(lambda: model(TOKENS)) is None  # free again
    assert torch.equal(model(TOKENS), clean)


@torch.no_grad()
def test_tasks_of_one_thread_take_turns() -> None:
    model = make("GPT-2")

    async def user(wait: asyncio.Event, done: asyncio.Event) -> None:
        with mask_attention(model, keys=[1]):
            model(TOKENS)
            done.set()
            await wait.wait()
            model(TOKENS)

    async def both() -> None:
        wait, entered = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(user(wait, entered))
        await entered.wait()
        with pytest.raises(ModelInUseError):
            model(TOKENS)
        wait.set()
        await task
        model(TOKENS)

    asyncio.run(both())


@pytest.mark.parametrize("value", [2, -1, 7])
def test_a_mask_of_other_numbers_is_refused(value: int) -> None:
    model = make("Llama")
    mask = torch.ones_like(TOKENS)
    mask[0, 2] = value
    resid = torch.zeros(1, 5, 40)
    positions = torch.arange(5)[None]
    for call in (
        lambda: model(TOKENS, attention_mask=mask),
        lambda: model.encode(TOKENS, attention_mask=mask),
        lambda: model.resid_pre(TOKENS, 1, attention_mask=mask),
        lambda: model.run_blocks(resid, 0, 1, attention_mask=mask, position_ids=positions),
        lambda: model.resume(resid, 1, attention_mask=mask, position_ids=positions),
    ):
        with pytest.raises(InputError, match=rf"attention_mask holds {value}: expected 1"):
            call()
    with pytest.raises(InputError, match=r"row 0 of attention_mask has no real token"):
        model(TOKENS, attention_mask=torch.zeros_like(TOKENS))


# ---- edits that nothing reads ---------------------------------------------------------------


def double(activation: Tensor, hook: Any) -> Tensor:
    return activation * 2


def swap(activation: Tensor, hook: Any) -> Tensor:
    return activation.flip(-1)


@torch.no_grad()
def test_an_edit_of_a_router_that_is_discarded_is_an_error() -> None:
    import transformers as hf

    torch.manual_seed(0)
    config = hf.MixtralConfig(
        **{**architectures._GQA, "hidden_size": 48, "intermediate_size": 64},
        num_local_experts=3,
        num_experts_per_tok=2,
    )
    model = load_model(hf.MixtralForCausalLM(config).eval())
    with pytest.raises(CapabilityError, match=r"discards edits at 'blocks.1.mlp.gate.hook_out'"):
        model.run_with_hooks(TOKENS, [("blocks.1.mlp.gate.hook_out", swap)])
    clean = model(TOKENS)
    assert not torch.equal(model.run_with_hooks(TOKENS, [("blocks.1.hook_mlp_out", swap)]), clean)


@torch.no_grad()
def test_an_edit_that_nothing_reads_is_an_error() -> None:
    """Rotary angles read the type of their input alone."""
    model = make("Llama")
    with pytest.raises(CapabilityError, match=r"discards edits at 'rotary_emb.hook_in'"):
        model.run_with_hooks(TOKENS, [("rotary_emb.hook_in", double)])
    model.run_with_hooks(TOKENS, [("rotary_emb.hook_in", lambda x, hook: None)])


@torch.no_grad()
def test_edits_that_act_are_proven_once() -> None:
    model = make("GPT-2")
    for name in ("blocks.2.hook_mlp_out", "hook_embed", "ln_final.hook_normalized"):
        clean = model(TOKENS)
        assert not torch.equal(model.run_with_hooks(TOKENS, [(name, double)]), clean)
        assert model.proofs.edits[name].held


# ---- checkpointing --------------------------------------------------------------------------


def gradient(model: LensModel, loss: Callable[[], Tensor]) -> Tensor:
    model.lens.zero_grad()
    loss().backward()
    return torch.cat([w.grad.flatten() for w in model.parameters() if w.grad is not None])


def loss_of(model: LensModel) -> Tensor:
    return model(TOKENS)[0, -1].log_softmax(-1)[5]


@pytest.mark.parametrize("kind", BLOCKS)
def test_a_backward_pass_outside_the_edit_is_refused(kind: str) -> None:
    model = make("Llama")
    with model.activation_checkpointing(), BLOCKS[kind](model):
        loss = loss_of(model)
    with pytest.raises(InterventionError, match="acted in the first computation alone"):
        loss.backward()
    with model.activation_checkpointing():
        loss = loss_of(model)
    with BLOCKS[kind](model):
        with torch.no_grad():
            model(TOKENS)
        with pytest.raises(InterventionError, match="acted in the second computation alone"):
            loss.backward()


@pytest.mark.parametrize("kind", ["mask", "another mask", "hook"])
def test_a_backward_pass_inside_the_edit_is_right(kind: str) -> None:
    model = make("Llama")
    with BLOCKS[kind](model):
        expected = gradient(model, lambda: loss_of(model))
        with model.activation_checkpointing():
            found = gradient(model, lambda: loss_of(model))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_a_collapse_is_right_under_checkpointing(layer: int) -> None:
    model = make("Llama")

    def collapsed() -> Tensor:
        with pool_at(model, layer, GROUPS):
            return loss_of(model)

    expected = gradient(model, collapsed)

    def checkpointed() -> Tensor:
        with model.activation_checkpointing():
            return collapsed()

    torch.testing.assert_close(gradient(model, checkpointed), expected)
    assert not any("forward" in vars(block) for block in model.lens.blocks)


@torch.no_grad()
@pytest.mark.tl3
@pytest.mark.parametrize("mode", ["collapse", "broadcast"])
def test_the_wrapped_object_is_no_way_past_a_pooling(mode: str) -> None:
    model = make("GPT-2")
    clean = model(TOKENS)
    with pool_at(model, 1, GROUPS, mode=mode):
        pooled = model(TOKENS)
        with pytest.raises(InterventionError, match="was called inside a block"):
            model.lens(TOKENS)
        assert torch.equal(model(TOKENS), pooled)
    assert torch.equal(model.lens(TOKENS), clean)


def test_models_load_in_many_threads(tmp_path: Path) -> None:
    """transformers builds them on a device that it sets for the whole process."""
    architectures.build("GPT-2").save_pretrained(tmp_path)
    tokenizer = splitting_tokenizer()
    tokenizer.save_pretrained(tmp_path)

    def load(number: int) -> Tensor:
        with torch.no_grad():
            return load_model(tmp_path)(TOKENS)

    with ThreadPoolExecutor(4) as threads:
        logits = list(threads.map(load, range(8)))
    assert all(torch.equal(one, logits[0]) for one in logits)
