"""What a loaded model promises, whichever adapter is behind it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from interp_compose.errors import LayerError, OptionError
from interp_compose.models.lens_model import LensModel
from interp_compose.tensors import positions_from_mask
from tests.architectures import D_VOCAB, N_LAYERS
from tests.interventions.shared import params, shared

pytestmark = pytest.mark.tl3

TOKENS = torch.tensor([[5, 17, 3, 41, 29, 11, 7], [13, 2, 89, 23, 31, 3, 19]])
RESID_PRE = [f"blocks.{k}.hook_resid_pre" for k in range(N_LAYERS)]
PADDING = {
    "none": [(0, 0), (0, 0)],
    "left": [(3, 0), (3, 0)],
    "right": [(0, 3), (0, 3)],
    "both": [(3, 0), (1, 2)],
}
"""How many positions of padding are before and after each row."""


ADAPTERS = ("GPT-2", "Gemma 2", "native", "BERT", "RoBERTa", "small, pre", "small, post")


@pytest.fixture(scope="module", params=params(*ADAPTERS, "HookedTransformer"))
def model(request: pytest.FixtureRequest) -> LensModel:
    return shared(request.param)


def padded(sides: str, seed: int = 1) -> tuple[Tensor, Tensor]:
    """TOKENS among padding of random ids, and the mask."""
    width = 7 + sum(PADDING[sides][0])
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, D_VOCAB, (2, width), generator=generator)
    mask = torch.zeros_like(tokens)
    for row, (before, after) in enumerate(PADDING[sides]):
        columns = slice(before, width - after)
        tokens[row, columns], mask[row, columns] = TOKENS[row], 1
    return tokens, mask


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("sides", ["left", "right", "both"])
@torch.no_grad()
def test_padding_changes_nothing_and_its_ids_not_a_bit(model: LensModel, sides: str) -> None:
    (tokens, mask), (others, _) = padded(sides), padded(sides, seed=2)
    real = mask.bool()
    for read in ("logits", "hidden"):
        alone = model.forward(TOKENS, read=read)
        found = model.forward(tokens, attention_mask=mask, read=read)[real]
        close(found.view_as(alone), alone)
        assert torch.equal(model.forward(others, attention_mask=mask, read=read)[real], found)


@torch.no_grad()
def test_what_a_call_reads(model: LensModel) -> None:
    logits, hidden = model(TOKENS), model.encode(TOKENS)
    assert logits.shape == (2, 7, D_VOCAB)
    assert hidden.shape == (2, 7, model.d_model)
    close(model.forward(TOKENS, read="last"), logits[:, -1:])
    close(model.plain(TOKENS), logits)
    close(model.plain_hidden(TOKENS), hidden)
    name = f"blocks.{N_LAYERS - 1}.hook_resid_post"
    _, found = model.capture(TOKENS, [name])
    close(model.unembed(found[name]), logits)


@pytest.mark.parametrize("sides", PADDING)
@torch.no_grad()
def test_every_chain_of_blocks_is_the_full_pass_bit_for_bit(model: LensModel, sides: str) -> None:
    tokens, mask = padded(sides)
    real, given = mask.bool(), {"attention_mask": mask, "position_ids": positions_from_mask(mask)}
    hidden, resid = model.capture(tokens, RESID_PRE, attention_mask=mask, read="hidden")
    logits = model(tokens, attention_mask=mask)
    for layer in range(N_LAYERS):
        entering = resid[RESID_PRE[layer]]
        found = model.resid_pre(tokens, layer, attention_mask=mask)
        assert torch.equal(found[real], entering[real])
        found = model.resume(entering, layer, **given, read="hidden")
        assert torch.equal(found[real], hidden[real])
        again = model.resume(entering, layer, **given, read="logits")
        close(again[real], logits[real])
        close(model.resume(entering, layer, **given), again[:, -1:])
        for stop in range(layer + 1, N_LAYERS):
            found = model.run_blocks(entering, layer, stop, **given)
            assert torch.equal(found[real], resid[RESID_PRE[stop]][real])


@pytest.mark.parametrize("layer", range(N_LAYERS))
@torch.no_grad()
def test_a_hook_acts_once_along_a_chain(model: LensModel, layer: int) -> None:
    calls: list[str] = []
    noise = torch.randn(2, 7, model.d_model, generator=torch.Generator().manual_seed(5))

    def disturb(resid: Tensor, hook: Any) -> Tensor:
        return resid + noise

    hooks: Any = [(RESID_PRE[layer], disturb)]
    hooks += [(name, lambda resid, hook, name=name: calls.append(name)) for name in RESID_PRE]
    clean = model.encode(TOKENS)
    expected = model.run_with_hooks(TOKENS, hooks, read="hidden")
    assert not torch.equal(expected, clean)
    mask = torch.ones_like(TOKENS)
    given = {"attention_mask": mask, "position_ids": positions_from_mask(mask)}
    for start in range(N_LAYERS):
        for stop in range(start, N_LAYERS):
            calls.clear()
            with model.hooks(hooks):
                resid = model.resid_pre(TOKENS, start, attention_mask=mask)
                if stop > start:
                    resid = model.run_blocks(resid, start, stop, **given)
                found = model.resume(resid, stop, **given, read="hidden")
            assert torch.equal(found, expected)
            assert calls == RESID_PRE
    assert torch.equal(model.encode(TOKENS), clean)


@torch.no_grad()
def test_identity_hooks_change_no_bit(model: LensModel) -> None:
    hooks: Any = [(name, lambda activation, hook: activation.clone()) for name in RESID_PRE]
    found = model.run_with_hooks(TOKENS, hooks, read="hidden")
    assert torch.equal(found, model.encode(TOKENS))


def test_captured_activations_carry_gradients_on_request(model: LensModel) -> None:
    hidden, seen = model.capture(TOKENS, RESID_PRE, grad=True, read="hidden")
    embedding = next(weight for weight in model.parameters() if weight.shape[0] == D_VOCAB)
    gradients = torch.autograd.grad(hidden[:, -1, 0].sum(), [*seen.values(), embedding])
    assert all(float(gradient.abs().sum()) > 0 for gradient in gradients)
    hidden, seen = model.capture(TOKENS, RESID_PRE, read="hidden")
    assert not any(tensor.requires_grad for tensor in (hidden, *seen.values()))


def test_weights_by_the_fields_names(model: LensModel) -> None:
    d_head = model.weight("W_Q").shape[-1]
    assert model.weight("W_E").shape == (D_VOCAB, model.d_model)
    assert model.weight("W_U").shape == (model.d_model, D_VOCAB)
    assert model.weight("W_Q").shape == (N_LAYERS, model.n_heads, model.d_model, d_head)
    assert model.weight("W_O").shape == (N_LAYERS, model.n_heads, d_head, model.d_model)
    assert model.weight("W_in").shape == (N_LAYERS, model.d_model, 53)
    with pytest.raises(OptionError, match="unknown weight 'W_quux'.*W_Q"):
        model.weight("W_quux")


@torch.no_grad()
def test_layers_count_from_the_end(model: LensModel) -> None:
    given = {"attention_mask": torch.ones_like(TOKENS), "position_ids": torch.arange(7)[None]}
    given["position_ids"] = given["position_ids"].expand_as(TOKENS)
    last = model.resid_pre(TOKENS, N_LAYERS - 1)
    assert torch.equal(model.resid_pre(TOKENS, -1), last)
    assert torch.equal(model.resume(last, -1, **given), model.resume(last, N_LAYERS - 1, **given))
    first = model.resid_pre(TOKENS, -N_LAYERS)
    assert torch.equal(model.run_blocks(first, -N_LAYERS, -1, **given), last)


def test_layers_outside_the_model_are_refused(model: LensModel) -> None:
    resid = torch.zeros(2, 7, model.d_model)
    mask = torch.ones_like(TOKENS)
    for layer in (-N_LAYERS - 1, N_LAYERS):
        outside = f"layer {layer} is outside the model: expected 0 … 2 .* -1 … -3 from the end"
        with pytest.raises(LayerError, match=outside):
            model.resume(resid, layer, attention_mask=mask, position_ids=mask)
        with pytest.raises(LayerError, match=outside):
            model.resid_pre(TOKENS, layer, attention_mask=mask)
    for start, stop in ((1, N_LAYERS), (1, 1), (-1, 1)):
        with pytest.raises(LayerError, match=f"from block {start} to block {stop}: .* at most 2"):
            model.run_blocks(resid, start, stop, attention_mask=mask, position_ids=mask)


def test_train_and_eval(model: LensModel) -> None:
    assert not model.training
    assert model.train().training
    assert not model.eval().training
