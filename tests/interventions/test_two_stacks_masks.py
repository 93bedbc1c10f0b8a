"""Attention knockouts and ablations on encoder–decoders: effect, and absence of effect."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest
import torch
from torch import Tensor

from interp_compose.errors import InterventionError, LayerError, OptionError
from interp_compose.interventions.ablate import ablate
from interp_compose.interventions.ablation_sweep import AttentionKnockout
from interp_compose.interventions.leak import attention_leak
from interp_compose.interventions.mask_attention import Mode, mask_attention
from interp_compose.interventions.mask_residual import mask_residual
from tests.interventions.shared import assert_clean
from tests.interventions.two_stacks import SOURCES, TARGETS, in_place, joined, pair

WORD = (2, 3)  # source tokens of each row that are cut out
THREE = ("T5", "BART", "Marian")


def word_positions(tokens: Tensor, mask: Tensor, model: Any) -> Tensor:
    """The source tokens ``WORD`` of each row, wherever padding is."""
    of_source = mask.bool() & ~model.predicts(tokens)
    number = of_source.cumsum(dim=1) - 1
    return of_source & ((number == WORD[0]) | (number == WORD[1]))


def targets(model: Any, tokens: Tensor, mask: Tensor) -> Tensor:
    return model.predicts(tokens) & mask.bool()  # type: ignore[no-any-return]


def cross_attention(module: Any, layer: int, x: Tensor, memory: Tensor, mode: str) -> Tensor:
    """Of one row, in float64 by its definition; the keys ``WORD`` are cut in head 1 alone."""
    if hasattr(module, "shared"):  # T5
        block = module.decoder.block[layer].layer[1].EncDecAttention
        q, k, v, o, scale = block.q, block.k, block.v, block.o, 1.0
    else:
        block = module.model.decoder.layers[layer].encoder_attn
        q, k, v, o = block.q_proj, block.k_proj, block.v_proj, block.out_proj
        scale = (x.shape[-1] // 4) ** -0.5
    x, memory = x.double(), memory.double()

    def linear(by: Any, vector: Tensor) -> Tensor:
        product = vector @ by.weight.double().T
        return product if by.bias is None else product + by.bias.double()

    d_head = q.weight.shape[0] // 4
    heads = []
    for head in range(4):
        of = slice(head * d_head, (head + 1) * d_head)
        queries, keys = linear(q, x)[:, of] * scale, linear(k, memory)[:, of]
        mixed = []
        for query in queries:
            weights = [float(torch.exp(query @ key)) for key in keys]
            cut = head == 1
            total = sum(
                w for i, w in enumerate(weights) if not (cut and mode == "exclude") or i not in WORD
            )
            shares = [0.0 if cut and i in WORD else w / total for i, w in enumerate(weights)]
            values = linear(v, memory)[:, of]
            mixed.append(sum(share * value for share, value in zip(shares, values, strict=True)))
        heads.append(torch.stack(mixed))  # type: ignore[arg-type]
    return linear(o, torch.cat(heads, dim=1))


@pytest.mark.parametrize(("name", "mode"), [*((name, "exclude") for name in THREE), ("T5", "zero")])
@torch.no_grad()
def test_cross_attention_without_a_word_equals_its_definition(name: str, mode: Mode) -> None:
    module, model = pair(name)
    tokens, mask, _ = joined(model, "both")
    keys, queries = word_positions(tokens, mask, model), targets(model, tokens, mask)
    layer = model.n_layers - 1
    number = layer - model.n_encoder_layers
    prefix = model.prefix(layer)
    names = [f"{prefix}.cross_attn.q.hook_in", f"{prefix}.cross_attn.hook_out"]
    with mask_attention(
        model, keys=keys, queries=queries, layers=layer, heads=1, mode=mode
    ) as record:
        _, seen = model.capture(
            tokens, [*names, f"blocks.{layer}.hook_resid_pre"], attention_mask=mask
        )
    assert record.n_cut == 2 * (len(TARGETS[0]) + len(TARGETS[1]))
    for row, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        joint = seen[f"blocks.{layer}.hook_resid_pre"][row]
        memory = joint[mask[row].bool() & ~model.predicts(tokens)[row]]
        assert len(memory) == len(source)
        expected = cross_attention(module, number, seen[names[0]][row, : len(target)], memory, mode)
        found = seen[names[1]][row, : len(target)]
        assert float((found.double() - expected).abs().max()) <= 1e-5 * float(expected.abs().max())
    assert_clean(model)


@pytest.mark.parametrize("name", THREE)
@torch.no_grad()
def test_a_source_word_that_nobody_attends_to_moves_nothing_exactly(name: str) -> None:
    """And equals Hugging Face's blocks with the word masked; each half of the cut leaks alone."""
    module, model = pair(name)
    tokens, mask, _ = joined(model, "between")
    keys = word_positions(tokens, mask, model)
    encoder, decoder = (list(stack) for stack in model.stacks)
    how: Any = {"keys": keys, "attention_mask": mask, "draws": 2}
    whole = attention_leak(model, tokens, **how)
    assert (whole.largest, whole.changed) == (0.0, 0.0)
    assert whole.unmasked > 0.1
    for half in (encoder, decoder):
        assert attention_leak(model, tokens, layers=half, **how).largest > 1e-3
    with mask_attention(model, keys=keys):
        logits = model(tokens, attention_mask=mask)
    for row in range(len(SOURCES)):
        expected = in_place(module, row, -1, "mean", hidden=WORD)
        found = torch.log_softmax(logits[row, targets(model, tokens, mask)[row]].double(), dim=-1)
        assert float((found - expected).abs().max()) <= 1e-4


