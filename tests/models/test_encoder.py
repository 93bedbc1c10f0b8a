"""Encoders against a Hugging Face copy that was never wrapped: every test builds it anew."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from interp_compose.errors import CapabilityError, InterventionError, LayerError
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from tests import architectures
from tests.architectures import D_VOCAB, N_CTX, N_LAYERS

pytestmark = pytest.mark.tl3

# Two rows of seven tokens; id 0 is the pad id of both shapes and is in neither.
TOKENS = torch.tensor([[5, 17, 3, 41, 29, 11, 7], [13, 2, 89, 23, 31, 3, 19]])
MASK = torch.ones_like(TOKENS)
POSITIONS = torch.arange(7).expand(2, -1)
RESID_PRE = [f"blocks.{k}.hook_resid_pre" for k in range(N_LAYERS)]
D_MODEL = 40

# How many places of padding stand before and after each row.
PADDING = {"left": [(3, 0), (3, 0)], "right": [(0, 3), (0, 3)], "both": [(3, 0), (1, 2)]}


def source(name: str, *, head: bool = True) -> Any:
    """The masked-LM class, or the encoder alone."""
    model = architectures.build(name)
    return model if head else model.base_model


def roberta(pad_id: int | None) -> Any:
    shape = {**architectures._SHAPE, "pad_token_id": pad_id}
    torch.manual_seed(0)
    return transformers.RobertaForMaskedLM(transformers.RobertaConfig(**shape)).eval()


def padded(sides: str, filler: Tensor) -> tuple[Tensor, Tensor]:
    """TOKENS among padding whose ids come from ``filler`` ``[2, 10]``, and the mask."""
    tokens, mask = filler.clone(), torch.zeros_like(filler)
    for row, (before, after) in enumerate(PADDING[sides]):
        at = slice(before, tokens.shape[1] - after)
        tokens[row, at], mask[row, at] = TOKENS[row], 1
    return tokens, mask


def junk(seed: int) -> Tensor:
    return torch.randint(0, D_VOCAB, (2, 10), generator=torch.Generator().manual_seed(seed))


@pytest.fixture(
    scope="module",
    params=["BERT", pytest.param("RoBERTa", marks=architectures.needs_tl4)],
)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def model(name: str) -> LensModel:
    return load_model(source(name))


@pytest.fixture(scope="module")
def headless(name: str) -> LensModel:
    return load_model(source(name, head=False))


# ---- the forward pass ---------------------------------------------------------------------


@pytest.mark.parametrize("head", [True, False])
@torch.no_grad()
def test_the_hidden_state_is_hugging_face_own(name: str, head: bool) -> None:
    expected = source(name, head=False)(TOKENS).last_hidden_state
    model = load_model(source(name, head=head))
    found = model.encode(TOKENS)
    assert found.shape == (2, 7, D_MODEL)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(model.plain_hidden(TOKENS), expected, atol=1e-5, rtol=1e-5)
    assert torch.equal(model.forward(TOKENS, read="hidden"), found)
    assert model.bidirectional


@pytest.mark.parametrize("sides", PADDING)
@torch.no_grad()
def test_padded_rows_are_the_rows_alone(
    name: str, model: LensModel, headless: LensModel, sides: str
) -> None:
    expected = source(name, head=False)(TOKENS).last_hidden_state
    for filler in (torch.zeros(2, 10, dtype=torch.long), junk(1)):  # 0 is RoBERTa's own pad id
        tokens, mask = padded(sides, filler)
        for wrapped in (model, headless):
            found = wrapped.encode(tokens, attention_mask=mask)[mask.bool()]
            torch.testing.assert_close(found.view(2, 7, -1), expected, atol=1e-5, rtol=1e-5)


@architectures.needs_tl4
@pytest.mark.parametrize("sides", PADDING)
@torch.no_grad()
def test_padding_with_its_own_id_is_what_hugging_face_makes_of_it(sides: str) -> None:
    """RoBERTa counts positions from token ids, so that its own padded call is a reference too."""
    tokens, mask = padded(sides, torch.zeros(2, 10, dtype=torch.long))
    expected = source("RoBERTa", head=False)(tokens, attention_mask=mask).last_hidden_state
    model = load_model(source("RoBERTa"))
    assert model.pad_id == 0
    found = model.encode(tokens, attention_mask=mask)
    torch.testing.assert_close(found[mask.bool()], expected[mask.bool()], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("sides", PADDING)
@torch.no_grad()
def test_masked_positions_have_no_influence_at_all(model: LensModel, sides: str) -> None:
    tokens, mask = padded(sides, junk(1))
    others, _ = padded(sides, junk(2))
    assert not torch.equal(tokens, others)
    one, other = (model.encode(ids, attention_mask=mask) for ids in (tokens, others))
    assert not torch.equal(one, other)  # padding positions do differ
    assert torch.equal(one[mask.bool()], other[mask.bool()])
    one, other = (model(ids, attention_mask=mask) for ids in (tokens, others))
    assert torch.equal(one[mask.bool()], other[mask.bool()])


@pytest.mark.parametrize("sides", PADDING)
@torch.no_grad()
def test_logits_are_hugging_face_own(name: str, model: LensModel, sides: str) -> None:
    expected = source(name)(TOKENS).logits
    torch.testing.assert_close(model(TOKENS), expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(model.plain(TOKENS), expected, atol=1e-5, rtol=1e-5)
    last = model.forward(TOKENS, read="last")
    torch.testing.assert_close(last, expected[:, -1:], atol=1e-5, rtol=1e-5)
    tokens, mask = padded(sides, junk(1))
    found = model(tokens, attention_mask=mask)
    assert found.shape == (2, 10, D_VOCAB)
    torch.testing.assert_close(found[mask.bool()].view(2, 7, -1), expected, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_the_head_reads_the_last_hidden_state(model: LensModel) -> None:
    hidden = model.encode(TOKENS)
    torch.testing.assert_close(model.unembed(hidden), model(TOKENS), atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_without_a_head_there_are_no_logits(headless: LensModel) -> None:
    hidden = headless.encode(TOKENS)

    def resume(read: Any) -> Tensor:
        return headless.resume(hidden, 0, attention_mask=MASK, position_ids=POSITIONS, read=read)

    assert resume("hidden").shape == hidden.shape
    for call in (
        lambda: headless(TOKENS),
        lambda: headless.forward(TOKENS, read="last"),
        lambda: headless.plain(TOKENS),
        lambda: headless.unembed(hidden),
        lambda: resume("last"),
        lambda: resume("logits"),
    ):
        with pytest.raises(
            CapabilityError, match=rf"\({headless.architecture}\) came without a masked-LM head.*en"
        ):
            call()
    assert headless.architecture in {"BertModel", "RobertaModel"}


@torch.no_grad()
def test_earlier_tokens_attend_to_later_ones(model: LensModel) -> None:
    other = TOKENS.clone()
    other[:, -1] = 53
    moved = (model.encode(TOKENS)[:, 0] - model.encode(other)[:, 0]).abs().amax(dim=1)
    assert bool((moved > 1e-3).all())


@torch.no_grad()
def test_a_batch_of_one_equals_a_batch_of_many(model: LensModel) -> None:
    tokens, mask = padded("both", junk(1))
    together = model.encode(tokens, attention_mask=mask)
    for row in range(2):
        alone = model.encode(tokens[row : row + 1], attention_mask=mask[row : row + 1])
        real = mask[row].bool()
        torch.testing.assert_close(alone[0, real], together[row, real], atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_bert_reads_as_many_tokens_as_it_has_positions() -> None:
    assert load_model(source("BERT")).n_ctx == N_CTX


@architectures.needs_tl4
@pytest.mark.parametrize("pad_id", [0, 1, 5])
@torch.no_grad()
def test_roberta_reads_as_many_tokens_as_are_left_above_its_pad_id(pad_id: int) -> None:
    """Its table of positions begins with the pad id's row and those below, which no token reads."""

    model = load_model(roberta(pad_id))
    assert model.n_ctx == N_CTX - pad_id - 1
    tokens = torch.randint(7, D_VOCAB, (1, model.n_ctx))
    expected = roberta(pad_id).base_model(tokens).last_hidden_state
    torch.testing.assert_close(model.encode(tokens), expected, atol=1e-5, rtol=1e-5)


