"""The bridge adapter against the Hugging Face model it wraps, on random weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers

from interp_compose.errors import CapabilityError, LayerError, OptionError
from interp_compose.models.bridge import BridgeModel, _window, bridge_around
from interp_compose.models.lens_model import LensModel, Streams
from interp_compose.models.load import load_model
from tests import architectures
from tests.architectures import D_VOCAB, DECODERS, N_LAYERS

pytestmark = pytest.mark.tl3
TOKENS = torch.tensor([[5, 17, 3, 41, 29, 11, 7], [13, 2, 89, 23, 31, 3, 19]])


def make(name: str) -> LensModel:
    source: Any = architectures.build_native() if name == "native" else architectures.build(name)
    return load_model(source)


@pytest.fixture(scope="module", params=DECODERS)
def model(request: pytest.FixtureRequest) -> LensModel:
    return make(request.param)


@pytest.mark.parametrize("name", [name for name in DECODERS if name != "native"])
def test_logits_are_hugging_face_own(name: str) -> None:
    reference = architectures.build(name)
    reference.set_attn_implementation("eager")
    with torch.no_grad():
        expected = reference(TOKENS).logits
        found = make(name)(TOKENS)
    assert found.shape == (2, 7, D_VOCAB)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_padding_on_either_side_changes_nothing(model: LensModel) -> None:
    expected = model(TOKENS)
    junk = torch.full((2, 3), 71)
    mask = torch.ones(2, 10, dtype=torch.long)
    left, right = mask.clone(), mask.clone()
    left[:, :3], right[:, 7:] = 0, 0
    on_left = model(torch.cat([junk, TOKENS], 1), attention_mask=left)
    on_right = model(torch.cat([TOKENS, junk], 1), attention_mask=right)
    torch.testing.assert_close(on_left[:, 3:], expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(on_right[:, :7], expected, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_read_last_is_the_last_position(model: LensModel) -> None:
    last = model.forward(TOKENS, read="last")
    assert last.shape == (2, 1, D_VOCAB)
    torch.testing.assert_close(last, model(TOKENS)[:, -1:], atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_resuming_anywhere_reproduces_the_forward_pass(model: LensModel) -> None:
    names = [f"blocks.{k}.hook_resid_pre" for k in range(N_LAYERS)]
    logits, resid = model.capture(TOKENS, names)
    mask = torch.ones_like(TOKENS)
    positions = torch.arange(7).expand(2, -1)
    for layer in range(N_LAYERS):
        own = model.resid_pre(TOKENS, layer, attention_mask=mask)
        assert torch.equal(own, resid[names[layer]])
        again = model.resume(
            resid[names[layer]],
            layer,
            attention_mask=mask,
            position_ids=positions,
            read="logits",
        )
        assert torch.equal(again, logits)
        for stop in range(layer + 1, N_LAYERS):
            walked = model.run_blocks(
                resid[names[layer]], layer, stop, attention_mask=mask, position_ids=positions
            )
            assert torch.equal(walked, resid[names[stop]])


@torch.no_grad()
def test_unembedding_the_last_residual_gives_the_logits(model: LensModel) -> None:
    name = f"blocks.{N_LAYERS - 1}.hook_resid_post"
    logits, resid = model.capture(TOKENS, [name])
    torch.testing.assert_close(model.unembed(resid[name]), logits, atol=1e-6, rtol=1e-6)


def test_captured_activations_carry_gradients_on_request(model: LensModel) -> None:
    name = "blocks.1.hook_resid_pre"
    _, resid = model.capture(TOKENS, [name], grad=True)
    resid[name].square().sum().backward()
    embedding = next(p for p in model.parameters() if p.shape[0] == D_VOCAB)
    assert embedding.grad is not None
    assert embedding.grad.abs().sum() > 0
    for parameter in model.parameters():
        parameter.grad = None
    logits, resid = model.capture(TOKENS, [name])
    assert not resid[name].requires_grad
    assert not logits.requires_grad


def test_weights_by_the_fields_names(model: LensModel) -> None:
    d_head = model.weight("W_Q").shape[-1]
    assert model.weight("W_E").shape == (D_VOCAB, model.d_model)
    assert model.weight("W_U").shape == (model.d_model, D_VOCAB)
    assert model.weight("W_Q").shape == (N_LAYERS, model.n_heads, model.d_model, d_head)
    assert model.weight("W_O").shape == (N_LAYERS, model.n_heads, d_head, model.d_model)
    assert model.weight("W_in").shape == (N_LAYERS, model.d_model, 53)
    with pytest.raises(OptionError, match="unknown weight 'W_quux'.*W_Q"):
        model.weight("W_quux")


def test_weights_are_raw() -> None:
    reference = architectures.build("Llama")
    model = make("Llama")
    q_proj = reference.model.layers[1].self_attn.q_proj.weight  # [n_heads·d_head, d_model]
    expected = q_proj.reshape(4, 10, 40).transpose(1, 2)
    assert torch.equal(model.weight("W_Q")[1], expected)


def test_layers_outside_the_model_are_refused(model: LensModel) -> None:
    resid = torch.zeros(2, 7, model.d_model)
    mask = torch.ones_like(TOKENS)
    for layer in (-1, N_LAYERS):
        with pytest.raises(LayerError, match=rf"layer {layer} is outside .* 0…2"):
            model.resume(resid, layer, attention_mask=mask, position_ids=mask)
    with pytest.raises(LayerError, match=r"0 <= start < stop < 3"):
        model.run_blocks(resid, 1, N_LAYERS, attention_mask=mask, position_ids=mask)


def test_train_and_eval(model: LensModel) -> None:
    assert not model.training
    assert model.train().training
    assert not model.eval().training


def test_every_decoder_proves_what_cap_needs(model: LensModel) -> None:
    refused = {name for name, probe in model.capabilities.probes.items() if not probe.held}
    native = model.architecture == "TransformerLensNative"
    assert refused <= ({"edit_scores", "edit_pattern"} if native else set())
    model.require("resume", "positions", "unembed", "edit_resid")
    with pytest.raises(OptionError, match="unknown capability 'levitate'"):
        model.require("levitate")


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("BLOOM", {"positions"}),
        ("OPT", {"edit_pattern", "edit_scores"}),
        ("GPT-J", {"edit_pattern", "edit_scores"}),
        ("BERT", {"edit_pattern", "edit_scores", "drop_parts"}),
        pytest.param(
            "RoBERTa", {"edit_pattern", "edit_scores", "drop_parts"}, marks=architectures.needs_tl4
        ),
    ],
)
def test_what_a_model_ignores_is_refused_by_name(name: str, refused: set[str]) -> None:
    model = make(name)
    assert {key for key, probe in model.capabilities.probes.items() if not probe.held} == refused
    with pytest.raises(CapabilityError, match=f"{model.architecture}.*What works instead"):
        model.require(*refused)


def test_an_architecture_unknown_to_the_bridge_is_refused_by_name() -> None:
    with pytest.raises(CapabilityError, match="how to wrap a DistilBertForMaskedLM"):
        make("DistilBERT")


def test_a_block_that_is_replaced_comes_back_after_an_exception() -> None:
    model = make("GPT-2")
    assert isinstance(model, BridgeModel)
    resid, mask = (
        torch.zeros(1, 3, 7),
        torch.ones(1, 3).long(),
    )  # resid is not d_model wide: the forward pass raises
    before = [type(block).forward for block in model.lens.blocks]
    with pytest.raises(RuntimeError):
        model._resume(Streams(resid, mask, torch.zeros_like(mask)), 2, read="last")
    assert all("forward" not in vars(block) for block in model.lens.blocks)
    assert [type(block).forward for block in model.lens.blocks] == before


def test_a_window_of_local_attention_is_known() -> None:
    assert make("Gemma 2").window == 23
    assert make("GPT-2").window is None
    assert make("Qwen2").window is None
    neo = transformers.GPTNeoConfig(
        vocab_size=D_VOCAB,
        hidden_size=40,
        num_layers=2,
        num_heads=4,
        attention_types=[[["global", "local"], 1]],
        window_size=8,
        max_position_embeddings=61,
    )
    assert _window(neo) == 8
    neo = transformers.GPTNeoConfig(num_layers=2, attention_types=[[["global"], 2]])
    assert _window(neo) is None
    llama4 = transformers.Llama4TextConfig(attention_chunk_size=8)
    assert _window(llama4) == 8


def test_wrapping_keeps_the_objects_own_mode() -> None:
    reference = architectures.build("GPT-2").train()
    assert BridgeModel(bridge_around(reference), name="x", tokenizer=None).training
