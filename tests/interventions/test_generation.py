"""Masks and ablations while the wrapped model generates, with a cache of keys and values."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor

from interp_compose.errors import InterventionError, PositionError
from interp_compose.interventions.ablate import ablate
from interp_compose.interventions.mask_attention import mask_attention
from interp_compose.interventions.mask_residual import mask_residual
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from tests.architectures import D_VOCAB
from tests.interventions.shared import TOKENS, assert_clean, params, replaced, shared

pytestmark = pytest.mark.tl3

NEW = 5


@pytest.fixture(params=params("GPT-2", "OPT", "native", "HookedTransformer"))
def model(request: pytest.FixtureRequest) -> LensModel:
    return shared(request.param)


@torch.no_grad()
def generated(model: LensModel, prompt: Tensor, *, cache: bool = True) -> Tensor:
    out: Tensor = model.lens.generate(
        prompt,
        max_new_tokens=NEW,
        do_sample=False,
        use_past_kv_cache=cache,
        stop_at_eos=False,
        verbose=False,
    )
    return out


@torch.no_grad()
def by_full_calls(model: LensModel, prompt: Tensor) -> Tensor:
    """Greedy decoding; every token from a call on all tokens so far."""
    tokens = prompt
    for _ in range(NEW):
        tokens = torch.cat([tokens, model(tokens)[:, -1:].argmax(-1)], dim=1)
    return tokens


def test_a_masked_key_of_the_prompt(model: LensModel) -> None:
    plain = generated(model, TOKENS)
    for mode in ("exclude", "zero"):
        with mask_attention(model, keys=[2], mode=mode):
            expected = by_full_calls(model, TOKENS)
        with mask_attention(model, keys=[2], mode=mode) as record:
            assert torch.equal(generated(model, TOKENS), expected)
        assert record.n_cut > 0
        assert record.calls == 0
    assert torch.equal(generated(model, TOKENS), plain)
    assert_clean(model)


def test_replacing_the_masked_token_changes_nothing_that_is_generated(model: LensModel) -> None:
    with mask_attention(model, keys=1):
        one = generated(model, TOKENS)
        other = generated(model, replaced(TOKENS, 1))
    assert torch.equal(one[:, 2:], other[:, 2:])


def test_negative_numbers_and_tensors_count_the_prompt(model: LensModel) -> None:
    if model.name == "native":
        pytest.skip("it has no cache")
    where = torch.zeros_like(TOKENS).bool()
    where[:, [3, 5]] = True
    queries = torch.zeros_like(TOKENS).bool()
    queries[:, -1] = True
    with mask_attention(model, keys=[3, 5]):
        expected = generated(model, TOKENS)
    for keys in ([-4, -2], where):
        with mask_attention(model, keys=keys):
            assert torch.equal(generated(model, TOKENS), expected)
    # Queries of the prompt alone: what is generated sees the keys again.
    with mask_attention(model, keys=[3], queries=[-1]):
        by_number = generated(model, TOKENS)
    with mask_attention(model, keys=[3], queries=queries):
        assert torch.equal(generated(model, TOKENS), by_number)


def test_without_a_cache_the_end_moves() -> None:
    where = torch.ones_like(TOKENS).bool()
    for model, cache in ((shared("GPT-2"), False), (shared("native"), True)):
        for keys, message in (
            ([-1], r"keys=\[-1\] count from the end, .* on 7 .* on 8"),
            (where, ""),
        ):
            with (
                pytest.raises(InterventionError, match=message or "make them from the batch"),
                mask_attention(model, keys=keys),
            ):
                generated(model, TOKENS, cache=cache)
            assert_clean(model)
        with mask_attention(model, keys=3):
            expected = by_full_calls(model, TOKENS)
            assert torch.equal(generated(model, TOKENS, cache=cache), expected)


def test_queries_of_the_prompt_by_full_calls() -> None:
    model = shared("Llama")
    with mask_attention(model, keys=[0, 3], queries=[5, 6]):
        expected = by_full_calls(model, TOKENS)
        assert torch.equal(generated(model, TOKENS), expected)
        assert torch.equal(generated(model, TOKENS, cache=False), expected)


@pytest.mark.parametrize("what", ["ablate", "mask_residual"])
def test_edits_of_the_prompt_and_of_everything(model: LensModel, what: str) -> None:
    def block(positions: Any) -> AbstractContextManager[Any]:
        if what == "ablate":
            return ablate(model, heads=[0, 1], neurons=[3, 5], positions=positions)
        return mask_residual(model, positions=positions, layers=1)

    for positions in ([2, 4], None):
        with block(positions):
            expected = by_full_calls(model, TOKENS)
        with block(positions) as record:
            assert torch.equal(generated(model, TOKENS), expected)
        assert record.n_changed > 0
    assert_clean(model)


def test_a_prompt_of_one_token_cannot_be_told_from_a_generated_one() -> None:
    model = shared("GPT-2")
    for block in (ablate(model, heads=[0], positions=[0]), mask_residual(model, positions=0)):
        with pytest.raises(InterventionError, match="called on one position"), block:
            generated(model, TOKENS[:, :1])
        assert_clean(model)
    with mask_attention(model, keys=0):  # keys and queries tell
        generated(model, TOKENS[:, :1])


def test_words_need_the_models_own_surface() -> None:
    model = shared("GPT-2")
    with (
        pytest.raises(InterventionError, match=r"keys='cat' are words, .* model\.generate"),
        mask_attention(model, keys="cat"),
    ):
        generated(model, TOKENS)
    where = torch.ones(3, 7, dtype=torch.bool)
    with (
        pytest.raises(InterventionError, match=r"keys are \[3, 7\] and the call \[2, 7\]"),
        mask_attention(model, keys=where),
    ):
        generated(model, TOKENS)
    assert_clean(model)


SMALL: dict[str, Any] = {
    "vocab_size": D_VOCAB,
    "hidden_size": 40,
    "max_position_embeddings": 61,
    "initializer_range": 0.2,
}


def test_local_attention_that_forgets_is_refused() -> None:
    """Beyond the window a cache drops positions: which ones are left is not known."""
    torch.manual_seed(0)
    config = hf.MistralConfig(
        **SMALL,
        intermediate_size=53,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        sliding_window=9,
    )
    model = load_model(hf.MistralForCausalLM(config).eval())
    with (
        pytest.raises(InterventionError, match=r"layer 0 held 9 positions and now holds 8, as loc"),
        mask_attention(model, keys=2),
    ):
        generated(model, TOKENS)
    with mask_attention(model, keys=2):
        expected = by_full_calls(model, TOKENS)
        assert torch.equal(generated(model, TOKENS, cache=False), expected)
    with mask_attention(model, keys=0):  # within the window, and anew in the same block
        for prompt in (TOKENS[:, :3], TOKENS[:, 2:5]):
            assert torch.equal(generated(model, prompt), by_full_calls(model, prompt))
    assert_clean(model)


def test_local_attention_that_keeps_all_it_does_not_see() -> None:
    torch.manual_seed(0)
    kinds = [[["global", "local"], 1]]
    config = hf.GPTNeoConfig(
        **SMALL, num_layers=2, num_heads=4, attention_types=kinds, window_size=5
    )
    model = load_model(hf.GPTNeoForCausalLM(config).eval())
    with mask_attention(model, keys=4):
        assert torch.equal(generated(model, TOKENS), by_full_calls(model, TOKENS))


PARTS: dict[str, dict[str, Any]] = {
    "ablate": {"heads": [0, 1], "positions": [1]},
    "mask_residual": {"layers": [1], "positions": [1]},
}


@torch.no_grad()
@pytest.mark.parametrize("what", PARTS)
def test_positions_of_a_cache_that_is_gone_on_from_by_several_tokens(what: str) -> None:
    model = shared("Llama")
    module: Any = model.lens.original_model
    edit = ablate if what == "ablate" else mask_residual

    def gone_on_from(cache: Any) -> Any:
        return module(TOKENS[:1, 3:], past_key_values=cache)

    before = module(TOKENS[:1, :3], use_cache=True).past_key_values
    refused = pytest.raises(InterventionError, match="by 4 tokens at once from a cache of 3 posi")
    with refused, edit(model, **PARTS[what]):
        gone_on_from(before)
    with refused, edit(model, **PARTS[what]):
        gone_on_from(module(TOKENS[:1, :3], use_cache=True).past_key_values)
    everywhere = {**PARTS[what], "positions": None}
    with edit(model, **everywhere):
        expected = model(TOKENS[:1], attention_mask=torch.ones_like(TOKENS[:1]))[:, 3:]
    with edit(model, **everywhere):
        cache = module(TOKENS[:1, :3], use_cache=True).past_key_values
        torch.testing.assert_close(gone_on_from(cache).logits, expected, atol=1e-5, rtol=1e-5)
    assert_clean(model)


def gone_on(module: Any) -> None:
    """A prompt of four tokens, and two more at once."""
    cache = module(TOKENS[:1, :4], use_cache=True).past_key_values
    module(TOKENS[:1, 4:6], past_key_values=cache)


@torch.no_grad()
def test_the_end_of_a_prompt_in_chunks_is_not_guessed() -> None:
    model = shared("Llama")
    chunks: dict[str, Any] = {"prefill_chunk_size": 4, "max_new_tokens": 3, "do_sample": False}
    module: Any = model.lens.original_model
    last = TOKENS.shape[1] - 1  # the second piece is one token, as one that was generated is
    for option in (
        {"prefill_chunk_size": 4},
        {"prefill_chunk_size": last},
        {"prefill_chunk_size": 1},
    ):
        refused = r"keys=\[-3\] count from the end, .* generates with prefill_chunk_size"
        with pytest.raises(InterventionError, match=refused), mask_attention(model, keys=[-3]):
            module.generate(TOKENS[:1], **{**chunks, **option})
    with (
        pytest.raises(InterventionError, match=r"positions=\[-1\] .* prompt_lookup_num_tokens"),
        mask_residual(model, positions=[-1]),
    ):
        module.generate(TOKENS[:1], max_new_tokens=3, prompt_lookup_num_tokens=3)
    refused = r"keys=\[-3\] count from the end, and .* in chunks"  # by hand
    with pytest.raises(InterventionError, match=refused), mask_attention(model, keys=[-3]):
        gone_on(module)
    with mask_attention(model, keys=[2]):
        whole = module.generate(TOKENS[:1], **{**chunks, "prefill_chunk_size": None})
    with mask_attention(model, keys=[2]):
        assert torch.equal(module.generate(TOKENS[:1], **chunks), whole)
    assert_clean(model)


@torch.no_grad()
@pytest.mark.parametrize("what", ["mask_attention", *PARTS])
def test_numbers_in_padding_are_refused_past_the_surface(what: str) -> None:
    model = shared("Llama")
    module: Any = model.lens.original_model
    mask = torch.ones_like(TOKENS)
    mask[0, :2] = 0
    padded = {"attention_mask": mask}

    def edit(position: int) -> AbstractContextManager[Any]:
        if what == "mask_attention":
            return mask_attention(model, keys=[position])
        settings = {**PARTS[what], "positions": [position]}
        return (ablate if what == "ablate" else mask_residual)(model, **settings)

    config: dict[str, Any] = {"max_new_tokens": 2, "do_sample": False, **padded}
    calls: list[Callable[[], Any]] = [
        lambda: module(TOKENS, **padded),
        lambda: module(TOKENS, mask),
        lambda: module.base_model(TOKENS, **padded),
        lambda: model.lens(TOKENS, **padded),
        lambda: module.generate(TOKENS, **config),
    ]
    for call in calls:
        with pytest.raises(PositionError, match="position 0 of row 0 is padding"), edit(0):
            call()
        with edit(3):
            call()
    with edit(0):
        module(TOKENS)  # without padding
    assert_clean(model)


@pytest.mark.parametrize("none", [[], range(5, 2), torch.zeros_like(TOKENS, dtype=torch.bool)])
def test_no_position_at_all_is_said(none: Any) -> None:
    model = shared("GPT-2")
    blocks = [
        ablate(model, heads=[0], positions=none),
        mask_residual(model, positions=none),
        mask_attention(model, keys=none),
        mask_attention(model, queries=none),
    ]
    for block in blocks:
        with pytest.warns(UserWarning, match="name no position, so that nothing is edited"), block:
            model(TOKENS)