@architectures.needs_tl4
@pytest.mark.parametrize("pad_id", [0, 1, 5])
@torch.no_grad()
def test_roberta_counts_positions_above_any_pad_id(pad_id: int) -> None:
    model = load_model(roberta(pad_id))
    real = torch.tensor([[9, 17, 13, 41], [23, 61, 7, 31]])
    expected = roberta(pad_id)(real, output_hidden_states=True)
    tokens, mask = torch.full((2, 6), pad_id), torch.zeros(2, 6, dtype=torch.long)
    tokens[:, 2:], mask[:, 2:] = real, 1
    found = model.encode(tokens, attention_mask=mask)[:, 2:]
    torch.testing.assert_close(found, expected.hidden_states[-1], atol=1e-5, rtol=1e-5)
    found = model(tokens, attention_mask=mask)[:, 2:]
    torch.testing.assert_close(found, expected.logits, atol=1e-5, rtol=1e-5)
    model.require("forward", "hidden")


@architectures.needs_tl4
def test_roberta_without_a_pad_id_is_refused() -> None:
    with pytest.raises(CapabilityError, match="pad"):
        load_model(roberta(None))


# ---- resuming and hooks -------------------------------------------------------------------


@pytest.mark.parametrize("sides", ["none", *PADDING])
@torch.no_grad()
def test_every_chain_of_blocks_is_the_full_pass_bit_for_bit(model: LensModel, sides: str) -> None:
    tokens, mask = (TOKENS, MASK) if sides == "none" else padded(sides, junk(1))
    positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
    hidden, resid = model.capture(tokens, RESID_PRE, attention_mask=mask, read="hidden")
    logits = model(tokens, attention_mask=mask)
    given = {"attention_mask": mask, "position_ids": positions}
    for layer in range(N_LAYERS):
        entering = resid[RESID_PRE[layer]]
        assert torch.equal(model.resid_pre(tokens, layer, attention_mask=mask), entering)
        assert torch.equal(model.resume(entering, layer, **given, read="hidden"), hidden)
        again = model.resume(entering, layer, **given, read="logits")
        torch.testing.assert_close(again[mask.bool()], logits[mask.bool()], atol=1e-5, rtol=1e-5)
        last = model.resume(entering, layer, **given)
        torch.testing.assert_close(last, again[:, -1:], atol=1e-5, rtol=1e-5)
        for stop in range(layer + 1, N_LAYERS):
            walked = model.run_blocks(entering, layer, stop, **given)
            assert torch.equal(walked, resid[RESID_PRE[stop]])


