"""Encoder–decoders behind the one surface: joint sequences, residuals, hooks, loading, refusals."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from interp_compose.errors import (
    CapabilityError,
    CorruptFileError,
    InputError,
    InterventionError,
    PositionError,
    PromptError,
)
from interp_compose.models.bridge import bridge_around
from interp_compose.models.encoder_decoder import FIRST_TARGET_POSITION, EncoderDecoderModel
from interp_compose.models.load import load_model
from tests import architectures
from tests.interventions.shared import assert_clean
from tests.interventions.two_stacks import SOURCES, TARGETS, joined, pair
from tests.studies.test_two_stacks import tokenizer

FIRST = FIRST_TARGET_POSITION


def test_joint_tokens_masks_and_positions_by_hand() -> None:
    model = pair("Marian")[1]
    assert (model.d_vocab_source, model.d_vocab, model.n_ids) == (89, 97, 186)
    source, target = torch.tensor([[5, 6], [7, 8]]), torch.tensor([[96], [0]])
    source_mask = torch.tensor([[1, 1], [0, 1]])
    tokens, mask = model.join(source, target, source_mask)
    assert tokens.tolist() == [[5, 6, 185], [7, 8, 89]]
    assert mask.tolist() == [[1, 1, 1], [0, 1, 1]]
    positions = model.positions(tokens, mask)
    assert positions.tolist() == [[0, 1, FIRST], [0, 0, FIRST]]
    gaps = torch.tensor([[0, 3, FIRST + 2, FIRST + 5]])
    assert model.renumbered(gaps, torch.ones_like(gaps)).tolist() == [[0, 1, FIRST, FIRST + 1]]
    assert model.predicts(tokens).tolist() == [[False, False, True]] * 2
    moved = model.shifted(torch.tensor([[88, 89, 185]]), 1)
    assert moved.tolist() == [[0, 90, 89]]
    assert [model.prefix(layer) for layer in range(4)] == [
        *("encoder_blocks.0", "encoder_blocks.1", "decoder_blocks.0", "decoder_blocks.1")
    ]


@pytest.mark.parametrize(
    ("source", "target", "masks", "message"),
    [
        ([[89]], [[0]], (), r"source ids from 89 to 89: expected 0 to 88"),
        ([[5]], [[97]], (), r"target ids from 97 to 97: expected 0 to 96"),
        ([[5, 6]], [[3]], ([[0, 0]],), "row 0 has no source token"),
        ([[5, 6]], [[3]], ([[1, 2]],), "attention_mask holds 2"),
    ],
)
def test_what_cannot_be_joined_is_refused(
    source: Any, target: Any, masks: Any, message: str
) -> None:
    model = pair("Marian")[1]
    with pytest.raises(InputError, match=message):
        model.join(*map(torch.tensor, (source, target, *masks)))


def test_calls_that_are_no_joint_sequence_are_refused() -> None:
    model = pair("BART")[1]
    tokens, _ = model.join(torch.tensor([[5, 6]]), torch.tensor([[2]]))
    with pytest.raises(InputError, match="row 0 has no target token"):
        model(tokens[:, :2])
    with pytest.raises(InputError, match="row 0 has a source token after a target token"):
        model(tokens.flip(1))
    beyond = tokens.clone()
    beyond[0, -1] = 194
    with pytest.raises(InputError, match="token id 194: expected 0 to 193"):
        model(beyond)
    longest = torch.full((1, architectures.N_CTX + 1), 5)
    with pytest.raises(PromptError, match="62 source tokens, and .* reads 61"):
        model(model.join(longest, torch.tensor([[2]]))[0])
    resid = torch.zeros(1, 2, model.d_model)
    with pytest.raises(PositionError, match=r"position_ids hold 61: expected 0 to 60 for source"):
        model.resume(
            resid,
            0,
            attention_mask=torch.ones(1, 2).long(),
            position_ids=torch.tensor([[61, FIRST]]),
        )


EDITS = {"edit_pattern", "edit_scores", "prefix"}
NOT_HELD = {
    **dict.fromkeys(("T5", "mT5", "mBART", "Pegasus", "M2M100", "Blenderbot"), EDITS),
    **dict.fromkeys(("BART", "Marian"), EDITS | {"drop_parts"}),  # post-LN
    "T5Gemma": EDITS | {"drop_parts", "positions"},  # norms around each sublayer; rotary
}
"""Probes that fail, by architecture."""
REFUSED = {"BART, asymmetric", "Long T5", "Switch"}


@pytest.mark.parametrize("name", architectures.TWO_STACKS)
def test_what_an_encoder_decoder_ignores_is_refused_by_name(name: str) -> None:
    if name in REFUSED:
        with pytest.raises(CapabilityError, match="does not know how to wrap"):
            load_model(architectures.build(name))
        return
    model = pair(name)[1]
    failed = {key for key, probe in model.capabilities.probes.items() if not probe.held}
    assert failed == NOT_HELD[name]
    with pytest.raises(CapabilityError, match=f"{model.architecture}.*What works instead"):
        model.require(*failed)


@pytest.mark.parametrize("name", ["T5", "BART"])
@torch.no_grad()
def test_every_way_to_run_part_of_the_model_gives_the_same_bits(name: str) -> None:
    model = pair(name)[1]
    tokens, mask, _ = joined(model, "both")
    at, real = model.predicts(tokens) & mask.bool(), mask.bool()
    given = {"attention_mask": mask, "position_ids": model.positions(tokens, mask)}
    layers = range(model.n_layers)
    names = [f"blocks.{layer}.hook_resid_pre" for layer in layers]
    logits, resid = model.capture(tokens, names, attention_mask=mask)
    assert torch.equal(model(tokens, attention_mask=mask)[at], logits[at])
    hidden = model.encode(tokens, attention_mask=mask)
    for layer in layers:
        entering = model.resid_pre(tokens, layer, attention_mask=mask)
        assert torch.equal(entering[real], resid[names[layer]][real])
        assert torch.equal(model.resume(entering, layer, **given, read="logits")[at], logits[at])
        few = model.resume(entering, layer, **given, read=9)
        assert torch.equal(few.isnan().all(dim=2), ~at[:, -9:])
        torch.testing.assert_close(few[at[:, -9:]], logits[:, -9:][at[:, -9:]])
        if layer + 1 < model.n_layers:
            above = model.run_blocks(entering, layer, layer + 1, **given)
            assert torch.equal(above[real], resid[names[layer + 1]][real])
    assert torch.equal(model.resume(resid[names[1]], 1, **given, read="hidden")[real], hidden[real])
    # At source positions the encoder's output stays what it is.
    of_source = real & ~at
    for layer in list(model.stacks[1])[1:]:
        assert torch.equal(resid[names[layer]][of_source], hidden[of_source])


def test_gradients_are_hugging_faces() -> None:
    module, model = pair("T5")
    module, model = copy.deepcopy(module), load_model(copy.deepcopy(module))
    assert isinstance(model, EncoderDecoderModel)
    source, target = torch.tensor(SOURCES[:1]), torch.tensor(TARGETS[:1])
    module(input_ids=source, decoder_input_ids=target).logits.square().sum().backward()
    expected = {
        "encoder_blocks.0.attn.q": module.encoder.block[0].layer[0].SelfAttention.q.weight.grad,
        "decoder_blocks.2.cross_attn.v": module.decoder.block[2]
        .layer[1]
        .EncDecAttention.v.weight.grad,
        "embed": module.shared.weight.grad,
    }
    tokens, _ = model.join(source, target)
    for checkpointing in (False, True):
        model.lens.zero_grad()
        if checkpointing:
            with model.activation_checkpointing():
                logits = model(tokens)
        else:
            logits = model(tokens)
        logits[:, source.shape[1] :].square().sum().backward()
        for name, gradient in expected.items():
            part = model.lens.get_submodule(name)
            found = next(iter(part.parameters())).grad
            assert found is not None
            torch.testing.assert_close(found, gradient, atol=1e-4, rtol=1e-4)
    assert_clean(model)


@torch.no_grad()
def test_hooks_of_blocks_and_of_the_joint_residual_act_once() -> None:
    model = pair("T5")[1]
    tokens, mask, _ = joined(model, "left")
    at = model.predicts(tokens) & mask.bool()
    seen: list[tuple[str, list[int]]] = []

    def look(activation: Tensor, hook: Any) -> None:
        seen.append((hook.name, list(activation.shape[:2])))

    names = [
        *("encoder_blocks.1.hook_resid_pre", "blocks.1.hook_resid_pre", "blocks.1.hook_resid_post"),
        *("decoder_blocks.0.hook_resid_pre", "encoder_ln_final.hook_out", "unembed.hook_out"),
        *("blocks.4.hook_resid_post", "decoder_ln_final.hook_out"),
    ]
    hooks: Any = [(name, look) for name in names]
    model.run_with_hooks(tokens, hooks, attention_mask=mask)
    joint, own = [2, tokens.shape[1]], {"encoder": [2, 7], "decoder": [2, 6], "unembed": [2, 6]}
    assert len(seen) == len(names)
    for name, shape in seen:
        whose = name.replace(".", "_").split("_")[0]
        assert shape == (joint if whose == "blocks" else own[whose])

    def of_source(resid: Tensor, hook: Any) -> Tensor:
        return torch.where(model.predicts(tokens)[..., None], resid, resid * 1.5)

    def of_block(resid: Tensor, hook: Any) -> Tensor:
        return resid * 1.5

    outputs = []
    for name, edit in (("blocks.1", of_source), ("encoder_blocks.1", of_block)):
        hooks = [(f"{name}.hook_resid_pre", edit)]
        outputs.append(model.run_with_hooks(tokens, hooks, attention_mask=mask)[at])
    assert torch.equal(*outputs)
    assert not torch.equal(outputs[0], model(tokens, attention_mask=mask)[at])
    with model.hooks([("blocks.2.hook_resid_pre", look)]):
        assert model.active_hooks == ["blocks.2.hook_resid_pre"]
        model(tokens, attention_mask=mask)
    with (
        pytest.raises(InterventionError, match="never fired"),
        model.hooks([("blocks.2.hook_resid_pre", look)]),
    ):
        model.lens(torch.tensor([[5, 6]]), decoder_input_ids=torch.tensor([[2, 3]]))
    assert_clean(model)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    path = tmp_path_factory.mktemp("folders")
    for name in ("T5", "BART", "Marian", "mBART"):
        architectures.build(name).save_pretrained(path / name)
        tokenizer().save_pretrained(path / name)
    return {folder.name: folder for folder in path.iterdir()}


@pytest.fixture(scope="module")
def folder(folders: dict[str, Path]) -> Path:
    return folders["T5"]


@pytest.mark.parametrize("name", ["T5", "BART", "Marian", "mBART"])
@torch.no_grad()
def test_a_folder_loads_with_its_own_tokenizer_and_a_bridge_as_it_is(
    name: str, folders: dict[str, Path]
) -> None:
    model = load_model(folders[name], device="cpu")
    assert isinstance(model, EncoderDecoderModel)
    assert model.tokenizer("the sun")["input_ids"] == [4, 5, 2]  # no BOS, and </s> at the end
    module = architectures.build(name)
    source, target = torch.tensor(SOURCES[:1]), torch.tensor(TARGETS[:1])
    expected = module(input_ids=source, decoder_input_ids=target).logits
    tokens, _ = model.join(source, target)
    torch.testing.assert_close(model(tokens)[:, source.shape[1] :], expected)
    wrapped = load_model(bridge_around(module))
    torch.testing.assert_close(wrapped(tokens)[:, source.shape[1] :], expected)


def test_a_checkpoint_without_a_decoder_is_refused(folder: Path, tmp_path: Path) -> None:
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = tmp_path / "model.safetensors"
    kept = {name: one for name, one in load_file(weights).items() if "decoder" not in name}
    save_file(kept, weights, metadata={"format": "pt"})
    with pytest.raises(CorruptFileError, match=r"lack 'decoder\..*which would be random numbers"):
        load_model(tmp_path, device="cpu")