@torch.no_grad()
def test_what_leaks_when_cross_attention_alone_is_cut() -> None:
    """Not the word's own encoder output; only what other source tokens took from it below."""
    _, model = pair("T5")
    tokens, mask, _ = joined(model, "right")
    word = word_positions(tokens, mask, model)
    first = model.n_encoder_layers
    resid = model.resid_pre(tokens, first, attention_mask=mask)
    positions = model.positions(tokens, mask)
    others = mask.bool() & ~model.predicts(tokens) & ~word
    at = targets(model, tokens, mask)
    rows = torch.arange(len(tokens))
    knockout = AttentionKnockout(rows, word, torch.ones_like(word), before_softmax=True)
    everywhere = torch.ones(len(tokens), dtype=torch.bool)
    outputs = []
    for changed in (None, word, others):
        entering = resid.clone()
        if changed is not None:
            entering[changed] += torch.randn(entering[changed].shape)
        with ExitStack() as cut:
            for layer in range(first, model.n_layers):
                cut.enter_context(knockout.in_block(model, layer, rows, everywhere))
            out = model.resume(
                entering, first, attention_mask=mask, position_ids=positions, read="logits"
            )
        outputs.append(out[at])
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])


@pytest.mark.parametrize("name", THREE)
@torch.no_grad()
def test_a_target_word_that_nobody_attends_to_moves_no_later_logits(name: str) -> None:
    _, model = pair(name)
    tokens, mask, _ = joined(model, "left")
    leak = attention_leak(model, tokens, keys=-3, attention_mask=mask, draws=2)
    assert leak.largest == 0.0
    assert leak.unmasked > 0.1
    _, decoder = model.stacks
    for layers in (list(decoder)[1:], list(decoder)[:1]):
        part = attention_leak(model, tokens, keys=-3, attention_mask=mask, layers=layers, draws=2)
        assert part.largest > 0.0


@pytest.mark.parametrize("name", THREE)
@torch.no_grad()
def test_heads_and_neurons_of_either_stack_are_replaced_at_joint_positions(name: str) -> None:
    _, model = pair(name)
    tokens, mask, _ = joined(model, "between")
    at = targets(model, tokens, mask)
    layer, word = model.n_encoder_layers, word_positions(tokens, mask, model)
    chosen = at & (torch.arange(tokens.shape[1]) == tokens.shape[1] - 1)
    clean = model(tokens, attention_mask=mask)[at]

    def by_hand(hook: str, rows: Any, part: int) -> Tensor:
        def zero(z: Tensor, hook: Any) -> Tensor:
            z = z.clone()
            for row, position in enumerate(rows):
                z[row, position, part] = 0.0
            return z

        hooks: Any = [(hook, zero)]
        return model.run_with_hooks(tokens, hooks, attention_mask=mask)[at]

    last = [len(target) - 1 for target in TARGETS]
    for attention, hook in (("self", "self_attn"), ("cross", "cross_attn")):
        with ablate(model, heads=[(layer, 2)], positions=chosen, attention=attention) as record:  # type: ignore[arg-type]
            found = model(tokens, attention_mask=mask)[at]
        assert record.n_changed == len(TARGETS)
        assert torch.equal(found, by_hand(f"decoder_blocks.0.{hook}.hook_z", last, 2))
        assert not torch.equal(found, clean)
    with ablate(model, heads=[(1, 2)], positions=word):
        found = model(tokens, attention_mask=mask)[at]
    assert torch.equal(found, by_hand("encoder_blocks.1.attn.hook_z", [list(WORD)] * 2, 2))
    with ablate(model, neurons=[(1, 5)], positions=word):
        found = model(tokens, attention_mask=mask)[at]
    words = [list(WORD)] * 2
    assert torch.equal(found, by_hand("encoder_blocks.1.mlp.hook_post", words, 5))
    assert not torch.equal(found, clean)
    assert_clean(model)


