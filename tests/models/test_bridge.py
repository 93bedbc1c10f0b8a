"""The bridge adapter against the Hugging Face model it wraps, on random weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

from interp_compose.errors import CapabilityError, NonFiniteError, OptionError
from interp_compose.models.base import Streams
from interp_compose.models.bridge import (
    BridgeModel,
    TransformerBridge,
    _window,
    bridge_around,
    bridge_with_tokenizer,
)
from interp_compose.models.capabilities import MEANING
from interp_compose.models.lens_model import LensModel
from interp_compose.models.prefix import Prefix
from tests import architectures
from tests.architectures import D_VOCAB, DECODERS, load as make

pytestmark = pytest.mark.tl3
TOKENS = torch.tensor([[5, 17, 3, 41, 29, 11, 7], [13, 2, 89, 23, 31, 3, 19]])


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


def test_weights_are_raw() -> None:
    reference = architectures.build("Llama")
    model = make("Llama")
    q_proj = reference.model.layers[1].self_attn.q_proj.weight  # [n_heads·d_head, d_model]
    expected = q_proj.reshape(4, 10, 40).transpose(1, 2)
    assert torch.equal(model.weight("W_Q")[1], expected)


def test_every_decoder_proves_what_cap_needs(model: LensModel) -> None:
    refused = {name for name, probe in model.capabilities.probes.items() if not probe.held}
    native = model.architecture == "TransformerLensNative"
    assert refused <= ({"edit_scores", "edit_pattern", "prefix"} if native else set())
    model.require("resume", "positions", "unembed", "edit_resid")
    with pytest.raises(OptionError, match="unknown capability 'levitate'"):
        model.require("levitate")
    with pytest.raises(OptionError, match="unknown capability 'levitate'"):
        _ = model.capabilities["levitate"]


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("BLOOM", {"positions"}),
        ("OPT", {"edit_pattern", "edit_scores"}),
        ("GPT-J", {"edit_pattern", "edit_scores"}),
        ("BERT", {"causal", "edit_pattern", "edit_scores", "drop_parts", "prefix"}),
        pytest.param(
            "RoBERTa",
            {"causal", "edit_pattern", "edit_scores", "drop_parts", "prefix"},
            marks=architectures.needs_tl4,
        ),
    ],
)
def test_what_a_model_ignores_is_refused_by_name(name: str, refused: set[str]) -> None:
    model = make(name)
    assert {key for key, probe in model.capabilities.probes.items() if not probe.held} == refused
    with pytest.raises(CapabilityError, match=f"{model.architecture}.*What works instead"):
        model.require(*refused)


def test_a_capability_is_proven_when_it_is_first_needed_and_once() -> None:
    model, twin = make("GPT-2"), make("GPT-2")
    calls: list[object] = []
    for one in (model, twin):
        one.blocks[0].register_forward_hook(lambda *args: calls.append(args[0]))
    found = model.capabilities.found
    assert not found
    model.require("edit_z")
    assert set(found) == {"forward", "edit_z"}
    model.require("resume")  # with what it is proven together with
    assert set(found) == {"forward", "edit_z", "resume", "positions", "prefix"}
    n_calls = len(calls)
    model.require("positions", "edit_z", "forward")
    assert model.capabilities["prefix"].held
    assert len(calls) == n_calls
    # A model that takes over what was found proves the rest, for both.
    twin.proofs.take_over(model.capabilities)
    twin.require("positions")
    assert len(calls) == n_calls
    twin.require("edit_post")
    assert {*calls[n_calls:]} == {twin.blocks[0]}
    assert model.capabilities.found["edit_post"].held
    assert model.capabilities.probes.keys() == MEANING.keys()
    assert model.capabilities == make("GPT-2").capabilities


def test_a_model_that_breaks_later_is_refused_by_what_was_not_proven() -> None:
    model = make("GPT-2")
    model.require("resume")
    with torch.no_grad():
        next(iter(model.parameters())).fill_(float("nan"))
    model.require("resume")
    with pytest.raises(NonFiniteError, match="its weights are broken"):
        model.require("edit_z")
    assert "edit_z" not in model.capabilities.found


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


def test_loading_installs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """transformer-lens 4 would run pip where a processor needs torchvision."""
    name = "transformer_lens.model_bridge.sources.transformers.helpers"
    helpers = pytest.importorskip(name)
    if not hasattr(helpers, "_ensure_torchvision"):
        pytest.skip("this transformer-lens installs nothing")
    before, answers = helpers._ensure_torchvision, []

    def boot(*_: Any, **__: Any) -> Any:
        answers.append(helpers._ensure_torchvision())
        raise ValueError("enough")

    monkeypatch.setattr(TransformerBridge, "boot_transformers", boot)
    monkeypatch.setattr("subprocess.check_call", pytest.fail)
    with pytest.raises(CapabilityError, match="enough"):
        bridge_with_tokenizer("a folder", architectures.build("GPT-2"))
    assert answers == [False]
    assert helpers._ensure_torchvision is before


# ---- the end of the last block, at the positions that are read -------------------------------


@torch.no_grad()
def read_on(model: LensModel, layer: int, read: Any) -> tuple[torch.Tensor, int]:
    """What is read of streams that go on from a prefix, and operations of the call."""
    mask, name = torch.ones_like(TOKENS), f"blocks.{layer}.hook_resid_pre"
    with model.keeping() as kept:
        _, resid = model.capture(TOKENS, [name], attention_mask=mask)
    prefix = Prefix(kept(), torch.arange(2), 0, mask[:, :3])
    places: Any = {
        "attention_mask": mask[:, 3:],
        "position_ids": model.positions(TOKENS, mask)[:, 3:],
    }
    with FlopCounterMode(display=False) as counter:
        found = model.resume(1.5 * resid[name][:, 3:], layer, **places, read=read, prefix=prefix)
    return found, counter.get_total_flops()


def test_the_end_of_the_last_block_is_run_where_it_is_read(
    model: LensModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not model.capabilities["prefix"].held:
        assert not model.capabilities["prefix"].short_end
        return
    assert model.capabilities["prefix"].short_end
    for layer in (0, model.n_layers - 1):
        for read in ("last", 2, "logits", "hidden"):
            found, operations = read_on(model, layer, read)
            with monkeypatch.context() as patch:
                patch.setattr(BridgeModel, "_ends_short", False)
                whole, of_whole = read_on(model, layer, read)
            assert (operations < of_whole) is (read in ("last", 2))
            assert found.shape == whole.shape
            torch.testing.assert_close(found, whole, atol=2e-5, rtol=2e-5)
    # Under a hook, which would miss what is not run, all is run.
    seen: list[torch.Size] = []
    last = f"blocks.{model.n_layers - 1}.hook_mlp_out"
    with model.open_blocks.hooked([(last, lambda out, hook: seen.append(out.shape))]):
        read_on(model, 0, "last")
    assert seen[-1][1] == 4


def test_a_block_that_cannot_end_short_is_run_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make("Llama")
    mlp = model.lens.blocks[-1].mlp
    forward = mlp.forward

    def several(resid: torch.Tensor) -> Any:
        if resid.shape[1] == 1:
            raise RuntimeError("one position is no sequence")
        return forward(resid)

    object.__setattr__(mlp, "forward", several)
    probe = model.capabilities["prefix"]
    assert (probe.held, probe.short_end) == (True, False)
    found, _ = read_on(model, 1, "last")
    torch.testing.assert_close(found, read_on(make("Llama"), 1, "last")[0], atol=2e-5, rtol=2e-5)
    assert vars(mlp)["forward"] is several