@torch.no_grad()
def test_residuals_are_hugging_face_hidden_states(name: str, model: LensModel) -> None:
    expected = source(name, head=False)(TOKENS, output_hidden_states=True).hidden_states
    for layer in range(N_LAYERS):
        found = model.resid_pre(TOKENS, layer, attention_mask=MASK)
        torch.testing.assert_close(found, expected[layer], atol=1e-5, rtol=1e-5)
    with pytest.raises(LayerError, match=f"layer {N_LAYERS} is outside"):
        model.resid_pre(TOKENS, N_LAYERS, attention_mask=MASK)


@torch.no_grad()
def test_identity_hooks_change_no_bit(headless: LensModel) -> None:
    clean = headless.encode(TOKENS)
    hooks: Any = [(hook, lambda activation, hook: activation.clone()) for hook in RESID_PRE]
    assert torch.equal(headless.run_with_hooks(TOKENS, hooks, read="hidden"), clean)


@pytest.mark.parametrize("layer", range(N_LAYERS))
@torch.no_grad()
def test_a_hook_acts_once_along_a_chain(headless: LensModel, layer: int) -> None:
    count = dict.fromkeys(RESID_PRE, 0)
    noise = torch.randn(2, 7, D_MODEL, generator=torch.Generator().manual_seed(5))

    def disturb(resid: Tensor, hook: Any) -> Tensor:
        return resid + noise

    def counting(where: str) -> Any:
        def look(resid: Tensor, hook: Any) -> None:
            count[where] += 1

        return look

    hooks: Any = [(RESID_PRE[layer], disturb), *((where, counting(where)) for where in RESID_PRE)]
    clean = headless.encode(TOKENS)
    full = headless.run_with_hooks(TOKENS, hooks, read="hidden")
    assert not torch.equal(full, clean)
    given = {"attention_mask": MASK, "position_ids": POSITIONS}
    for start in range(N_LAYERS):
        for stop in range(start, N_LAYERS):
            count.update(dict.fromkeys(RESID_PRE, 0))
            with headless.hooks(hooks):
                resid = headless.resid_pre(TOKENS, start, attention_mask=MASK)
                if stop > start:
                    resid = headless.run_blocks(resid, start, stop, **given)
                out = headless.resume(resid, stop, **given, read="hidden")
            assert torch.equal(out, full)
            assert set(count.values()) == {1}
    assert torch.equal(headless.encode(TOKENS), clean)