@torch.no_grad()
def test_means_are_over_the_real_tokens_of_one_side() -> None:
    _, model = pair("T5")
    tokens, mask, _ = joined(model, "both")
    hook = "encoder_blocks.0.attn.hook_z"
    _, seen = model.capture(tokens, [hook], attention_mask=mask)
    real = [seen[hook][row, : len(source), 1] for row, source in enumerate(SOURCES)]
    mean = torch.cat(real).double().mean(dim=0)
    with ablate(model, heads=[(0, 1)], how="mean", reference=tokens, reference_mask=mask):
        _, seen = model.capture(tokens, [hook], attention_mask=mask)
    after = seen[hook][0, 0, 1]
    torch.testing.assert_close(after.double(), mean, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("name", THREE)
@torch.no_grad()
def test_blocks_that_add_nothing_are_passed_bit_for_bit(name: str) -> None:
    _, model = pair(name)
    tokens, mask, _ = joined(model, "left")
    word, last = word_positions(tokens, mask, model), [tokens.shape[1] - 1]
    chosen = word.clone()
    chosen[:, last] = True
    layers = (1, model.n_layers - 1)
    names = [f"blocks.{layer}.hook_resid_{place}" for layer in layers for place in ("pre", "post")]
    with mask_residual(model, positions=chosen, layers=layers):
        _, seen = model.capture(tokens, names, attention_mask=mask)
    before, after = seen[names[2]], seen[names[3]]
    assert torch.equal(before[:, last], after[:, last])
    assert not torch.equal(before[:, -2], after[:, -2])
    prefix = model.prefix(0)
    names = [f"{prefix}.hook_resid_pre", f"{prefix}.hook_resid_post"]
    with mask_residual(model, positions=word, layers=0):
        _, seen = model.capture(tokens, names, attention_mask=mask)
    for row in range(len(SOURCES)):
        assert torch.equal(seen[names[0]][row, list(WORD)], seen[names[1]][row, list(WORD)])
        assert not torch.equal(seen[names[0]][row, 0], seen[names[1]][row, 0])
    assert_clean(model)


@torch.no_grad()
def test_cross_attention_that_adds_nothing_leaves_the_source_unread() -> None:
    _, model = pair("T5")
    tokens, mask, _ = joined(model, "left")
    other = torch.where(model.predicts(tokens), tokens, model.shifted(tokens, 7))
    at = targets(model, tokens, mask)
    decoder = list(model.stacks[1])
    with mask_residual(model, part="cross_attn", layers=decoder):
        found = [model(each, attention_mask=mask)[at] for each in (tokens, other)]
    assert torch.equal(found[0], found[1])
    with mask_residual(model, part="cross_attn", layers=decoder[1:]):
        found = [model(each, attention_mask=mask)[at] for each in (tokens, other)]
    assert not torch.equal(found[0], found[1])


@torch.no_grad()
@pytest.mark.filterwarnings("ignore:.*name no position, so that nothing is edited")
def test_edits_that_change_nothing_give_the_same_bits_and_blocks_nest() -> None:
    _, model = pair("T5")
    tokens, mask, _ = joined(model, "left")
    at, word = targets(model, tokens, mask), word_positions(tokens, mask, model)
    clean = model(tokens, attention_mask=mask)[at]
    same: Any = [
        (f"blocks.{layer}.hook_resid_pre", lambda x, hook: x.clone()) for layer in range(5)
    ]
    for block in (
        mask_attention(model, keys=[]),
        ablate(model, heads=range(4), positions=[]),
        mask_residual(model, positions=[]),
        model.hooks(same),
    ):
        with block:
            assert torch.equal(model(tokens, attention_mask=mask)[at], clean)
    with mask_attention(model, keys=word):
        outer = model(tokens, attention_mask=mask)[at]
        with mask_attention(model, keys=-3), ablate(model, heads=[(3, 1)]):
            inner = model(tokens, attention_mask=mask)[at]
        assert torch.equal(model(tokens, attention_mask=mask)[at], outer)
        with pytest.raises(ZeroDivisionError), mask_attention(model, keys=-3):
            raise ZeroDivisionError
        assert torch.equal(model(tokens, attention_mask=mask)[at], outer)
    assert not torch.equal(inner, outer)
    assert torch.equal(model(tokens, attention_mask=mask)[at], clean)
    assert_clean(model)


@torch.no_grad()
def test_what_does_nothing_or_cannot_be_counted_is_refused() -> None:
    _, model = pair("T5")
    tokens, mask, _ = joined(model, "left")
    word = word_positions(tokens, mask, model)
    decoder = list(model.stacks[1])
    with (
        pytest.raises(InterventionError, match="none of these queries attends to any"),
        mask_attention(model, keys=-1, queries=word),  # no source token reads the target
    ):
        model(tokens, attention_mask=mask)
    with (
        pytest.raises(InterventionError, match="changed nothing"),
        mask_residual(model, positions=word, layers=decoder),
    ):
        model(tokens, attention_mask=mask)
    with (
        pytest.raises(InterventionError, match="encoder–decoder was called directly"),
        mask_attention(model, keys=word),
    ):
        model.lens(torch.tensor([[5, 6]]), decoder_input_ids=torch.tensor([[2]]))
    with pytest.raises(LayerError, match="part='cross_attn': none of the layers"):
        mask_residual(model, part="cross_attn", layers=0).__enter__()
    with pytest.raises(LayerError, match="attention='cross': no layer"):
        ablate(model, heads=[(0, 1)], attention="cross").__enter__()
    with pytest.raises(OptionError, match="attention='cross' has a meaning for heads alone"):
        ablate(model, neurons=[(0, 1)], attention="cross").__enter__()
    assert_clean(model)