@torch.no_grad()
def test_hooks_are_gone_after_an_exception_and_after_nesting(headless: LensModel) -> None:
    clean = headless.encode(TOKENS)
    before = {name: len(point._forward_hooks) for name, point in headless.lens.hook_dict.items()}
    noise = torch.randn(2, 7, D_MODEL, generator=torch.Generator().manual_seed(5))
    hooks: Any = [(RESID_PRE[1], lambda resid, hook: resid + noise)]
    with pytest.raises(ZeroDivisionError), headless.hooks(hooks):
        raise ZeroDivisionError
    assert torch.equal(headless.encode(TOKENS), clean)
    with headless.hooks(hooks):
        with headless.hooks(hooks):
            twice = headless.encode(TOKENS)
        once = headless.encode(TOKENS)
    assert not torch.equal(twice, once)
    assert not torch.equal(once, clean)
    assert torch.equal(headless.encode(TOKENS), clean)
    assert before == {
        name: len(point._forward_hooks) for name, point in headless.lens.hook_dict.items()
    }


@pytest.mark.parametrize("hook", ["attn.hook_pattern", "attn.hook_attn_scores"])
@torch.no_grad()
def test_edits_of_attention_are_refused_by_name(model: LensModel, hook: str) -> None:
    edit: Any = [(f"blocks.1.{hook}", lambda activation, hook: torch.rand_like(activation))]
    for read in ("logits", "hidden"):
        with pytest.raises((CapabilityError, InterventionError), match=model.architecture):
            model.run_with_hooks(TOKENS, edit, read=read)  # type: ignore[arg-type]


@torch.no_grad()
def test_attention_that_is_looked_at_runs_both_ways_and_past_padding(model: LensModel) -> None:
    tokens, mask = padded("left", junk(1))
    names = [f"blocks.{k}.attn.hook_pattern" for k in range(N_LAYERS)]
    _, seen = model.capture(tokens, names, attention_mask=mask, read="hidden")
    for pattern in seen.values():  # [batch head query key]
        assert bool((pattern[..., :3] == 0).all())
        assert bool((pattern[..., 3:, 3:] > 0).all())


def test_gradients_reach_the_residuals(headless: LensModel) -> None:
    hidden, seen = headless.capture(TOKENS, RESID_PRE, grad=True, read="hidden")
    (gradient,) = torch.autograd.grad(hidden[:, 0, 0].sum(), seen[RESID_PRE[0]])
    assert bool((gradient.abs().amax(dim=(0, 2)) > 0).all())  # the last token's too


# ---- proofs -------------------------------------------------------------------------------


def test_the_probes_hold(model: LensModel, headless: LensModel) -> None:
    for wrapped in (model, headless):
        wrapped.require("forward", "resume", "positions", "hidden", "edit_resid")
    model.require("unembed")
    with pytest.raises(CapabilityError, match="came without a masked-LM head"):
        headless.require("unembed")


REFUSED = "gives other numbers than its own forward pass|cannot do 'forward'"


@pytest.mark.parametrize("layer", [0, N_LAYERS - 1])
def test_attention_that_ignores_its_mask_is_refused(name: str, layer: int) -> None:
    block = (encoder := source(name, head=False)).encoder.layer[layer]
    own = block.forward

    def forward(
        hidden: Tensor, attention_mask: Tensor | None = None, *args: Any, **rest: Any
    ) -> Any:
        return own(hidden, None, *args, **rest)

    block.forward = forward
    with pytest.raises(CapabilityError, match=REFUSED):
        load_model(encoder).require("hidden")


@pytest.mark.parametrize("layer", [0, N_LAYERS - 1])
def test_a_causal_shortcut_is_refused(name: str, layer: int) -> None:
    """The model's own call is bidirectional; its blocks, called with a mask, are causal."""
    block = (encoder := source(name, head=False)).encoder.layer[layer]
    own = block.forward

    def forward(
        hidden: Tensor, attention_mask: Tensor | None = None, *args: Any, **rest: Any
    ) -> Any:
        if attention_mask is not None:
            n = hidden.shape[1]
            future = torch.full((n, n), torch.finfo(hidden.dtype).min).triu(1)
            attention_mask = torch.minimum(attention_mask, future)
        return own(hidden, attention_mask, *args, **rest)

    block.forward = forward
    with pytest.raises(CapabilityError, match=REFUSED):
        load_model(encoder).require("hidden")
